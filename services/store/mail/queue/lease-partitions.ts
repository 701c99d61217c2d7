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
  /** How many more partitions the destinations may have that are near their limits; 0 passes them over. */
  readonly room: ReadonlyMap<string, number>;
  /** The same for all other destinations. */
  readonly partitionsPerDestination: number;
  /** Partitions that the worker is not done with, although it may have lost them: their outcomes are not all stored. */
  readonly unfinished: readonly number[];
}

/** What a worker has of an instance. */
export interface InstanceShare {
  /** Partitions under way. */
  readonly partitions: number;
  /** Its destination that was served last: destinations take turns in the order of their names. */
  readonly after: string;
}

export interface LeaseResult {
  readonly partitions: readonly LeasedPartition[];
  /** `after` for the next request; 0 when the round is complete. */
  readonly after: number;
  /** Where the turns of each instance that was looked at go on; '' from its first destination. */
  readonly destinations: ReadonlyMap<number, string>;
}

/** How many instances one look visits; the next one goes on with those after them. */
const INSTANCES_PER_LOOK = 100;
/** How many destinations it visits, shared by these instances, */
const DESTINATIONS_PER_LOOK = 500;
/** but so many of each at least. */
const DESTINATIONS_PER_INSTANCE = 10;

/**
 * Leases partitions that are ready: of each instance in turn, those first that have the fewest under way, and of each a
 * few from each destination in turn. It hops from instance to instance and from destination to destination through the
 * index, so that its cost depends neither on the length of the queue nor on how much of it is somebody's.
 * Destinations in back-off, and what is held, destinations and instances, are passed over.
 */
export async function leasePartitions(db: Db, request: LeaseRequest): Promise<LeaseResult> {
  const shares = [...request.instances.entries()];
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
         with recursive hops (destination, number) as (
           (select p.destination, 1 from partitions p
            where p.state = 'ready' and p.instance_id = ready.instance_id and p.destination > coalesce(share.after, '')
              and coalesce(share.partitions, 0) < $6 order by p.destination limit 1)
           union all
           select next.destination, hops.number + 1 from hops cross join lateral (
             select p.destination from partitions p
             where p.state = 'ready' and p.instance_id = ready.instance_id and p.destination > hops.destination
             order by p.destination limit 1
           ) next where hops.number < greatest($7, $8 / (select count(*) from ready))
         ), picked as (
           select candidate.id, hops.destination from hops cross join lateral (
             select p.id from partitions p
             where p.state = 'ready' and p.instance_id = ready.instance_id and p.destination = hops.destination
               and p.id <> all($9::bigint[])
             order by p.id limit case
               when exists (select from instance_guards g where g.instance_id = ready.instance_id and g.held_at is not null)
                 or exists (select from destination_backoffs b where b.destination = hops.destination and b.until > now())
                 or exists (select from destination_holds h where h.destination = hops.destination) then 0
               else coalesce((select room.partitions from unnest($10::text[], $11::integer[]) as room (destination, partitions)
                              where room.destination = hops.destination), $12)
             end for update skip locked
           ) candidate
           limit greatest(0, least($13, $14 - coalesce(share.partitions, 0)))
         )
         select (select json_agg(picked) from picked) as picked, (select count(*) from picked) as found,
                (select count(*) from hops) as visited, (select max(destination) from hops) as last_visited
       ) look
     ), in_turn as (
       select looked.instance_id, pick.id, pick.destination, looked.partitions + pick.number as turn
       from looked cross join lateral (
         select (value->>'id')::bigint as id, value->>'destination' as destination, ordinality as number
         from json_array_elements(looked.picked) with ordinality
       ) pick
     ), within_room as (
       select in_turn.*, row_number() over (partition by destination order by turn, instance_id) as nth,
              coalesce(room.partitions, $15) as most
       from in_turn left join unnest($16::text[], $17::integer[]) as room (destination, partitions) using (destination)
     ), chosen as (
       select instance_id, id from within_room where nth <= most order by turn, instance_id limit $18
     ), taken as (
       update partitions p
       set state = 'leased', lease_owner = $19, lease_until = now() + make_interval(secs => $20),
           stopping = false, taken_at = coalesce(p.taken_at, now()), modified_at = now()
       from chosen join messages m using (instance_id)
       where p.instance_id = chosen.instance_id and p.id = chosen.id and m.id = p.message_id
       returning p.instance_id, p.id, p.message_id, p.destination, m.campaign_numid, m.archive, m.trace_parent,
         m.content_octets, m.dsn is not null as is_reported_on, m.is_report,
         (select name from instances where id = m.instance_id) as instance_name,
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
  /** Seconds since the epoch. */
  accepted_at: number;
  age_seconds: number;
}

/** An instance that was looked at. */
interface LookedRow {
  instance_id: number;
  /** Partitions that could be taken. */
  found: number;
  /** Destinations. */
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
    acceptedAt: new Date(row.accepted_at * 1000),
    ageMs: row.age_seconds * 1000,
  };
}

/**
 * Where the next look goes on. An instance goes on after the destination that was served last when it may have had more,
 * else after those that were visited; instances start anew when all of them were visited.
 */
function nextTurns(
  partitions: readonly LeasedPartition[],
  looked: readonly LookedRow[],
  request: LeaseRequest,
): Pick<LeaseResult, "after" | "destinations"> {
  const lastServed = new Map<number, string>();
  const count = new Map<number, number>();
  for (const { instanceId, destination } of partitions) {
    if (destination > (lastServed.get(instanceId) ?? "")) lastServed.set(instanceId, destination);
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
