import { type Db, queryRows } from "../../../platform/postgres/db.ts";
import type { IdRange } from "./candidates.ts";

/** Messages whose terms are all of these, newest first; undefined when there are more than `most`. */
export async function findMessagesByTerms(
  db: Db,
  instanceId: number,
  terms: readonly string[],
  most: number,
): Promise<number[] | undefined> {
  // Of a word that very many have, the index gives no more than about so many: enough to know that it is common.
  const rows = await db.transaction(async (snapshot) => {
    await queryRows(snapshot, "select set_config('gin_fuzzy_search_limit', $1, true)", [String(4 * most)]);
    return queryRows<{ id: number }>(
      snapshot,
      "select id from messages where terms @> $1::bigint[] and instance_id = $2 limit $3",
      [terms, instanceId, most + 1],
    );
  });
  if (rows.length > most) return undefined;
  return rows.map(({ id }) => id);
}

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

/** The contact of an address; null where there is none. */
export async function findContactId(db: Db, instanceId: number, emailKey: string): Promise<number | null> {
  const rows = await queryRows<{ id: number }>(
    db,
    "select id from contacts where instance_id = $1 and email_key = $2",
    [instanceId, emailKey],
  );
  return rows[0]?.id ?? null;
}

/**
 * The ids that deliveries of a period may have: it begins a little early, as transactions take their time, and ends a day
 * late, as a campaign's recipients are queued after its message was accepted.
 */
export async function findIdRange(db: Db, instanceId: number, period: { from?: Date; until?: Date }): Promise<IdRange> {
  const { from, until } = period;
  const earliest = from && (await firstIdFrom(db, instanceId, new Date(from.getTime() - MARGIN_BEFORE_MS)));
  const latest = until && (await firstIdFrom(db, instanceId, new Date(until.getTime() + MARGIN_BEHIND_MS)));
  const none = Number.MAX_SAFE_INTEGER;
  return { from: from === undefined ? 0 : (earliest ?? none), until: latest ?? none };
}

const MARGIN_BEFORE_MS = 60_000;
const MARGIN_BEHIND_MS = 86_400_000;

/** The first delivery of the first message that was accepted at a moment or later and has one. */
async function firstIdFrom(db: Db, instanceId: number, moment: Date): Promise<number | undefined> {
  const rows = await queryRows<{ id: number }>(
    db,
    `select d.id from (
       select id, created_at from messages where instance_id = $1 and created_at >= $2 order by created_at limit 20
     ) m
       join lateral (select id from partitions where instance_id = $1 and message_id = m.id order by id limit 1) p on true
       join lateral (select id from deliveries where instance_id = $1 and partition_id = p.id order by id limit 1) d on true
     order by d.id limit 1`,
    [instanceId, moment],
  );
  return rows[0]?.id;
}
