import type { FilterCondition } from "../../../core/mail/filter-condition.ts";
import { type Db, queryRows, StatementValues, type Transaction } from "../../../platform/postgres/db.ts";
import { type Own, ofInstances } from "../by-instance.ts";
import { compileCondition } from "../contacts/filter-conditions.ts";
import { TOLD_KINDS } from "../events/event-kinds.ts";
import { onPresent } from "../machines.ts";

/** How long events are kept for streams after somebody last read one. */
const STREAM_HOURS = 72;
/** Given places at a time, and read at a time. */
const MOST_AT_ONCE = 5_000;
/** What is dated later than so is not waited for: some node's clock is ahead. */
const LONGEST_SETTLING_SECONDS = 10;

/** Something that happened, with its place in the instance's order. */
export interface ToldEvent {
  readonly position: number;
  readonly kind: number;
  readonly at: Date;
  readonly machine: boolean;
  readonly email: string;
  readonly campaignName: string;
  readonly campaignNumid: number | null;
  readonly eeid: string | null;
  readonly deliveryId: number | null;
  /** The sender domain that it is of; null: it is of a contact or a delivery. */
  readonly domain: string | null;
  /** Reason, status, the far side's words, attempt, exchanger: what is known. */
  readonly detail: Readonly<Record<string, unknown>> | null;
}

/** What of an instance's events somebody wants to be told; what is null restricts nothing. */
export interface FeedSelection {
  /** Numbers of TOLD_KINDS; null: of EVENT_KINDS. */
  readonly kinds: readonly number[] | null;
  readonly campaigns: readonly number[] | null;
  /** Over the contact; what is no contact's is left out then, and everything while a group that it names is gone. */
  readonly condition: FilterCondition | null;
}

/** Opens the feed of an instance, where it is not open: events stored from now on are put into it. */
export async function openFeed(db: Db, instanceId: number): Promise<void> {
  await db("event_feeds").insert({ instance_id: instanceId }).onConflict().ignore();
}

/** Keeps an instance's feed for streams from now on, until some time after the last of these calls. */
export async function keepForStreams(db: Db, instanceId: number): Promise<void> {
  await queryRows(
    db,
    `insert into event_feeds as feed (instance_id, streamed_until) values ($1, now() + make_interval(hours => $2))
     on conflict (instance_id) do update set streamed_until = greatest(feed.streamed_until, excluded.streamed_until)`,
    [instanceId, STREAM_HOURS],
  );
}

/** Forgets what was to be told where nobody listens any more. */
export async function closeUnheardFeed(transaction: Transaction, instanceId: number): Promise<void> {
  if (await isHeard(transaction, instanceId)) return;
  await queryRows(transaction, "delete from webhook_events where instance_id = $1", [instanceId]);
}

/**
 * Gives places to an instance's events that have none: of those that are there by when they happened, so that what one
 * worker stored before another shows in that order. Only one does so at a time; to another it says what was given before.
 * @param settleSeconds leaves alone what happened so recently that something earlier may still be stored
 * @returns the last place that was given
 */
export async function placeEvents(db: Db, instanceId: number, settleSeconds: number): Promise<number> {
  return db.transaction(async (transaction) => {
    const [feed] = await queryRows<{ position: number }>(
      transaction,
      "select position from event_feeds where instance_id = $1 for no key update skip locked",
      [instanceId],
    );
    if (feed === undefined) return findFeedPosition(transaction, instanceId);
    const [placed] = await queryRows<{ last: number | null }>(
      transaction,
      `with due as (
         select serial, row_number() over (order by at, serial) as place from (
           select serial, at from webhook_events
           where instance_id = $1 and position is null and ${hasSettled("webhook_events", "$2")}
           order by serial limit $3
         ) as oldest
       ), placed as (
         update webhook_events e set position = $4::bigint + due.place from due
         where e.instance_id = $1 and e.serial = due.serial and e.position is null returning e.position
       )
       select max(position) as last from placed`,
      [instanceId, settleSeconds, MOST_AT_ONCE, feed.position],
    );
    // Of those that were to have places some may be gone: an erasure took them meanwhile.
    const position = placed!.last;
    if (position === null) return feed.position;
    await transaction("event_feeds").where({ instance_id: instanceId }).update({ position });
    return position;
  });
}

/** A condition in SQL: an event happened long enough ago to be given a place. @param seconds SQL of how long that is */
export function hasSettled(table: string, seconds: string): string {
  return `(${seconds}::float8 = 0 or ${table}.at <= now() - make_interval(secs => ${seconds}::float8)
    or ${table}.stored_at <= now() - make_interval(secs => ${LONGEST_SETTLING_SECONDS}))`;
}

/** The last place that was given; 0 where there is no feed. */
export async function findFeedPosition(db: Db, instanceId: number): Promise<number> {
  return (await db("event_feeds").where({ instance_id: instanceId }).first("position"))?.position ?? 0;
}

