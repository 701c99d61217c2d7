import type { EventKind } from "../../../core/mail/event-kind.ts";
import type { SuppressionKind } from "../../../core/mail/suppression.ts";
import { type Db, queryRows, StatementValues } from "../../../platform/postgres/db.ts";
import { EVENT_KINDS, eventKindOf } from "../events/event-kinds.ts";
import { erasedKey } from "./suppressions.ts";

/** An entry of the list, wherever it is kept: an invalid contact, a place on the whitelist, an unsubscription, a row of its own. */
export interface ListedSuppression {
  readonly kind: SuppressionKind;
  /** An address, or `@domain`; null of an erased address. */
  readonly target: string | null;
  /** Null where nothing says when: contacts that a write of their profile made invalid, or whose event is not kept any more. */
  readonly since: Date | null;
  readonly note: string;
  readonly creator: string;
  /** The event that it comes of: the bounce, the complaint, the call, the unsubscription. */
  readonly cause: SuppressionCause | null;
  /** Of an unsubscription from one campaign alone. */
  readonly campaign: { readonly numid: number; readonly name: string } | null;
}

interface SuppressionCause {
  readonly event: EventKind;
  readonly at: Date;
  /** The batch whose message it was. */
  readonly eeid: string | null;
  readonly detail: Readonly<Record<string, unknown>>;
}

/** Which entries. */
interface SuppressionSearch {
  /** Part of the address, whatever its case; a whole one finds its domain's entry and its erased one as well. */
  readonly text?: string | undefined;
  readonly kind?: SuppressionKind | undefined;
}

interface SuppressionPage {
  readonly entries: readonly ListedSuppression[];
  /** Where the next page begins; undefined after the last. */
  readonly next: string | undefined;
}

/** One of the places that the list is gathered from, read in the order of a key of its own. */
interface Source {
  readonly name: string;
  readonly kinds: readonly SuppressionKind[];
  /** @param after SQL of the key behind which it begins, null: at the first @param search SQL that narrows it */
  read(values: StatementValues, search: SuppressionSearch, after: string | null): string;
}

/**
 * A page of an instance's list. It goes source by source, each along an index, so a page costs the same wherever it lies.
 * @param after what the page before gave as `next`
 */
export function listSuppressions(
  db: Db,
  instanceId: number,
  search: SuppressionSearch,
  page: { readonly after?: string | undefined; readonly limit: number },
): Promise<SuppressionPage> {
  return readPage(db, SOURCES, instanceId, { ...search, ...page });
}

/** A page of the operator's list. */
export function listGlobalSuppressions(
  db: Db,
  search: SuppressionSearch,
  page: { readonly after?: string | undefined; readonly limit: number },
): Promise<SuppressionPage> {
  return readPage(db, [GLOBAL], 0, { ...search, ...page });
}

const PER_READ = 1_000;

/** The whole list, portion by portion. */
export async function* streamSuppressions(
  db: Db,
  owner: { readonly instanceId: number } | "operator",
  search: SuppressionSearch = {},
): AsyncGenerator<readonly ListedSuppression[]> {
  for (let after: string | undefined; ; ) {
    const page = { after, limit: PER_READ };
    const { entries, next } =
      owner === "operator"
        ? await listGlobalSuppressions(db, search, page)
        : await listSuppressions(db, owner.instanceId, search, page);
    yield entries;
    if (next === undefined) return;
    after = next;
  }
}

async function readPage(
  db: Db,
  sources: readonly Source[],
  instanceId: number,
  { after, limit, ...search }: SuppressionSearch & { readonly after?: string | undefined; readonly limit: number },
): Promise<SuppressionPage> {
  const cut = after?.indexOf(":") ?? -1;
  const from = cut > 0 ? sources.findIndex(({ name }) => name === after!.slice(0, cut)) : 0;
  const entries: ListedSuppression[] = [];
  for (const [index, source] of sources.entries()) {
    if (index < from || (search.kind !== undefined && !source.kinds.includes(search.kind))) continue;
    const values = new StatementValues(instanceId);
    const position = index === from && cut > 0 ? after!.slice(cut + 1) || null : null;
    const sql = source.read(values, search, position === null ? null : values.add(position));
    const left = limit - entries.length;
    const rows = await queryRows<Row>(db, `${sql} limit ${values.add(left + 1)}`, values.all);
    entries.push(...rows.slice(0, left).map(toEntry));
    const last = rows[left - 1];
    if (rows.length > left) return { entries, next: `${source.name}:${last ? last.position : (position ?? "")}` };
  }
  return { entries, next: undefined };
}

