import { BROUGHT_IN, type ListingWords } from "../../../core/mail/suppression.ts";
import { type Db, queryRows } from "../../../platform/postgres/db.ts";
import { recordEvents } from "../events/events.ts";
import { unsubscribeAllFromInstance } from "../tracking/subscriptions.ts";

interface ListedContact {
  id: number;
  email_key: string;
  unsubscribed: boolean;
  at: Date;
}

interface ListedRow extends ListingWords {
  key: string;
  kind: "invalid" | "complaint" | "unsubscribed";
  since: Date;
}

/**
 * Contacts take over what was brought in about their addresses before they were contacts: they become invalid or
 * unsubscribed, with an event that has its beginning and its words, and the list keeps no row beside them. Everything
 * that makes contacts asks for it in the same transaction. Of contacts that somebody else has locked the next one does.
 * @returns the keys of those that did
 */
export async function takeOverListed(
  transaction: Db,
  instanceId: number,
  emailKeys: readonly string[],
): Promise<readonly string[]> {
  if (emailKeys.length === 0) return [];
  const contacts = await queryRows<ListedContact>(
    transaction,
    `select contact.id, contact.email_key, contact.unsubscribed_at is not null as unsubscribed, clock_timestamp() as at
     from contacts as contact
     where contact.instance_id = $1::bigint and contact.email_key = any($2::text[])
       and exists (select 1 from suppressions as listed where listed.instance_id = $1::bigint
         and listed.key = contact.email_key and listed.kind in ('invalid', 'complaint', 'unsubscribed'))
     order by contact.email_key for no key update of contact skip locked`,
    [instanceId, emailKeys],
  );
  if (contacts.length === 0) return [];
  const rows = await queryRows<ListedRow>(
    transaction,
    `delete from suppressions where instance_id = $1::bigint and key = any($2::text[])
       and kind in ('invalid', 'complaint', 'unsubscribed') returning key, kind, note, creator, since`,
    [instanceId, contacts.map(({ email_key }) => email_key)],
  );
  const byKey = new Map(contacts.map((contact) => [contact.email_key, contact]));
  const taken = rows
    .map((row) => ({ ...row, contact: byKey.get(row.key)! }))
    .filter(({ kind, contact }) => kind !== "unsubscribed" || !contact.unsubscribed);
  const stopped = taken.filter(({ kind }) => kind !== "unsubscribed").map(({ contact }) => contact.id);
  await invalidateAll(transaction, instanceId, stopped);
  const left = taken.filter(({ kind }) => kind === "unsubscribed");
  await unsubscribeAllFromInstance(
    transaction,
    instanceId,
    left.map(({ contact, since }) => ({ id: contact.id, at: since })),
  );
  await recordEvents(
    transaction,
    taken.map(({ kind, contact, ...words }) => ({
      kind: kind === "unsubscribed" ? ("unsubscribed" as const) : ("invalidated" as const),
      ...{ instanceId, contactId: contact.id, at: contact.at },
      detail: broughtIn(kind === "complaint" ? "complaint" : BROUGHT_IN, words),
    })),
  );
  return rows.map(({ key }) => key);
}

/** What an event says of what was brought in: why, since when, and in whose words. */
export function broughtIn(reason: string, { note, creator, since }: ListingWords): Readonly<Record<string, string>> {
  return {
    reason,
    ...(since === undefined ? {} : { since: since.toISOString() }),
    ...(note === "" ? {} : { note }),
    ...(creator === "" ? {} : { creator }),
  };
}

async function invalidateAll(transaction: Db, instanceId: number, contactIds: readonly number[]): Promise<void> {
  if (contactIds.length === 0) return;
  await queryRows(
    transaction,
    `update contacts set invalid = true, last_operation = 'invalidated', updated_at = now()
     where instance_id = $1 and id = any($2::bigint[])`,
    [instanceId, contactIds],
  );
}
