import type { AttemptFacts } from "../../core/mail/delivery-attempt.ts";
import type { Transaction } from "../../platform/postgres/db.ts";
import { removeFromSandbox } from "../../store/mail/contacts/contact-erasure-messages.ts";
import { countHardBouncedMessages, lockAddresses, lockContacts } from "../../store/mail/contacts/contacts.ts";
import { TOLD_KINDS } from "../../store/mail/events/event-kinds.ts";
import { recordEvents } from "../../store/mail/events/events.ts";
import { countWarmUpComplaint } from "../../store/mail/pace/warm-up-days.ts";
import {
  archiveMessages,
  countRefusals,
  type DeliveryBounce,
  type DeliveryOutcome,
  type DeliveryOwner,
  findDeliveries,
  listContactsOf,
  markBounced,
  markComplained,
  type SettledDelivery,
  settleDeliveries,
} from "../../store/mail/queue/deliveries.ts";
import { addReports } from "../../store/mail/queue/delivery-reports.ts";
import type { DeliveryKey } from "../../store/mail/queue/queue.ts";
import { lockPartitions, type PartitionKey } from "../../store/mail/queue/queue-leases.ts";
import { tellDeliveries } from "../../store/mail/tracking/event-feed.ts";
import { invalidateContact } from "./contact-changes.ts";

/** How many hard bounces of different messages make a contact invalid. */
export interface InvalidationRule {
  readonly hardBouncesToInvalidate: number;
}

/** The transaction that outcomes are stored in. */
interface OutcomesAt {
  /** Its moment, of `beginWork` for their instances. */
  readonly now: string;
  /** Partitions that it goes on to change: they are locked together with those of refused recipients. */
  readonly alsoChanged?: readonly PartitionKey[];
}

/**
 * Stores outcomes, with everything that follows from them. What is settled stays settled: an outcome for a delivery
 * that another worker has finished in the meantime changes nothing.
 * @returns the deliveries whose outcomes were stored now
 */
export async function recordOutcomes(
  transaction: Transaction,
  { now, alsoChanged = [] }: OutcomesAt,
  outcomes: readonly DeliveryOutcome[],
  rule: InvalidationRule,
): Promise<ReadonlySet<number>> {
  if (outcomes.length === 0) {
    await lockPartitions(transaction, alsoChanged);
    return new Set();
  }
  await lockRecipients(
    transaction,
    outcomes.filter(({ bounce }) => bounce?.hard),
  );
  const rows = await settleDeliveries(transaction, outcomes, now);
  const settledAt = new Map(rows.map(({ id, at }) => [id, at]));
  const settled = outcomes.filter(({ deliveryId }) => settledAt.has(deliveryId));
  await forgetErased(
    transaction,
    outcomes.filter(({ deliveryId }) => !settledAt.has(deliveryId)),
  );
  const refused = rows.filter(({ state }) => state === "refused");
  const refusedOf = refused.map((row) => ({ instanceId: row.instance_id, id: row.partition_id }));
  await lockPartitions(transaction, [...refusedOf, ...alsoChanged]);
  await countRefusals(transaction, refused);
  await archiveMessages(transaction, settled);
  await addReports(
    transaction,
    settled.flatMap(({ report }) => report ?? []),
  );
  await tellOutcomes(transaction, settled, rows);
  const bounces = settled.flatMap(({ instanceId, deliveryId, bounce, attempts, attempt }) => {
    if (bounce === undefined) return [];
    const detail = { ...bounce.detail, ...describeAttempt(attempts, attempt) };
    return [{ ...bounce, detail, instanceId, deliveryId, at: settledAt.get(deliveryId)! }];
  });
  await storeBounces(transaction, bounces, rule);
  return new Set(settledAt.keys());
}

/** What was on the wire while its recipient was erased may have come to the sandbox after that: it goes as well. */
async function forgetErased(transaction: Transaction, unsettled: readonly DeliveryOutcome[]): Promise<void> {
  if (unsettled.length === 0) return;
  const there = new Set((await findDeliveries(transaction, unsettled)).map(({ deliveryId }) => deliveryId));
  for (const { instanceId, deliveryId, recipient } of unsettled) {
    if (!there.has(deliveryId)) await removeFromSandbox(transaction, { instanceId, spellings: [recipient] });
  }
}

