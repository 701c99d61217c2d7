import { type Db, queryRows, type Transaction } from "../../platform/postgres/db.ts";
import { countHardBouncedMessages, invalidateContact, lockAddresses } from "../../store/mail/contacts/contacts.ts";
import { recordEvents } from "../../store/mail/events/events.ts";
import { lockPartitions } from "../../store/mail/queue/queue-leases.ts";

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
  readonly instanceId: number;
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
 * @param alsoChanged partitions that the transaction goes on to change: they are locked together with those of refused
 *   recipients
 */
export async function recordOutcomes(
  transaction: Transaction,
  outcomes: readonly DeliveryOutcome[],
  rule: InvalidationRule,
  alsoChanged: readonly number[] = [],
): Promise<void> {
  if (outcomes.length === 0) return lockPartitions(transaction, alsoChanged);
  await lockContacts(
    transaction,
    outcomes.filter(({ bounce }) => bounce?.hard).map(({ deliveryId }) => deliveryId),
  );
  const inOrder = outcomes.toSorted((a, b) => a.deliveryId - b.deliveryId);
  const rows = await queryRows<SettledRow>(
    transaction,
    `update deliveries d
     set state = o.state, attempts = o.attempts, due_at = coalesce(now() + make_interval(secs => o.retry_in), d.due_at), reply = o.reply,
         finished_at = case when o.state <> 'queued' then now() end,
         personal = case when o.state = 'queued' then d.personal end
     from unnest(?::bigint[], ?::bigint[], ?::text[], ?::integer[], ?::float8[], ?::text[])
       as o (instance_id, id, state, attempts, retry_in, reply)
     where d.instance_id = o.instance_id and d.id = o.id and d.state = 'queued'
     returning d.instance_id, d.id, d.partition_id, d.state, now() as at`,
    [
      inOrder.map(({ instanceId }) => instanceId),
      inOrder.map(({ deliveryId }) => deliveryId),
      inOrder.map(({ state }) => state),
      inOrder.map(({ attempts }) => attempts),
      inOrder.map(({ retryInSeconds }) => retryInSeconds ?? null),
      inOrder.map(({ reply }) => reply),
    ],
  );
  const settledAt = new Map(rows.map(({ id, at }) => [id, at]));
  const settled = outcomes.filter(({ deliveryId }) => settledAt.has(deliveryId));
  const refused = rows.filter(({ state }) => state === "refused");
  await lockPartitions(transaction, [...refused.map(({ partition_id }) => partition_id), ...alsoChanged]);
  await countRefusals(transaction, refused);
  await archiveMessages(transaction, settled);
  const bounces = settled.flatMap(({ instanceId, deliveryId, bounce }) =>
    bounce ? [{ ...bounce, instanceId, deliveryId, at: settledAt.get(deliveryId)! }] : [],
  );
  await storeBounces(transaction, bounces, rule);
}

interface SettledRow {
  instance_id: number;
  id: number;
  partition_id: number;
  state: DeliveryOutcome["state"];
  at: Date;
}

/** @param refused recipients whose partitions are locked already */
async function countRefusals(transaction: Transaction, refused: readonly SettledRow[]): Promise<void> {
  if (refused.length === 0) return;
  await queryRows(
    transaction,
    `update partitions p set refused = p.refused + refusals.refused, modified_at = now()
     from (select instance_id, id, count(*) as refused
           from unnest(?::bigint[], ?::bigint[]) as given (instance_id, id) group by 1, 2) refusals
     where p.instance_id = refusals.instance_id and p.id = refusals.id`,
    [refused.map((row) => row.instance_id), refused.map((row) => row.partition_id)],
  );
}

/** A failure for good, learnt in the SMTP session or from a report. */
export interface DeliveryBounce {
  readonly instanceId: number;
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
  await lockContacts(
    transaction,
    bounces.filter(({ hard }) => hard).map(({ deliveryId }) => deliveryId),
  );
  return storeBounces(transaction, bounces, rule);
}

