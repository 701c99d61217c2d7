import { type Db, queryRows, type Transaction } from "../../../platform/postgres/db.ts";
import { byInstance } from "../by-instance.ts";
import { EVENT_KINDS, TOUCHES } from "../events/event-kinds.ts";

/**
 * Different messages to each contact that bounced hard since it was last revalidated, or since somebody there last opened a
 * message or followed a link. Events without a delivery (imported ones) count one each.
 * @returns by contact; those without any are not there
 */
export async function countHardBouncedMessages(
  db: Db,
  contacts: readonly ContactOfInstance[],
): Promise<ReadonlyMap<number, number>> {
  if (contacts.length === 0) return new Map();
  const rows = await queryRows<{ contactId: number; messages: number }>(
    db,
    `select "contactId", count(distinct coalesce(delivery_id, -id))::int as messages
     from (
       select contacts.instance_id, contacts.id as "contactId", events.kind, events.at, events.delivery_id, events.id,
         max(events.at) filter (where events.kind <> $2) over (partition by contacts.instance_id, contacts.id) as touched_at
       from events join contacts on contacts.instance_id = events.instance_id and contacts.id = events.contact_id
       where events.instance_id = any($3::bigint[]) and contacts.instance_id = any($3::bigint[])
         and events.contact_id = any($1::bigint[]) and events.at >= contacts.bounces_count_from
         and (events.kind = $2 or events.kind in (${TOUCHES.join(", ")}) and not events.machine)
     ) history
     where kind = $2 and (touched_at is null or at > touched_at)
     group by instance_id, "contactId"`,
    [contacts.map(({ id }) => id), EVENT_KINDS["hard-bounce"], [...new Set(contacts.map(instanceOf))]],
  );
  return new Map(rows.map(({ contactId, messages }) => [contactId, messages]));
}

/**
 * Holds an address until the transaction ends. Whoever whitelists an address or changes a contact's validity does
 * so first: otherwise a contact could become invalid after its whitelisting had been answered.
 */
export function lockAddress(transaction: Transaction, instanceId: number, emailKey: string): Promise<void> {
  return lockAddresses(transaction, [{ instanceId, emailKey }]);
}

/** As {@link lockAddress}, one after another in the order of instances and addresses. */
export async function lockAddresses(
  transaction: Transaction,
  addresses: readonly { readonly instanceId: number; readonly emailKey: string }[],
): Promise<void> {
  await queryRows(
    transaction,
    `select pg_advisory_xact_lock(hashtextextended(email_key, instance_id))
     from (select * from unnest($1::text[], $2::bigint[]) as given (email_key, instance_id)
       order by instance_id, email_key offset 0) as address`,
    [addresses.map(({ emailKey }) => emailKey), addresses.map(({ instanceId }) => instanceId)],
  );
}

/**
 * Nobody is erased from these instances until the transaction ends: of whom it has read it may write. It waits for an erasure.
 * Before anything that it reads of contacts.
 */
export async function holdErasures(transaction: Transaction, instanceIds: readonly number[]): Promise<void> {
  await queryRows(
    transaction,
    "select pg_advisory_xact_lock_shared(hashtextextended('erasure', id)) from unnest($1::bigint[]) as instance (id)",
    [[...new Set(instanceIds)].sort((one, other) => one - other)],
    { name: "hold-erasures" },
  );
}

/** An erasure waits for those who hold it up, see {@link holdErasures}. */
export async function beginErasure(transaction: Transaction, instanceId: number): Promise<void> {
  await queryRows(transaction, "select pg_advisory_xact_lock(hashtextextended('erasure', $1))", [instanceId]);
}

/** Locks contacts, in the order in which everything does. */
export async function lockContacts(transaction: Transaction, contacts: readonly ContactOfInstance[]): Promise<void> {
  await byInstance(transaction, contacts, (own, instanceIds) =>
    queryRows(
      transaction,
      `select 1 from contacts where instance_id = any($2::bigint[]) and id = any($1::bigint[])
       order by instance_id, email_key for no key update`,
      [own.map(({ id }) => id), instanceIds],
    ),
  );
}

/** The same of those that an instance has at some addresses. */
export async function lockContactsAt(
  transaction: Transaction,
  instanceId: number,
  emailKeys: readonly string[],
): Promise<void> {
  await queryRows(
    transaction,
    `select from contacts where instance_id = $1 and email_key = any($2) order by email_key for no key update`,
    [instanceId, emailKeys],
  );
}

/** A contact, and whose it is. */
export interface ContactOfInstance {
  readonly instanceId: number;
  readonly id: number;
}

const instanceOf = ({ instanceId }: ContactOfInstance) => instanceId;

/** A contact that may be made valid or invalid, whose address and row the transaction has locked. */
interface UnlistedContact {
  readonly emailKey: string;
  readonly invalid: boolean;
  /** When its turn has come, by the clock that all share: the last event tells the state. */
  readonly at: Date;
}

/** Locks a contact for a change of its validity, unless its address is whitelisted. */
export async function lockUnlistedContact(
  transaction: Transaction,
  instanceId: number,
  contactId: number,
): Promise<UnlistedContact | "whitelisted" | "unknown"> {
  const known = await transaction("contacts").where({ instance_id: instanceId, id: contactId }).first("email_key");
  if (known === undefined) return "unknown";
  await lockAddress(transaction, instanceId, known.email_key);
  const listed = await transaction("whitelist")
    .where({ instance_id: instanceId, email_key: known.email_key })
    .first("email_key");
  if (listed !== undefined) return "whitelisted";
  const contact = await transaction("contacts")
    .where({ instance_id: instanceId, id: contactId })
    .forNoKeyUpdate()
    .first("invalid", transaction.raw("clock_timestamp() as at"));
  return contact === undefined ? "unknown" : { ...contact, emailKey: known.email_key };
}

export async function setInvalid(transaction: Transaction, { instanceId, id }: ContactOfInstance): Promise<void> {
  await transaction("contacts")
    .where({ instance_id: instanceId, id })
    .update({ invalid: true, last_operation: "invalidated", updated_at: transaction.fn.now() });
}

/** Makes a contact valid, and starts the count of its hard bounces anew. */
export async function setValid(
  transaction: Transaction,
  { instanceId, id }: ContactOfInstance,
  at: Date,
): Promise<void> {
  await transaction("contacts").where({ instance_id: instanceId, id }).update({
    invalid: false,
    bounces_count_from: at,
    last_operation: "revalidated",
    updated_at: transaction.fn.now(),
  });
}
