import { ANY_POOL, type DestinationQueue, splitQueue } from "../../../core/mail/queue/destination-queue.ts";
import type { Ask, Visit } from "../../../core/mail/queue/instance-turn.ts";
import { type Db, queryRows } from "../../../platform/postgres/db.ts";
import { byInstance, type Own, ownRows } from "../by-instance.ts";
import type { LeasedPartition } from "./queue-leases.ts";

/** What a worker takes. */
interface LeaseRequest {
  readonly workerId: string;
  /** What it asks of each instance; nobody is asked for twice. */
  readonly asks: readonly Ask[];
  readonly leaseSeconds: number;
  /** The database's, of the look that this is part of, as text. */
  readonly now: string;
  /** Destination queues to pass over; one with the pool `*` stands for all of its destination. */
  readonly suspended: readonly DestinationQueue[];
  /** Free slots, a partition each, of the destination queues that are near their limits; one with 0 is passed over. */
  readonly slots: ReadonlyMap<DestinationQueue, number>;
  /** Free slots of each other one. */
  readonly slotsPerQueue: number;
  /** Partitions that the worker is not done with, although it may have lost them: their outcomes are not all stored. */
  readonly unfinished: readonly number[];
}

/** What is not known of it by the lease: whoever asked for it knows which sources are in back-off. */
type TakenPartition = Omit<LeasedPartition, "resting"> & {
  /** It goes ahead of its instance's other mail. */
  readonly goesAhead: boolean;
};

/** What came of an ask. */
export interface LeaseResult extends Pick<Visit, "queues" | "aheadQueues" | "hasMore" | "dueInMs"> {
  readonly instanceId: number;
  readonly partitions: readonly TakenPartition[];
}

/**
 * Leases partitions that are ready, of each instance a few from each destination queue in turn, those that go ahead before others. An
 * instance that is held has none.
 * Where several instances want more of a queue than it has free slots, those that are asked first have them.
 * @returns what came of each ask, in no order
 */
export async function leasePartitions(db: Db, request: LeaseRequest): Promise<LeaseResult[]> {
  const statement = leaseStatement(await ownRows(db));
  return byInstance(db, request.asks, async (asks, instanceIds) => {
    // Lists travel as JSON: of an array's length PostgreSQL makes a plan anew for each statement.
    const values = [
      instanceIds,
      JSON.stringify(toRows(asks)),
      JSON.stringify({ ...Object.fromEntries(request.slots), ...none(request.suspended) }),
      request.slotsPerQueue,
      JSON.stringify(none(request.unfinished)),
      request.workerId,
      request.leaseSeconds,
      request.now,
    ];
    const [row] = await queryRows<LeaseRow>(db, statement, values, { name: "lease-partitions" });
    const taken = (row!.taken ?? []).map(toTakenPartition);
    return row!.looked.map(({ instance_id: instanceId, ready, dueIn, ...looked }) => {
      const partitions = taken.filter((partition) => partition.instanceId === instanceId);
      const dueInMs = (dueIn ?? Number.POSITIVE_INFINITY) * 1000;
      const [queues, aheadQueues] = [looked.queues ?? [], looked.ahead_queues ?? []];
      return { instanceId, partitions, queues, aheadQueues, hasMore: ready > partitions.length, dueInMs };
    });
  });
}

/** The queues that `leasePartitions` visits for these asks, each once. */
export async function listReadyQueues(db: Db, asks: readonly Ask[]): Promise<DestinationQueue[]> {
  const own = await ownRows(db);
  const rows = await byInstance(db, asks, (given, instanceIds) =>
    queryRows<{ queue: DestinationQueue }>(
      db,
      `with ${ASKED} select distinct queue from asked cross join lateral (
         with recursive ${hops(own)}, ${aheadHops(own)}
         select ${QUEUE} as queue from (table hops union all table ahead_hops) each
       ) visited`,
      [instanceIds, JSON.stringify(toRows(given))],
      { name: "list-ready-queues" },
    ),
  );
  return rows.map(({ queue }) => queue);
}

/** Asks as the statement reads them: a new one skips the slots that those before it take, as if all had the same queues. */
function toRows(asks: readonly Ask[]): object[] {
  let before = 0;
  return asks.map(({ instanceId, share, queues, after, isNew, goesAhead, aheadAfter }) => {
    const skip = isNew ? before : 0;
    before += share;
    return { instanceId, share, queues, skip, ...splitQueue(after), goesAhead, aheadAfter: splitQueue(aheadAfter) };
  });
}

/** None of these. A key of an object is found by halves, an element of an array one by one. */
function none(keys: readonly (string | number)[]): Record<string, 0> {
  return Object.fromEntries(keys.map((key) => [key, 0]));
}

