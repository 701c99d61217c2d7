import { type Db, queryRows, type Transaction } from "../platform/db.ts";

/** Told on every commit of a send, so that workers need not wait for their next look. The payload is empty. */
export const QUEUE_CHANNEL = "palomar_queue";

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

/** A recipient about to be queued. */
export interface NewDelivery {
  readonly contactId: number | null;
  readonly role: "to" | "cc" | "bcc";
  /** Address as it was given. */
  readonly recipient: string;
  /** Its domain as A-labels. */
  readonly destination: string;
  readonly personal: PersonalData | null;
}

/** What the rendering of a template needs of one recipient, kept until the last outcome. */
export interface PersonalData {
  /** Display name for the To field. */
  readonly name?: string;
  /** Values of the tags that the template uses, by name without wrapping. */
  readonly tags?: Readonly<Record<string, string>>;
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

/** Small enough that the connections of a destination share a batch, large enough that a lease is worth its cost. */
const RECIPIENTS_PER_PARTITION = 200;
/** How many destinations one look visits; a look that found nothing to take goes on with the next one. */
const DESTINATIONS_PER_LOOK = 500;

/**
 * Queues the recipients of a message, cut into partitions by destination, and tells the workers at commit.
 * @returns the deliveries with their ids, in the given order
 */
export async function enqueue(
  transaction: Transaction,
  batch: { readonly eeid: string; readonly messageId: number; readonly deliveries: readonly NewDelivery[] },
): Promise<(NewDelivery & { readonly id: number })[]> {
  const chunks = partition(batch.deliveries);
  const partitionIds = await takeIds(transaction, "partitions_id_seq", chunks.length);
  await queryRows(
    transaction,
    `insert into partitions (id, eeid, message_id, destination, recipients) overriding system value
     select id, ?, ?, destination, recipients
     from unnest(?::bigint[], ?::text[], ?::integer[]) as given (id, destination, recipients)`,
    [
      batch.eeid,
      batch.messageId,
      partitionIds,
      chunks.map(({ destination }) => destination),
      chunks.map(({ deliveries }) => deliveries.length),
    ],
  );
  const partitionOf = new Map(
    chunks.flatMap(({ deliveries }, index) => deliveries.map((delivery) => [delivery, partitionIds[index]!] as const)),
  );
  const ids = await takeIds(transaction, "deliveries_id_seq", batch.deliveries.length);
  await queryRows(
    transaction,
    `insert into deliveries (id, partition_id, contact_id, role, recipient, personal) overriding system value
     select * from unnest(?::bigint[], ?::bigint[], ?::bigint[], ?::text[], ?::text[], ?::jsonb[])`,
    [
      ids,
      batch.deliveries.map((delivery) => partitionOf.get(delivery)!),
      batch.deliveries.map(({ contactId }) => contactId),
      batch.deliveries.map(({ role }) => role),
      batch.deliveries.map(({ recipient }) => recipient),
      batch.deliveries.map(({ personal }) => personal && JSON.stringify(personal)),
    ],
  );
  await queryRows(transaction, "select pg_notify(?, '')", [QUEUE_CHANNEL]);
  return batch.deliveries.map((delivery, index) => ({ ...delivery, id: ids[index]! }));
}

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

/** Leaves a destination alone for a while, for every worker. */
export async function backOffDestination(
  db: Db,
  destination: string,
  backOff: { readonly seconds: number; readonly reason: string },
): Promise<void> {
  await queryRows(
    db,
    `insert into destination_backoffs as b (destination, until, reason)
     values (?, now() + make_interval(secs => ?), ?)
     on conflict (destination) do update set until = greatest(b.until, excluded.until), reason = excluded.reason`,
    [destination, backOff.seconds, backOff.reason],
  );
}

/** Forgets the back-offs that are over. */
export async function purgeBackOffs(db: Db): Promise<void> {
  await db.raw("delete from destination_backoffs where until < now()");
}

/** A destination took mail again. */
export async function endBackOff(db: Db, destination: string): Promise<void> {
  await db("destination_backoffs").where({ destination }).delete();
}

function partition(deliveries: readonly NewDelivery[]): { destination: string; deliveries: NewDelivery[] }[] {
  const open = new Map<string, NewDelivery[]>();
  const chunks: { destination: string; deliveries: NewDelivery[] }[] = [];
  for (const delivery of deliveries) {
    const { destination } = delivery;
    let chunk = open.get(destination);
    if (chunk === undefined || chunk.length === RECIPIENTS_PER_PARTITION) {
      chunk = [];
      open.set(destination, chunk);
      chunks.push({ destination, deliveries: chunk });
    }
    chunk.push(delivery);
  }
  return chunks;
}

/** Ids ahead of the rows, so that rows which refer to each other are inserted in bulk. */
async function takeIds(transaction: Transaction, sequence: string, count: number): Promise<number[]> {
  const rows = await queryRows<{ id: number }>(
    transaction,
    "select nextval(?::regclass) as id from generate_series(1, ?)",
    [sequence, count],
  );
  return rows.map(({ id }) => id);
}