/** The first place that is still there; undefined where none is. */
export async function findFirstPosition(db: Db, instanceId: number): Promise<number | undefined> {
  const [row] = await queryRows<{ position: number }>(
    db,
    "select position from webhook_events where instance_id = $1 and position is not null order by position limit 1",
    [instanceId],
  );
  return row?.position;
}

/** Events of a feed, as far as it was looked through. */
interface FeedPage {
  readonly events: readonly ToldEvent[];
  /** The last place that was looked at: the next page begins behind it. */
  readonly through: number;
}

/**
 * Reads on in an instance's feed. What was erased, or is gone with its message, is left out.
 * @param from.after a place @param from.most events
 * @returns looked through no further than some thousand places at a time
 */
export async function readFeed(
  db: Db,
  instanceId: number,
  { kinds, campaigns, condition }: FeedSelection,
  { after, most, now }: { readonly after: number; readonly most: number; readonly now: Date },
): Promise<FeedPage> {
  const values = new StatementValues(instanceId, after, MOST_AT_ONCE);
  const parts = [
    "(e.id is not null or d.id is not null or page.domain is not null)",
    kinds === null
      ? "page.event_id is not null"
      : `coalesce(page.kind, e.kind) = any(${values.add(kinds)}::smallint[])`,
    ...(campaigns === null
      ? []
      : [`coalesce(e.campaign_numid, m.campaign_numid) = any(${values.add(campaigns)}::bigint[])`]),
    ...(condition === null
      ? []
      : [`contact.id is not null and ${compileCondition(condition, { instance: "$1", now }, values)}`]),
  ];
  // One statement: what is given a place meanwhile is in the next page, and not behind it.
  const rows = await queryRows<ToldEvent & { readonly seen: number | null }>(
    db,
    `with page as materialized (
       select position, at, event_id, kind, delivery_id, domain, detail from webhook_events
       where instance_id = $1 and position > $2::bigint order by position limit $3
     ), told as (
       select page.position, coalesce(page.kind, e.kind) as kind, page.at, coalesce(e.machine, false) as machine,
         coalesce(contact.email, e.email, d.recipient, '') as email, coalesce(campaigns.name, '') as "campaignName",
         coalesce(e.campaign_numid, m.campaign_numid) as "campaignNumid", coalesce(e.eeid, m.eeid) as eeid,
         coalesce(page.delivery_id, e.delivery_id) as "deliveryId", page.domain, coalesce(page.detail, e.detail) as detail
       from page
       left join events e on e.instance_id = $1 and e.at = page.at and e.id = page.event_id
       left join deliveries d on d.instance_id = $1 and d.id = page.delivery_id
       left join partitions p on p.instance_id = $1 and p.id = d.partition_id
       left join messages m on m.instance_id = $1 and m.id = p.message_id
       left join contacts as contact on contact.instance_id = $1 and contact.id = coalesce(e.contact_id, d.contact_id)
       left join campaigns on campaigns.instance_id = $1
         and campaigns.numid = coalesce(e.campaign_numid, m.campaign_numid)
       where ${parts.join(" and ")}
       order by page.position limit ${values.add(most)}
     )
     select seen.through as seen, told.* from (select max(position) as through from page) as seen
     left join told on true order by told.position`,
    values.all,
  );
  const events = rows.filter(({ position }) => position !== null).map(({ seen, ...event }) => event);
  const isCut = events.length === most;
  return { events, through: isCut ? events.at(-1)!.position : (rows[0]!.seen ?? after) };
}

/** What became of a delivery, for the feed. */
interface ToldDelivery {
  readonly instanceId: number;
  readonly deliveryId: number;
  readonly at: Date;
  /** Of TOLD_KINDS. */
  readonly kind: number;
  readonly detail: Readonly<Record<string, unknown>>;
}

/** Puts what became of deliveries into the feeds of those instances that want to know; in the transaction that stores it. */
export async function tellDeliveries(transaction: Transaction, told: readonly ToldDelivery[]): Promise<void> {
  if (told.length === 0) return;
  await queryRows(
    transaction,
    `insert into webhook_events (instance_id, at, kind, delivery_id, detail)
     select given.* from unnest($1::bigint[], $2::timestamptz[], $3::smallint[], $4::bigint[], $5::jsonb[])
       as given (instance_id, at, kind, delivery_id, detail)
     where ${hearsOfDeliveries("instance_id")}`,
    [
      told.map(({ instanceId }) => instanceId),
      told.map(({ at }) => at.toISOString()),
      told.map(({ kind }) => kind),
      told.map(({ deliveryId }) => deliveryId),
      told.map(({ detail }) => JSON.stringify(detail)),
    ],
  );
}

/** What a source of a sender domain does for the first time, for the feed. */
export interface ToldSource {
  /** Of TOLD_KINDS. */
  readonly kind: number;
  readonly detail: SourceDetail;
}

