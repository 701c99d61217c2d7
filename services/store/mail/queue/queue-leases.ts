import type { RecipientDsn } from "../../../core/mail/dsn-parameters.ts";
import { type Db, queryRows, type Transaction } from "../../../platform/postgres/db.ts";
import { byInstance, ownRows } from "../by-instance.ts";
import { beginWork, wakeInstances } from "./mail-work.ts";
import type { PersonalData } from "./queue.ts";
import { moveAges } from "./queue-ages.ts";

/** A share of a message's recipients, all of one domain, that one worker holds until its lease runs out. */
export interface LeasedPartition {
  readonly instanceId: number;
  readonly id: number;
  readonly message: LeasedMessage;
  /** The recipients' domain as A-labels. */
  readonly destination: string;
  /** That it leaves through; '' is the default one. */
  readonly pool: string;
  /** Sources in back-off at the destination when this was leased, with the seconds for which they stay so. */
  readonly resting: ReadonlyMap<string, number>;
  /** When this was leased, by the database's clock. */
  readonly leasedAt: Date;
  /**
   * For how long it had been tried when this was leased, by the same clock: since a worker first took it, without the time for which its
   * batch was paused or its destination held.
   */
  readonly ageMs: number;
}

/** What is known of a message before it is loaded. */
interface LeasedMessage {
  readonly id: number;
  readonly instanceName: string;
  readonly campaignNumid: number;
  readonly archive: boolean;
  /** Of its content with its attachments. */
  readonly contentOctets: number;
  /** Of the call that it was accepted by, if that was traced. */
  readonly traceParent: string | undefined;
  /** Somebody is told what becomes of it. */
  readonly isReportedOn: boolean;
  /** It tells somebody what became of another message. */
  readonly isReport: boolean;
}

/** One recipient that is due. */
export interface DueDelivery {
  readonly id: number;
  readonly partitionId: number;
  readonly contactId: number | null;
  readonly role: "to" | "cc" | "bcc";
  /** Address as it was given. */
  readonly recipient: string;
  readonly personal: PersonalData;
  /** What its sender wants to be told of it, where somebody is told anything. */
  readonly dsn: RecipientDsn;
  /** Completed attempts. */
  readonly attempts: number;
  /** For long enough that its recipient may want no mail any more. */
  readonly hasWaited: boolean;
  /** When the contact last opened or clicked; looked up only while an address of the pool is new. */
  readonly touchedDaysAgo?: number | undefined;
}

/** What is younger goes to those who wanted it just now. */
const WAITED_SECONDS = 5;

/** A partition, with the instance whose it is. */
export interface PartitionKey {
  readonly instanceId: number;
  readonly id: number;
}

/**
 * The recipients of leased partitions that are due, in the order in which they were accepted. A batch that was paused
 * or cancelled while its partitions were being leased has none, nor has an instance that was held: they are given back.
 */
export async function loadDueDeliveries(db: Db, partitions: readonly PartitionKey[]): Promise<DueDelivery[]> {
  const own = await ownRows(db);
  return byInstance(db, partitions, async (keys) => {
    const rows = await queryRows<DeliveryRow>(
      db,
      // Step by step through the primary keys: its plan is kept, and serves however much the tables have grown since.
      `select d.*, b.is_old or d.attempts > 0 as has_waited from unnest($1::bigint[], $2::bigint[]) as given (instance_id, id),
       lateral (
         select p.eeid from partitions p
         where ${own("p")} and p.id = given.id offset 0
       ) p,
       lateral (
         select b.eeid, b.created_at < now() - interval '${WAITED_SECONDS} seconds' as is_old from batches b
         where ${own("b")} and b.eeid = p.eeid
           and b.held_at is null and b.cancelled_at is null offset 0
       ) b,
       lateral (
         select d.id, d.partition_id, d.contact_id, d.role, d.recipient, d.personal, d.dsn, d.attempts from deliveries d
         where ${own("d")} and d.partition_id = given.id
           and d.state = 'queued' and d.due_at <= now() and not exists (
             select from instance_guards g
             where ${own("g")} and g.instance_id = given.instance_id and g.held_at is not null) offset 0
       ) d order by d.id`,
      [keys.map(({ instanceId }) => instanceId), keys.map(({ id }) => id)],
      { name: "load-due-deliveries" },
    );
    return rows.map((row) => ({
      id: row.id,
      partitionId: row.partition_id,
      contactId: row.contact_id,
      role: row.role,
      recipient: row.recipient,
      personal: row.personal ?? {},
      dsn: row.dsn ?? {},
      attempts: row.attempts,
      hasWaited: row.has_waited,
    }));
  });
}