/**
 * The statement, in steps: `asked` has the instances in the order in which they are asked, `looked` what each has (`lookAt`),
 * `within_slots` numbers what was picked of each queue over all of them, `taken` is leased, and `described` what is told of it.
 */
function leaseStatement(own: Own): string {
  return `with ${ASKED}, looked as (
      select asked.turn, asked.instance_id, look.* from asked cross join lateral (${lookAt(own)}) look
    ), within_slots as (
      select (pick->>'id')::bigint as id, (pick->>'slots')::integer as slots,
        row_number() over (partition by pick->>'queue' order by nth, turn) as number
      from looked, json_array_elements(looked.picked) with ordinality as each (pick, nth)
    ), taken as (
      update partitions p
      set state = 'leased', lease_owner = $6, lease_until = now() + make_interval(secs => $7),
          stopping = false, taken_at = coalesce(p.taken_at, $8::timestamptz), modified_at = now()
      where ${own("p")} and p.id = any(array(select id from within_slots where number <= slots))
      returning p.instance_id, p.id, p.message_id, p.destination, p.pool, p.taken_at, p.goes_ahead
    ), described as (
      select taken.instance_id, taken.id, taken.message_id, taken.destination, taken.pool, taken.goes_ahead, m.campaign_numid, m.archive,
        m.trace_parent, m.content_octets, m.dsn is not null as is_reported_on, m.is_report,
        (select name from instances where id = taken.instance_id) as instance_name,
        extract(epoch from now())::float8 as leased_at,
        extract(epoch from least(now() - m.created_at - m.held_for, now() - taken.taken_at))::float8 as age_seconds
      from taken cross join lateral (
        select m.campaign_numid, m.archive, m.trace_parent, m.content_octets, m.dsn, m.is_report, m.created_at, m.held_for
        from messages m where ${own("m")} and m.instance_id = taken.instance_id and m.id = taken.message_id offset 0
      ) m
    )
    select (select json_agg(described) from described) as taken,
      (select json_agg(json_build_object('instance_id', instance_id, 'queues', queues, 'ahead_queues', ahead_queues, 'ready', ready,
        'dueIn', due_in)) from looked) as looked`;
}

/**
 * What one instance of `asked` has. `ahead` and `in_turn` lock partitions of the queues that `ahead_hops` and `hops` visit, of each as many
 * as it has slots, the latter beginning behind the slots that are to be skipped. They read a queue in the order of one index: of equal
 * columns the planner would take any index that is in the order of ids.
 */
function lookAt(own: Own): string {
  const isOf = (state: string) => isOfAsked(own, state);
  const first = (column: string, state: string) =>
    `(select p.${column} from partitions p where ${isOf(state)} order by p.${column} limit 1)`;
  const candidates = (order: HopOrder, which: string, most: string) => `select p.id from partitions p
        where ${isOf("ready")} and ${which} and not jsonb_exists($5::jsonb, p.id::text)
          and (${by(order, "p.")}) >= (${by(order, "queues.")}) and (${by(order, "p.")}) <= (${by(order, "queues.")})
        order by ${by(order, "p.")}, p.id limit ${most} for update skip locked`;
  return `with recursive ${aheadHops(own)}, ahead as materialized (
      select candidate.id, queues.queue, queues.slots from (${withSlots("ahead_hops")} order by number) queues
      cross join lateral (
        ${candidates(BY_POOL, "p.goes_ahead", "queues.slots")}
      ) candidate
      limit asked.share
    ), ${hops(own)}, queues as (
      select *, sum(slots) over (order by number) as slots_to_here from (${withSlots("hops")}) each
    ), in_turn as (
      select candidate.id, queues.queue, queues.slots from (
        select *, slots - (select count(*) from ahead where ahead.queue = queues.queue) as free from queues where slots > 0
        order by slots_to_here <= asked.skip % (select max(slots_to_here) from queues), number
      ) queues cross join lateral (
        ${candidates(BY_DESTINATION, "p.id not in (select id from ahead)", "queues.free")}
      ) candidate
      limit asked.share - (select count(*) from ahead)
    )
    select (select json_agg(picked) from (table ahead union all table in_turn) picked) as picked,
      (select json_agg(queue order by queue) from queues) as queues,
      (select json_agg(${QUEUE} order by number) from ahead_hops) as ahead_queues,
      (select count(*)::int from (select from partitions p where ${isOf("ready")} limit asked.share + 1) p) as ready,
      extract(epoch from least(${first("due_at", "deferred")}, ${first("lease_until", "leased")}) - now())::float8 as due_in`;
}

