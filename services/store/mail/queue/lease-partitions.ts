import { type Db, queryRows } from "../../../platform/postgres/db.ts";
import type { LeasedPartition } from "./queue-leases.ts";

/** What a worker takes of one instance. */
export interface LeaseRequest {
  readonly instanceId: number;
  readonly workerId: string;
  readonly limit: number;
  readonly leaseSeconds: number;
  /** The database's, of the look that this is part of, as text. */
  readonly now: string;
  /** The instance's lot that was served last: lots take turns in the order of their names. '' starts from the first. */
  readonly after: string;
  /** Lots that are visited. */
  readonly mostLots: number;
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

/** What is not known of it by the lease: whoever asked for it knows which sources are in back-off. */
export type TakenPartition = Omit<LeasedPartition, "resting">;

export interface LeaseResult {
  readonly partitions: readonly TakenPartition[];
  /** Lots that were visited, in their order, whether or not something was taken of them. */
  readonly lots: readonly string[];
  /** More is ready than was taken, of these lots or of others. */
  readonly hasMore: boolean;
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
 * Leases partitions of an instance that are ready, a few from each lot in turn. It hops from lot to lot through the index, so
 * that its cost does not depend on the length of the queue. An instance that is held has none.
 */
export async function leasePartitions(db: Db, request: LeaseRequest): Promise<LeaseResult> {
  const { instanceId, after } = request;
  const last = splitLot(after);
  // Lists travel as JSON: of an array's length PostgreSQL makes a plan anew for each statement.
  const [row] = await queryRows<{ taken: TakenRow[] | null; lots: string[] | null; ready: number }>(
    db,
    `with recursive hops (destination, pool, number) as (
       (select p.destination, p.pool, 1 from partitions p
        where p.instance_id = $1 and p.state = 'ready' and (p.destination, p.pool) > ($2, $3)
          and not exists (select from instance_guards g where g.instance_id = $1 and g.held_at is not null)
        order by p.destination, p.pool limit 1)
       union all
       select next.destination, next.pool, hops.number + 1 from hops cross join lateral (
         select p.destination, p.pool from partitions p
         where p.instance_id = $1 and p.state = 'ready' and (p.destination, p.pool) > (hops.destination, hops.pool)
         order by p.destination, p.pool limit 1
       ) next where hops.number < $4
     ), lots as (
       select destination, pool, lot, case
         when lot in (select json_array_elements_text($5::json))
           or destination || ' ${ANY_POOL}' in (select json_array_elements_text($5::json)) then 0
         else coalesce((select value::integer from json_each_text($6::json) where key = lot), $7) end as most
       from (select *, rtrim(destination || ' ' || pool) collate "C" as lot from hops where $8 = '' or destination < $8) named
     ), picked as (
       select candidate.id from lots cross join lateral (
         select p.id from partitions p
         where p.instance_id = $1 and p.state = 'ready' and p.destination = lots.destination and p.pool = lots.pool
           and p.id not in (select value::bigint from json_array_elements_text($9::json))
         order by p.id limit lots.most for update skip locked
       ) candidate
       limit $10
     ), taken as (
       update partitions p
       set state = 'leased', lease_owner = $11, lease_until = now() + make_interval(secs => $12),
           stopping = false, taken_at = coalesce(p.taken_at, $13::timestamptz), modified_at = now()
       from picked where p.instance_id = $1 and p.id = picked.id
       returning p.id, p.message_id, p.destination, p.pool, p.taken_at
     ), described as (
       select taken.id, taken.message_id, taken.destination, taken.pool, m.campaign_numid, m.archive, m.trace_parent,
         m.content_octets, m.dsn is not null as is_reported_on, m.is_report,
         (select name from instances where id = $1) as instance_name,
         extract(epoch from m.created_at)::float8 as accepted_at,
         extract(epoch from least(now() - m.created_at - m.held_for, now() - taken.taken_at))::float8 as age_seconds
       from taken cross join lateral (select * from messages where instance_id = $1 and id = taken.message_id offset 0) m
     )
     select (select json_agg(described) from described) as taken, (select json_agg(lot order by lot) from lots) as lots,
       (select count(*)::int from (select from partitions where instance_id = $1 and state = 'ready' limit $10 + 1) p) as ready`,
    [
      instanceId,
      last.destination,
      last.pool,
      request.mostLots,
      JSON.stringify(request.barred),
      JSON.stringify(Object.fromEntries(request.room)),
      request.partitionsPerDestination,
      request.before,
      JSON.stringify(request.unfinished),
      request.limit,
      request.workerId,
      request.leaseSeconds,
      request.now,
    ],
    { name: "lease-partitions" },
  );
  const { taken, lots, ready } = row!;
  const partitions = (taken ?? []).map((one) => toLeasedPartition(instanceId, one));
  return { partitions, lots: lots ?? [], hasMore: ready > partitions.length };
}

interface TakenRow {
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
  accepted_at: number;
  age_seconds: number;
}

function toLeasedPartition(instanceId: number, row: TakenRow): TakenPartition {
  return {
    instanceId,
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
    acceptedAt: new Date(row.accepted_at * 1000),
    ageMs: row.age_seconds * 1000,
  };
}