interface DeliveryRow {
  id: number;
  partition_id: number;
  contact_id: number | null;
  role: DueDelivery["role"];
  recipient: string;
  personal: PersonalData | null;
  dsn: RecipientDsn | null;
  attempts: number;
  has_waited: boolean;
}

/**
 * Prolongs a worker's leases of the partitions that it knows it has: one that it took and never came to know of, as the
 * connection was lost over it, has to go to others.
 * @returns those that it still holds
 */
export async function extendLeases(
  db: Db,
  workerId: string,
  leaseSeconds: number,
  partitions: readonly PartitionKey[],
): Promise<number[]> {
  const own = await ownRows(db);
  return byInstance(db, partitions, async (keys, instanceIds) => {
    const rows = await queryRows<{ id: number }>(
      db,
      `with locked as (
         select p.instance_id, p.id from partitions p
         where ${own("p")} and p.id = any($2::bigint[]) and p.state = 'leased' and p.lease_owner = $3
           and p.lease_until > now()
         order by p.id for no key update
       )
       update partitions p set lease_until = now() + make_interval(secs => $4) from locked
       where ${own("p")} and p.id = locked.id
       returning p.id`,
      [instanceIds, keys.map(({ id }) => id), workerId, leaseSeconds],
    );
    return rows.map(({ id }) => id);
  });
}

/**
 * Locks partitions in the order of their ids, in which everything locks them that changes several and does not skip
 * those that are locked. A transaction that changes them by several statements locks all of them first, and after the
 * deliveries that it changes.
 */
export async function lockPartitions(transaction: Transaction, partitions: readonly PartitionKey[]): Promise<void> {
  const own = await ownRows(transaction);
  await byInstance(transaction, partitions, (keys, instanceIds) =>
    queryRows(
      transaction,
      `select from partitions p where ${own("p")} and p.id = any($2::bigint[]) order by p.id for no key update`,
      [instanceIds, keys.map(({ id }) => id)],
    ),
  );
}

/** A partition that a worker has done with for now. */
export interface PartitionRelease {
  readonly instanceId: number;
  readonly partitionId: number;
  /** Leave it alone for so long, although it has recipients that are due; 0 unless a limit was reached. */
  readonly putOffSeconds: number;
  /** What it is put off for, where that is leave to send. */
  readonly pacedBy?: PacedBy | undefined;
}

/** The leave to send that a partition waits for. */
export interface PacedBy {
  readonly provider: string;
  /** Of ours, from any of which it may go. */
  readonly sources: readonly string[];
  /** By a plan of ours: the time until then does not bring the message nearer to being given up. */
  readonly isPlanned: boolean;
}

/**
 * Gives partitions back: finished when no recipient is left; held while the batch is paused, or until what a cancelled
 * one still has queued is withdrawn; else until the first recipient is due again, and their instances are looked at then.
 * To be called after their outcomes are stored, in the same transaction, and with the partitions locked.
 * @param now the transaction's moment, of `beginWork`
 */
