import { type Db, queryRows, type Transaction } from "../../../platform/postgres/db.ts";

/**
 * Which instances have mail that somebody is to look at, and from when on. A row says too early a moment at most, never
 * one that is too late: who makes mail due holds the instance's lock, shared, until its commit, and who puts a look off
 * holds it alone. So nobody puts off what is being queued at that moment and cannot be seen yet.
 */

/** An idle instance is looked at so often: a database that failed in the midst of a commit may have told nobody of mail. */
const MOST_IDLE_SECONDS = 3_600;

/** What a look at the queue begins with. */
export interface WorkToDo {
  /** Instances that are to be looked at now, in the order of their ids. */
  readonly instanceIds: readonly number[];
  /** By the database's clock, as text: a Date would cut off its microseconds. */
  readonly now: string;
  /** Destinations that an operator holds. */
  readonly held: readonly string[];
}

/** Instances of one look, and destinations that are held. */
const MOST_INSTANCES = 10_000;

export async function listWork(db: Db): Promise<WorkToDo> {
  const [row] = await queryRows<{ ids: number[] | null; now: string; held: string[] | null }>(
    db,
    `select (select json_agg(instance_id order by instance_id) from (
               select instance_id from mail_work where next_at <= now() order by next_at limit ${MOST_INSTANCES}) due) as ids,
            now()::text as now, (select json_agg(destination) from destination_holds) as held`,
    [],
    { name: "list-mail-work" },
  );
  return { instanceIds: row!.ids ?? [], now: row!.now, held: row!.held ?? [] };
}

/** Instances that have, or had, mail in their queues. */
export async function listQueues(db: Db): Promise<number[]> {
  const rows = await queryRows<{ instance_id: number }>(db, "select instance_id from mail_work order by instance_id");
  return rows.map(({ instance_id }) => instance_id);
}

/** A transaction that is about to change the queue of an instance. @returns its moment, as text */
export async function beginWork(transaction: Transaction, instanceIds: readonly number[]): Promise<string> {
  const [row] = await queryRows<{ now: string }>(
    transaction,
    `select now()::text as now, count(${lockShared("id")}) from unnest($1::bigint[]) as instance (id)`,
    [instanceIds.toSorted((one, other) => one - other)],
    { name: "begin-mail-work" },
  );
  return row!.now;
}

/** The part of a statement that locks an instance's work until the transaction ends. @param instanceId SQL */
export function lockShared(instanceId: string): string {
  return `pg_advisory_xact_lock_shared(${keyOf(instanceId)})`;
}

function keyOf(instanceId: string): string {
  return `hashtextextended('mail work', ${instanceId})`;
}

/**
 * Has instances be looked at from a moment on, unless they are earlier anyway: then nothing is written. For the end of a
 * transaction that locked their work by a statement before: its lock of the row comes after those of deliveries and partitions.
 * @param at as text; at once unless given
 */
export async function wakeInstances(
  transaction: Transaction,
  instanceIds: readonly number[],
  at: string | null = null,
): Promise<void> {
  await queryRows(
    transaction,
    `insert into mail_work as w (instance_id, next_at)
     select given.id, given.at from (select id, coalesce($2::timestamptz, now()) as at from unnest($1::bigint[]) as id) given
     where not exists (select from mail_work known where known.instance_id = given.id and known.next_at <= given.at offset 0)
     order by given.id
     on conflict (instance_id) do update set next_at = excluded.next_at where w.next_at > excluded.next_at`,
    [instanceIds, at],
    { name: "wake-instances" },
  );
}

/** Locks and wakes instances at the end of a transaction. */
export async function haveLookedAt(transaction: Transaction, instanceIds: readonly number[]): Promise<void> {
  if (instanceIds.length === 0) return;
  await beginWork(transaction, instanceIds);
  await wakeInstances(transaction, instanceIds);
}

/**
 * Puts the next look at an instance off until something of it is due, where nothing is due now and nobody is about to
 * queue something.
 * @returns false where it is to be looked at now
 */
export async function putOffWork(db: Db, instanceId: number): Promise<boolean> {
  return db.transaction(async (transaction) => {
    const [lock] = await queryRows<{ got: boolean }>(
      transaction,
      `select pg_try_advisory_xact_lock(${keyOf("$1")}) as got`,
      [instanceId],
      { name: "lock-mail-work" },
    );
    if (!lock!.got) return false;
    // A statement of its own: it sees what was committed before the lock was to be had.
    const [next] = await queryRows<{ at: string | null; isReady: boolean; isThere: boolean }>(
      transaction,
      `select least((select min(due_at) from partitions where instance_id = $1 and state = 'deferred'),
                    (select min(lease_until) from partitions where instance_id = $1 and state = 'leased'))::text as at,
              exists (select from partitions where instance_id = $1 and state = 'ready') as "isReady",
              exists (select from instances where id = $1) as "isThere"`,
      [instanceId],
      { name: "find-next-mail-work" },
    );
    if (next!.isReady) return false;
    if (!next!.isThere) {
      await queryRows(transaction, "delete from mail_work where instance_id = $1", [instanceId]);
      return true;
    }
    const [put] = await queryRows<{ is_due: boolean }>(
      transaction,
      `update mail_work set next_at = least($2::timestamptz, now() + interval '${MOST_IDLE_SECONDS} seconds')
       where instance_id = $1 returning next_at <= now() as is_due`,
      [instanceId, next!.at],
      { name: "put-off-mail-work" },
    );
    return put?.is_due !== true;
  });
}
