import { type Db, queryRows } from "../../../platform/postgres/db.ts";
import { ownRows } from "../by-instance.ts";
import type { IdRange } from "./candidates.ts";

/** Messages whose terms are all of these, newest first; undefined when there are more than `most`. */
export async function findMessagesByTerms(
  db: Db,
  instanceId: number,
  terms: readonly string[],
  most: number,
): Promise<number[] | undefined> {
  const rare = await withoutCommon(db, terms);
  if (rare.length === 0) return undefined;
  const own = await ownRows(db);
  const rows = await db.transaction(async (snapshot) => {
    // Of what is common nevertheless the index gives no more than about so many: enough to know that it is.
    await queryRows(snapshot, "select set_config('gin_fuzzy_search_limit', $1, true)", [String(4 * most)]);
    return queryRows<{ id: number }>(
      snapshot,
      // Apart from the instance, which is part of the terms: where one machine has all, another index would be taken for it.
      `select id from (select id, instance_id from messages where ${own("messages")} and terms @> $2::bigint[] offset 0) found
       where instance_id = $3 limit $4`,
      [[instanceId], rare, instanceId, most + 1],
    );
  });
  if (rows.length > most) return undefined;
  return rows.map(({ id }) => id);
}

/** The terms without those of which PostgreSQL's statistics know that many messages have them: to list these takes long. */
async function withoutCommon(db: Db, terms: readonly string[]): Promise<string[]> {
  const rows = await queryRows<{ term: string }>(
    db,
    `select term::text from unnest($1::bigint[]) as given (term) where not exists (
       select 1 from pg_stats s cross join lateral
         unnest(s.most_common_elems::text::bigint[], s.most_common_elem_freqs) as common (term, frequency)
       where s.schemaname = current_schema() and s.tablename = 'messages' and s.attname = 'terms'
         and common.term = given.term
         and common.frequency * (select reltuples from pg_class where oid = 'messages'::regclass) > $2)`,
    [terms, COMMON_MESSAGES],
  );
  return rows.map(({ term }) => term);
}

const COMMON_MESSAGES = 20_000;

/** Results of an instance's attempts in whose words all of these are; undefined when there are more than `most`. */
export async function findResultsByWords(
  db: Db,
  instanceId: number,
  words: string,
  most: number,
): Promise<number[] | undefined> {
  const rows = await queryRows<{ id: number }>(
    db,
    `select id from attempt_results
     where to_tsvector('simple', words) @@ plainto_tsquery('simple', $1) and instance_id = $2 limit $3`,
    [words, instanceId, most + 1],
  );
  return rows.length > most ? undefined : rows.map(({ id }) => id);
}

/** Results that stand for a reason. */
export async function findResultsByReason(
  db: Db,
  instanceId: number,
  reason: string,
  most: number,
): Promise<number[] | undefined> {
  const rows = await queryRows<{ id: number }>(
    db,
    "select id from attempt_results where instance_id = $1 and reason = $2 limit $3",
    [instanceId, reason, most + 1],
  );
  return rows.length > most ? undefined : rows.map(({ id }) => id);
}

/** Ways from an address of ours. */
export async function findPathsFrom(
  db: Db,
  instanceId: number,
  source: string,
  most: number,
): Promise<number[] | undefined> {
  const rows = await queryRows<{ id: number }>(
    db,
    "select id from attempt_paths where instance_id = $1 and source = $2 limit $3",
    [instanceId, source, most + 1],
  );
  return rows.length > most ? undefined : rows.map(({ id }) => id);
}

/** The deliveries, and the messages, of a batch's id. */
export async function findMessagesOfBatch(db: Db, instanceId: number, eeid: string): Promise<number[]> {
  const rows = await queryRows<{ id: number }>(
    db,
    "select id from messages where instance_id = $1 and eeid = $2 order by id desc",
    [instanceId, eeid],
  );
  return rows.map(({ id }) => id);
}

/**
 * The ids that deliveries of a period may have. It is a little wide, as transactions take their time; and a campaign's
 * recipients are queued after its message was accepted.
 */
export async function findIdRange(db: Db, instanceId: number, period: { from?: Date; until?: Date }): Promise<IdRange> {
  const { from, until } = period;
  const none = Number.MAX_SAFE_INTEGER;
  const first = from && (await firstIdFrom(db, instanceId, new Date(from.getTime() - MARGIN_MS)));
  const next = until && (await firstIdFrom(db, instanceId, new Date(until.getTime() + MARGIN_MS)));
  if (until === undefined || next === undefined) return { from: from === undefined ? 0 : (first ?? none), until: none };
  const last = await lastIdOfCampaigns(db, instanceId, { from: from ?? new Date(0), until });
  return { from: from === undefined ? 0 : (first ?? none), until: Math.max(next, last + 1) };
}

const MARGIN_MS = 60_000;

/** The first delivery of the first messages that were accepted at a moment or later. */
async function firstIdFrom(db: Db, instanceId: number, moment: Date): Promise<number | undefined> {
  const rows = await queryRows<{ id: number | null }>(
    db,
    `select min(d.id) as id from (
       select id from messages where instance_id = $1 and created_at >= $2 order by created_at limit 20
     ) m
       cross join lateral (
         select min(id) as id from (select id from partitions where message_id = m.id and instance_id = $1 offset 0) own
       ) p
       cross join lateral (select id from deliveries where partition_id = p.id and instance_id = $1 offset 0) d`,
    [instanceId, moment],
  );
  return rows[0]?.id ?? undefined;
}

/** The last delivery of the campaigns whose messages were accepted in a period; 0 where there is none. */
async function lastIdOfCampaigns(
  db: Db,
  instanceId: number,
  { from, until }: { readonly from: Date; readonly until: Date },
): Promise<number> {
  const rows = await queryRows<{ id: number | null }>(
    db,
    `select max(d.id) as id from campaign_sends s
       cross join lateral (select id, created_at from messages where eeid = s.eeid and instance_id = $1 offset 0) m
       cross join lateral (
         select max(id) as id from (select id from partitions where message_id = m.id and instance_id = $1 offset 0) own
       ) p
       cross join lateral (select id from deliveries where partition_id = p.id and instance_id = $1 offset 0) d
     where s.instance_id = $1 and m.created_at >= $2 and m.created_at < $3`,
    [instanceId, from, until],
  );
  return rows[0]?.id ?? 0;
}
