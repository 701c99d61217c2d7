import { type Db, queryRows, type Transaction } from "../../../platform/postgres/db.ts";
import { CLASS_SQL, type InboundRoom, type NewInboundMessage, type RecipientClass, storableJson } from "./inbound.ts";

/** A sample of what nothing followed from: the newest so many, each cut to its first octets. */
export interface UnexplainedSample {
  readonly messages: number;
  readonly octetsOfMessage: number;
}

/** Notes a message that is about nothing of ours, for operators to learn from; it waits for nobody. */
export async function addUnexplained(
  db: Db,
  message: NewInboundMessage,
  {
    reason,
    finding,
    sample,
  }: { readonly reason: string; readonly finding: unknown; readonly sample: UnexplainedSample },
): Promise<void> {
  await db("inbound_messages")
    .insert({
      delivery_id: message.deliveryId,
      feedback_address: message.feedbackAddress,
      is_report: message.isReport ?? false,
      mail_from: message.mailFrom,
      client_address: message.clientAddress,
      octets: message.octets.subarray(0, sample.octetsOfMessage),
      source: message.source ?? null,
      state: "applied",
      finding: finding === undefined ? null : storableJson(finding),
      unexplained: reason,
    })
    .onConflict(db.raw("(source) where source is not null"))
    .ignore();
  await trimUnexplained(db, sample);
}

/**
 * Ends the way of a message from which nothing follows.
 * @param message.sample undefined: it is not kept
 * @returns false when the lease was lost to another worker
 */
export async function finishUnexplained(
  transaction: Transaction,
  message: {
    readonly id: number;
    readonly owner: string;
    readonly reason: string;
    readonly finding: unknown;
    readonly sample: UnexplainedSample | undefined;
  },
): Promise<boolean> {
  const { id, owner, reason, finding, sample } = message;
  const leased = transaction("inbound_messages").where({ id, state: "leased", lease_owner: owner });
  if (sample === undefined) return (await leased.delete()) > 0;
  const changed = await leased.update({
    state: "applied",
    lease_owner: null,
    lease_until: null,
    finding: storableJson(finding),
    unexplained: reason,
    octets: transaction.raw("substring(octets for ?)", [sample.octetsOfMessage]),
  });
  await trimUnexplained(transaction, sample);
  return changed > 0;
}

async function trimUnexplained(db: Db, { messages }: UnexplainedSample): Promise<void> {
  await queryRows(
    db,
    `delete from inbound_messages where id in (
       select id from inbound_messages where id in (
         select id from inbound_messages where unexplained is not null order by id desc offset $1)
       for update skip locked)`,
    [messages],
  );
}

/** A message of the sample. */
export interface UnexplainedMessage {
  readonly id: number;
  readonly reason: string;
  /** Empty for <>. */
  readonly mailFrom: string;
  /** Null for a message from a polled mailbox. */
  readonly clientAddress: string | null;
  /** Null for a message to a return path. */
  readonly feedbackAddress: string | null;
  readonly receivedAt: Date;
  /** The first of it. */
  readonly octets: Buffer;
}

/** Newest first. */
export async function listUnexplained(db: Db): Promise<UnexplainedMessage[]> {
  return db("inbound_messages")
    .whereNotNull("unexplained")
    .orderBy("id", "desc")
    .select(
      "id",
      "unexplained as reason",
      "mail_from as mailFrom",
      "client_address as clientAddress",
      "feedback_address as feedbackAddress",
      "received_at as receivedAt",
      "octets",
    );
}

/** Forgets what was received longer ago, a bounded number at a time. @returns how many went */
export async function purgeInboundMessages(db: Db, days: number): Promise<number> {
  const rows = await queryRows(
    db,
    `delete from inbound_messages where id in (
       select id from inbound_messages where received_at < now() - make_interval(days => $1) and state in ('applied', 'quarantined')
       order by received_at limit 1000 for update skip locked)
     returning id`,
    [days],
  );
  return rows.length;
}

/**
 * Forgets the oldest understood messages of a class for which there is no room, a bounded number at a time; the sample
 * of what was not understood has room of its own.
 * @returns how many went
 */
export async function trimInboundMessages(
  db: Db,
  { recipientClass, kept }: { readonly recipientClass: RecipientClass; readonly kept: InboundRoom },
): Promise<number> {
  const rows = await queryRows(
    db,
    `delete from inbound_messages where id in (
       select id from inbound_messages where id in (
         select id from (
           select id, row_number() over newest as messages, sum(length(octets)) over newest as octets
           from inbound_messages
           where state in ('applied', 'quarantined') and unexplained is null and ${CLASS_SQL} = $1
           window newest as (order by id desc)
         ) ranked where messages > $2 or octets > $3 order by id limit 1000)
       for update skip locked)
     returning id`,
    [recipientClass, kept.messages, kept.octets],
  );
  return rows.length;
}