export async function releasePartitions(
  transaction: Transaction,
  workerId: string,
  releases: readonly PartitionRelease[],
  now: string,
): Promise<void> {
  const own = await ownRows(transaction);
  const untilOf = ({ putOffSeconds }: PartitionRelease) =>
    putOffSeconds > 0 ? new Date(Date.parse(now) + putOffSeconds * 1000).toISOString() : null;
  const rows = await byInstance(transaction, releases, (given) =>
    // An owner is one of a leased partition only; to ask for the state as well would bring in the index of the leases,
    // which holds what was leased before and is not vacuumed yet.
    queryRows<ReleasedRow>(
      transaction,
      // Step by step through keys; by `limit 1` the planner expects one row of each, and so updates by keys as well.
      `with rest as materialized (
         select given.*, b.is_stopped,
           case when d.first_at is not null then greatest(d.first_at, given.put_off_until) end as due_at
         from unnest($1::bigint[], $3::bigint[], $4::timestamptz[], $5::jsonb[])
           as given (instance_id, id, put_off_until, paced_by),
         lateral (
           select p.eeid from partitions p where ${own("p")} and p.id = given.id limit 1
         ) p,
         lateral (
           select b.held_at is not null or b.cancelled_at is not null as is_stopped from batches b
           where ${own("b")} and b.eeid = p.eeid limit 1
         ) b,
         lateral (
           select min(d.due_at) as first_at from deliveries d
           where ${own("d")} and d.partition_id = given.id and d.state = 'queued' offset 0
         ) d
       )
       update partitions p
       set state = case when rest.due_at is null then 'finished' when rest.is_stopped then 'held'
                        when rest.due_at <= $6::timestamptz then 'ready' else 'deferred' end,
           due_at = coalesce(rest.due_at, p.due_at), paced_by = rest.paced_by, lease_owner = null, lease_until = null,
           lost_leases = case when rest.put_off_until is null then 0 else p.lost_leases end, stopping = false, modified_at = now()
       from rest where ${own("p", "$3")} and p.id = rest.id and p.lease_owner = $2
       returning p.instance_id, p.state, p.due_at`,
      [
        given.map(({ instanceId }) => instanceId),
        workerId,
        given.map(({ partitionId }) => partitionId),
        given.map(untilOf),
        given.map(({ pacedBy }) => (pacedBy === undefined ? null : JSON.stringify(pacedBy))),
        now,
      ],
    ),
  );
  await ageNoFurther(
    transaction,
    releases.filter(({ pacedBy }) => pacedBy?.isPlanned),
  );
  await wakeInstances(
    transaction,
    rows
      .filter(({ state }) => state === "ready" || state === "deferred")
      .map(({ instance_id, due_at }) => ({ instanceId: instance_id, at: due_at })),
  );
}

interface ReleasedRow {
  instance_id: number;
  state: string;
  due_at: Date;
}

/** What a plan has wait until it is due is no older then. */
async function ageNoFurther(transaction: Transaction, planned: readonly PartitionRelease[]): Promise<void> {
  for (const instanceId of new Set(planned.map((release) => release.instanceId))) {
    const ids = planned.flatMap((release) => (release.instanceId === instanceId ? [release.partitionId] : []));
    const by = "greatest(due_at, now()) - now()";
    await moveAges(transaction, instanceId, { which: "id = any($2::bigint[]) and state <> 'finished'", by }, [ids]);
  }
}

/** Has what waits for leave look for it at once. @param pacedBy what it waits for; of the sources one is enough */
export async function wakePaced(db: Db, pacedBy: Partial<PacedBy>): Promise<void> {
  const waiting = await queryRows<{ instance_id: number }>(
    db,
    `select distinct instance_id from partitions where state = 'deferred' and due_at > now() and paced_by @> $1::jsonb
     order by instance_id`,
    [JSON.stringify(pacedBy)],
  );
  for (const { instance_id: instanceId } of waiting) {
    await db.transaction(async (transaction) => {
      await beginWork(transaction, [instanceId]);
      const planned = { which: `${WAITS_FOR_LEAVE} and (paced_by->>'isPlanned')::boolean`, by: "now() - due_at" };
      await moveAges(transaction, instanceId, planned, [JSON.stringify(pacedBy)]);
      await queryRows(
        transaction,
        `with waiting as (select id from partitions where ${WAITS_FOR_LEAVE} order by id for no key update)
         update partitions p set due_at = now() from waiting where p.instance_id = $1 and p.id = waiting.id`,
        [instanceId, JSON.stringify(pacedBy)],
      );
      await wakeInstances(transaction, [{ instanceId }]);
    });
  }
}