/** The queues that hops visit, by name and with their free slots. */
function withSlots(hops: string): string {
  return `select destination, pool, number, queue,
        greatest(0, coalesce(($3::jsonb->>(destination || ' ${ANY_POOL}'))::integer, ($3::jsonb->>queue)::integer, $4)) as slots
      from (select destination, pool, ${QUEUE} as queue, number from ${hops}) named`;
}

/** The order of an index of ready partitions, and of no other one: of equal orders the planner would take any index. */
type HopOrder = readonly ["destination", "pool"] | readonly ["pool", "destination"];

/** That of all that is ready. */
const BY_DESTINATION: HopOrder = ["destination", "pool"];
/** That of what goes ahead. */
const BY_POOL: HopOrder = ["pool", "destination"];

function by(order: HopOrder, prefix: string): string {
  return order.map((column) => prefix + column).join(", ");
}

/** From queue to queue of one instance of `asked`, of those that have something ready. */
function hops(own: Own): string {
  return hopsBy(own, BY_DESTINATION, { name: "hops", which: "true", after: "asked." });
}

/** The same of those that have something ready which goes ahead. */
function aheadHops(own: Own): string {
  return hopsBy(own, BY_POOL, {
    name: "ahead_hops",
    which: "p.goes_ahead and asked.goes_ahead",
    after: "asked.ahead_",
  });
}

interface Hops {
  readonly name: string;
  /** Of partitions `p`. */
  readonly which: string;
  /** What the columns of `asked` begin with that tell behind which queue. */
  readonly after: string;
}

/** Through an index, so that their cost does not depend on the length of the queue. */
function hopsBy(own: Own, order: HopOrder, { name, which, after }: Hops): string {
  const next = (number: string, from: string) => `select p.destination, p.pool, ${number} as number from partitions p
        where ${isOfAsked(own, "ready")} and ${which} and (${by(order, "p.")}) > (${by(order, from)})`;
  return `${name} (destination, pool, number) as (
      (${next("1", after)} and not exists (
         select from instance_guards g where ${own("g")} and g.instance_id = asked.instance_id and g.held_at is not null)
       order by ${by(order, "p.")} limit 1)
      union all
      select next.* from ${name} cross join lateral (
        ${next(`${name}.number + 1`, `${name}.`)} order by ${by(order, "p.")} limit 1
      ) next where ${name}.number < asked.queues
    )`;
}

/** The partitions `p` of an instance of `asked` that are in a state. */
function isOfAsked(own: Own, state: string): string {
  return `${own("p")} and p.instance_id = asked.instance_id and p.state = '${state}'`;
}

/** The asks, in their order. */
const ASKED = `asked as (
      select ordinality as turn, (ask->>'instanceId')::bigint as instance_id, (ask->>'share')::integer as share,
        (ask->>'queues')::integer as queues, (ask->>'skip')::integer as skip, ask->>'destination' as destination, ask->>'pool' as pool,
        (ask->>'goesAhead')::boolean as goes_ahead, ask->'aheadAfter'->>'destination' as ahead_destination,
        ask->'aheadAfter'->>'pool' as ahead_pool
      from json_array_elements($2::json) with ordinality as each (ask)
    )`;

/** The name of a destination queue (`queueOf`). */
const QUEUE = `rtrim(destination || ' ' || pool) collate "C"`;

interface LeaseRow {
  taken: TakenRow[] | null;
  looked: LookedRow[];
}

/** An instance that was asked. */
interface LookedRow {
  instance_id: number;
  queues: string[] | null;
  ahead_queues: string[] | null;
  /** At most one more than it was asked for. */
  ready: number;
  /** Seconds. */
  dueIn: number | null;
}

interface TakenRow {
  instance_id: number;
  id: number;
  message_id: number;
  instance_name: string;
  campaign_numid: number;
  archive: boolean;
  content_octets: number;
  trace_parent: string | null;
  is_reported_on: boolean;
  is_report: boolean;
  destination: string;
  pool: string;
  goes_ahead: boolean;
  /** Seconds since the epoch. */
  leased_at: number;
  age_seconds: number;
}

function toTakenPartition(row: TakenRow): TakenPartition {
  return {
    instanceId: row.instance_id,
    id: row.id,
    message: {
      id: row.message_id,
      instanceName: row.instance_name,
      campaignNumid: row.campaign_numid,
      archive: row.archive,
      contentOctets: row.content_octets,
      traceParent: row.trace_parent ?? undefined,
      isReportedOn: row.is_reported_on,
      isReport: row.is_report,
    },
    destination: row.destination,
    pool: row.pool,
    goesAhead: row.goes_ahead,
    leasedAt: new Date(row.leased_at * 1000),
    ageMs: row.age_seconds * 1000,
  };
}
