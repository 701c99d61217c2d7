import { type Db, queryRows } from "../platform/postgres/db.ts";
import { listHeldInstances } from "./mail/guard/holds.ts";
import { onPresent } from "./mail/machines.ts";
import { listLongestWaits } from "./mail/pace/source-paces.ts";
import { listHeldDestinations } from "./mail/queue/queue-destinations.ts";

/** Zones by whether they are answered for. */
export interface ZoneStatus {
  readonly published: number;
  readonly suspended: number;
}

/** Signed zones. */
export interface SigningStatus {
  readonly zones: number;
  /** How long ago the one that has waited longest for its upkeep was due, in seconds; 0 where none is. */
  readonly overdueSeconds: number;
}

/** Mail that is still to be delivered. */
export interface QueueStatus {
  /** Recipients that still have to be delivered. */
  readonly recipients: number;
  /**
   * Unfinished partitions by state; each of {@link PARTITION_STATES} is there. What is ready of an instance or for a destination
   * that is held is `held`, as what is of a batch that is.
   */
  readonly partitions: Readonly<Record<string, number>>;
  /** Age of the oldest message with recipients left, in seconds. What is refused for now grows old without fault of ours. */
  readonly oldestSeconds: number;
  /** For how long the partition that waits longest could have been taken by a worker, in seconds; nobody takes what is held. */
  readonly readySeconds: number;
  /** Destinations that are left alone for now. */
  readonly backoffs: number;
  /** Sources with a limit at a provider that was learnt or pinned. */
  readonly pacesLimited: number;
  /** Sources from which nothing is sent to a provider now, as it wants less. */
  readonly pacesWaiting: number;
  /** Of `pacesWaiting` those that wait longest, with the seconds until something is sent again. */
  readonly longestPaceWaits: readonly {
    readonly source: string;
    readonly provider: string;
    readonly seconds: number;
  }[];
  /** Plans of new sources at a provider that paused by themselves, as deferrals or complaints rose. */
  readonly warmUpsPaused: number;
  /** Sources that are new and send by a plan. */
  readonly warmUps: number;
  /** Messages that the plans of `warmUps` have for today, over all providers. */
  readonly warmUpPlanned: number;
  /** Messages of `warmUpPlanned` that were sent. */
  readonly warmUpSent: number;
}

/** What came of mail lately. */
export interface OutcomeStatus {
  /** Of so many minutes. */
  readonly minutes: number;
  /** Recipients who were delivered to, refused for good or given up. */
  readonly settled: number;
  /** Recipients who were tried and are to be tried again; no more than {@link MOST_PUT_OFF} are counted. */
  readonly putOff: number;
}

/** What came back and is not applied, and where it could not be fetched. */
export interface InboundStatus {
  readonly waiting: number;
  readonly quarantined: number;
  /** Mailboxes whose last poll went wrong. */
  readonly mailboxes: readonly { readonly name: string; readonly problem: string }[];
}

/** What an operator must know of the deployment's work, as the database has it. */
export interface DeploymentStatus {
  readonly zones: ZoneStatus;
  readonly signing: SigningStatus;
  readonly queue: QueueStatus;
  readonly outcomes: OutcomeStatus;
  readonly inbound: InboundStatus;
  /** Instances of which nothing leaves. */
  readonly held: readonly { readonly name: string; readonly reason: string }[];
}

/** Deferred mail can be millions of recipients; that many tell enough. */
const MOST_PUT_OFF = 10_000;
/** Whether mail gets through is told by so many minutes. */
export const OUTCOME_MINUTES = 30;

export async function readStatus(db: Db): Promise<DeploymentStatus> {
  const [zones, signing, queue, outcomes, inbound, held] = await Promise.all([
    readZoneStatus(db),
    readSigningStatus(db),
    readQueueStatus(db),
    readOutcomeStatus(db, OUTCOME_MINUTES),
    readInboundStatus(db),
    readHeldStatus(db),
  ]);
  return { zones, signing, queue, outcomes, inbound, held };
}

export async function readHeldStatus(db: Db): Promise<DeploymentStatus["held"]> {
  const held = await listHeldInstances(db);
  return held.map(({ name, reason }) => ({ name, reason: reason.message }));
}

