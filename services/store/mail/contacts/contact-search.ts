import type { ContactSummary } from "../../../core/mail/contact.ts";
import type { FilterCondition } from "../../../core/mail/filter-condition.ts";
import { type Db, queryRows, StatementValues } from "../../../platform/postgres/db.ts";
import { readSummaries, SUMMARY_COLUMNS, type SummaryRow } from "./contact-profiles.ts";
import { compileCondition } from "./filter-conditions.ts";

/** Which contacts of an instance; what is absent restricts nothing. */
export interface ContactSearch {
  /** Part of the address or of a name, whatever its case. */
  readonly text?: string | undefined;
  readonly group?: string | undefined;
  readonly condition?: FilterCondition | undefined;
}

interface ContactPage {
  /** Of all pages. */
  readonly total: number;
  readonly contacts: readonly ContactSummary[];
}

/** A page of contacts in the order of their addresses. @param now what the condition's days count back from */
export async function searchContacts(
  db: Db,
  instanceId: number,
  search: ContactSearch,
  { skip, take, now }: { readonly skip: number; readonly take: number; readonly now: Date },
): Promise<ContactPage> {
  const values = new StatementValues(instanceId);
  const where = `contact.instance_id = $1 and ${compileSearch(search, now, values)}`;
  const [count] = await queryRows<{ total: number }>(
    db,
    `select count(*) as total from contacts as contact where ${where}`,
    values.all,
  );
  const rows = await queryRows<SummaryRow>(
    db,
    `select ${SUMMARY_COLUMNS} from (
       select * from contacts as contact where ${where}
        order by email_key offset ${values.add(skip)} limit ${values.add(take)}
     ) as contact order by contact.email_key`,
    values.all,
  );
  return { total: count!.total, contacts: await readSummaries(db, instanceId, rows) };
}

function compileSearch({ text, group, condition }: ContactSearch, now: Date, values: StatementValues): string {
  const scope = { instance: "$1", now };
  const parts = [
    ...(text === undefined ? [] : [matchText(text, values)]),
    ...(group === undefined ? [] : [compileCondition({ group }, scope, values)]),
    ...(condition === undefined ? [] : [compileCondition(condition, scope, values)]),
  ];
  return parts.length === 0 ? "true" : parts.join(" and ");
}

function matchText(text: string, values: StatementValues): string {
  const sought = values.add(text.toLowerCase());
  return `(strpos(lower(contact.email), ${sought}) > 0
    or strpos(lower(contact.first_name || ' ' || contact.last_name), ${sought}) > 0)`;
}