/** What is told of a source, as a report says it. */
interface SourceDetail {
  /** IP address. */
  readonly source: string;
  /** Domains of a signature and of the return path; empty: none was reported. */
  readonly dkimDomain: string;
  readonly spfDomain: string;
  /** Who reports it. */
  readonly reporter: string;
}

/** Puts what sources of a sender domain do into its instance's feed, where that wants to know; in the transaction that stores it. */
export async function tellSources(
  transaction: Transaction,
  { instanceId, domain }: { readonly instanceId: number; readonly domain: string },
  told: readonly ToldSource[],
): Promise<void> {
  if (told.length === 0) return;
  await queryRows(
    transaction,
    `insert into webhook_events (instance_id, at, kind, domain, detail)
     select $1, now(), given.kind, $2, given.detail from unnest($3::smallint[], $4::jsonb[]) as given (kind, detail)
     where $1 in (select instance_id from webhook_instances where sources)`,
    [instanceId, domain, told.map(({ kind }) => kind), told.map(({ detail }) => JSON.stringify(detail))],
  );
}

/**
 * The end of a statement that cancels deliveries: tells those instances that want to know.
 * @param cancelled a part of it with instance_id and id
 */
export function tellCancelled(cancelled: string): string {
  return `insert into webhook_events (instance_id, at, kind, delivery_id, detail)
     select instance_id, now(), ${TOLD_KINDS.cancelled}, id, '{}'::jsonb from ${cancelled}
     where ${hearsOfDeliveries("instance_id")}`;
}

const HEARERS_OF_DELIVERIES = "select instance_id from webhook_instances where deliveries";

/** A condition in SQL: whether an instance wants to know what becomes of its deliveries. */
function hearsOfDeliveries(instanceId: string): string {
  return `${instanceId} in (${HEARERS_OF_DELIVERIES})`;
}

/** The instances among those of a statement that do, as a query in SQL: on Citus by tables, as it asks every machine for a view. */
export function hearersOfDeliveries(own: Own): string {
  if (own !== ofInstances) return HEARERS_OF_DELIVERIES;
  const { delivered, deferred, cancelled } = TOLD_KINDS;
  return hearers(own, `and w.kinds && array[${delivered}, ${deferred}, ${cancelled}]::smallint[]`);
}

function hearers(own: Own, wanting: string): string {
  return `select f.instance_id from event_feeds f where ${own("f")} and (f.streamed_until > now() or exists (
    select from webhooks w where ${own("w")} and w.instance_id = f.instance_id ${wanting}))`;
}

/** Whether somebody wants to know what happens to contacts of an instance, as a statement about it alone. */
export async function isHeard(db: Db, instanceId: number): Promise<boolean> {
  const rows = await queryRows(db, hearers(ofInstances, ""), [[instanceId]], { name: "is-heard" });
  return rows.length > 0;
}

/** Puts events of an instance, just stored, into its feed. */
export async function tellEvents(
  db: Db,
  instanceId: number,
  events: readonly { readonly id: number; readonly at: Date; readonly kind: number }[],
): Promise<void> {
  await queryRows(
    db,
    `insert into webhook_events (instance_id, at, event_id, kind)
     select $1::bigint, at, id, kind from unnest($2::timestamptz[], $3::bigint[], $4::smallint[]) as told (at, id, kind)
     order by at, id`,
    [instanceId, events.map(({ at }) => at.toISOString()), events.map(({ id }) => id), events.map(({ kind }) => kind)],
  );
}

/** Forgets deliveries that are erased. */
export async function forgetDeliveries(
  transaction: Transaction,
  instanceId: number,
  deliveryIds: readonly number[],
): Promise<void> {
  await queryRows(
    transaction,
    "delete from webhook_events where instance_id = $2 and delivery_id = any($1::bigint[])",
    [deliveryIds, instanceId],
  );
}

/** Removes what all webhooks of an instance have in their batches, and streams need no longer. */
export async function tidyFeeds(db: Db): Promise<void> {
  const feeds = await queryRows<{ instance_id: number; through: number; streamed: boolean }>(
    db,
    `select f.instance_id, f.streamed_until > now() as streamed,
       least(f.position, coalesce(min(w.position), f.position)) as through
     from event_feeds f left join webhooks w on w.instance_id = f.instance_id and ${onPresent(db, "w.instance_id")}
     where ${onPresent(db, "f.instance_id")} group by f.instance_id`,
  );
  for (const { instance_id, through, streamed } of feeds) {
    for (let removed = MOST_AT_ONCE; removed === MOST_AT_ONCE; ) {
      const rows = await queryRows(
        db,
        `delete from webhook_events where instance_id = $1 and position in (
           select position from webhook_events where instance_id = $1 and position <= $2
             and (not $3 or stored_at < now() - make_interval(hours => $4)) order by position limit $5)
         returning 1`,
        [instance_id, through, streamed, STREAM_HOURS, MOST_AT_ONCE],
      );
      removed = rows.length;
    }
  }
}
