import { setTimeout as sleep } from "node:timers/promises";
import { type Db, queryRows, type Transaction } from "../../../platform/postgres/db.ts";
import { byInstance, ownRows } from "../by-instance.ts";
import { findPlaces, giveUpPlaces } from "../guard/waiting-recipients.ts";
import { tellCancelled } from "../tracking/event-feed.ts";
import { haveLookedAt } from "./mail-work.ts";
import { announceMail, announceStop } from "./queue.ts";
import { moveAges } from "./queue-ages.ts";
import { lockPartitions, type PartitionKey } from "./queue-leases.ts";

/**
 * How a batch is stopped. Who stops it marks it (`held_at`), and tells the workers; each worker sees to it that its
 * lanes begin no further message of it, and says so (`partitions.stopping`). A batch of which no partition is leased,
 * or only stopping ones, is quiet: nothing leaves any more, but for what is on the wire. It may be held for several
 * reasons at once, and goes on when the last of them ends.
 */

/** A batch, with the instance whose it is. */
export interface BatchKey {
  readonly instanceId: number;
  readonly eeid: string;
}

/**
 * The first step of a hold, for the transaction that says why; `stopHeld` follows its commit. A batch that is held already
 * is locked as well: whoever ends another reason sees this one.
 */
export async function markHeld(db: Db, { instanceId, eeid }: BatchKey): Promise<void> {
  await queryRows(
    db,
    `update batches set held_at = coalesce(held_at, clock.at), modified_at = clock.at from (select now() as at) as clock
     where instance_id = $1 and eeid = $2`,
    [instanceId, eeid],
  );
}

export async function stopHeld(db: Db, batch: BatchKey): Promise<void> {
  await announceStop(db);
  await inPortions(db, batch, "state in ('ready', 'deferred')", "held");
}

/** What was queued of a message, in the transaction that holds its batch: no worker takes it before it is let go. */
export async function holdQueued(transaction: Transaction, instanceId: number, messageId: number): Promise<void> {
  await queryRows(
    transaction,
    `update partitions set state = 'held' where instance_id = $1 and message_id = $2 and state in ('ready', 'deferred')`,
    [instanceId, messageId],
  );
}

/** Locks a batch. Who changes why it is held does so before. */
export async function lockBatch(transaction: Transaction, { instanceId, eeid }: BatchKey): Promise<void> {
  await queryRows(transaction, "select from batches where instance_id = $1 and eeid = $2 for update", [
    instanceId,
    eeid,
  ]);
}

/**
 * The first step of going on, for the transaction that has ended a reason; `continueBatch` follows its commit. Its messages
 * do not age by the time for which they were held.
 * @returns false where it is held for another reason still
 */
export async function endHold(transaction: Transaction, batch: BatchKey): Promise<boolean> {
  const { instanceId, eeid } = batch;
  // As text: a Date would cut off its microseconds.
  const [held] = await queryRows<{ since: string }>(
    transaction,
    `select held_at::text as since from batches
     where instance_id = $1 and eeid = $2 and held_at is not null for update`,
    [instanceId, eeid],
  );
  if (held === undefined) return true;
  if (await hasReason(transaction, batch)) return false;
  const messages = await queryRows<{ id: number; held_for: string }>(
    transaction,
    `select id, (held_for + (now() - greatest($3::timestamptz, created_at)))::text as held_for from messages
     where instance_id = $1 and eeid = $2 order by id for no key update`,
    [instanceId, eeid, held.since],
  );
  await queryRows(
    transaction,
    `update messages m set held_for = given.held_for from unnest($2::bigint[], $3::interval[]) as given (id, held_for)
     where m.instance_id = $1 and m.id = given.id`,
    [instanceId, messages.map(({ id }) => id), messages.map(({ held_for }) => held_for)],
  );
  // As the release of a destination does, so that a pause and a hold add up, and an hour of both counts once.
  const by = "now() - greatest($3::timestamptz, taken_at)";
  await moveAges(transaction, instanceId, { which: "eeid = $2 and state <> 'finished'", by }, [eeid, held.since]);
  await queryRows(
    transaction,
    "update batches set held_at = null, modified_at = now() where instance_id = $1 and eeid = $2",
    [instanceId, eeid],
  );
  return true;
}

/** Whether a campaign holds a batch, or what is in it does. */
async function hasReason(transaction: Transaction, { instanceId, eeid }: BatchKey): Promise<boolean> {
  const rows = await queryRows(
    transaction,
    `select 1 from campaign_sends
     where instance_id = $1 and eeid = $2 and (paused_at is not null or state = 'cancelling')
     union all
     select 1 from content_verdicts where instance_id = $1 and eeid = $2 and action = 'hold' and settled_at is null`,
    [instanceId, eeid],
  );
  return rows.length > 0;
}

/** Partitions that somebody changes at this moment are left as they are: see `settleHeld`. */
export async function continueBatch(db: Db, batch: BatchKey): Promise<void> {
  // What is due is made ready by whoever looks at it next.
  await inPortions(db, batch, "state = 'held' and due_at <= now()", "ready");
  await inPortions(db, batch, "state = 'held'", "deferred");
  await announceMail(db, [batch.instanceId]);
}

/**
 * Takes back what is queued of a cancelled batch. What a worker still holds is to be taken back when it is done.
 * May be interrupted, and called again, at any time.
 */