/** Whether a text is a place in some list, as pages name them. */
export function isSuppressionCursor(text: string): boolean {
  return /^(?:(?:invalid|unsubscribed):\d{0,18}|campaign:(?:\d{1,18}-\d{1,18})?|(?:kept|whitelist|global):[^\0]*)$/.test(
    text,
  );
}

interface Row {
  position: string;
  kind: SuppressionKind;
  target: string | null;
  since: Date | null;
  note: string;
  creator: string;
  cause_kind: number | null;
  cause_at: Date | null;
  eeid: string | null;
  detail: Record<string, unknown> | null;
  campaign_numid: number | null;
  campaign_name: string | null;
}

function toEntry(row: Row): ListedSuppression {
  const { kind, target, since, note, creator, cause_kind, cause_at, campaign_numid } = row;
  return {
    kind,
    target,
    since,
    note,
    creator,
    cause:
      cause_kind === null || cause_at === null
        ? null
        : { event: eventKindOf(cause_kind), at: cause_at, eeid: row.eeid, detail: row.detail ?? {} },
    campaign: campaign_numid === null ? null : { numid: campaign_numid, name: row.campaign_name ?? "" },
  };
}

const NO_CAUSE = `null::smallint as cause_kind, null::timestamptz as cause_at, null::uuid as eeid, null::jsonb as detail,
  null::bigint as campaign_numid, null::text as campaign_name`;
const CAUSE = "cause.kind as cause_kind, cause.at as cause_at, cause.eeid, cause.detail";

/** What an event has of who brought in what it tells. */
function wordsOf(event: string): string {
  return `coalesce(${event}.detail ->> 'note', '') as note, coalesce(${event}.detail ->> 'creator', '') as creator`;
}

/** The newest event of a contact among some. @param which SQL over `e` */
function newest(which: string, ofContact = "contact.id"): string {
  return `(select e.kind, e.at, e.eeid, e.detail from events e
    where e.contact_id = ${ofContact} and e.instance_id = $1::bigint and ${which} order by e.at desc, e.id desc limit 1)`;
}

function matches(column: string, { text }: SuppressionSearch, values: StatementValues): string {
  return text === undefined ? "true" : `strpos(lower(${column}), lower(${values.add(text)}::text)) > 0`;
}

function entriesOf(table: string, isOwn: string, erased: (text: string) => string): Source["read"] {
  return (values, search, after) => {
    const text = search.text === undefined ? undefined : values.add(search.text);
    // The digest is of the key: a domain in capitals is found as well, a local part must be exact.
    const emailKey = `split_part(${text}::text, '@', 1) || '@' || lower(split_part(${text}::text, '@', 2))`;
    const found =
      text === undefined
        ? "true"
        : `(${matches("listed.target", search, values)} or listed.key = '@' || lower(split_part(${text}::text, '@', 2))${erased(emailKey)})`;
    return `select listed.key as position, listed.kind, listed.target, listed.since, listed.note, listed.creator, ${NO_CAUSE}
      from ${table} as listed
      where ${isOwn} and ${found} ${search.kind === undefined ? "" : `and listed.kind = ${values.add(search.kind)}::text`}
        ${after === null ? "" : `and listed.key > ${after}::text`}
      order by listed.key`;
  };
}

const ENTRY_KINDS_KEPT: readonly SuppressionKind[] = ["by-hand", "invalid", "complaint", "unsubscribed", "erased"];

const GLOBAL: Source = {
  name: "global",
  kinds: ENTRY_KINDS_KEPT,
  read: entriesOf("global_suppressions", "$1::bigint = 0", () => ""),
};

