import type { AttemptPath } from "../../../core/mail/delivery-attempt.ts";
import { type Db, queryRows, StatementValues, type Transaction } from "../../../platform/postgres/db.ts";
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

const PATH_COLUMNS = ["exchanger", "address", "source", "tls", "cipher", "certificate", "policy"] as const;
const RESULT_COLUMNS = ["outcome", "stage", "code", "status", "reason", "words"] as const;

/** @returns the ids of an instance's ways, in the order given; those that are new are stored. */
export async function findPathIds(db: Db, instanceId: number, paths: readonly AttemptPath[]): Promise<number[]> {
  return findIds(db, { table: "attempt_paths", columns: PATH_COLUMNS }, instanceId, paths);
}

/** As {@link findPathIds}, of results. */
export async function findResultIds(
  db: Db,
  instanceId: number,
  results: readonly AttemptResultRow[],
): Promise<number[]> {
  return findIds(db, { table: "attempt_results", columns: RESULT_COLUMNS }, instanceId, results);
}

/** Things are told apart by columns. */
interface Kind<Column extends string> {
  readonly table: string;
  readonly columns: readonly Column[];
}

/**
 * Everybody stores things in one order, so that nobody waits for somebody who waits for them. They are written out: rows of
 * `unnest` a Citus brings to its coordinator first, and stores in two phases.
 */
async function findIds<Column extends string>(
  db: Db,
  { table, columns }: Kind<Column>,
  instanceId: number,
  things: readonly Readonly<Record<Column, string | number>>[],
): Promise<number[]> {
  const keys = things.map((thing) => columns.map((column) => thing[column]));
  const keyed = new Map(keys.map((key) => [JSON.stringify(key), key]));
  const values = new StatementValues();
  const written = values.addRows([...keyed.keys()].sort().map((key) => [instanceId, ...keyed.get(key)!]));
  const names = columns.join(", ");
  const rows = await queryRows<Readonly<Record<Column, string | number>> & { readonly id: number }>(
    db,
    `insert into ${table} (instance_id, ${names}) values ${written}
     on conflict (instance_id, ${names}) do update set seen_at = excluded.seen_at returning id, ${names}`,
    values.all,
  );
  // A statement that put them into order itself would be sent to any machine of a Citus, one that is away as well.
  const ids = new Map(rows.map((row) => [JSON.stringify(columns.map((column) => row[column])), row.id]));
  return keys.map((key) => ids.get(JSON.stringify(key))!);
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
