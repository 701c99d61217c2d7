import { type Db, queryRows } from "../../../platform/postgres/db.ts";
import { byInstance, ownRows } from "../by-instance.ts";
import type { LeasedPartition } from "./queue-leases.ts";

/** What a worker takes. */
interface LeaseRequest {
  readonly workerId: string;
  /** What it asks of each instance; nobody is asked for twice. */
  readonly asks: readonly Ask[];
  readonly leaseSeconds: number;
  /** The database's, of the look that this is part of, as text. */
  readonly now: string;
  /** Lots to pass over, and with the pool `*` destinations; see `before`. */
  readonly barred: readonly string[];
  /** Destinations from this one on are not visited: what is barred of them is not given. '' for no end. */
  readonly before: string;
  /** How many more partitions the lots may have that are near their limits; 0 passes them over. */
  readonly room: ReadonlyMap<string, number>;
  /** The same for all other lots. */
  readonly partitionsPerDestination: number;
  /** Partitions that the worker is not done with, although it may have lost them: their outcomes are not all stored. */
  readonly unfinished: readonly number[];
}

/** What an instance is asked for. */
export interface Ask {
  readonly instanceId: number;
  /** Partitions. */
  readonly share: number;
  /** Most lots to visit. */
  readonly lots: number;
  /** Lots after this one are visited: they take turns in the order of their names. '' starts from the first. */
  readonly after: string;
  /** It is visited for the first time: of instances that are asked together such ones begin with different lots. */
  readonly isNew: boolean;
}

/** What is not known of it by the lease: whoever asked for it knows which sources are in back-off. */
type TakenPartition = Omit<LeasedPartition, "resting">;

/** What came of an ask. */
export interface LeaseResult {
  readonly instanceId: number;
  readonly partitions: readonly TakenPartition[];
  /** Lots that were visited, in their order, whether or not something was taken of them. */
  readonly lots: readonly string[];
  /** More is ready than was taken, of these lots or of others. */
  readonly hasMore: boolean;
  /**
   * After so long something that waits is due, or a lease is over, unless that is changed; infinite where nothing waits.
   */
  readonly dueInMs: number;
}

/**
 * A destination as one pool sees it: the destination alone for the default pool. Lots compare as pairs do, since no
 * domain has a character below the blank.
 */
export function lotOf(destination: string, pool: string): string {
  return pool === "" ? destination : `${destination} ${pool}`;
}

/** The reverse of `lotOf`. */
export function splitLot(lot: string): { readonly destination: string; readonly pool: string } {
  const blank = lot.indexOf(" ");
  return blank < 0 ? { destination: lot, pool: "" } : { destination: lot.slice(0, blank), pool: lot.slice(blank + 1) };
}

/** In the place of a pool: all of them. */
export const ANY_POOL = "*";
/** The source of a back-off that goes for every source: there is no way to the destination. */
export const ANY_SOURCE = "*";
/** The source of all mail for which the system chooses the address. */
export const SYSTEM_SOURCE = "system";

/**
 * Leases partitions that are ready, of each instance a few from each lot in turn. It hops from lot to lot through the index
 * of ready ones, and reads a lot in that order, so that its cost does not depend on the length of the queue. (Of a lot's
 * equal columns the planner would take any index that is in the order of ids.) An instance that is held has none. Where several instances
 * want more of a lot than there is room for, those that are asked first have it.
 * @returns what came of each ask, in no order
 */
