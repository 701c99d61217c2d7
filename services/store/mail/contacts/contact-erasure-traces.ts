import { addressKeyOf } from "../../../core/mail/address.ts";
import { redactText } from "../../../core/mail/redaction.ts";
import { type Db, queryRows, type Transaction } from "../../../platform/postgres/db.ts";
import { findCopySpellings, OF_COPIES } from "../events/event-copies.ts";
import { COUNT_AGGREGATES, COUNT_COLUMNS } from "../events/event-kinds.ts";
import type { ErasureSubject } from "./contact-erasure-messages.ts";

/** Removes the events of an address, and what they add to the counts. @returns how many */
export async function removeEvents(
  transaction: Transaction,
  { instanceId, contactId, address }: ErasureSubject,
): Promise<number> {
  const spellings = await findCopySpellings(transaction, instanceId, address);
  // One by one: of either-or no index tells.
  const ofContact = contactId === null ? 0 : await removeThose(transaction, "contact_id = $2", [instanceId, contactId]);
  if (spellings.length === 0) return ofContact;
  const copies = `${OF_COPIES} and email = any($3)`;
  return ofContact + (await removeThose(transaction, copies, [instanceId, address.local, spellings]));
}

/** @param which a condition in SQL of our own @param values of which the first is the instance @returns how many */
async function removeThose(transaction: Transaction, which: string, values: readonly unknown[]): Promise<number> {
  const rows = await queryRows<{ events: number }>(
    transaction,
    `with removed as (
       delete from events where instance_id = $1 and ${which}
       returning instance_id, at, kind, machine
     ), uncounted as (
       insert into event_count_deltas (instance_id, minute, ${COUNT_COLUMNS.join(", ")})
       select instance_id, minute, ${COUNT_COLUMNS.map((column) => `-${column}`).join(", ")}
       from (select instance_id, date_trunc('minute', at, 'UTC') as minute, ${COUNT_AGGREGATES}
         from removed group by 1, 2) as counts
     )
     select count(*) as events from removed`,
    values,
  );
  return rows[0]!.events;
}

/** What is to be told, and the log of what was told, without the events of an address. */
export async function removeFromWebhooks(transaction: Transaction, subject: ErasureSubject): Promise<void> {
  const batches = await queryRows<{ id: number; body: string }>(
    transaction,
    `select id, body from webhook_batches
     where instance_id = $1 and exists (select 1 from unnest($2::text[]) as name where strpos(body, name) > 0)
     order by id for update`,
    [subject.instanceId, subject.spellings],
  );
  for (const { id, body } of batches) {
    const told = JSON.parse(body) as { readonly eventos: readonly { readonly email: string }[] };
    const eventos = told.eventos.filter(({ email }) => addressKeyOf(email) !== subject.address.key);
    const whole = transaction("webhook_batches").where({ instance_id: subject.instanceId, id });
    if (eventos.length === 0) await whole.delete();
    else await whole.update({ body: JSON.stringify({ ...told, eventos }), events: eventos.length });
  }
}

/** Callers choose their Idempotency-Keys, and some put the address into them. */
export async function removeCalls(
  transaction: Transaction,
  instanceId: number,
  spellings: readonly string[],
): Promise<void> {
  await queryRows(
    transaction,
    `delete from idempotency_keys
     where instance_id = $1 and exists (
       select 1 from unnest($2::text[]) as name where strpos(key, name) > 0 or strpos(answer::text, name) > 0)`,
    [instanceId, spellings],
  );
}

/** The log of what the console did, and its jobs, say what was done; to whom, they say no more. */
export async function redactConsole(
  transaction: Transaction,
  { instanceId, spellings }: ErasureSubject,
): Promise<void> {
  const instance = await transaction("instances").where({ id: instanceId }).first("name");
  for (const [table, column] of CONSOLE_TEXTS) {
    const rows = await queryRows<{ id: number; text: string }>(
      transaction,
      `select id, ${column}::text as text from ${table}
       where scope_role = 'instance' and scope = $1
         and exists (select from unnest($2::text[]) as name where strpos(${column}::text, name) > 0)
       order by id for no key update`,
      [instance.name, spellings],
    );
    for (const { id, text } of rows) {
      await transaction(table)
        .where({ id })
        .update({ [column]: redactText(text, spellings) });
    }
  }
}

const CONSOLE_TEXTS = [
  ["console_audit", "object"],
  ["console_audit", "detail"],
  ["console_jobs", "object"],
  ["console_jobs", "result"],
  ["console_jobs", "errors"],
] as const;

/** Forgets what was ordered after a contact's clicks. */
export async function removeConversions(
  transaction: Transaction,
  instanceId: number,
  contactId: number,
): Promise<void> {
  await transaction("conversions").where({ instance_id: instanceId, contact_id: contactId }).delete();
}

/** How a contact's address was given; undefined where the address is no contact's. */
export async function findGivenEmail(db: Db, instanceId: number, emailKey: string): Promise<string | undefined> {
  const row = await db("contacts").where({ instance_id: instanceId, email_key: emailKey }).first("email");
  return row?.email;
}

/** Locks the contact of an address. @returns its id, or null where there is none */
export async function lockContactOf(
  transaction: Transaction,
  instanceId: number,
  emailKey: string,
): Promise<number | null> {
  const whose = { instance_id: instanceId, email_key: emailKey };
  return (await transaction("contacts").where(whose).forUpdate().first("id"))?.id ?? null;
}

/** Removes the contact of an address, and its place on the whitelist. @returns what there was */
export async function removeContact(
  transaction: Transaction,
  instanceId: number,
  emailKey: string,
): Promise<{ readonly contacts: number; readonly whitelisted: boolean }> {
  const whose = { instance_id: instanceId, email_key: emailKey };
  const whitelisted = (await transaction("whitelist").where(whose).delete()) > 0;
  return { contacts: await transaction("contacts").where(whose).delete(), whitelisted };
}
