import type { EmailAddress } from "../../core/mail/address.ts";
import { type Db, queryRows, type Transaction } from "../../platform/postgres/db.ts";
import {
  type ErasureSubject,
  eraseFromMessages,
  redacted,
} from "../../store/mail/contacts/contact-erasure-messages.ts";
import { lockAddress } from "../../store/mail/contacts/contacts.ts";
import { addressKeyOf, findCopySpellings } from "../../store/mail/events/event-copies.ts";
import { COUNT_AGGREGATES, COUNT_COLUMNS } from "../../store/mail/events/event-kinds.ts";
import { inTransaction } from "../../store/transactions.ts";

/** What was removed of an address; see `isNothing`. */
export interface Erasure {
  readonly contacts: number;
  readonly events: number;
  readonly messages: number;
  /** It was on the whitelist. */
  readonly whitelisted: boolean;
}

/**
 * Removes everything that an instance holds on an address: the contact, its events (and what they add to the counts),
 * its messages with their archives and what came back for them, its place on the whitelist, and its name in what is
 * kept of others: messages with several addressees, bodies of webhooks, reports. What is queued for it is not sent any
 * more. What the customer wrote himself stays: senders of campaigns, conditions of filters.
 */
export async function eraseAddress(db: Db, instanceId: number, address: EmailAddress): Promise<Erasure> {
  return inTransaction(db, async (transaction) => {
    await lockAddress(transaction, instanceId, address.key);
    const whose = { instance_id: instanceId, email_key: address.key };
    const known = await transaction("contacts").where(whose).first("email");
    const spellings = [...new Set([address.key, address.text, address.asGiven, ...(known ? [known.email] : [])])];
    // Before the contact, as the calls that send do.
    await removeCalls(transaction, instanceId, spellings);
    const contact = await transaction("contacts").where(whose).forUpdate().first("id");
    const subject: ErasureSubject = { instanceId, contactId: contact?.id ?? null, address, spellings };
    const messages = await eraseFromMessages(transaction, subject);
    const events = await removeEvents(transaction, subject);
    await removeFromWebhooks(transaction, subject);
    await redactConsole(transaction, subject);
    const whitelisted = (await transaction("whitelist").where(whose).delete()) > 0;
    if (subject.contactId !== null) await transaction("conversions").where({ contact_id: subject.contactId }).delete();
    const contacts = await transaction("contacts").where(whose).delete();
    return { contacts, events, messages, whitelisted };
  });
}

/** Whether an instance held nothing on the address. */
export function isNothing({ contacts, events, messages, whitelisted }: Erasure): boolean {
  return contacts + events + messages === 0 && !whitelisted;
}

async function removeEvents(transaction: Transaction, subject: ErasureSubject): Promise<number> {
  const spellings = await findCopySpellings(transaction, subject.instanceId, subject.address);
  const rows = await queryRows<{ events: number }>(
    transaction,
    `with removed as (
       delete from events where instance_id = ? and (contact_id = ? or contact_id is null and email = any(?))
       returning instance_id, at, kind, machine
     ), uncounted as (
       insert into event_count_deltas (instance_id, minute, ${COUNT_COLUMNS.join(", ")})
       select instance_id, minute, ${COUNT_COLUMNS.map((column) => `-${column}`).join(", ")}
       from (select instance_id, date_trunc('minute', at, 'UTC') as minute, ${COUNT_AGGREGATES}
         from removed group by 1, 2) as counts
     )
     select count(*) as events from removed`,
    [subject.instanceId, subject.contactId, spellings],
  );
  return rows[0]!.events;
}

/** What is to be told, and the log of what was told, without the events of an address. */
async function removeFromWebhooks(transaction: Transaction, subject: ErasureSubject): Promise<void> {
  const batches = await queryRows<{ id: number; body: string }>(
    transaction,
    `select id, body from webhook_batches
     where instance_id = ? and exists (select from unnest(?::text[]) as name where strpos(body, name) > 0)
     order by id for update`,
    [subject.instanceId, subject.spellings],
  );
  for (const { id, body } of batches) {
    const told = JSON.parse(body) as { readonly eventos: readonly { readonly email: string }[] };
    const eventos = told.eventos.filter(({ email }) => addressKeyOf(email) !== subject.address.key);
    const whole = transaction("webhook_batches").where({ id });
    if (eventos.length === 0) await whole.delete();
    else await whole.update({ body: JSON.stringify({ ...told, eventos }), events: eventos.length });
  }
}

/** Callers choose their Idempotency-Keys, and some put the address into them. */
async function removeCalls(transaction: Transaction, instanceId: number, spellings: readonly string[]): Promise<void> {
  await queryRows(
    transaction,
    `delete from idempotency_keys
     where instance_id = ? and exists (
       select from unnest(?::text[]) as name where strpos(key, name) > 0 or strpos(answer::text, name) > 0)`,
    [instanceId, spellings],
  );
}

/** The log of what the console did, and its jobs, say what was done; to whom, they say no more. */
async function redactConsole(transaction: Transaction, { instanceId, spellings }: ErasureSubject): Promise<void> {
  for (const name of spellings) {
    for (const [table, column] of CONSOLE_TEXTS) {
      await queryRows(
        transaction,
        `update ?? set ?? = replace(??::text, ?, ?)::${column === "object" ? "text" : "jsonb"}
         where scope_role = 'instance' and scope = (select name from instances where id = ?)
           and strpos(??::text, ?) > 0`,
        [table, column, column, name, redacted(name), instanceId, column, name],
      );
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