export async function readZoneStatus(db: Db): Promise<ZoneStatus> {
  const rows = await queryRows<{ suspended: boolean; count: number }>(
    db,
    "select suspended or company_suspended as suspended, count(*)::int from zones group by 1",
  );
  const count = (suspended: boolean) => rows.find((row) => row.suspended === suspended)?.count ?? 0;
  return { published: count(false), suspended: count(true) };
}

export async function readSigningStatus(db: Db): Promise<SigningStatus> {
  const [row] = await queryRows<SigningStatus>(
    db,
    `select count(*)::int as zones, greatest(coalesce(extract(epoch from now() - min(due_at)), 0), 0)::int as "overdueSeconds"
       from zone_signing`,
  );
  return row!;
}

/** Waits are named up to so many. */
const MOST_WAITS = 10;
/** The states of a partition that is not finished. */
const PARTITION_STATES = ["ready", "leased", "deferred", "held"] as const;

export async function readQueueStatus(db: Db): Promise<QueueStatus> {
  // Read before: no machine of a Citus joins them to the queue.
  const holds = await readHolds(db);
  const [partitions, recipients, ready, backoffs, paces, waits, warmUps] = await Promise.all([
    queryRows<{ state: string; count: number }>(
      db,
      `select case when state = 'ready' and (instance_id = any($1::bigint[]) or destination = any($2::text[])) then 'held'
              else state end as state, count(*)::int
         from partitions where state <> 'finished' and ${onPresent(db)} group by 1`,
      holds,
    ),
    queryRows<{ count: number; oldest: number }>(
      db,
      `select coalesce(sum(waiting), 0)::int as count, coalesce(extract(epoch from now() - min(created_at)), 0)::int as oldest
       from (select messages.created_at, count(*) as waiting from partitions
             join deliveries on deliveries.instance_id = partitions.instance_id and deliveries.partition_id = partitions.id
               and deliveries.state = 'queued'
             join messages on messages.instance_id = partitions.instance_id and messages.id = partitions.message_id
             where partitions.state <> 'finished' and ${onPresent(db, "partitions.instance_id")} group by messages.id, messages.created_at) as unfinished`,
    ),
    queryRows<{ seconds: number }>(
      db,
      `select coalesce(extract(epoch from now() - min(greatest(due_at, modified_at))), 0)::int as seconds
         from partitions where state = 'ready' and ${onPresent(db)}
          and destination not in (select destination from destination_backoffs where until > now())
          and instance_id <> all($1::bigint[]) and destination <> all($2::text[])`,
      holds,
    ),
    queryRows<{ count: number }>(
      db,
      "select count(distinct destination)::int as count from destination_backoffs where until > now()",
    ),
    queryRows<{ limited: number; waiting: number }>(
      db,
      `select count(*) filter (where pinned_by is not null or memory->>'ratePerHour' is not null
           or memory->>'connections' is not null or memory->>'messagesPerConnection' is not null)::int as limited,
         count(*) filter (where (memory->>'waitsUntilMs')::float8 > extract(epoch from now()) * 1000)::int as waiting
       from source_paces`,
    ),
    listLongestWaits(db, MOST_WAITS),
    readWarmUpStatus(db),
  ]);
  return {
    recipients: recipients[0]!.count,
    partitions: {
      ...Object.fromEntries(PARTITION_STATES.map((state) => [state, 0])),
      ...Object.fromEntries(partitions.map(({ state, count }) => [state, count])),
    },
    oldestSeconds: recipients[0]!.oldest,
    readySeconds: ready[0]!.seconds,
    backoffs: backoffs[0]!.count,
    pacesLimited: paces[0]!.limited,
    pacesWaiting: paces[0]!.waiting,
    longestPaceWaits: waits,
    warmUps: warmUps.sources,
    warmUpsPaused: warmUps.paused,
    warmUpPlanned: warmUps.planned,
    warmUpSent: warmUps.sent,
  };
}

/** The instances and the destinations of which nothing is to leave. */
async function readHolds(db: Db): Promise<[instanceIds: number[], destinations: string[]]> {
  const instances = queryRows<{ instance_id: number }>(
    db,
    `select instance_id from instance_guards where held_at is not null and ${onPresent(db)}`,
  );
  return [(await instances).map(({ instance_id }) => instance_id), await listHeldDestinations(db)];
}

