import { type DomainName, nameFromStoredWire } from "../../core/dns/name.ts";
import { type Db, queryRows, StatementValues } from "../../platform/postgres/db.ts";
import { isInScope, type ZoneScope, zoneName } from "./zones.ts";

/** On which workers are told that requests wait. */
export const UPDATES_CHANNEL = "palomar_updates";

/** On which name servers are told that requests were judged. */
export const UPDATE_ANSWERS_CHANNEL = "palomar_update_answers";

/** How long a request may wait for its turn: an answer that comes later finds nobody. */
export const BEGIN_WITHIN_SECONDS = 5;

/**
 * How long rows stay: a message may be signed 300 s ahead of our clock and is good for 300 s after that, and so long
 * its row tells that it was made. Workers take no larger fudge.
 */
const KEEP_SECONDS = 900;

/** Whether a zone `z` takes updates. */
const TAKES_UPDATES = `coalesce(z.updates, exists (
  select from reseller_updates u where u.reseller_id = z.reseller_id))`;

/** A request as a name server got it. */
export interface ReceivedUpdate {
  readonly apex: DomainName;
  readonly message: Uint8Array;
  /** SHA-256 of the message. */
  readonly digest: Uint8Array;
  readonly client: string;
  /** By the database's clock, when it is over, however late it gets there; null where that clock is not known yet. */
  readonly beginBy: Date | null;
}

/**
 * What became of a request that was to be put in the queue. Waiting ones have the id of their row, which is that of an
 * earlier one where the same message was put there before.
 */
export type QueuedUpdate =
  | { readonly kind: "no-zone" | "not-taken" | "try-again" }
  | { readonly kind: "waiting"; readonly id: number }
  | { readonly kind: "judged"; readonly rcode: number };

/**
 * Puts requests in the queue, each message once, and tells the workers.
 * @returns what became of each, in order, and what the database's clock said when it was done
 */
export async function queueUpdates(
  db: Db,
  updates: readonly ReceivedUpdate[],
): Promise<{ readonly queued: readonly QueuedUpdate[]; readonly at: Date }> {
  const rows = await queryRows<QueueRow>(
    db,
    QUEUE_UPDATES,
    [
      updates.map(({ apex }) => zoneName(apex)),
      updates.map(({ digest }) => digest),
      updates.map(({ message }) => message),
      updates.map(({ client }) => client),
      updates.map(({ beginBy }) => beginBy?.toISOString() ?? null),
      UPDATES_CHANNEL,
    ],
    { name: "queue-updates" },
  );
  return { queued: rows.map(queuedUpdate), at: rows[0]!.at };
}

function queuedUpdate({ zone_id, is_taken, id, rcode }: QueueRow): QueuedUpdate {
  if (zone_id === null) return { kind: "no-zone" };
  if (!is_taken) return { kind: "not-taken" };
  // Another server put it there in the same moment.
  if (id === null) return { kind: "try-again" };
  return rcode === null ? { kind: "waiting", id } : { kind: "judged", rcode };
}

interface QueueRow {
  readonly at: Date;
  readonly zone_id: number | null;
  readonly is_taken: boolean | null;
  readonly id: number | null;
  readonly rcode: number | null;
}

/** A request is lost with the database without harm: it was not answered. What is made of it waits for the disk. */
const QUEUE_UPDATES = `
  with wanted as (
    select * from unnest($1::text[], $2::bytea[], $3::bytea[], $4::text[], $5::timestamptz[])
      with ordinality as w (name, digest, message, client, begin_by, place)
  ), placed as (
    select w.*, z.id as zone_id, ${TAKES_UPDATES} as is_taken
      from wanted w left join zones z
        on z.name = w.name and z.kind = 'primary' and not z.suspended and not z.company_suspended
  ), added as (
    insert into dns_updates (zone_id, digest, message, client, begin_by)
    select zone_id, digest, message, client, least(now() + interval '${BEGIN_WITHIN_SECONDS} s', begin_by)
      from placed where zone_id is not null and is_taken order by place
    on conflict (digest) do nothing
    returning id, digest
  ), told as (
    select set_config('synchronous_commit', 'off', true), pg_notify($6, '') where exists (select from added)
  )
  select clock_timestamp() as at, p.zone_id, p.is_taken, coalesce(a.id, d.id) as id, d.rcode
    from placed p
    left join added a on a.digest = p.digest
    left join dns_updates d on d.digest = p.digest
    left join told on true
   order by p.place`;

/** The response codes of those of the requests that were judged, by id. */
export async function readUpdateAnswers(db: Db, ids: readonly number[]): Promise<Map<number, number>> {
  const rows = await queryRows<{ id: number; rcode: number }>(
    db,
    "select id, rcode from dns_updates where id = any($1::bigint[]) and rcode is not null",
    [ids],
    { name: "read-update-answers" },
  );
  return new Map(rows.map(({ id, rcode }) => [id, rcode]));
}

/** A request that waits to be judged. */
export interface WaitingUpdate {
  readonly id: number;
  readonly message: Buffer;
  readonly digest: Buffer;
  readonly client: string;
}

/** Requests that are in work at a time, those that wait for their zone's turn included. */
const MOST_OF_ZONE = 16;
const MOST_OF_COMPANY = 24;
const MOST_OF_RESELLER = 48;

/**
 * The requests to be taken up next, so that nobody's many requests keep those of others waiting: resellers take turns,
 * then a reseller's companies, a company's zones, and the clients that name a zone, of which some may be strangers.
 * A client's requests keep their order. None of a zone, company or reseller that has its most in work.
 * @param inWork ids that are in work already, and count
 */
