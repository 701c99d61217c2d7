import { type Db, queryRows, type Transaction } from "../../../platform/postgres/db.ts";

/** A message that came back, accepted for a return path's delivery or for a feedback address. */
export interface NewInboundMessage {
  readonly deliveryId: number | null;
  readonly feedbackAddress: string | null;
  /** The delivery that a message at a feedback address is about, where that is known when it comes. */
  readonly aboutDeliveryId?: number | undefined;
  /** It came to the address for reports about a sender domain, which `feedbackAddress` then is. */
  readonly isReport?: boolean;
  /** Empty for <>. */
  readonly mailFrom: string;
  /** Null for a message from a polled mailbox. */
  readonly clientAddress: string | null;
  readonly octets: Buffer;
  /** Where a polled mailbox had it: what was stored from there is not stored again. */
  readonly source?: string;
  /** What there may be of reports about its delivery before it; no limit unless given. */
  readonly perDelivery?: InboundRoom | undefined;
}

/** Room for messages, or what they take of it. */
export interface InboundRoom {
  readonly messages: number;
  readonly octets: number;
}

export interface LeasedInboundMessage {
  readonly id: number;
  readonly deliveryId: number | null;
  readonly feedbackAddress: string | null;
  /** The delivery that a message at a feedback address is about. */
  readonly aboutDeliveryId: number | null;
  readonly isReport: boolean;
  readonly octets: Buffer;
  readonly receivedAt: Date;
  /** Times that a worker has taken it, this one included. */
  readonly attempts: number;
}

/**
 * Stores a message once for each of its recipients; durable when it returns.
 * @returns those that were left out because there are enough about their delivery
 */
export async function addInboundMessages<Message extends NewInboundMessage>(
  db: Db,
  messages: readonly Message[],
): Promise<Message[]> {
  return db.transaction(async (transaction) => {
    const leftOut: Message[] = [];
    // One by one: a message for each of a hundred recipients could be more than a statement holds.
    for (const message of messages) {
      if (await isEnough(transaction, message)) leftOut.push(message);
      else {
        await transaction("inbound_messages")
          .insert(rowOf(message))
          .onConflict(db.raw("(source) where source is not null"))
          .ignore();
      }
    }
    return leftOut;
  });
}

function rowOf(message: NewInboundMessage) {
  return {
    delivery_id: message.deliveryId,
    feedback_address: message.feedbackAddress,
    about_delivery_id: message.aboutDeliveryId ?? null,
    is_report: message.isReport ?? false,
    mail_from: message.mailFrom,
    client_address: message.clientAddress,
    octets: message.octets,
    source: message.source ?? null,
  };
}

/** Of one class; who sends at the same time on several connections may be one further each. */
async function isEnough(transaction: Transaction, message: NewInboundMessage): Promise<boolean> {
  const { perDelivery, deliveryId, aboutDeliveryId } = message;
  if (perDelivery === undefined) return false;
  const column = deliveryId === null ? "about_delivery_id" : "delivery_id";
  const [row] = await queryRows<InboundRoom>(
    transaction,
    `select count(*)::int as messages, coalesce(sum(length(octets)), 0)::float8 as octets from inbound_messages
     where ${column} = $1 and (delivery_id is null) = $2`,
    [deliveryId ?? aboutDeliveryId ?? null, deliveryId === null],
  );
  return row!.messages >= perDelivery.messages || row!.octets + message.octets.length > perDelivery.octets;
}

/** The kinds of recipients that are taken. */
export type RecipientClass = "returnPath" | "feedback" | "report";
export const RECIPIENT_CLASSES: readonly RecipientClass[] = ["returnPath", "feedback", "report"];

/** The class of a row. */
export const CLASS_SQL = `case when delivery_id is not null then 'returnPath' when is_report then 'report' else 'feedback' end`;

/** What is not yet understood, by class. */
export async function measureWaiting(db: Db): Promise<Record<RecipientClass, InboundRoom>> {
  const rows = await queryRows<InboundRoom & { readonly class: RecipientClass }>(
    db,
    `select class, count(*)::int as messages, sum(size)::float8 as octets
     from (select ${CLASS_SQL} as class, length(octets) as size from inbound_messages where state = 'waiting'
           union all
           select ${CLASS_SQL}, length(octets) from inbound_messages where state = 'leased') waiting
     group by 1`,
  );
  const of = (one: RecipientClass) => {
    const row = rows.find((found) => found.class === one);
    return { messages: row?.messages ?? 0, octets: row?.octets ?? 0 };
  };
  return { returnPath: of("returnPath"), feedback: of("feedback"), report: of("report") };
}

