import type { AttemptPath } from "../../../core/mail/delivery-attempt.ts";
import { type Db, queryRows, type Transaction } from "../../../platform/postgres/db.ts";
import { byInstance, isSpread } from "../by-instance.ts";

/** How an attempt ended, in words that hold for many. */
export interface AttemptResultRow {
  readonly outcome: "delivered" | "deferred" | "bounced";
  readonly stage: string;
  readonly code: number;
  readonly status: string;
  readonly reason: string;
  readonly words: string;
}

/** An attempt about to be stored. */
export interface NewAttempt {
  readonly instanceId: number;
  readonly deliveryId: number;
  readonly at: Date;
  readonly pathId: number | null;
  readonly resultId: number;
  readonly attempt: number;
  readonly durationMs: number;
  /** Null: the words of the result, to the letter. */
  readonly reply: string | null;
}

/** @returns the ids of an instance's ways, in the order given; those that are new are stored. No two may be equal. */
export async function findPathIds(db: Db, instanceId: number, paths: readonly AttemptPath[]): Promise<number[]> {
  const rows = await queryRows<AttemptPath & { readonly id: number }>(
    db,
    `insert into attempt_paths (instance_id, exchanger, address, source, tls, cipher, certificate, policy)
     select $1, exchanger, address, source, tls, cipher, certificate, policy
     from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[])
       as given (exchanger, address, source, tls, cipher, certificate, policy)
     order by exchanger, address, source, tls, cipher, certificate, policy
     on conflict (instance_id, exchanger, address, source, tls, cipher, certificate, policy) do update set seen_at = excluded.seen_at
     returning id, exchanger, address, source, tls, cipher, certificate, policy`,
    [
      instanceId,
      paths.map(({ exchanger }) => exchanger),
      paths.map(({ address }) => address),
      paths.map(({ source }) => source),
      paths.map(({ tls }) => tls),
      paths.map(({ cipher }) => cipher),
      paths.map(({ certificate }) => certificate),
      paths.map(({ policy }) => policy),
    ],
  );
  return inOrder(paths, rows, (path) => [
    path.exchanger,
    path.address,
    path.source,
    path.tls,
    path.cipher,
    path.certificate,
    path.policy,
  ]);
}

/** As {@link findPathIds}, of results. */
export async function findResultIds(
  db: Db,
  instanceId: number,
  results: readonly AttemptResultRow[],
): Promise<number[]> {
  const rows = await queryRows<AttemptResultRow & { readonly id: number }>(
    db,
    `insert into attempt_results (instance_id, outcome, stage, code, status, reason, words)
     select $1, outcome, stage, code, status, reason, words
     from unnest($2::text[], $3::text[], $4::smallint[], $5::text[], $6::text[], $7::text[])
       as given (outcome, stage, code, status, reason, words)
     order by outcome, stage, code, status, reason, words
     on conflict (instance_id, outcome, stage, code, status, reason, words) do update set seen_at = excluded.seen_at
     returning id, outcome, stage, code, status, reason, words`,
    [
      instanceId,
      results.map(({ outcome }) => outcome),
      results.map(({ stage }) => stage),
      results.map(({ code }) => code),
      results.map(({ status }) => status),
      results.map(({ reason }) => reason),
      results.map(({ words }) => words),
    ],
  );
  return inOrder(results, rows, (result) => [
    result.outcome,
    result.stage,
    result.code,
    result.status,
    result.reason,
    result.words,
  ]);
}

/** A statement that put them into order itself would be sent to any machine of a Citus, one that is away as well. */
function inOrder<T>(
  things: readonly T[],
  rows: readonly (T & { readonly id: number })[],
  keyOf: (thing: T) => unknown[],
) {
  const key = (thing: T) => JSON.stringify(keyOf(thing));
  const ids = new Map(rows.map((row) => [key(row), row.id]));
  return things.map((thing) => ids.get(key(thing))!);
}

/**
 * Stores attempts, whose weeks there are; one that is there already, to the millisecond, stays as it is. Citus copies rows that are
 * given to where they belong, and commits that in two phases; what is read of a table of theirs it inserts where it is.
 */
export async function storeAttempts(transaction: Transaction, attempts: readonly NewAttempt[]): Promise<void> {
  const [own, known] = (await isSpread(transaction)) ? ["r", OF_KNOWN_RESULTS] : ["given", ""];
  await byInstance(transaction, attempts, (stored) =>
    queryRows(
      transaction,
      `insert into delivery_attempts (instance_id, at, delivery_id, path_id, result_id, attempt, duration_ms, reply)
       select ${own}.instance_id, given.at, given.delivery_id, given.path_id, given.result_id, given.attempt,
         given.duration_ms, given.reply
       from unnest($1::bigint[], $2::timestamptz[], $3::bigint[], $4::bigint[], $5::bigint[], $6::integer[],
         $7::integer[], $8::text[]) as given (instance_id, at, delivery_id, path_id, result_id, attempt, duration_ms, reply)
       ${known} on conflict do nothing`,
      [
        stored.map(({ instanceId }) => instanceId),
        stored.map(({ at }) => at.toISOString()),
        stored.map(({ deliveryId }) => deliveryId),
        stored.map(({ pathId }) => pathId),
        stored.map(({ resultId }) => resultId),
        stored.map(({ attempt }) => attempt),
        stored.map(({ durationMs }) => durationMs),
        stored.map(({ reply }) => reply),
      ],
      { name: "store-attempts" },
    ),
  );
}

const OF_KNOWN_RESULTS = `join attempt_results r
  on r.instance_id = any($1::bigint[]) and r.instance_id = given.instance_id and r.id = given.result_id`;

/** Forgets the attempts of deliveries that are removed. */
export async function removeAttempts(
  transaction: Transaction,
  instanceId: number,
  deliveryIds: readonly number[],
): Promise<void> {
  await queryRows(
    transaction,
    "delete from delivery_attempts where instance_id = $2 and delivery_id = any($1::bigint[])",
    [deliveryIds, instanceId],
  );
}
