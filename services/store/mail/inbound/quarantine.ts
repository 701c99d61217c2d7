import { type Db, queryRows } from "../../../platform/postgres/db.ts";

/** A message that the bounce workers could not cope with. */
export interface QuarantinedMessage {
  readonly id: number;
  /** Empty for <>. */
  readonly mailFrom: string;
  /** Null for a message from a polled mailbox. */
  readonly clientAddress: string | null;
  /** The delivery that its return path names, or null for what came to a feedback address. */
  readonly deliveryId: number | null;
  readonly feedbackAddress: string | null;
  readonly octets: number;
  readonly attempts: number;
  readonly problem: string;
  readonly receivedAt: Date;
  readonly quarantinedAt: Date;
}

/** Newest first. @param page.before only messages with a lower id */
export async function listQuarantine(
  db: Db,
  page: { readonly limit: number; readonly before?: number | undefined },
): Promise<QuarantinedMessage[]> {
  const query = db("inbound_messages")
    .where({ state: "quarantined" })
    .orderBy("id", "desc")
    .limit(page.limit)
    .select(
      "id",
      "mail_from as mailFrom",
      "client_address as clientAddress",
      "delivery_id as deliveryId",
      "feedback_address as feedbackAddress",
      db.raw("length(octets) as octets"),
      "attempts",
      db.raw("coalesce(problem, '') as problem"),
      "received_at as receivedAt",
      db.raw(`coalesce(quarantined_at, received_at) as "quarantinedAt"`),
    );
  return page.before === undefined ? query : query.where("id", "<", page.before);
}

/** The octets of a message in quarantine, exactly as received. */
export async function readQuarantined(db: Db, id: number): Promise<Buffer | undefined> {
  return (await db("inbound_messages").where({ id, state: "quarantined" }).first("octets"))?.octets;
}

/** Gives a message back to the workers, with all of its attempts before it. @returns false when it is not there */
export async function retryQuarantined(db: Db, id: number): Promise<boolean> {
  const changed = await db("inbound_messages")
    .where({ id, state: "quarantined" })
    .update({ state: "waiting", attempts: 0, problem: null, quarantined_at: null });
  return changed > 0;
}

/** Removes a message for good. @returns false when it is not there */
export async function dropQuarantined(db: Db, id: number): Promise<boolean> {
  return (await db("inbound_messages").where({ id, state: "quarantined" }).delete()) > 0;
}

/** How many messages wait for a worker, and how many are in quarantine. */
export async function countInbound(db: Db): Promise<{ readonly waiting: number; readonly quarantined: number }> {
  const [row] = await queryRows<{ waiting: number; quarantined: number }>(
    db,
    `select (select count(*) from inbound_messages where state = 'waiting') as waiting,
       (select count(*) from inbound_messages where state = 'quarantined') as quarantined`,
  );
  return row!;
}
