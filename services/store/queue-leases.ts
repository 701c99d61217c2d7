import { type Db, queryRows, type Transaction } from "../platform/db.ts";
import type { PersonalData } from "./queue.ts";

/** A share of a message's recipients, all of one domain, that one worker holds until its lease runs out. */
export interface LeasedPartition {
  readonly id: number;
  readonly messageId: number;
  /** The recipients' domain as A-labels. */
  readonly destination: string;
  /** When the message was accepted. */
  readonly acceptedAt: Date;
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
  /** Completed attempts. */
  readonly attempts: number;
}

export interface LeaseRequest {
  readonly workerId: string;
  readonly limit: number;
  readonly leaseSeconds: number;
  /** Where the last look ended: destinations take turns in the order of their names. '' starts from the first. */
  readonly after: string;
  /** How many more partitions the destinations may have that are near their limits; 0 passes them over. */
  readonly room: ReadonlyMap<string, number>;
  /** The same for all other destinations. */
  readonly partitionsPerDestination: number;
}

export interface LeaseResult {
  readonly partitions: readonly LeasedPartition[];
  /** `after` for the next request; '' when the round is complete. */
  readonly after: string;
}

/** How many destinations one look visits; a look that found nothing to take goes on with the next one. */
const DESTINATIONS_PER_LOOK = 500;

/**
 * Leases partitions that are ready, a few from each destination. It hops from destination to destination through the
 * index, so that its cost depends neither on the length of the queue nor on how much of it is for one destination.
 * Destinations in back-off are passed over.
 */
export async function leasePartitions(db: Db, request: LeaseRequest): Promise<LeaseResult> {
  const rows = await queryRows<{ taken: TakenRow[] | null; visited: number; last: string | null }>(
    db,
    `with recursive hops (destination, number) as (
       (select destination, 1 from partitions where state = 'ready' and destination > ? order by destination limit 1)
       union all
       select (select p.destination from partitions p
               where p.state = 'ready' and p.destination > hops.destination order by p.destination limit 1), number + 1
       from hops where hops.destination is not null and number < ?
     ), chosen as (
       select candidate.id from hops
       left join unnest(?::text[], ?::integer[]) as room (destination, partitions) using (destination)
       cross join lateral (
         select p.id from partitions p
         where p.state = 'ready' and p.destination = hops.destination
         order by p.id limit coalesce(room.partitions, ?) for update skip locked
       ) candidate
       where hops.destination is not null
         and not exists (select from destination_backoffs b where b.destination = hops.destination and b.until > now())
       limit ?
     ), taken as (
       update partitions p
       set state = 'leased', lease_owner = ?, lease_until = now() + make_interval(secs => ?),
           taken_at = coalesce(p.taken_at, now()), modified_at = now()
       from messages m where p.id in (select id from chosen) and m.id = p.message_id
       returning p.id, p.message_id, p.destination, extract(epoch from m.created_at)::float8 as accepted_at
     )
     select (select json_agg(taken) from taken) as taken,
            (select count(*) from hops where destination is not null) as visited,
            (select max(destination) from hops) as last`,
    [
      request.after,
      DESTINATIONS_PER_LOOK,
      [...request.room.keys()],
      [...request.room.values()],
      request.partitionsPerDestination,
      request.limit,
      request.workerId,
      request.leaseSeconds,
    ],
  );
  const { taken, ...round } = rows[0]!;
  const partitions = (taken ?? []).map((row) => ({
    id: row.id,
    messageId: row.message_id,
    destination: row.destination,
    acceptedAt: new Date(row.accepted_at * 1000),
  }));
  return { partitions, after: nextStart(partitions, round, request.limit) };
}

interface TakenRow {
  id: number;
  message_id: number;
  destination: string;
  /** Seconds since the epoch. */
  accepted_at: number;
}

/** Where the next look starts: after what was served when the limit cut this one short, else after what was visited. */
function nextStart(
  partitions: readonly LeasedPartition[],
  { visited, last }: { visited: number; last: string | null },
  limit: number,
): string {
  if (partitions.length >= limit)
    return partitions
      .map(({ destination }) => destination)
      .sort()
      .at(-1)!;
  return visited >= DESTINATIONS_PER_LOOK ? (last ?? "") : "";
}

/** The recipients of leased partitions that are due, in the order in which they were accepted. */
export async function loadDueDeliveries(db: Db, partitionIds: readonly number[]): Promise<DueDelivery[]> {
  const rows = await queryRows<DeliveryRow>(
    db,
    `select id, partition_id, contact_id, role, recipient, personal, attempts from deliveries
     where partition_id = any(?) and state = 'queued' and due_at <= now() order by id`,
    [partitionIds],
  );
  return rows.map((row) => ({
    id: row.id,
    partitionId: row.partition_id,
    contactId: row.contact_id,
    role: row.role,
    recipient: row.recipient,
    personal: row.personal ?? {},
    attempts: row.attempts,
  }));
}

interface DeliveryRow {
  id: number;
  partition_id: number;
  contact_id: number | null;
  role: DueDelivery["role"];
  recipient: string;
  personal: PersonalData | null;
  attempts: number;
}

/** Prolongs a worker's leases. @returns the partitions that it still holds */
export async function extendLeases(db: Db, workerId: string, leaseSeconds: number): Promise<number[]> {
  const rows = await queryRows<{ id: number }>(
    db,
    `update partitions set lease_until = now() + make_interval(secs => ?)
     where state = 'leased' and lease_owner = ? and lease_until > now() returning id`,
    [leaseSeconds, workerId],
  );
  return rows.map(({ id }) => id);
}

/**
 * Gives partitions back: finished when no recipient is left, else until the first of them is due again.
 * To be called after their outcomes are stored, in the same transaction.
 */
export async function releasePartitions(
  transaction: Transaction,
  workerId: string,
  partitionIds: readonly number[],
): Promise<void> {
  await queryRows(
    transaction,
    `update partitions p
     set state = case when rest.due_at is null then 'finished' when rest.due_at <= now() then 'ready' else 'deferred' end,
         due_at = coalesce(rest.due_at, p.due_at), lease_owner = null, lease_until = null, modified_at = now()
     from (select given.id, (select min(d.due_at) from deliveries d
                             where d.partition_id = given.id and d.state = 'queued') as due_at
           from unnest(cast(? as bigint[])) as given (id)) rest
     where p.id = rest.id and p.state = 'leased' and p.lease_owner = ?`,
    [partitionIds, workerId],
  );
}

/**
 * Makes ready what has become due, and what a worker that is gone still held.
 * @returns how many partitions, at most `limit` of each kind
 */
export async function wakePartitions(db: Db, limit: number): Promise<number> {
  const { rowCount } = await db.raw(
    `with due as (
       select id from partitions where state = 'deferred' and due_at <= now() order by due_at limit ? for update skip locked
     ), abandoned as (
       select id from partitions where state = 'leased' and lease_until <= now() order by lease_until limit ?
       for update skip locked
     )
     update partitions p set state = 'ready', lease_owner = null, lease_until = null, modified_at = now()
     where p.id in (select id from due union all select id from abandoned)`,
    [limit, limit],
  );
  return rowCount;
}