const SOURCES: readonly Source[] = [
  {
    name: "kept",
    kinds: ENTRY_KINDS_KEPT,
    read: entriesOf(
      "suppressions",
      "listed.instance_id = $1::bigint",
      (emailKey) => ` or listed.key = ${erasedKey(emailKey, "$1::bigint")}`,
    ),
  },
  {
    name: "invalid",
    kinds: ["invalid", "complaint"],
    read: (values, search, after) => {
      const isComplaint = "coalesce(why.detail ->> 'reason' = 'complaint', false)";
      return `select contact.id::text as position, case when ${isComplaint} then 'complaint' else 'invalid' end as kind,
          contact.email as target, coalesce((why.detail ->> 'since')::timestamptz, why.at) as since, ${wordsOf("why")}, ${CAUSE},
          null::bigint as campaign_numid, null::text as campaign_name
        from contacts as contact
        left join lateral ${newest(`e.kind = ${EVENT_KINDS.invalidated}`)} as why on true
        left join lateral (
          select * from ${newest(`e.kind = case why.detail ->> 'reason'
            when 'hard-bounces' then ${EVENT_KINDS["hard-bounce"]} when 'complaint' then ${EVENT_KINDS.complained}
            else ${EVENT_KINDS.invalidated} end`)} as newest
        ) as cause on true
        where contact.instance_id = $1::bigint and contact.invalid and ${matches("contact.email", search, values)}
          ${search.kind === undefined ? "" : `and ${search.kind === "complaint" ? "" : "not "}${isComplaint}`}
          ${after === null ? "" : `and contact.id > ${after}::text::bigint`}
        order by contact.id`;
    },
  },
  {
    name: "unsubscribed",
    kinds: ["unsubscribed"],
    read: (
      values,
      search,
      after,
    ) => `select contact.id::text as position, 'unsubscribed' as kind, contact.email as target,
        contact.unsubscribed_at as since, ${wordsOf("cause")}, ${CAUSE}, null::bigint as campaign_numid, null::text as campaign_name
      from contacts as contact
      left join lateral ${newest(`e.kind = ${EVENT_KINDS.unsubscribed}`)} as cause on true
      where contact.instance_id = $1::bigint and contact.unsubscribed_at is not null
        and ${matches("contact.email", search, values)}
        ${after === null ? "" : `and contact.id > ${after}::text::bigint`}
      order by contact.id`,
  },
  {
    name: "campaign",
    kinds: ["unsubscribed"],
    read: (
      values,
      search,
      after,
    ) => `select u.contact_id || '-' || u.campaign_numid as position, 'unsubscribed' as kind,
        contact.email as target, u.at as since, '' as note, '' as creator, ${CAUSE},
        u.campaign_numid, campaigns.name as campaign_name
      from campaign_unsubscriptions u
      join contacts as contact on contact.instance_id = u.instance_id and contact.id = u.contact_id
      left join campaigns on campaigns.instance_id = u.instance_id and campaigns.numid = u.campaign_numid
      left join lateral ${newest(
        `e.kind = ${EVENT_KINDS.unsubscribed} and e.campaign_numid = u.campaign_numid`,
        "u.contact_id",
      )} as cause on true
      where u.instance_id = $1::bigint and contact.unsubscribed_at is null and ${matches("contact.email", search, values)}
        ${after === null ? "" : `and (u.contact_id, u.campaign_numid) > (split_part(${after}::text, '-', 1)::bigint, split_part(${after}::text, '-', 2)::bigint)`}
      order by u.contact_id, u.campaign_numid`,
  },
  {
    name: "whitelist",
    kinds: ["whitelist"],
    read: (values, search, after) => `select email_key as position, 'whitelist' as kind, email_key as target,
        created_at as since, note, creator, ${NO_CAUSE}
      from whitelist where instance_id = $1::bigint and ${matches("email_key", search, values)}
        ${after === null ? "" : `and email_key > ${after}::text`}
      order by email_key`,
  },
];
