import { type Db, queryRows, type Transaction } from "../platform/db.ts";
import { countHardBouncedMessages, invalidateContact, lockAddress } from "./contacts.ts";
import { recordEvents } from "./events.ts";

/** What a return path's token stands for. */
export interface DeliveryOwner {
  readonly deliveryId: number;
  readonly instanceId: number;
  /** Null for a copy to an address that is no contact. */
  readonly contactId: number | null;
  readonly eeid: string;
  readonly campaignNumid: number;
  /** Address as it was given. */
  readonly recipient: string;
}

/** @returns undefined when there is no such delivery, or no more */
export async function findDelivery(db: Db, deliveryId: number | string): Promise<DeliveryOwner | undefined> {
  return (await findDeliveries(db, [deliveryId]))[0];
}

/** What became of a recipient in one attempt. */
export interface DeliveryOutcome {
  readonly deliveryId: number;
  /** `queued`: put off for `retryInSeconds`. */
  readonly state: "delivered" | "refused" | "queued";
  /** Completed attempts, this one included. */
  readonly attempts: number;
  readonly retryInSeconds?: number;
  /** The far side's words, on one line. */
  readonly reply: string;
  /** Of a refusal. */
  readonly bounce?: { readonly hard: boolean; readonly detail: Readonly<Record<string, unknown>> };
  /** Exact octets that left, of a message sent with `archive`. */
  readonly archived?: { readonly eeid: string; readonly recipientKey: string; readonly octets: Buffer };
}

/** How many hard bounces of different messages make a contact invalid. */
export interface InvalidationRule {
  readonly hardBouncesToInvalidate: number;
}

/**
 * Stores outcomes, with everything that follows from them. What is settled stays settled: an outcome for a delivery
 * that another worker has finished in the meantime changes nothing.
 */
export async function recordOutcomes(
  transaction: Transaction,
  outcomes: readonly DeliveryOutcome[],
  rule: InvalidationRule,
): Promise<void> {
  const rows = await queryRows<{ id: number; at: Date }>(
    transaction,
    `with changed as (
       update deliveries d
       set state = o.state, attempts = o.attempts, due_at = coalesce(now() + make_interval(secs => o.retry_in), d.due_at), reply = o.reply,
           finished_at = case when o.state <> 'queued' then now() end,
           personal = case when o.state = 'queued' then d.personal end
       from unnest(?::bigint[], ?::text[], ?::integer[], ?::float8[], ?::text[])
         as o (id, state, attempts, retry_in, reply)
       where d.id = o.id and d.state = 'queued'
       returning d.id, d.partition_id, d.state
     ), counted as (
       update partitions p set refused = p.refused + c.refused, modified_at = now()
       from (select partition_id, count(*) as refused from changed where state = 'refused' group by partition_id) c
       where p.id = c.partition_id
     )
     select id, now() as at from changed`,
    [
      outcomes.map(({ deliveryId }) => deliveryId),
      outcomes.map(({ state }) => state),
      outcomes.map(({ attempts }) => attempts),
      outcomes.map(({ retryInSeconds }) => retryInSeconds ?? null),
      outcomes.map(({ reply }) => reply),
    ],
  );
  const settledAt = new Map(rows.map(({ id, at }) => [id, at]));
  const settled = outcomes.filter(({ deliveryId }) => settledAt.has(deliveryId));
  await archiveMessages(transaction, settled);
  const bounces = settled.flatMap(({ deliveryId, bounce }) =>
    bounce ? [{ ...bounce, deliveryId, at: settledAt.get(deliveryId)! }] : [],
  );
  await recordBounces(transaction, bounces, rule);
}

/** A failure for good, learnt in the SMTP session or from a report. */
export interface DeliveryBounce {
  readonly deliveryId: number;
  readonly hard: boolean;
  readonly at: Date;
  /** Kept with the event: reason, status, the far side's words. */
  readonly detail: Readonly<Record<string, unknown>>;
}

/**
 * Records bounces: the event, and after enough hard ones of different deliveries the contact's invalidation
 * (never of a whitelisted one). A delivery bounces once, whoever tells first; a later telling changes nothing.
 * @returns the deliveries that were recorded now
 */