const WAITS_FOR_LEAVE = "instance_id = $1 and state = 'deferred' and due_at > now() and paced_by @> $2::jsonb";

/** What a worker held that let its leases run out: it died, or was cut off. */
export interface AbandonedLeases {
  readonly workerId: string;
  readonly partitions: number;
  /** In them, without a last outcome; the worker may have sent to a few and not have come to store it. */
  readonly recipients: number;
}

/** Of a leased partition `p` whose lease is over: the worker before died over it as well. */
const IS_LOST_AGAIN = "p.lease_owner is not null and p.lost_leases > 0";

/**
 * It rests for 5 s, then for 10, in the end for an hour; up to twice as long by its id, so that those come apart that were
 * lost together, and only the one that workers die of is lost again.
 */
const REST_SECONDS = "least(3600, 5 * 2 ^ (p.lost_leases - 1)) * (1 + p.id % 97 / 97.0)";

/**
 * Makes ready what has become due of instances, and what a worker that is gone still held; at most `limit` partitions of
 * an instance and kind. What several workers were lost over, one after another, may be what they died of: it rests before
 * the next one takes it, so that it does not keep the queue from moving.
 * @returns of which instances there was something, and the latter by worker
 */
export async function wakePartitions(
  db: Db,
  instanceIds: readonly number[],
  limit: number,
): Promise<{ readonly woken: readonly number[]; readonly abandoned: readonly AbandonedLeases[] }> {
  const own = await ownRows(db);
  const rows = await byInstance(
    db,
    instanceIds.map((instanceId) => ({ instanceId })),
    (_, ids) =>
      queryRows<{ woken: number[] | null; abandoned: AbandonedLeases[] | null }>(
        db,
        `with due as (
           select p.* from unnest($1::bigint[]) as given (instance_id), lateral (
             select p.id from partitions p
             where ${own("p")} and p.instance_id = given.instance_id and p.state = 'deferred' and p.due_at <= now()
             order by p.due_at limit $2 for update skip locked
           ) p
         ), abandoned as (
           select given.instance_id, p.* from unnest($1::bigint[]) as given (instance_id), lateral (
             select p.id, p.lease_owner from partitions p
             where ${own("p")} and p.instance_id = given.instance_id and p.state = 'leased' and p.lease_until <= now()
             order by p.lease_until limit $2 for update skip locked
           ) p
         ), woken as (
           update partitions p
           set state = case when ${IS_LOST_AGAIN} then 'deferred' else 'ready' end,
               due_at = case when ${IS_LOST_AGAIN} then to_timestamp(clock.seconds + ${REST_SECONDS}) else p.due_at end,
               lost_leases = p.lost_leases + (p.lease_owner is not null)::integer,
               lease_owner = null, lease_until = null, modified_at = now()
           from (select extract(epoch from now())::float8 as seconds) as clock
           where ${own("p")} and p.id = any(array(select id from due union all select id from abandoned))
           returning p.instance_id
         ), held as (
           select lease_owner as "workerId", count(*)::int as partitions, sum(queued)::int as recipients
           from abandoned cross join lateral (
             select count(*) as queued from deliveries d
             where ${own("d")} and d.partition_id = abandoned.id and d.state = 'queued' offset 0
           ) deliveries group by lease_owner
         )
         select (select json_agg(distinct instance_id) from woken) as woken,
                (select json_agg(held) from held) as abandoned`,
        [ids, limit],
      ),
  );
  return {
    woken: rows.flatMap(({ woken }) => woken ?? []),
    abandoned: rows.flatMap(({ abandoned }) => abandoned ?? []),
  };
}