/**
 * What came of mail within the last minutes.
 * @param minutes how many
 */
export async function readOutcomeStatus(db: Db, minutes: number): Promise<OutcomeStatus> {
  const since = "now() - make_interval(mins => $1)";
  const counts = (statement: string) => queryRows<{ count: number }>(db, statement, [minutes]);
  const settled = (table: string) =>
    counts(`select coalesce(sum(tried), 0)::int as count from ${table} where minute > ${since} and ${onPresent(db)}`);
  const [folded, unfolded, putOff] = await Promise.all([
    settled("outcome_counts"),
    settled("outcome_deltas"),
    counts(
      `select count(*)::int from (select 1 from partitions p
         join deliveries d on d.instance_id = p.instance_id and d.partition_id = p.id and d.state = 'queued' and d.attempts > 0
        where p.state = 'deferred' and p.paced_by is null and p.modified_at > ${since} and ${onPresent(db, "p.instance_id")} limit ${MOST_PUT_OFF}) deferred`,
    ),
  ]);
  return { minutes, settled: folded[0]!.count + unfolded[0]!.count, putOff: putOff[0]!.count };
}

async function readWarmUpStatus(db: Db) {
  const [status] = await queryRows<{ sources: number; planned: number; sent: number; paused: number }>(
    db,
    `select count(distinct w.source)::int as sources, coalesce(sum(planned), 0)::int as planned, coalesce(sum(sent), 0)::int as sent,
         count(*) filter (where w.paused_at is null and exists (
           select 1 from warm_up_days l where l.source = d.source and l.provider = d.provider and l.paused_until > now()))::int as paused
       from warm_ups w left join warm_up_days d on d.source = w.source
         and d.number = floor(extract(epoch from coalesce(w.paused_at, now()) - w.started_at) / 86400)
       where w.stopped_at is null and (w.paused_at is not null or w.ends_at > now())`,
  );
  return status!;
}

export async function readInboundStatus(db: Db): Promise<InboundStatus> {
  const [messages, mailboxes] = await Promise.all([
    queryRows<{ state: string; count: number }>(
      db,
      "select state, count(*)::int from inbound_messages where state <> 'applied' group by 1",
    ),
    queryRows<{ name: string; problem: string }>(
      db,
      "select name, problem from mailboxes where problem is not null order by name",
    ),
  ]);
  const count = (...states: string[]) =>
    messages.filter(({ state }) => states.includes(state)).reduce((sum, { count }) => sum + count, 0);
  return { waiting: count("waiting", "leased"), quarantined: count("quarantined"), mailboxes };
}

/** The database's standbys. */
export interface ReplicationStatus {
  /** How far each that is connected is behind. */
  readonly standbys: readonly { readonly standby: string; readonly seconds: number }[];
  /** Physical slots that nobody takes from. */
  readonly emptySlots: readonly string[];
  /** Whether the role may know of all standbys (pg_monitor); else `standbys` is empty. */
  readonly isWhole: boolean;
}

export async function readReplication(db: Db): Promise<ReplicationStatus> {
  const [row] = await queryRows<ReplicationStatus>(
    db,
    `select pg_has_role('pg_read_all_stats', 'usage') as "isWhole",
       (select coalesce(jsonb_agg(jsonb_build_object('standby', application_name,
            'seconds', coalesce(extract(epoch from replay_lag), 0)) order by application_name), '[]')
          from pg_stat_replication where state = 'streaming') as standbys,
       array(select slot_name::text from pg_replication_slots
              where slot_type = 'physical' and not active and not temporary order by 1) as "emptySlots"`,
  );
  return row!;
}

/** Instances of which nothing leaves, by who holds them. */
export async function countHeldInstances(db: Db): Promise<{ readonly guard: number; readonly operator: number }> {
  const [row] = await queryRows<{ guard: number; operator: number }>(
    db,
    `select count(*) filter (where held_by = 'guard')::int as guard, count(*) filter (where held_by <> 'guard')::int as operator
       from instance_guards where held_at is not null and ${onPresent(db)}`,
  );
  return row!;
}