/** With the contacts of hard bounces locked already. */
async function storeBounces(
  transaction: Transaction,
  bounces: readonly DeliveryBounce[],
  rule: InvalidationRule,
): Promise<number[]> {
  if (bounces.length === 0) return [];
  // Partitions are locked in one order, as by lockPartitions: reports come while they are being delivered.
  const rows = await queryRows<{ id: number }>(
    transaction,
    `with changed as (
       update deliveries d set bounce = b.bounce, bounced_at = b.at
       from unnest(?::bigint[], ?::bigint[], ?::text[], ?::timestamptz[]) as b (instance_id, id, bounce, at)
       where d.instance_id = b.instance_id and d.id = b.id and d.bounce is null returning d.instance_id, d.id, d.partition_id, d.bounce
     ), hard as (
       select instance_id, partition_id as id, count(*) as bounces from changed where bounce = 'hard' group by 1, 2
     ), locked as (
       select instance_id, id from partitions where (instance_id, id) in (select instance_id, id from hard)
       order by id for no key update
     ), counted as (
       update partitions p set hard_bounces = p.hard_bounces + hard.bounces
       from locked join hard using (instance_id, id) where p.instance_id = locked.instance_id and p.id = locked.id
     )
     select id from changed`,
    [
      bounces.map(({ instanceId }) => instanceId),
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
  await recordEvents(
    transaction,
    fresh.map(({ bounce, owner }) => ({
      ...eventBase(owner),
      kind: bounce.hard ? ("hard-bounce" as const) : ("soft-bounce" as const),
      at: bounce.at,
      detail: bounce.detail,
    })),
  );
  await invalidateWhereDue(
    transaction,
    fresh.filter(({ bounce }) => bounce.hard),
    rule,
  );
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
  await lockContacts(transaction, [deliveryId]);
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
    `select d.id as "deliveryId", d.instance_id as "instanceId", d.contact_id as "contactId", m.eeid,
            m.campaign_numid as "campaignNumid", d.recipient
     from deliveries d
     join partitions p on p.instance_id = d.instance_id and p.id = d.partition_id
     join messages m on m.instance_id = p.instance_id and m.id = p.message_id
     where d.id = any(?::bigint[])`,
    [deliveryIds],
  );
}

/**
 * Counting bounces and judging by the count must not run beside another that does the same for the contact.
 * All locks are taken first, and in one order: addresses, contacts, and then deliveries and their partitions.
 */
async function lockContacts(transaction: Transaction, deliveryIds: readonly number[]): Promise<void> {
  if (deliveryIds.length === 0) return;
  const contacts = await queryRows<{ id: number; instanceId: number; emailKey: string }>(
    transaction,
    `select distinct contacts.id, contacts.instance_id as "instanceId", contacts.email_key as "emailKey"
     from deliveries
     join contacts on contacts.instance_id = deliveries.instance_id and contacts.id = deliveries.contact_id
     where deliveries.id = any(?::bigint[]) order by "instanceId", "emailKey"`,
    [deliveryIds],
  );
  await lockAddresses(transaction, contacts);
  await queryRows(
    transaction,
    "select from contacts where id = any(?::bigint[]) order by instance_id, email_key for no key update",
    [contacts.map(({ id }) => id)],
  );
}

/** Invalidates the contacts that have bounced hard often enough, these bounces included. */
async function invalidateWhereDue(
  transaction: Transaction,
  hardBounces: readonly { readonly bounce: DeliveryBounce; readonly owner: DeliveryOwner }[],
  rule: InvalidationRule,
): Promise<void> {
  const contactIds = hardBounces.flatMap(({ owner: { contactId } }) => (contactId === null ? [] : [contactId]));
  const bounced = await countHardBouncedMessages(transaction, contactIds);
  for (const { bounce, owner } of hardBounces) {
    if (owner.contactId === null || (bounced.get(owner.contactId) ?? 0) < rule.hardBouncesToInvalidate) continue;
    const cause = { ...causeOf(owner, bounce.at), reason: "hard-bounces" as const };
    await invalidateContact(transaction, owner.instanceId, owner.contactId, cause);
  }
}

async function archiveMessages(transaction: Transaction, outcomes: readonly DeliveryOutcome[]): Promise<void> {
  const kept = outcomes.flatMap(({ deliveryId, instanceId, archived }) =>
    archived ? [{ deliveryId, instanceId, ...archived }] : [],
  );
  for (const portion of portionsOf(kept, ({ octets }) => octets.length, ARCHIVE_PORTION_OCTETS)) {
    await transaction("archived_messages")
      .insert(
        portion.map(({ deliveryId, instanceId, eeid, recipientKey, octets }) => ({
          delivery_id: deliveryId,
          instance_id: instanceId,
          eeid,
          recipient_key: recipientKey,
          octets,
          sent_at: transaction.fn.now(),
        })),
      )
      .onConflict(["delivery_id", "instance_id"])
      .ignore();
  }
}

/** Of one statement: PostgreSQL takes no message above 1 GiB, and copies what it takes. */
const ARCHIVE_PORTION_OCTETS = 32 * 1024 * 1024;

/** Things in order, in portions of at most so much together; what alone is more is a portion of its own. */
function* portionsOf<T>(things: readonly T[], sizeOf: (thing: T) => number, most: number): Generator<T[]> {
  let portion: T[] = [];
  let size = 0;
  for (const thing of things) {
    if (portion.length > 0 && size + sizeOf(thing) > most) {
      yield portion;
      portion = [];
      size = 0;
    }
    portion.push(thing);
    size += sizeOf(thing);
  }
  if (portion.length > 0) yield portion;
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
