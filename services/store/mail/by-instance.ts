import { type Db, queryRows } from "../../platform/postgres/db.ts";

/** By what all handles to one pool share: whether its tables are spread over several machines. */
const known = new WeakMap<object, boolean>();

/** Whether the tables are spread over machines by instance (deploy/citus.sql). It is asked once for each pool. */
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

/**
 * Runs a statement about rows of several instances: once where one machine has them all, an instance at a time where each
 * may be on another, as a machine runs such a statement only for what it has itself. The statement says of each table
 * `instance_id = any(…)` with the instances of the rows that it is given.
 * @returns what it gives, of instances in ascending order
 */
export async function byInstance<Row extends { readonly instanceId: number }, Result>(
  db: Db,
  rows: readonly Row[],
  run: (rows: readonly Row[], instanceIds: readonly number[]) => Promise<readonly Result[]>,
): Promise<Result[]> {
  const instanceIds = [...new Set(rows.map(({ instanceId }) => instanceId))].sort((a, b) => a - b);
  if (instanceIds.length === 0) return [];
  if (instanceIds.length === 1 || !(await isSpread(db))) return [...(await run(rows, instanceIds))];
  const results: Result[] = [];
  for (const one of instanceIds) {
    const own = rows.filter(({ instanceId }) => instanceId === one);
    results.push(...(await run(own, [one])));
  }
  return results;
}
