import { setTimeout as sleep } from "node:timers/promises";
import { type Db, queryRows, type Transaction } from "../../../platform/postgres/db.ts";
import { tellCancelled } from "../tracking/event-feed.ts";
import { announceMail, announceStop } from "./queue.ts";
import { lockPartitions } from "./queue-leases.ts";

/**
 * How a batch is stopped. Who stops it marks it (`held_at`), and tells the workers; each worker sees to it that its
 * lanes begin no further message of it, and says so (`partitions.stopping`). A batch of which no partition is leased,
 * or only stopping ones, is quiet: nothing leaves any more, but for what is on the wire.
 */

/** Stops the taking of a batch's partitions. Resolves once that is stored; see `awaitQuiet` for the rest. */
export async function holdBatch(db: Db, eeid: string): Promise<void> {
  await markHeld(db, eeid);
  await stopHeld(db, eeid);
}

/** Lets a held batch go on. Its messages do not age by the time for which they were held. */
export async function resumeBatch(db: Db, eeid: string): Promise<void> {
  await db.transaction((transaction) => endHold(transaction, eeid));
  await continueBatch(db, eeid);
}

/** The first step of a hold, for the transaction that says why; `stopHeld` follows its commit. */
export async function markHeld(db: Db, eeid: string): Promise<void> {
  await queryRows(db, "update batches set held_at = coalesce(held_at, now()), modified_at = now() where eeid = $1", [
    eeid,
  ]);
}

export async function stopHeld(db: Db, eeid: string): Promise<void> {
  await announceStop(db);
  await inPortions(db, eeid, "state in ('ready', 'deferred')", "state = 'held'");
}

/** The first step of going on, for the transaction that says so; `continueBatch` follows its commit. */
export async function endHold(transaction: Transaction, eeid: string): Promise<void> {
  // As text: a Date would cut off its microseconds.
  const [held] = await queryRows<{ since: string }>(
    transaction,
    "select held_at::text as since from batches where eeid = $1 and held_at is not null for update",
    [eeid],
  );
  if (held === undefined) return;
  await queryRows(
    transaction,
    `with waiting as (
       select id from messages where eeid = $1 order by id for no key update
     )
     update messages m set held_for = m.held_for + (now() - greatest($2::timestamptz, m.created_at))
     from waiting where m.id = waiting.id`,
    [eeid, held.since],
  );
  // As the release of a destination does, so that a pause and a hold add up, and an hour of both counts once.
  await queryRows(
    transaction,
    `with tried as (
       select id from partitions where eeid = $1 and taken_at is not null and state <> 'finished'
       order by id for no key update
     )
     update partitions p set taken_at = p.taken_at + (now() - greatest($2::timestamptz, p.taken_at))
     from tried where p.id = tried.id`,
    [eeid, held.since],
  );
  await queryRows(transaction, "update batches set held_at = null, modified_at = now() where eeid = $1", [eeid]);
}

/** Partitions that somebody changes at this moment are left as they are: see `continueResumed`. */
export async function continueBatch(db: Db, eeid: string): Promise<void> {
  await inPortions(db, eeid, "state = 'held'", "state = case when due_at <= now() then 'ready' else 'deferred' end");
  await announceMail(db);
}

/**
 * Takes back what is queued of a cancelled batch. What a worker still holds is to be taken back when it is done.
 * May be interrupted, and called again, at any time.
 */
export async function withdrawBatch(db: Db, eeid: string): Promise<void> {
  for (let taken = PARTITIONS_AT_ONCE; taken === PARTITIONS_AT_ONCE; ) {
    taken = await db.transaction(async (transaction) => {
      const rows = await queryRows<{ id: number }>(
        transaction,
        "select id from partitions where eeid = $1 and state in ('ready', 'deferred', 'held') order by id limit $2",
        [eeid, PARTITIONS_AT_ONCE],
      );
      const ids = rows.map(({ id }) => id);
      await cancelDeliveries(transaction, ids);
      await lockPartitions(transaction, ids);
      // One that a worker has leased meanwhile is held when it is given back, and withdrawn then.
      await queryRows(
        transaction,
        `update partitions set state = 'finished', modified_at = now()
         where id = any($1) and state in ('ready', 'deferred', 'held')`,
        [ids],
      );
      return ids.length;
    });
  }
}

async function cancelDeliveries(transaction: Transaction, partitionIds: readonly number[]): Promise<void> {
  await queryRows(
    transaction,
    `with locked as (
       select instance_id, id from deliveries where partition_id = any($1) and state = 'queued'
       order by id for no key update
     ), cancelled as (
       update deliveries d set state = 'cancelled', personal = null, finished_at = now()
       from locked where d.instance_id = locked.instance_id and d.id = locked.id returning d.instance_id, d.id
     )
     ${tellCancelled("cancelled")}`,
    [partitionIds],
  );
}

/** Whether no worker begins a further message of a held batch. */
export async function isQuiet(db: Db, eeid: string): Promise<boolean> {
  const rows = await queryRows(
    db,
    "select 1 from partitions where eeid = $1 and state = 'leased' and not stopping and lease_until > now() limit 1",
    [eeid],
  );
  return rows.length === 0;
}

/** @returns false when some worker had not heard of it by then; its lease ends soon after */
export async function awaitQuiet(db: Db, eeid: string, deadlineMs: number): Promise<boolean> {
  const until = performance.now() + deadlineMs;
  while (!(await isQuiet(db, eeid))) {
    if (performance.now() > until) return false;
    await sleep(POLL_MS);
  }
  return true;
}

/** Partitions of a worker that it is to stop: their batch is paused or cancelled, or the destination or the instance is held. */
export async function findStops(db: Db, workerId: string): Promise<number[]> {
  const rows = await queryRows<{ id: number }>(
    db,
    `select p.id from partitions p join batches b using (instance_id, eeid)
     where p.state = 'leased' and p.lease_owner = $1 and not p.stopping
       and (b.held_at is not null or b.cancelled_at is not null
         or exists (select from destination_holds h where h.destination = p.destination)
         or exists (select from instance_guards g where g.instance_id = p.instance_id and g.held_at is not null))`,
    [workerId],
  );
  return rows.map(({ id }) => id);
}

/** A worker's word that it begins no further message of these partitions. */
export async function acknowledgeStops(db: Db, workerId: string, partitionIds: readonly number[]): Promise<void> {
  await queryRows(
    db,
    `with locked as (
       select id from partitions where id = any($1) and state = 'leased' and lease_owner = $2
       order by id for no key update
     )
     update partitions p set stopping = true from locked where p.id = locked.id`,
    [partitionIds, workerId],
  );
}

const POLL_MS = 20;
/** Of one statement: its locks are short, however large the batch. */
const PARTITIONS_AT_ONCE = 2_000;

/** @param which, change SQL of our own making */
async function inPortions(db: Db, eeid: string, which: string, change: string): Promise<void> {
  for (let changed = PARTITIONS_AT_ONCE; changed === PARTITIONS_AT_ONCE; ) {
    const rows = await queryRows(
      db,
      `update partitions set ${change}, modified_at = now() where id in (
         select id from partitions where eeid = $1 and ${which} limit $2 for update skip locked)
       returning 1`,
      [eeid, PARTITIONS_AT_ONCE],
    );
    changed = rows.length;
  }
}
