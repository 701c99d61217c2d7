import { type Db, queryRows, type Transaction } from "../../platform/db.ts";

/** A message that came back, accepted for a return path's delivery or for a feedback address. */
export interface NewInboundMessage {
  readonly deliveryId: string | null;
  readonly feedbackAddress: string | null;
  /** Empty for <>. */
  readonly mailFrom: string;
  /** Null for a message from a polled mailbox. */
  readonly clientAddress: string | null;
  readonly octets: Buffer;
  /** Where a polled mailbox had it: what was stored from there is not stored again. */
  readonly source?: string;
}

export interface LeasedInboundMessage {
  readonly id: number;
  readonly deliveryId: number | null;
  readonly feedbackAddress: string | null;
  readonly octets: Buffer;
  readonly receivedAt: Date;
  /** Times that a worker has taken it, this one included. */
  readonly attempts: number;
}

/** Stores a message once for each of its recipients; durable when it returns. */
export async function addInboundMessages(db: Db, messages: readonly NewInboundMessage[]): Promise<void> {
  await db.transaction(async (transaction) => {
    // One by one: a message for each of a hundred recipients could be more than a statement holds.
    for (const message of messages) {
      await transaction("inbound_messages")
        .insert({
          delivery_id: message.deliveryId,
          feedback_address: message.feedbackAddress,
          mail_from: message.mailFrom,
          client_address: message.clientAddress,
          octets: message.octets,
          source: message.source ?? null,
        })
        .onConflict(db.raw("(source) where source is not null"))
        .ignore();
    }
  });
}

/** Takes waiting messages, and those whose holder has not been heard of since its lease ran out; oldest first. */
export async function leaseInboundMessages(
  db: Db,
  lease: { readonly owner: string; readonly seconds: number; readonly limit: number },
): Promise<LeasedInboundMessage[]> {
  return queryRows(
    db,
    `update inbound_messages m
     set state = 'leased', lease_owner = ?, lease_until = now() + make_interval(secs => ?), attempts = attempts + 1
     where id in (
       select id from inbound_messages
       where state = 'waiting' or (state = 'leased' and lease_until < now())
       order by id limit ? for update skip locked)
     returning id, delivery_id as "deliveryId", feedback_address as "feedbackAddress", octets,
       received_at as "receivedAt", attempts`,
    [lease.owner, lease.seconds, lease.limit],
  );
}

/**
 * Ends a message's way in the transaction that applied it.
 * @param message.aboutDeliveryId the delivery that it turned out to be about, whatever address it came to
 * @returns false when the lease was lost to another worker
 */
export async function finishInboundMessage(
  transaction: Transaction,
  message: {
    readonly id: number;
    readonly owner: string;
    readonly finding: unknown;
    readonly aboutDeliveryId: string | undefined;
  },
): Promise<boolean> {
  const changed = await transaction("inbound_messages")
    .where({ id: message.id, state: "leased", lease_owner: message.owner })
    .update({
      state: "applied",
      lease_owner: null,
      lease_until: null,
      finding: storableJson(message.finding),
      about_delivery_id: message.aboutDeliveryId ?? null,
    });
  return changed > 0;
}

/** JSON as the database takes it: of NUL and of half a character, which strangers may well write, it has no text. */
function storableJson(value: unknown): string {
  return JSON.stringify(value, (_, field: unknown) =>
    typeof field === "string" ? field.replace(/[\0\p{Cs}]/gu, "\ufffd") : field,
  );
}

/** Puts a message aside that this worker could not cope with; an operator looks at it (store/mail/quarantine.ts). */
export async function quarantineInboundMessage(
  db: Db,
  message: { readonly id: number; readonly owner: string; readonly problem: string },
): Promise<void> {
  await db("inbound_messages")
    .where({ id: message.id, state: "leased", lease_owner: message.owner })
    .update({
      state: "quarantined",
      lease_owner: null,
      lease_until: null,
      problem: message.problem.replaceAll("\0", "").slice(0, 2_000),
      quarantined_at: db.fn.now(),
    });
}

/** Gives a message back that is to be tried again. */
export async function releaseInboundMessage(db: Db, id: number, owner: string): Promise<void> {
  await db("inbound_messages")
    .where({ id, state: "leased", lease_owner: owner })
    .update({ state: "waiting", lease_owner: null, lease_until: null });
}

/** Forgets what was received longer ago, a bounded number at a time. @returns how many went */
export async function purgeInboundMessages(db: Db, days: number): Promise<number> {
  const rows = await queryRows(
    db,
    `delete from inbound_messages where id in (
       select id from inbound_messages where received_at < now() - make_interval(days => ?) and state in ('applied', 'quarantined')
       order by received_at limit 1000 for update skip locked)
     returning id`,
    [days],
  );
  return rows.length;
}