export async function withdrawBatch(db: Db, { instanceId, eeid }: BatchKey): Promise<void> {
  for (let taken = PARTITIONS_AT_ONCE; taken === PARTITIONS_AT_ONCE; ) {
    taken = await db.transaction(async (transaction) => {
      const rows = await queryRows<{ id: number }>(
        transaction,
        `select id from partitions where instance_id = $1 and eeid = $2 and state in ('ready', 'deferred', 'held')
         order by id limit $3`,
        [instanceId, eeid, PARTITIONS_AT_ONCE],
      );
      const ids = rows.map(({ id }) => id);
      const cancelled = await cancelDeliveries(transaction, instanceId, ids);
      await lockPartitions(
        transaction,
        ids.map((id) => ({ instanceId, id })),
      );
      const waited = ids.flatMap((id) => Array.from({ length: cancelled.get(id) ?? 0 }, () => id));
      const places = await findPlaces(transaction, instanceId, waited);
      // One that a worker has leased meanwhile is held when it is given back, and withdrawn then.
      await queryRows(
        transaction,
        `update partitions p set cancelled = p.cancelled + given.cancelled, modified_at = now(),
           state = case when p.state in ('ready', 'deferred', 'held') then 'finished' else p.state end
         from unnest($2::bigint[], $3::integer[]) as given (id, cancelled) where p.instance_id = $1 and p.id = given.id`,
        [instanceId, ids, ids.map((id) => cancelled.get(id) ?? 0)],
      );
      await giveUpPlaces(transaction, instanceId, places);
      return ids.length;
    });
  }
}

/** @returns how many were queued still, by partition */
async function cancelDeliveries(
  transaction: Transaction,
  instanceId: number,
  partitionIds: readonly number[],
): Promise<ReadonlyMap<number, number>> {
  const rows = await queryRows<{ id: number; cancelled: number }>(
    transaction,
    `with locked as (
       select id from deliveries where instance_id = $1 and partition_id = any($2::bigint[]) and state = 'queued'
       order by id for no key update
     ), cancelled as (
       update deliveries d set state = 'cancelled', personal = null, finished_at = now()
       from locked where d.instance_id = $1 and d.id = locked.id returning d.instance_id, d.id, d.partition_id
     ), told as (${tellCancelled("cancelled")})
     select partition_id as id, count(*)::int as cancelled from cancelled group by 1`,
    [instanceId, partitionIds],
  );
  return new Map(rows.map(({ id, cancelled }) => [id, cancelled]));
}

/** Whether no worker begins a further message of a held batch. */
export async function isQuiet(db: Db, { instanceId, eeid }: BatchKey): Promise<boolean> {
  const rows = await queryRows(
    db,
    `select 1 from partitions where instance_id = $1 and eeid = $2 and state = 'leased' and not stopping
       and lease_until > now() limit 1`,
    [instanceId, eeid],
  );
  return rows.length === 0;
}

/** @returns false when some worker had not heard of it by then; its lease ends soon after */
export async function awaitQuiet(db: Db, batch: BatchKey, deadlineMs: number): Promise<boolean> {
  const until = performance.now() + deadlineMs;
  while (!(await isQuiet(db, batch))) {
    if (performance.now() > until) return false;
    await sleep(POLL_MS);
  }
  return true;
}

/**
 * Partitions of instances that a worker is to stop: their batch is paused or cancelled, or the destination or the instance is
 * held.
 * @param held destinations
 */
export async function findStops(
  db: Db,
  workerId: string,
  instanceIds: readonly number[],
  held: readonly string[],
): Promise<PartitionKey[]> {
  const own = await ownRows(db);
  return byInstance(
    db,
    instanceIds.map((instanceId) => ({ instanceId })),
    (_, ids) =>
      queryRows<PartitionKey>(
        db,
        `select p.instance_id as "instanceId", p.id from unnest($1::bigint[]) as given (instance_id), lateral (
           select p.instance_id, p.id, p.eeid, p.destination from partitions p
           where ${own("p")} and p.instance_id = given.instance_id and p.state = 'leased' and p.lease_owner = $2
             and not p.stopping offset 0
         ) p, lateral (
           select b.held_at, b.cancelled_at from batches b
           where ${own("b")} and b.eeid = p.eeid offset 0
         ) b
         where b.held_at is not null or b.cancelled_at is not null or p.destination = any($3::text[])
           or exists (select from instance_guards g
                      where ${own("g")} and g.instance_id = p.instance_id and g.held_at is not null)`,
        [ids, workerId, held],
        { name: "find-stops" },
      ),
  );
}

/** A worker's word that it begins no further message of these partitions. */
export async function acknowledgeStops(db: Db, workerId: string, partitions: readonly PartitionKey[]): Promise<void> {
  const own = await ownRows(db);
  await byInstance(db, partitions, (keys, instanceIds) =>
    queryRows(
      db,
      `with locked as (
         select p.instance_id, p.id from partitions p
         where ${own("p")} and p.id = any($2::bigint[]) and p.state = 'leased' and p.lease_owner = $3
         order by p.id for no key update
       )
       update partitions p set stopping = true from locked
       where ${own("p")} and p.id = locked.id`,
      [instanceIds, keys.map(({ id }) => id), workerId],
    ),
  );
}

const POLL_MS = 20;
/** Of one statement: its locks are short, however large the batch. */
const PARTITIONS_AT_ONCE = 2_000;

/** @param which, state SQL of our own making */
async function inPortions(db: Db, { instanceId, eeid }: BatchKey, which: string, state: string): Promise<void> {
  for (let changed = PARTITIONS_AT_ONCE; changed === PARTITIONS_AT_ONCE; ) {
    changed = await db.transaction(async (transaction) => {
      const rows = await queryRows(
        transaction,
        `update partitions set state = '${state}', modified_at = now() where instance_id = $1 and id in (
           select id from partitions where instance_id = $1 and eeid = $2 and ${which} limit $3 for update skip locked)
         returning 1`,
        [instanceId, eeid, PARTITIONS_AT_ONCE],
      );
      if (rows.length > 0 && state !== "held") await haveLookedAt(transaction, [instanceId]);
      return rows.length;
    });
  }
}