export async function recordBounces(
  transaction: Transaction,
  bounces: readonly DeliveryBounce[],
  rule: InvalidationRule,
): Promise<number[]> {
  if (bounces.length === 0) return [];
  const rows = await queryRows<{ id: number }>(
    transaction,
    `update deliveries d set bounce = b.bounce, bounced_at = b.at
     from unnest(?::bigint[], ?::text[], ?::timestamptz[]) as b (id, bounce, at)
     where d.id = b.id and d.bounce is null returning d.id`,
    [
      bounces.map(({ deliveryId }) => deliveryId),
      bounces.map(({ hard }) => (hard ? "hard" : "soft")),
      bounces.map(({ at }) => at.toISOString()),
    ],
  );
  const recorded = new Set(rows.map(({ id }) => id));
  const owners = new Map((await findDeliveries(transaction, [...recorded])).map((owner) => [owner.deliveryId, owner]));
  const fresh = bounces.flatMap((bounce) => {
    const owner = owners.get(bounce.deliveryId);
    return owner === undefined ? [] : [{ bounce, owner }];
  });
  await lockContacts(
    transaction,
    fresh.filter(({ bounce }) => bounce.hard).map(({ owner }) => owner),
  );
  await recordEvents(
    transaction,
    fresh.map(({ bounce, owner }) => ({
      ...eventBase(owner),
      kind: bounce.hard ? ("hard-bounce" as const) : ("soft-bounce" as const),
      at: bounce.at,
      detail: bounce.detail,
    })),
  );
  for (const { bounce, owner } of fresh) {
    if (bounce.hard) await invalidateWhenDue(transaction, owner, bounce.at, rule);
  }
  return [...recorded];
}

/**
 * Records a spam complaint and invalidates the contact, unless it is whitelisted; once for a delivery.
 * @returns whether it was recorded now
 */
export async function recordComplaint(
  transaction: Transaction,
  complaint: { readonly deliveryId: number; readonly at: Date; readonly detail: Readonly<Record<string, unknown>> },
): Promise<boolean> {
  const { deliveryId, at, detail } = complaint;
  const recorded = await transaction("deliveries")
    .where({ id: deliveryId, complained_at: null })
    .update({ complained_at: at });
  const owner = recorded > 0 ? await findDelivery(transaction, deliveryId) : undefined;
  if (owner === undefined) return false;
  await recordEvents(transaction, [{ ...eventBase(owner), kind: "complained", at, detail }]);
  if (owner.contactId !== null) {
    await invalidateContact(transaction, owner.instanceId, owner.contactId, {
      ...causeOf(owner, at),
      reason: "complaint",
    });
  }
  return true;
}

async function findDeliveries(db: Db, deliveryIds: readonly (number | string)[]): Promise<DeliveryOwner[]> {
  return queryRows<DeliveryOwner>(
    db,
    `select d.id as "deliveryId", b.instance_id as "instanceId", d.contact_id as "contactId", m.eeid,
            m.campaign_numid as "campaignNumid", d.recipient
     from deliveries d
     join partitions p on p.id = d.partition_id
     join messages m on m.id = p.message_id
     join batches b on b.eeid = m.eeid
     where d.id = any(?::bigint[])`,
    [deliveryIds],
  );
}

/**
 * Counting bounces and judging by the count must not run beside another that does the same for the contact.
 * All locks are taken first, and in one order.
 */
async function lockContacts(transaction: Transaction, owners: readonly DeliveryOwner[]): Promise<void> {
  const ids = owners.flatMap(({ contactId }) => contactId ?? []);
  if (ids.length === 0) return;
  const rows = await transaction("contacts")
    .whereIn("id", ids)
    .orderBy(["instance_id", "email_key"])
    .select("instance_id", "email_key");
  for (const row of rows) await lockAddress(transaction, row.instance_id, row.email_key);
}

async function invalidateWhenDue(
  transaction: Transaction,
  owner: DeliveryOwner,
  at: Date,
  rule: InvalidationRule,
): Promise<void> {
  if (owner.contactId === null) return;
  const bounced = await countHardBouncedMessages(transaction, owner.contactId);
  if (bounced < rule.hardBouncesToInvalidate) return;
  const cause = { ...causeOf(owner, at), reason: "hard-bounces" as const };
  await invalidateContact(transaction, owner.instanceId, owner.contactId, cause);
}

async function archiveMessages(transaction: Transaction, outcomes: readonly DeliveryOutcome[]): Promise<void> {
  const kept = outcomes.flatMap(({ deliveryId, archived }) => (archived ? [{ deliveryId, ...archived }] : []));
  if (kept.length === 0) return;
  await transaction("archived_messages")
    .insert(
      kept.map(({ deliveryId, eeid, recipientKey, octets }) => ({
        delivery_id: deliveryId,
        eeid,
        recipient_key: recipientKey,
        octets,
        sent_at: transaction.fn.now(),
      })),
    )
    .onConflict("delivery_id")
    .ignore();
}

function eventBase(owner: DeliveryOwner) {
  return {
    instanceId: owner.instanceId,
    contactId: owner.contactId,
    email: owner.recipient,
    campaignNumid: owner.campaignNumid,
    eeid: owner.eeid,
    deliveryId: owner.deliveryId,
  };
}

function causeOf(owner: DeliveryOwner, at: Date) {
  return { at, campaignNumid: owner.campaignNumid, eeid: owner.eeid, deliveryId: owner.deliveryId };
}
