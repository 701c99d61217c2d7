import { type Db, queryRows, type Transaction } from "../../../platform/postgres/db.ts";
import { EVENT_KINDS } from "../events/event-kinds.ts";
import { recordEvents } from "../events/events.ts";

/** Why a contact becomes invalid, and what the event says of it. */
export interface InvalidationCause {
  /** Only a `request` confirms a contact that is invalid already with another event. */
  readonly reason: "request" | "hard-bounces" | "complaint";
  readonly campaignNumid?: number;
  readonly eeid?: string;
  readonly deliveryId?: number;
}

export type ValidityChange = "done" | "already-invalid" | "whitelisted" | "unknown";

/**
 * Makes a contact invalid and stores the event, unless its address is whitelisted.
 * @param db may be a transaction; then the address stays locked until it ends
 */
export async function invalidateContact(
  db: Db,
  instanceId: number,
  contactId: number,
  { reason, ...cause }: InvalidationCause,
): Promise<ValidityChange> {
  return withUnlistedContact(db, instanceId, contactId, async (transaction, contact) => {
    if (contact.invalid && reason !== "request") return "already-invalid";
    await transaction("contacts")
      .where({ id: contactId })
      .update({ invalid: true, last_operation: "invalidated", updated_at: transaction.fn.now() });
    const event = { ...cause, at: contact.at, instanceId, contactId, detail: { reason } };
    await recordEvents(transaction, [{ ...event, kind: "invalidated" }]);
    return "done";
  });
}

/**
 * Makes a contact valid, starts the count of its hard bounces anew, and stores the event, whatever its validity was;
 * unless its address is whitelisted.
 */
export async function revalidateContact(
  db: Db,
  instanceId: number,
  contactId: number,
): Promise<Exclude<ValidityChange, "already-invalid">> {
  return withUnlistedContact(db, instanceId, contactId, async (transaction, { at }) => {
    await transaction("contacts").where({ id: contactId }).update({
      invalid: false,
      bounces_count_from: at,
      last_operation: "revalidated",
      updated_at: transaction.fn.now(),
    });
    await recordEvents(transaction, [{ instanceId, contactId, at, kind: "revalidated" }]);
    return "done" as const;
  });
}

/**
 * Different messages to each contact that bounced hard since it was last revalidated. Events without a delivery
 * (imported ones) count one each.
 * @returns by contact; those without any are not there
 */
export async function countHardBouncedMessages(
  db: Db,
  contactIds: readonly number[],
): Promise<ReadonlyMap<number, number>> {
  if (contactIds.length === 0) return new Map();
  const rows = await queryRows<{ contactId: number; messages: number }>(
    db,
    `select contacts.id as "contactId", count(distinct coalesce(events.delivery_id, -events.id))::int as messages
     from events join contacts on contacts.instance_id = events.instance_id and contacts.id = events.contact_id
     where events.contact_id = any($1::bigint[]) and events.kind = $2 and events.at >= contacts.bounces_count_from
     group by contacts.id`,
    [contactIds, EVENT_KINDS["hard-bounce"]],
  );
  return new Map(rows.map(({ contactId, messages }) => [contactId, messages]));
}

/**
 * Takes a contact off a campaign's recipients and stores the event; a second time does neither.
 * @returns whether it was done now; false also for a contact or campaign that the instance does not have
 */
export async function unsubscribeContact(
  db: Db,
  instanceId: number,
  contactId: number,
  from: { readonly campaignNumid: number; readonly eeid?: string; readonly deliveryId?: number; readonly at: Date },
): Promise<boolean> {
  return db.transaction(async (transaction) => {
    const rows = await queryRows(
      transaction,
      `insert into campaign_unsubscriptions (instance_id, contact_id, campaign_numid, at)
       select instance_id, contacts.id, campaigns.numid, $1 from contacts join campaigns using (instance_id)
       where instance_id = $2 and contacts.id = $3 and campaigns.numid = $4
       on conflict do nothing returning 1`,
      [from.at, instanceId, contactId, from.campaignNumid],
    );
    if (rows.length === 0) return false;
    await transaction("contacts")
      .where({ id: contactId })
      .update({ last_operation: "unsubscribed", updated_at: transaction.fn.now() });
    await recordEvents(transaction, [{ ...from, instanceId, contactId, kind: "unsubscribed" }]);
    return true;
  });
}

/**
 * Holds an address until the transaction ends. Whoever whitelists an address or changes a contact's validity does
 * so first: otherwise a contact could become invalid after its whitelisting had been answered.
 */
export function lockAddress(transaction: Transaction, instanceId: number, emailKey: string): Promise<void> {
  return lockAddresses(transaction, [{ instanceId, emailKey }]);
}

/** As {@link lockAddress}, one after another in the order given. */
export async function lockAddresses(
  transaction: Transaction,
  addresses: readonly { readonly instanceId: number; readonly emailKey: string }[],
): Promise<void> {
  await queryRows(
    transaction,
    `select pg_advisory_xact_lock(hashtextextended(email_key, instance_id))
     from unnest($1::text[], $2::bigint[]) as address (email_key, instance_id)`,
    [addresses.map(({ emailKey }) => emailKey), addresses.map(({ instanceId }) => instanceId)],
  );
}

/** @param change gets the moment at which its turn has come, by the clock that all share: the last event tells the state */
async function withUnlistedContact<Outcome>(
  db: Db,
  instanceId: number,
  contactId: number,
  change: (transaction: Transaction, contact: { readonly invalid: boolean; readonly at: Date }) => Promise<Outcome>,
): Promise<Outcome | "whitelisted" | "unknown"> {
  return db.transaction(async (transaction) => {
    const known = await transaction("contacts").where({ instance_id: instanceId, id: contactId }).first("email_key");
    if (known === undefined) return "unknown";
    await lockAddress(transaction, instanceId, known.email_key);
    const listed = await transaction("whitelist")
      .where({ instance_id: instanceId, email_key: known.email_key })
      .first("email_key");
    if (listed !== undefined) return "whitelisted";
    const contact = await transaction("contacts")
      .where({ id: contactId })
      .forNoKeyUpdate()
      .first("invalid", transaction.raw("clock_timestamp() as at"));
    return contact === undefined ? "unknown" : change(transaction, contact);
  });
}

/** Locks contacts, in the order in which everything does. */
export async function lockContacts(transaction: Transaction, ids: readonly number[]): Promise<void> {
  await queryRows(
    transaction,
    "select from contacts where id = any($1::bigint[]) order by instance_id, email_key for no key update",
    [ids],
  );
}
