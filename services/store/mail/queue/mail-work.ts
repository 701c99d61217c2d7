import { type Db, queryRows, type Transaction } from "../../../platform/postgres/db.ts";
import { byInstance, ownRows } from "../by-instance.ts";
import { isAway, refuseAway } from "../machines.ts";

/**
 * Which instances have mail that somebody is to look at, and from when on. A row says too early a moment at most, never
 * one that is too late: who makes mail due holds the instance's lock, shared, until its commit, and who puts a look off
 * holds it alone. So nobody puts off what is being queued at that moment and cannot be seen yet.
 */

/** An idle instance is looked at so often: a database that failed in the midst of a commit may have told nobody of mail. */
const MOST_IDLE_SECONDS = 3_600;

/** What a look at the queue begins with. */
interface WorkToDo {
  /** Instances that are to be looked at now and whose machines are there, in the order of their ids. */
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
  const instanceIds = (row!.ids ?? []).filter((id) => !isAway(db, id));
  return { instanceIds, now: row!.now, held: row!.held ?? [] };
}

/** Instances that have, or had, mail in their queues. */
export async function listQueues(db: Db): Promise<number[]> {
  const rows = await queryRows<{ instance_id: number }>(db, "select instance_id from mail_work order by instance_id");
  return rows.map(({ instance_id }) => instance_id);
}

/** A transaction that is about to change the queue of an instance. @returns its moment, as text @throws MachineAway */
export async function beginWork(transaction: Transaction, instanceIds: readonly number[]): Promise<string> {
  refuseAway(transaction, instanceIds);
  const [row] = await queryRows<{ now: string; count: number }>(
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

/** An instance that is to be looked at. */
interface Look {
  readonly instanceId: number;
  /** From then on; at once unless given. */
  readonly at?: Date;
}

/**
 * Has instances be looked at from a moment on, unless they are earlier anyway: then nothing is written. For the end of a
 * transaction that locked their work by a statement before: its lock of the row comes after those of deliveries and partitions.
 * @param looks the first of an instance counts
 */
export async function wakeInstances(transaction: Transaction, looks: readonly Look[]): Promise<void> {
  if (looks.length === 0) return;
  await queryRows(
    transaction,
    `insert into mail_work as w (instance_id, next_at)
     select given.id, given.at from (
       select id, min(coalesce(at, now())) as at from unnest($1::bigint[], $2::timestamptz[]) as look (id, at) group by id
     ) given
     where not exists (select from mail_work known where known.instance_id = given.id and known.next_at <= given.at offset 0)
     order by given.id
     on conflict (instance_id) do update set next_at = excluded.next_at where w.next_at > excluded.next_at`,
    [looks.map(({ instanceId }) => instanceId), looks.map(({ at }) => at?.toISOString() ?? null)],
    { name: "wake-instances" },
  );
}

/** Locks and wakes instances at the end of a transaction. */
export async function haveLookedAt(transaction: Transaction, instanceIds: readonly number[]): Promise<void> {
  if (instanceIds.length === 0) return;
  await beginWork(transaction, instanceIds);
  await wakeInstances(
    transaction,
    instanceIds.map((instanceId) => ({ instanceId })),
  );
}

/**
 * Puts the next look at instances off until something of them is due, where nothing is due now and nobody is about to
 * queue something.
 * @returns those that are to be looked at now
 */
export async function putOffWork(db: Db, instanceIds: readonly number[]): Promise<number[]> {
  const own = await ownRows(db);
  return db.transaction(async (transaction) => {
    const locks = await queryRows<{ id: number; got: boolean }>(
      transaction,
      `select id, pg_try_advisory_xact_lock(${keyOf("id")}) as got from unnest($1::bigint[]) as instance (id)`,
      [instanceIds],
      { name: "lock-mail-work" },
    );
    const locked = locks.flatMap(({ id, got }) => (got ? [{ instanceId: id }] : []));
    // A statement of its own: it sees what was committed before the lock was to be had.
    const next = await byInstance(transaction, locked, (_, ids) =>
      queryRows<NextRow>(
        transaction,
        `select given.id,
           least((select min(p.due_at) from partitions p
                  where ${own("p")} and p.instance_id = given.id and p.state = 'deferred'),
                 (select min(p.lease_until) from partitions p
                  where ${own("p")} and p.instance_id = given.id and p.state = 'leased'))::text as at,
           exists (select from partitions p
                   where ${own("p")} and p.instance_id = given.id and p.state = 'ready') as "isReady",
           exists (select from instances where id = given.id) as "isThere"
         from unnest($1::bigint[]) as given (id)`,
        [ids],
        { name: "find-next-mail-work" },
      ),
    );
    const idle = next.filter(({ isReady }) => !isReady);
    const gone = idle.flatMap(({ id, isThere }) => (isThere ? [] : [id]));
    if (gone.length > 0) await transaction("mail_work").whereIn("instance_id", gone).delete();
    const put = await queryRows<{ id: number; is_due: boolean }>(
      transaction,
      `update mail_work w set next_at = least(given.at, now() + interval '${MOST_IDLE_SECONDS} seconds')
       from unnest($1::bigint[], $2::timestamptz[]) as given (id, at) where w.instance_id = given.id
       returning w.instance_id as id, w.next_at <= now() as is_due`,
      [idle.map(({ id }) => id), idle.map(({ at }) => at)],
      { name: "put-off-mail-work" },
    );
    const isOff = new Set(idle.map(({ id }) => id));
    for (const { id, is_due } of put) if (is_due) isOff.delete(id);
    return instanceIds.filter((id) => !isOff.has(id));
  });
}

interface NextRow {
  id: number;
  at: string | null;
  isReady: boolean;
  isThere: boolean;
}
