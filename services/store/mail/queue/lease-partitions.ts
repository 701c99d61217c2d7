import { type Db, queryRows } from "../../../platform/postgres/db.ts";
import type { LeasedPartition } from "./queue-leases.ts";

export interface LeaseRequest {
  readonly workerId: string;
  readonly limit: number;
  readonly leaseSeconds: number;
  /** Where the last look ended: instances take turns in the order of their ids. 0 starts from the first. */
  readonly after: number;
  /** What instances have already, where they have something; all others begin from nothing. */
  readonly instances: ReadonlyMap<number, InstanceShare>;
  /** Partitions that one instance may have. */
  readonly partitionsPerInstance: number;
  /** Where the mail of each pool leaves from: its addresses, or the system's choice. '' is the default pool. */
  readonly sources: ReadonlyMap<string, readonly string[]>;
  /** How many more partitions the lots may have that are near their limits; 0 passes them over. */
  readonly room: ReadonlyMap<string, number>;
  /** The same for all other lots. */
  readonly partitionsPerDestination: number;
  /** Partitions that the worker is not done with, although it may have lost them: their outcomes are not all stored. */
  readonly unfinished: readonly number[];
}

/** What a worker has of an instance. */
export interface InstanceShare {
  /** Partitions under way. */
  readonly partitions: number;
  /** Its lot that was served last: lots take turns in the order of their names. */
  readonly after: string;
}

export interface LeaseResult {
  readonly partitions: readonly LeasedPartition[];
  /** `after` for the next request; 0 when the round is complete. */
  readonly after: number;
  /** Where the turns of each instance that was looked at go on; '' from its first lot. */
  readonly destinations: ReadonlyMap<number, string>;
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

/** The source of a back-off that goes for every source: there is no way to the destination. */
export const ANY_SOURCE = "*";
/** The source of all mail for which the system chooses the address. */
export const SYSTEM_SOURCE = "system";

/** How many instances one look visits; the next one goes on with those after them. */
const INSTANCES_PER_LOOK = 100;
/** How many lots it visits, shared by these instances, */
const DESTINATIONS_PER_LOOK = 500;
/** but so many of each at least. */
const DESTINATIONS_PER_INSTANCE = 10;

/**
 * Leases partitions that are ready: of each instance in turn, those first that have the fewest under way, and of each a
 * few from each lot in turn. It hops from instance to instance and from lot to lot through the index, so that its cost
 * depends neither on the length of the queue nor on how much of it is somebody's. Lots are passed over whose destination
 * an operator holds, or cannot be reached, or of whose pool each source is in back-off there; held instances as well.
 */
export async function leasePartitions(db: Db, request: LeaseRequest): Promise<LeaseResult> {
  const shares = [...request.instances.entries()];
  const sources = [...request.sources].flatMap(([pool, own]) => own.map((source) => [pool, source] as const));
  const rows = await queryRows<{ taken: TakenRow[] | null; looked: LookedRow[] | null }>(
    db,
    `with recursive ready (instance_id) as (
       (select instance_id, 1 as number from partitions where state = 'ready' and instance_id > $1
        order by instance_id limit 1)
       union all
       select next.instance_id, ready.number + 1 from ready cross join lateral (
         select p.instance_id from partitions p where p.state = 'ready' and p.instance_id > ready.instance_id
         order by p.instance_id limit 1
       ) next where ready.number < $2
     ), looked as (
       select ready.instance_id, coalesce(share.partitions, 0) as partitions, look.* from ready
       left join unnest($3::bigint[], $4::integer[], $5::text[]) as share (instance_id, partitions, after) using (instance_id)
       cross join lateral (
         with recursive hops (destination, pool, number) as (
           (select p.destination, p.pool, 1 from partitions p
            where p.state = 'ready' and p.instance_id = ready.instance_id
              and (p.destination, p.pool) > (split_part(coalesce(share.after, ''), ' ', 1),
                                             case when share.after like '% %' then substr(share.after, strpos(share.after, ' ') + 1) else '' end)
              and coalesce(share.partitions, 0) < $6 order by p.destination, p.pool limit 1)
           union all
           select next.destination, next.pool, hops.number + 1 from hops cross join lateral (
             select p.destination, p.pool from partitions p
             where p.state = 'ready' and p.instance_id = ready.instance_id
               and (p.destination, p.pool) > (hops.destination, hops.pool)
             order by p.destination, p.pool limit 1
           ) next where hops.number < greatest($7, $8 / (select count(*) from ready))
         ), lots as (
           select *, rtrim(destination || ' ' || pool) collate "C" as lot from hops
         ), picked as (
           select candidate.id, lots.lot from lots cross join lateral (
             select p.id from partitions p
             where p.state = 'ready' and p.instance_id = ready.instance_id and p.destination = lots.destination
               and p.pool = lots.pool and p.id <> all($9::bigint[])
             order by p.id limit case
               when exists (select from instance_guards g where g.instance_id = ready.instance_id and g.held_at is not null)
                 or exists (
                 select from destination_backoffs b where b.destination = lots.destination and b.until > now()
                 having case when count(*) = 0 then false else bool_or(b.source = '${ANY_SOURCE}') or
                   count(*) filter (where exists (
                     select from unnest($10::text[], $11::text[]) as own (pool, source)
                     where own.pool = lots.pool and own.source = b.source))
                   = (select nullif(count(*), 0) from unnest($10::text[]) as own (pool) where own.pool = lots.pool) end
               ) or exists (select from destination_holds h where h.destination = lots.destination) then 0
               else coalesce((select room.partitions from unnest($12::text[], $13::integer[]) as room (lot, partitions)
                              where room.lot = lots.lot), $14)
             end for update skip locked
           ) candidate
           limit greatest(0, least($15, $16 - coalesce(share.partitions, 0)))
         )
         select (select json_agg(picked) from picked) as picked, (select count(*) from picked) as found,
                (select count(*) from lots) as visited, (select max(lot) from lots) as last_visited
       ) look
     ), in_turn as (
       select looked.instance_id, pick.id, pick.lot, looked.partitions + pick.number as turn
       from looked cross join lateral (
         select (value->>'id')::bigint as id, value->>'lot' as lot, ordinality as number
         from json_array_elements(looked.picked) with ordinality
       ) pick
     ), within_room as (
       select in_turn.*, row_number() over (partition by lot order by turn, instance_id) as nth,
              coalesce(room.partitions, $17) as most
       from in_turn left join unnest($18::text[], $19::integer[]) as room (lot, partitions) using (lot)
     ), chosen as (
       select instance_id, id from within_room where nth <= most order by turn, instance_id limit $20
     ), taken as (
       update partitions p
       set state = 'leased', lease_owner = $21, lease_until = now() + make_interval(secs => $22),
           stopping = false, taken_at = coalesce(p.taken_at, now()), modified_at = now()
       from chosen join messages m using (instance_id)
       where p.instance_id = chosen.instance_id and p.id = chosen.id and m.id = p.message_id
       returning p.instance_id, p.id, p.message_id, p.destination, p.pool, m.campaign_numid, m.archive, m.trace_parent,
         m.content_octets, m.dsn is not null as is_reported_on, m.is_report,
         (select name from instances where id = m.instance_id) as instance_name,
         (select json_object_agg(source, extract(epoch from until - now())) from destination_backoffs b
          where b.destination = p.destination and b.until > now()) as resting,
         extract(epoch from m.created_at)::float8 as accepted_at,
         extract(epoch from least(now() - m.created_at - m.held_for, now() - p.taken_at))::float8 as age_seconds
     )
     select (select json_agg(taken) from taken) as taken,
            (select json_agg(json_build_object('instance_id', instance_id, 'found', found, 'visited', visited,
                                               'last_visited', last_visited) order by instance_id) from looked) as looked`,
    [
      request.after,
      INSTANCES_PER_LOOK,
      shares.map(([id]) => id),
      shares.map(([, { partitions }]) => partitions),
      shares.map(([, { after }]) => after),
      request.partitionsPerInstance,
      DESTINATIONS_PER_INSTANCE,
      DESTINATIONS_PER_LOOK,
      request.unfinished,
      sources.map(([pool]) => pool),
      sources.map(([, source]) => source),
      [...request.room.keys()],
      [...request.room.values()],
      request.partitionsPerDestination,
      request.limit,
      request.partitionsPerInstance,
      request.partitionsPerDestination,
      [...request.room.keys()],
      [...request.room.values()],
      request.limit,
      request.workerId,
      request.leaseSeconds,
    ],
  );
  const { taken, looked } = rows[0]!;
  const partitions = (taken ?? []).map(toLeasedPartition);
  return { partitions, ...nextTurns(partitions, looked ?? [], request) };
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
  resting: Record<string, number> | null;
  /** Seconds since the epoch. */
  accepted_at: number;
  age_seconds: number;
}

/** An instance that was looked at. */
interface LookedRow {
  instance_id: number;
  /** Partitions that could be taken. */
  found: number;
  /** Lots. */
  visited: number;
  last_visited: string | null;
}

function toLeasedPartition(row: TakenRow): LeasedPartition {
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
    resting: new Map(Object.entries(row.resting ?? {})),
    acceptedAt: new Date(row.accepted_at * 1000),
    ageMs: row.age_seconds * 1000,
  };
}

