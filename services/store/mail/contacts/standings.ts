import { BROUGHT_IN, type EntryKind, OWN_UNSUBSCRIPTION, type Standing } from "../../../core/mail/suppression.ts";
import { type Db, queryRows } from "../../../platform/postgres/db.ts";
import { EVENT_KINDS } from "../events/event-kinds.ts";
import type { SuppressionOwner } from "./suppressions.ts";
import { newestDetail, OF_EVERYTHING } from "./unsubscriptions.ts";

interface StandingRow {
  key: string;
  row: EntryKind | null;
  row_note: string | null;
  row_since: Date | null;
  whitelisted: boolean;
  contact_id: number | null;
  invalid: boolean | null;
  invalid_reason: string | null;
  invalid_note: string | null;
  invalid_since: Date | null;
  unsubscribed_at: Date | null;
  unsubscribed_reason: string | null;
  unsubscribed_note: string | null;
}

/** Where these keys stand on a list. @param keys each once */
export async function findStandings(
  db: Db,
  owner: SuppressionOwner,
  keys: readonly string[],
): Promise<ReadonlyMap<string, Standing>> {
  if (owner === "operator") {
    const rows = await queryRows<{ key: string; kind: EntryKind }>(
      db,
      "select key, kind from global_suppressions where key = any($1::text[])",
      [keys],
    );
    const kinds = new Map(rows.map(({ key, kind }) => [key, kind]));
    return new Map(keys.map((key) => [key, { row: kinds.get(key), whitelisted: false, contact: undefined }]));
  }
  const rows = await queryRows<StandingRow>(
    db,
    `select given.key, kept.kind as "row", kept.note as row_note, kept.since as row_since,
       white.email_key is not null as whitelisted, contact.id as contact_id, contact.invalid,
       bounced.detail ->> 'reason' as invalid_reason, bounced.detail ->> 'note' as invalid_note,
       coalesce((bounced.detail ->> 'since')::timestamptz, bounced.at) as invalid_since, contact.unsubscribed_at,
       objected.detail ->> 'reason' as unsubscribed_reason, objected.detail ->> 'note' as unsubscribed_note
     from unnest($2::text[]) as given (key)
     left join lateral (select kind, note, since from suppressions
       where instance_id = $1::bigint and key = given.key offset 0) as kept on true
     left join lateral (select email_key from whitelist
       where instance_id = $1::bigint and email_key = given.key offset 0) as white on true
     left join lateral (select id, invalid, unsubscribed_at from contacts
       where instance_id = $1::bigint and email_key = given.key offset 0) as contact on true
     left join lateral (${newestDetail(`contact.invalid and e.kind = ${EVENT_KINDS.invalidated}`)}) as bounced on true
     left join lateral (${newestDetail(`contact.unsubscribed_at is not null and ${OF_EVERYTHING}`)}) as objected on true`,
    [owner.instanceId, keys],
  );
  return new Map(rows.map((row) => [row.key, toStanding(row)]));
}

function toStanding(found: StandingRow): Standing {
  const { row, whitelisted, contact_id: id } = found;
  if (id === null) return { row: row ?? undefined, whitelisted, contact: undefined };
  const kept = { note: found.row_note ?? "", since: found.row_since };
  const byRow = row === "complaint" ? "complaint" : BROUGHT_IN;
  const ofRow = (...kinds: EntryKind[]) =>
    row !== null && kinds.includes(row) ? { reason: byRow, ...kept } : undefined;
  const invalid = found.invalid
    ? { reason: found.invalid_reason ?? "", note: found.invalid_note ?? "", since: found.invalid_since }
    : ofRow("invalid", "complaint");
  const unsubscribed =
    found.unsubscribed_at === null
      ? ofRow("unsubscribed")
      : {
          reason: found.unsubscribed_reason ?? OWN_UNSUBSCRIPTION,
          note: found.unsubscribed_note ?? "",
          since: found.unsubscribed_at,
        };
  return { row: row === "by-hand" ? row : undefined, whitelisted, contact: { id, invalid, unsubscribed } };
}

/** Those of these unsubscriptions from one campaign, or from everything, that there are: as `<key> <numid>`. */
export async function findCampaignUnsubscriptions(
  db: Db,
  instanceId: number,
  wanted: readonly { readonly key: string; readonly campaignNumid: number }[],
): Promise<ReadonlySet<string>> {
  const rows = await queryRows<{ email_key: string; numid: number }>(
    db,
    `select contact.email_key, given.numid
     from unnest($2::text[], $3::bigint[]) as given (key, numid)
     join contacts as contact on contact.instance_id = $1::bigint and contact.email_key = given.key
     left join campaign_unsubscriptions as unsubscription on unsubscription.instance_id = $1::bigint
       and unsubscription.contact_id = contact.id and unsubscription.campaign_numid = given.numid
     where contact.unsubscribed_at is not null or unsubscription.contact_id is not null`,
    [instanceId, wanted.map(({ key }) => key), wanted.map(({ campaignNumid }) => campaignNumid)],
  );
  return new Set(rows.map(({ email_key, numid }) => `${email_key} ${numid}`));
}
