import { type Db, queryRows } from "../../platform/postgres/db.ts";
import { refuseAway } from "./machines.ts";

/** By what all handles to one pool share: whether Citus is there. */
const known = new WeakMap<object, boolean>();

/**
 * Whether the tables may be spread over machines by instance (deploy/citus.sql): whether the database has Citus. It is asked
 * once for each pool.
 */
export async function isSpread(db: Db): Promise<boolean> {
  const { config } = db.client;
  let spread = known.get(config);
  if (spread === undefined) {
    const [row] = await queryRows<{ spread: boolean }>(
      db,
      "select to_regclass('pg_dist_partition') is not null as spread",
    );
    spread = row!.spread;
    known.set(config, spread);
  }
  return spread;
}

/** Whether tables of ours lie on several machines by now: Citus is there before its script has run. */
export async function hasSpreadTables(db: Db): Promise<boolean> {
  if (!(await isSpread(db))) return false;
  const ours = db("pg_dist_partition")
    .join("pg_class", "oid", "logicalrelid")
    .whereRaw("relnamespace = current_schema()::regnamespace");
  return (await ours.first("relname")) !== undefined;
}

/**
 * The condition on a table in a statement about the instances of `$1`: a machine of several is found by it. One that has all
 * tables looks by keys alone, as such a condition has the planner read all that an instance has.
 * @param ids the parameter that has the ids of the table's rows, where the statement joins them
 */
export type Own = (table: string, ids?: string) => string;

/**
 * What `Own` says where tables are spread: a statement is about one instance there, the first that it is given. Of a list
 * the planner expects as many instances as it is long, and reads a table from its beginning.
 */
export function ofInstances(table: string, ids?: string): string {
  const isOf = `${table}.instance_id = ($1::bigint[])[1]`;
  return ids === undefined ? isOf : `${isOf} and ${table}.id = any(${ids}::bigint[])`;
}

export async function ownRows(db: Db): Promise<Own> {
  return (await isSpread(db)) ? ofInstances : () => "$1::bigint[] is not null";
}

/**
 * What a statement or a transaction may be about: all where one machine has all tables, one instance's each where every
 * instance may be on another machine, in ascending order of the instances.
 */
export async function byPlace<Row extends { readonly instanceId: number }>(
  db: Db,
  rows: readonly Row[],
): Promise<(readonly Row[])[]> {
  if (rows.length === 0) return [];
  if (!(await isSpread(db))) return [rows];
  const instanceIds = [...new Set(rows.map(({ instanceId }) => instanceId))].sort((a, b) => a - b);
  return instanceIds.map((one) => rows.filter(({ instanceId }) => instanceId === one));
}

/**
 * Runs a statement about rows of several instances: once where one machine has them all, an instance at a time where each
 * may be on another, as a machine runs such a statement only for what it has itself. The statement says of each table
 * `instance_id = any(…)` with the instances of the rows that it is given, or is `Own`.
 * @returns what it gives, of instances in ascending order
 * @throws MachineAway before the first of an instance whose machine does not answer
 */
export async function byInstance<Row extends { readonly instanceId: number }, Result>(
  db: Db,
  rows: readonly Row[],
  run: (rows: readonly Row[], instanceIds: readonly number[]) => Promise<readonly Result[]>,
): Promise<Result[]> {
  const results: Result[] = [];
  for (const own of await byPlace(db, rows)) {
    const instanceIds = [...new Set(own.map(({ instanceId }) => instanceId))].sort((a, b) => a - b);
    refuseAway(db, instanceIds);
    results.push(...(await run(own, instanceIds)));
  }
  return results;
}