export function listWaitingUpdates(db: Db, inWork: readonly number[], limit: number): Promise<WaitingUpdate[]> {
  return queryRows<WaitingUpdate>(
    db,
    `with in_work as materialized (
       select d.id, d.zone_id, d.client from unnest($1::bigint[]) w (id) join dns_updates d on d.id = w.id
        where d.rcode is null
     ), waiting as (
       select id, zone_id, client, true as in_work from in_work
       union all
       select d.id, d.zone_id, d.client, false from dns_updates d
        where d.rcode is null and d.begin_by > now() and d.received_at > now() - interval '${BEGIN_WITHIN_SECONDS} s'
          and not exists (select from in_work w where w.id = d.id)
     ), by_client as (
       select id, zone_id, in_work, row_number() over (partition by zone_id, client order by in_work desc, id) as place
         from waiting
     ), by_zone as (
       select id, zone_id, in_work, row_number() over (partition by zone_id order by in_work desc, place, id) as place
         from by_client
     ), by_company as (
       select w.id, w.in_work, z.reseller_id,
              row_number() over (partition by z.company_id order by w.in_work desc, w.place, w.id) as place
         from by_zone w left join zones z on z.id = w.zone_id
        where w.in_work or w.place <= ${MOST_OF_ZONE}
     ), by_reseller as (
       select id, in_work, row_number() over (partition by reseller_id order by in_work desc, place, id) as place
         from by_company where in_work or place <= ${MOST_OF_COMPANY}
     ), next as (
       select id, place from by_reseller
        where not in_work and place <= ${MOST_OF_RESELLER} order by place, id limit $2
     )
     select d.id, d.message, d.digest, d.client from next join dns_updates d on d.id = next.id
      where d.rcode is null order by next.place, d.id`,
    [inWork, limit],
    { name: "list-waiting-updates" },
  );
}

/** The zone of a request that this transaction has for itself. */
export interface ClaimedUpdate {
  /** Undefined when the zone is gone. */
  readonly apex: DomainName | undefined;
  /** Whether the zone takes updates. */
  readonly isTaken: boolean;
}

/** Claims a request until the transaction ends. @returns undefined when others have it, or its time is over */
export async function claimUpdate(transaction: Db, id: number): Promise<ClaimedUpdate | undefined> {
  const [row] = await queryRows<{ apex: Buffer | null; is_taken: boolean | null }>(
    transaction,
    `select z.apex, ${TAKES_UPDATES} and not z.suspended and not z.company_suspended as is_taken
       from (select zone_id from dns_updates
              where id = $1 and rcode is null and begin_by > now() for update skip locked) claimed
       left join zones z on z.id = claimed.zone_id and z.kind = 'primary'`,
    [id],
    { name: "claim-update" },
  );
  return row && { apex: row.apex ? nameFromStoredWire(row.apex) : undefined, isTaken: row.is_taken ?? false };
}

/** Writes down what became of a request. */
export async function finishUpdate(db: Db, id: number, rcode: number): Promise<void> {
  await queryRows(
    db,
    "update dns_updates set rcode = $1, judged_at = now(), message = null where id = $2 and rcode is null",
    [rcode, id],
    { name: "finish-update" },
  );
}

/** Tells the name servers that requests were judged: after the commit, as in {@link notifyZones}. */
export async function notifyUpdateAnswers(db: Db): Promise<void> {
  await queryRows(
    db,
    "select set_config('synchronous_commit', 'off', true), pg_notify($1, '')",
    [UPDATE_ANSWERS_CHANNEL],
    { name: "notify-update-answers" },
  );
}

/** Removes requests that could not come once more. */
export async function pruneUpdates(db: Db): Promise<void> {
  await queryRows(
    db,
    `delete from dns_updates
      where received_at < now() - make_interval(secs => $1) and coalesce(judged_at, received_at) < now() - make_interval(secs => $2)`,
    [KEEP_SECONDS, KEEP_SECONDS],
  );
}

/** Whether a zone takes updates. */
export interface ZoneUpdates {
  readonly enabled: boolean;
  /** What the zone itself says; null: as its reseller's zones do. */
  readonly own: boolean | null;
}

/** Undefined when the scope has no such zone. */
export async function readZoneUpdates(db: Db, scope: ZoneScope, apex: DomainName): Promise<ZoneUpdates | undefined> {
  const values = new StatementValues(zoneName(apex));
  const [row] = await queryRows<ZoneUpdates>(
    db,
    `select ${TAKES_UPDATES} as enabled, z.updates as own from zones z
      where z.name = $1 and z.kind = 'primary' and ${isInScope(scope, values)}`,
    values.all,
  );
  return row;
}

/** @param own null: as its reseller's zones do. @returns whether the scope has such a zone */
export async function setZoneUpdates(
  db: Db,
  scope: ZoneScope,
  apex: DomainName,
  own: boolean | null,
): Promise<boolean> {
  const values = new StatementValues(own, zoneName(apex));
  const rows = await queryRows(
    db,
    `update zones z set updates = $1 where name = $2 and kind = 'primary' and ${isInScope(scope, values)} returning id`,
    values.all,
  );
  return rows.length > 0;
}

export async function readResellerUpdates(db: Db, resellerId: string): Promise<boolean> {
  return (await queryRows(db, "select from reseller_updates where reseller_id = $1", [resellerId])).length > 0;
}

/** Whether the reseller's zones take updates where they do not say otherwise. */
export async function setResellerUpdates(db: Db, resellerId: string, enabled: boolean): Promise<void> {
  const sql = enabled
    ? "insert into reseller_updates (reseller_id) values ($1) on conflict do nothing"
    : "delete from reseller_updates where reseller_id = $1";
  await queryRows(db, sql, [resellerId]);
}