export async function leasePartitions(db: Db, request: LeaseRequest): Promise<LeaseResult[]> {
  const own = await ownRows(db);
  const first = (column: string, state: string) => `(select p.${column} from partitions p
    where ${own("p")} and p.instance_id = asked.instance_id and p.state = '${state}' order by p.${column} limit 1)`;
  return byInstance(db, request.asks, async (asks, instanceIds) => {
    // Where a new one begins those before it have taken the room, as if all had the same lots.
    let asked = 0;
    const wanted = asks.map(({ after, isNew, ...ask }) => {
      const begin = isNew ? asked : 0;
      asked += ask.share;
      return { ...ask, ...splitLot(after), begin };
    });
    // Lists travel as JSON: of an array's length PostgreSQL makes a plan anew for each statement.
    const [row] = await queryRows<{ taken: TakenRow[] | null; looked: LookedRow[] }>(
      db,
      `with asked as (
         select ordinality as turn, (ask->>'instanceId')::bigint as instance_id, (ask->>'share')::integer as share,
           (ask->>'lots')::integer as lots, (ask->>'begin')::integer as begin, ask->>'destination' as destination, ask->>'pool' as pool
         from json_array_elements($2::json) with ordinality as each (ask)
       ), looked as (
         select asked.turn, asked.instance_id, look.* from asked cross join lateral (
           with recursive hops (destination, pool, number) as (
             (select p.destination, p.pool, 1 from partitions p
              where ${own("p")} and p.instance_id = asked.instance_id and p.state = 'ready'
                and (p.destination, p.pool) > (asked.destination, asked.pool)
                and not exists (select from instance_guards g
                                where ${own("g")} and g.instance_id = asked.instance_id and g.held_at is not null)
              order by p.destination, p.pool limit 1)
             union all
             select next.destination, next.pool, hops.number + 1 from hops cross join lateral (
               select p.destination, p.pool from partitions p
               where ${own("p")} and p.instance_id = asked.instance_id and p.state = 'ready'
                 and (p.destination, p.pool) > (hops.destination, hops.pool)
               order by p.destination, p.pool limit 1
             ) next where hops.number < asked.lots
           ), lots as (
             select *, sum(most) over (order by number) as room from (select destination, pool, number, lot,
               greatest(0, coalesce(($3::jsonb->>(destination || ' ${ANY_POOL}'))::integer, ($3::jsonb->>lot)::integer, $4)) as most
             from (select destination, pool, rtrim(destination || ' ' || pool) collate "C" as lot, number from hops
                   where $5 = '' or destination < $5) named) each
           ), picked as (
             select candidate.id, lots.lot, lots.most from (
               select * from lots where most > 0
               order by room <= asked.begin % (select max(room) from lots), number
             ) lots cross join lateral (
               select p.id from partitions p
               where ${own("p")} and p.instance_id = asked.instance_id and p.state = 'ready'
                 and (p.destination, p.pool) >= (lots.destination, lots.pool)
                 and (p.destination, p.pool) <= (lots.destination, lots.pool)
                 and not jsonb_exists($6::jsonb, p.id::text)
               order by p.destination, p.pool, p.id limit lots.most for update skip locked
             ) candidate
             limit asked.share
           )
           select (select json_agg(picked) from picked) as picked, (select json_agg(lot order by lot) from lots) as lots,
             (select count(*)::int from (select from partitions p
                where ${own("p")} and p.instance_id = asked.instance_id and p.state = 'ready' limit asked.share + 1) p) as ready,
             extract(epoch from least(${first("due_at", "deferred")}, ${first("lease_until", "leased")}) - now())::float8
               as due_in
         ) look
       ), within_room as (
         select (pick->>'id')::bigint as id, (pick->>'most')::integer as most,
           row_number() over (partition by pick->>'lot' order by nth, turn) as number
         from looked, json_array_elements(looked.picked) with ordinality as each (pick, nth)
       ), taken as (
         update partitions p
         set state = 'leased', lease_owner = $7, lease_until = now() + make_interval(secs => $8),
             stopping = false, taken_at = coalesce(p.taken_at, $9::timestamptz), modified_at = now()
         where ${own("p")} and p.id = any(array(select id from within_room where number <= most))
         returning p.instance_id, p.id, p.message_id, p.destination, p.pool, p.taken_at
       ), described as (
         select taken.instance_id, taken.id, taken.message_id, taken.destination, taken.pool, m.campaign_numid, m.archive,
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
         (select json_agg(json_build_object('instance_id', instance_id, 'lots', lots, 'ready', ready,
           'dueIn', due_in)) from looked) as looked`,
      [
        instanceIds,
        JSON.stringify(wanted),
        JSON.stringify({ ...Object.fromEntries(request.room), ...none(request.barred) }),
        request.partitionsPerDestination,
        request.before,
        JSON.stringify(none(request.unfinished)),
        request.workerId,
        request.leaseSeconds,
        request.now,
      ],
      { name: "lease-partitions" },
    );
    const taken = (row!.taken ?? []).map(toLeasedPartition);
    return row!.looked.map(({ instance_id: instanceId, lots, ready, dueIn }) => {
      const partitions = taken.filter((partition) => partition.instanceId === instanceId);
      const dueInMs = (dueIn ?? Number.POSITIVE_INFINITY) * 1000;
      return { instanceId, partitions, lots: lots ?? [], hasMore: ready > partitions.length, dueInMs };
    });
  });
}

/** Nothing of these. A key of an object is found by halves, an element of an array one by one. */
function none(keys: readonly (string | number)[]): Record<string, 0> {
  return Object.fromEntries(keys.map((key) => [key, 0]));
}

/** An instance that was asked. */
interface LookedRow {
  instance_id: number;
  lots: string[] | null;
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
  /** Seconds since the epoch. */
  leased_at: number;
  age_seconds: number;
}

function toLeasedPartition(row: TakenRow): TakenPartition {
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
    leasedAt: new Date(row.leased_at * 1000),
    ageMs: row.age_seconds * 1000,
  };
}
