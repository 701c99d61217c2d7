import type { Contact } from "../../../core/mail/contact.ts";
import type { FilterCondition } from "../../../core/mail/filter-condition.ts";
import { type Db, queryRows } from "../../../platform/postgres/db.ts";
import { CONTACT_COLUMNS, type ContactRow, readContacts } from "./contact-profiles.ts";
import { compileCondition, type SqlFragment } from "./filter-conditions.ts";

/** Which contacts of an instance; what is absent restricts nothing. */
export interface ContactSearch {
  /** Part of the address or of a name, whatever its case. */
  readonly text?: string | undefined;
  readonly group?: string | undefined;
  readonly condition?: FilterCondition | undefined;
}

export interface ContactPage {
  /** Of all pages. */
  readonly total: number;
  readonly contacts: readonly Contact[];
}

/** A page of contacts in the order of their addresses. @param now what the condition's days count back from */
export async function searchContacts(
  db: Db,
  instanceId: number,
  search: ContactSearch,
  { skip, take, now }: { readonly skip: number; readonly take: number; readonly now: Date },
): Promise<ContactPage> {
  const { sql, values } = compileSearch(search, now);
  const where = `contact.instance_id = ? and ${sql}`;
  const [count] = await queryRows<{ total: number }>(
    db,
    `select count(*) as total from contacts as contact where ${where}`,
    [instanceId, ...values],
  );
  const rows = await queryRows<ContactRow>(
    db,
    `select ${CONTACT_COLUMNS} from (
       select * from contacts as contact where ${where} order by email_key offset ? limit ?
     ) as contact order by contact.email_key`,
    [instanceId, ...values, skip, take],
  );
  return { total: count!.total, contacts: await readContacts(db, instanceId, rows) };
}

function compileSearch({ text, group, condition }: ContactSearch, now: Date): SqlFragment {
  const parts: SqlFragment[] = [
    ...(text === undefined ? [] : [matchText(text)]),
    ...(group === undefined ? [] : [compileCondition({ group }, now)]),
    ...(condition === undefined ? [] : [compileCondition(condition, now)]),
  ];
  return {
    sql: parts.length === 0 ? "true" : parts.map(({ sql }) => sql).join(" and "),
    values: parts.flatMap(({ values }) => values),
  };
}

function matchText(text: string): SqlFragment {
  const sought = text.toLowerCase();
  return {
    sql: `(strpos(lower(contact.email), ?) > 0
      or strpos(lower(contact.first_name || ' ' || contact.last_name), ?) > 0)`,
    values: [sought, sought],
  };
}