/**
 * Where the next look goes on. An instance goes on after the lot that was served last when it may have had more,
 * else after those that were visited; instances start anew when all of them were visited.
 */
function nextTurns(
  partitions: readonly LeasedPartition[],
  looked: readonly LookedRow[],
  request: LeaseRequest,
): Pick<LeaseResult, "after" | "destinations"> {
  const lastServed = new Map<number, string>();
  const count = new Map<number, number>();
  for (const { instanceId, destination, pool } of partitions) {
    const lot = lotOf(destination, pool);
    if (lot > (lastServed.get(instanceId) ?? "")) lastServed.set(instanceId, lot);
    count.set(instanceId, (count.get(instanceId) ?? 0) + 1);
  }
  const mostVisited = Math.max(DESTINATIONS_PER_INSTANCE, Math.floor(DESTINATIONS_PER_LOOK / looked.length));
  const destinations = new Map<number, string>();
  for (const { instance_id: id, found, visited, last_visited } of looked) {
    const share = request.instances.get(id);
    const room = Math.min(request.limit, request.partitionsPerInstance - (share?.partitions ?? 0));
    const isCut = found >= room || (count.get(id) ?? 0) < found;
    if (isCut) destinations.set(id, lastServed.get(id) ?? share?.after ?? "");
    else destinations.set(id, visited >= mostVisited ? (last_visited ?? "") : "");
  }
  return { destinations, after: looked.length < INSTANCES_PER_LOOK ? 0 : looked.at(-1)!.instance_id };
}
