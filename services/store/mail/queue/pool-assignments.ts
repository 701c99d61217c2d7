import { type CampaignPool, poolFor } from "../../../core/mail/pools.ts";
import { type Db, queryRows, type Transaction } from "../../../platform/postgres/db.ts";
import { byInstance, ownRows } from "../by-instance.ts";
import { listQueues } from "./mail-work.ts";
import { lockPartitions, type PartitionKey } from "./queue-leases.ts";

/** A row of config/delivery.json's `poolOf`. */
export interface PoolAssignment extends CampaignPool {
  /** Its name. */
  readonly instance: string;
}

/** Of one statement: its locks are short, however much is queued. */
const PARTITIONS_AT_ONCE = 2_000;

/**
 * Stores which mail leaves through which pool, for what is queued from now on; where that changes, what is queued already
 * follows. May be interrupted, and called again, at any time.
 */
export async function assignPools(db: Db, assignments: readonly PoolAssignment[]): Promise<void> {
  if (!(await hasChanged(db, assignments))) return;
  await relabelQueue(db, assignments);
  await db.transaction(async (transaction) => {
    await transaction.raw("lock table pool_assignments in share row exclusive mode");
    await transaction("pool_assignments").delete();
    await queryRows(
      transaction,
      `insert into pool_assignments (position, instance, campaign_numid, pool)
       select * from unnest($1::integer[], $2::text[], $3::bigint[], $4::text[])`,
      [
        assignments.map((_, position) => position),
        assignments.map(({ instance }) => instance),
        assignments.map(({ campaignNumid }) => campaignNumid),
        assignments.map(({ pool }) => pool),
      ],
    );
  });
  await relabelQueue(db, assignments); // what was accepted meanwhile, by the old rows
}

/** Has partitions leave through another pool. A worker that finds one with a wrong pool says so by this as well. */
export async function movePartitions(db: Db, moves: readonly (PartitionKey & { pool: string })[]): Promise<void> {
  if (moves.length === 0) return;
  const own = await ownRows(db);
  await db.transaction(async (transaction) => {
    await lockPartitions(transaction, moves);
    await byInstance(transaction, moves, (moved) =>
      queryRows(
        transaction,
        `update partitions p set pool = moved.pool
         from unnest($1::bigint[], $2::bigint[], $3::text[]) as moved (instance_id, id, pool)
         where ${own("p", "$2")} and p.id = moved.id and p.pool <> moved.pool`,
        [moved.map(({ instanceId }) => instanceId), moved.map(({ id }) => id), moved.map(({ pool }) => pool)],
      ),
    );
  });
}

async function hasChanged(db: Db | Transaction, assignments: readonly PoolAssignment[]): Promise<boolean> {
  const stored = await queryRows<PoolAssignment>(
    db,
    `select instance, campaign_numid as "campaignNumid", pool from pool_assignments order by position`,
  );
  const inOrder = assignments.map(({ instance, campaignNumid, pool }) => ({ instance, campaignNumid, pool }));
  return JSON.stringify(stored) !== JSON.stringify(inOrder);
}

async function relabelQueue(db: Db, assignments: readonly PoolAssignment[]): Promise<void> {
  for (const instanceId of await listQueues(db)) await relabel(db, instanceId, assignments);
}

async function relabel(db: Db, instanceId: number, assignments: readonly PoolAssignment[]): Promise<void> {
  for (let last = 0; ; ) {
    const rows = await queryRows<{ id: number; pool: string; instance: string; campaignNumid: number }>(
      db,
      `select p.id, p.pool, i.name as instance, m.campaign_numid as "campaignNumid"
       from (select id, instance_id, message_id, pool from partitions
             where instance_id = $1 and id > $2 and state in ('ready', 'leased', 'deferred', 'held') order by id limit $3) p
       join messages m on m.instance_id = p.instance_id and m.id = p.message_id
       join instances i on i.id = p.instance_id order by p.id`,
      [instanceId, last, PARTITIONS_AT_ONCE],
    );
    const moves = rows.flatMap((row) => {
      const own = assignments.filter(({ instance }) => instance === row.instance);
      const pool = poolFor(own, row.campaignNumid);
      return pool === row.pool ? [] : [{ instanceId, id: row.id, pool }];
    });
    await movePartitions(db, moves);
    if (rows.length < PARTITIONS_AT_ONCE) return;
    last = rows.at(-1)!.id;
  }
}