/** Of a lease so much goes to return paths first: complaints never hold up bounces, and are not held up for ever. */
const SHARE_OF_RETURN_PATHS = 0.75;

/**
 * Takes waiting messages, those that were put off and are due, and those whose holder has not been heard of since its lease
 * ran out: return paths before feedback addresses, the oldest of each first. Before them comes what this owner holds already:
 * it has nothing in hand when it asks, so the database was away when it was to apply them, which is no attempt.
 * @param lease.reports only reports about sender domains, or only everything else
 */
export async function leaseInboundMessages(
  db: Db,
  lease: { readonly owner: string; readonly seconds: number; readonly limit: number; readonly reports: boolean },
): Promise<LeasedInboundMessage[]> {
  const ofClass = lease.reports ? "is_report" : "not is_report";
  if (!(await isAnyToLease(db, lease))) return [];
  const held = await leaseOf(db, lease, `state = 'leased' and lease_owner = $1 and ${ofClass}`, 0);
  const limit = lease.limit - held.length;
  const ofReturnPaths = lease.reports ? 0 : Math.ceil(limit * SHARE_OF_RETURN_PATHS);
  const first =
    ofReturnPaths > 0
      ? await leaseOf(db, { ...lease, limit: ofReturnPaths }, "state = 'waiting' and delivery_id is not null")
      : [];
  const rest = limit - first.length;
  const others = `state = 'waiting' and delivery_id is null and ${ofClass}`;
  const feedback = await leaseOf(db, { ...lease, limit: rest }, others);
  const left = rest - feedback.length;
  const isOver = `state = 'leased' and lease_until < now() and ${ofClass}`;
  const over = left > 0 ? await leaseOf(db, { ...lease, limit: left }, isOver) : [];
  return [...held, ...first, ...feedback, ...over];
}

/** Most looks find nothing: one statement tells. */
async function isAnyToLease(
  db: Db,
  { owner, reports }: { readonly owner: string; readonly reports: boolean },
): Promise<boolean> {
  const [row] = await queryRows<{ found: boolean }>(
    db,
    `select exists (select from inbound_messages where state = 'waiting' and is_report = $2)
       or exists (select from inbound_messages
         where state = 'leased' and is_report = $2 and (lease_owner = $1 or lease_until < now())) as found`,
    [owner, reports],
    { name: "is-any-inbound-message" },
  );
  return row!.found;
}

/** @param which a condition of ours, in which `$1` is the owner @param attempts what this adds to those made */
async function leaseOf(
  db: Db,
  lease: { readonly owner: string; readonly seconds: number; readonly limit: number },
  which: string,
  attempts = 1,
): Promise<LeasedInboundMessage[]> {
  const rows = await queryRows<LeasedInboundMessage>(
    db,
    `update inbound_messages m
     set state = 'leased', lease_owner = $1, lease_until = now() + make_interval(secs => $2), attempts = attempts + $3
     where id in (
       select id from inbound_messages where ${which} order by id limit $4 for update skip locked)
     returning id, delivery_id as "deliveryId", feedback_address as "feedbackAddress",
       about_delivery_id as "aboutDeliveryId", is_report as "isReport", octets,
       received_at as "receivedAt", attempts`,
    [lease.owner, lease.seconds, attempts, lease.limit],
  );
  return rows.sort((a, b) => a.id - b.id);
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
    readonly aboutDeliveryId: number | undefined;
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
export function storableJson(value: unknown): string {
  return JSON.stringify(value, (_, field: unknown) =>
    typeof field === "string" ? field.replace(/[\0\p{Cs}]/gu, "\ufffd") : field,
  );
}

/** Puts a message aside that this worker could not cope with; an operator looks at it (store/mail/inbound/quarantine.ts). */
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

/** Removes a message of which nothing is to be kept. */
export async function removeInboundMessage(db: Db, id: number, owner: string): Promise<void> {
  await db("inbound_messages").where({ id, state: "leased", lease_owner: owner }).delete();
}

/** Gives a message back that is to be tried again. */
export async function releaseInboundMessage(db: Db, id: number, owner: string): Promise<void> {
  await db("inbound_messages")
    .where({ id, state: "leased", lease_owner: owner })
    .update({ state: "waiting", lease_owner: null, lease_until: null });
}

/** Gives a message back that is to be tried again when so much time has passed: until then its lease is nobody's. */
export async function putOffInboundMessage(
  db: Db,
  message: { readonly id: number; readonly owner: string; readonly seconds: number },
): Promise<void> {
  await db("inbound_messages")
    .where({ id: message.id, state: "leased", lease_owner: message.owner })
    .update({ lease_owner: null, lease_until: db.raw("now() + make_interval(secs => ?)", [message.seconds]) });
}
