import { type Db, queryRows, type Transaction } from "../../../platform/postgres/db.ts";
import { onPresent } from "../machines.ts";
import { beginWork, wakeInstances } from "./mail-work.ts";
import { announceMail, announceStop } from "./queue.ts";
import { moveAges } from "./queue-ages.ts";
import { endBackOffs } from "./queue-backoffs.ts";
import { lockPartitions } from "./queue-leases.ts";

/** What is queued for one destination, on all of the deployment. */
interface DestinationQueue {
  /** Domain as A-labels. */
  readonly destination: string;
  /** Recipients that have no last outcome yet. */
  readonly waiting: number;
  /** Those that could be tried now. */
  readonly due: number;
  /** By an operator. */
  readonly held: boolean;
  /** Acceptance of the oldest message; null when nothing waits. */
  readonly oldest: Date | null;
  /** Why it is left alone, or the far side's last words. */
  readonly lastError: string | null;
}

/** The queues of destinations, and what they come to together. */
interface DestinationQueues {
  readonly queues: readonly DestinationQueue[];
  /** Recipients, of all destinations. */
  readonly waiting: number;
  /** Destinations. */
  readonly held: number;
}

/** Destinations with something queued, those with the most first, up to a limit; and all that are held. */
export async function listDestinationQueues(db: Db, limit: number): Promise<DestinationQueues> {
  const queues = new Map((await readQueues(db)).map((queue) => [queue.destination, queue]));
  const held = new Set(await listHeldDestinations(db));
  const listed = [...new Set([...queues.keys(), ...held])]
    .map((destination) => ({ destination, waiting: queues.get(destination)?.waiting ?? 0 }))
    .sort((one, other) => other.waiting - one.waiting || (one.destination < other.destination ? -1 : 1))
    .filter(({ destination }, place) => place < limit || held.has(destination));
  const backOffs = await queryRows<{ destination: string; reason: string }>(
    db,
    `select distinct on (destination) destination, reason from destination_backoffs
     where destination = any($1::text[]) and reason <> ''
     order by destination, until desc`,
    [listed.map(({ destination }) => destination)],
  );
  const reasons = new Map(backOffs.map(({ destination, reason }) => [destination, reason]));
  return {
    queues: listed.map(({ destination, waiting }) => {
      const { due = 0, oldest = null, reply = null } = queues.get(destination) ?? {};
      const lastError = reasons.get(destination) ?? reply;
      return { destination, waiting, due, held: held.has(destination), oldest, lastError };
    }),
    waiting: [...queues.values()].reduce((sum, { waiting }) => sum + waiting, 0),
    held: held.size,
  };
}

interface QueuedFor {
  destination: string;
  waiting: number;
  due: number;
  oldest: Date;
  reply: string | null;
}

/** All that is queued, by destination; not of instances whose machines do not answer. */
function readQueues(db: Db): Promise<QueuedFor[]> {
  return queryRows<QueuedFor>(
    db,
    `select p.destination, coalesce(sum(case when p.taken_at is null then p.recipients else d.queued end), 0)::int as waiting,
       coalesce(sum(case when p.state not in ('ready', 'leased') then 0 when p.taken_at is null then p.recipients else d.due end), 0)::int as due,
       min(m.created_at) as oldest, max(d.reply) as reply
     from partitions p join messages m on m.instance_id = p.instance_id and m.id = p.message_id
     left join (
       select q.instance_id, q.partition_id, count(*) as queued, count(*) filter (where q.due_at <= now()) as due,
         max(q.reply) as reply
       from deliveries q join partitions tried on tried.instance_id = q.instance_id and tried.id = q.partition_id
       where ${onPresent(db, "q.instance_id")} and ${onPresent(db, "tried.instance_id")}
         and q.state = 'queued' and tried.taken_at is not null and tried.state in ('ready', 'leased', 'deferred', 'held')
       group by q.instance_id, q.partition_id
     ) d on d.instance_id = p.instance_id and d.partition_id = p.id
     where ${onPresent(db, "p.instance_id")} and ${onPresent(db, "m.instance_id")}
       and p.state in ('ready', 'leased', 'deferred', 'held')
     group by p.destination`,
  );
}

export async function listHeldDestinations(db: Db): Promise<string[]> {
  return db("destination_holds").pluck("destination");
}

/** No worker turns to the destination until it is released; lanes that are at it finish their message and stop. */
export async function holdDestination(db: Db, destination: string, login: string): Promise<void> {
  await db("destination_holds").insert({ destination, login }).onConflict("destination").ignore();
  await announceStop(db);
}

/**
 * Ends a hold. What had been tried before it does not age by it; what had not, ages from its first attempt anyway.
 * @returns false when it was not held
 */
export async function releaseDestination(db: Db, destination: string): Promise<boolean> {
  const released = await db.transaction(async (transaction) => {
    const [hold] = await queryRows<{ since: string }>(
      transaction,
      "delete from destination_holds where destination = $1 returning held_at::text as since",
      [destination],
    );
    if (hold === undefined) return false;
    for (const instanceId of await listInstancesOf(transaction, destination)) {
      const by = "now() - greatest($3::timestamptz, taken_at)";
      await moveAges(transaction, instanceId, { which: UNFINISHED_OF, by }, [destination, hold.since]);
    }
    return true;
  });
  if (released) await announceMail(db);
  return released;
}

/**
 * Makes everything that is put off for a destination due now.
 * @returns how many recipients
 */
export async function retryDestination(db: Db, destination: string): Promise<number> {
  const woken = await db.transaction(async (transaction) => {
    await endBackOffs(transaction, destination);
    let recipients = 0;
    for (const instanceId of await listInstancesOf(transaction, destination)) {
      recipients += await retryOf(transaction, instanceId, destination);
    }
    return recipients;
  });
  await announceMail(db);
  return woken;
}

/** What waits for a window of the instance's limits was never tried. */
async function retryOf(transaction: Transaction, instanceId: number, destination: string): Promise<number> {
  await beginWork(transaction, [instanceId]);
  const partitions = await queryRows<{ id: number }>(
    transaction,
    `select id from partitions
     where instance_id = $1 and state = 'deferred' and destination = $2 and taken_at is not null`,
    [instanceId, destination],
  );
  const ids = partitions.map(({ id }) => id);
  const woken = await queryRows(
    transaction,
    `with chosen as (
       select id from deliveries
       where instance_id = $1 and partition_id = any($2::bigint[]) and state = 'queued' and due_at > now()
       order by id for no key update
     )
     update deliveries d set due_at = now() from chosen where d.instance_id = $1 and d.id = chosen.id returning 1`,
    [instanceId, ids],
  );
  await lockPartitions(
    transaction,
    ids.map((id) => ({ instanceId, id })),
  );
  await queryRows(
    transaction,
    `update partitions set state = 'ready', due_at = now(), modified_at = now()
     where instance_id = $1 and id = any($2::bigint[]) and state = 'deferred'`,
    [instanceId, ids],
  );
  await wakeInstances(transaction, [{ instanceId }]);
  return woken.length;
}

const UNFINISHED_OF = "destination = $2 and state in ('ready', 'leased', 'deferred', 'held')";

/** Instances that have something unfinished for a destination. */
async function listInstancesOf(db: Db, destination: string): Promise<number[]> {
  const rows = await queryRows<{ instance_id: number }>(
    db,
    `select distinct instance_id from partitions
     where destination = $1 and state in ('ready', 'leased', 'deferred', 'held') order by instance_id`,
    [destination],
  );
  return rows.map(({ instance_id }) => instance_id);
}