/** Tells those instances of deliveries and deferrals that want to know; a refusal is an event anyway. */
async function tellOutcomes(
  transaction: Transaction,
  settled: readonly DeliveryOutcome[],
  rows: readonly SettledDelivery[],
): Promise<void> {
  const heard = new Map(rows.flatMap(({ id, at, isHeard }) => (isHeard ? [[id, at]] : [])));
  if (heard.size === 0) return;
  await tellDeliveries(
    transaction,
    settled.flatMap(({ instanceId, deliveryId, state, reply, attempts, attempt }) => {
      const at = heard.get(deliveryId);
      if (at === undefined || state === "refused") return [];
      const kind = TOLD_KINDS[state === "delivered" ? "delivered" : "deferred"];
      const detail = { reason: attempt.reason, reply, ...describeAttempt(attempts, attempt) };
      return [{ instanceId, deliveryId, at, kind, detail }];
    }),
  );
}

function describeAttempt(attempt: number, { status, path }: AttemptFacts): Readonly<Record<string, unknown>> {
  return { ...(status === "" ? {} : { status }), attempt, ...(path?.exchanger ? { exchanger: path.exchanger } : {}) };
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
  await lockRecipients(
    transaction,
    bounces.filter(({ hard }) => hard),
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
  const recorded = await markBounced(transaction, bounces);
  const marked = new Set(recorded);
  const known = await findDeliveries(
    transaction,
    bounces.filter(({ deliveryId }) => marked.has(deliveryId)),
  );
  const owners = new Map(known.map((owner) => [owner.deliveryId, owner]));
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
  return recorded;
}

/**
 * Records a spam complaint and invalidates the contact, unless it is whitelisted; once for a delivery.
 * @returns whether it was recorded now
 */
export async function recordComplaint(
  transaction: Transaction,
  complaint: DeliveryKey & { readonly at: Date; readonly detail: Readonly<Record<string, unknown>> },
): Promise<boolean> {
  const { at, detail } = complaint;
  await lockRecipients(transaction, [complaint]);
  if (!(await markComplained(transaction, complaint, at))) return false;
  const [owner] = await findDeliveries(transaction, [complaint]);
  if (owner === undefined) return false;
  await recordEvents(transaction, [{ ...eventBase(owner), kind: "complained", at, detail }]);
  if (owner.contactId !== null) {
    await invalidateContact(transaction, owner.instanceId, owner.contactId, {
      ...causeOf(owner),
      reason: "complaint",
    });
  }
  await countWarmUpComplaint(transaction, owner.deliveryId);
  return true;
}

/**
 * Counting bounces and judging by the count must not run beside another that does the same for the contact.
 * All locks are taken first, and in one order: addresses, contacts, and then deliveries and their partitions.
 */
async function lockRecipients(transaction: Transaction, deliveries: readonly DeliveryKey[]): Promise<void> {
  if (deliveries.length === 0) return;
  const contacts = await listContactsOf(transaction, deliveries);
  await lockAddresses(transaction, contacts);
  await lockContacts(transaction, contacts);
}

/** Invalidates the contacts that have bounced hard often enough, these bounces included. */
async function invalidateWhereDue(
  transaction: Transaction,
  hardBounces: readonly { readonly owner: DeliveryOwner }[],
  rule: InvalidationRule,
): Promise<void> {
  const contacts = hardBounces.flatMap(({ owner: { instanceId, contactId } }) =>
    contactId === null ? [] : [{ instanceId, id: contactId }],
  );
  const bounced = await countHardBouncedMessages(transaction, contacts);
  for (const { owner } of hardBounces) {
    if (owner.contactId === null || (bounced.get(owner.contactId) ?? 0) < rule.hardBouncesToInvalidate) continue;
    const cause = { ...causeOf(owner), reason: "hard-bounces" as const };
    await invalidateContact(transaction, owner.instanceId, owner.contactId, cause);
  }
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

function causeOf(owner: DeliveryOwner) {
  return { campaignNumid: owner.campaignNumid, eeid: owner.eeid, deliveryId: owner.deliveryId };
}
