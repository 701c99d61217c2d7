import { type Db, queryRows, type Transaction } from "../../../platform/postgres/db.ts";
import { COUNT_COLUMNS, countColumn, EVENT_KINDS } from "../events/event-kinds.ts";

/** A conversion belongs to the last click of so many days. */
const ATTRIBUTION_DAYS = 30;

/** The delivery that a touch is of, with what decides whether and how it is stored. */
export interface TouchOwner {
  readonly deliveryId: number;
  readonly messageId: number;
  readonly instanceId: number;
  readonly contactId: number | null;
  readonly eeid: string;
  readonly campaignNumid: number;
  readonly recipient: string;
  readonly finishedAt: Date | null;
  readonly conversions: boolean;
  readonly untracked: boolean;
}

/** @returns by delivery, without those that are gone */
export async function findTouchOwners(db: Db, deliveryIds: readonly number[]): Promise<Map<number, TouchOwner>> {
  const rows = await queryRows<TouchOwner>(
    db,
    `select d.id as "deliveryId", m.id as "messageId", d.instance_id as "instanceId", d.contact_id as "contactId",
       m.eeid, m.campaign_numid as "campaignNumid", d.recipient, d.finished_at as "finishedAt", i.conversions,
       coalesce(c.untracked, false) as untracked
     from deliveries d
     join partitions p on p.instance_id = d.instance_id and p.id = d.partition_id
     join messages m on m.instance_id = p.instance_id and m.id = p.message_id
     join instances i on i.id = d.instance_id
     left join contacts c on c.instance_id = d.instance_id and c.id = d.contact_id
     where d.id = any(?::bigint[])`,
    [[...new Set(deliveryIds)]],
  );
  return new Map(rows.map((owner) => [owner.deliveryId, owner]));
}

/** How many links of each message are counted. */
export async function countLinks(db: Db, messageIds: readonly number[]): Promise<Map<number, number>> {
  const rows = await queryRows<{ messageId: number; links: number }>(
    db,
    `select message_id as "messageId", count(*)::int as links from tracked_links where message_id = any(?::bigint[])
     group by message_id`,
    [[...new Set(messageIds)]],
  );
  return new Map(rows.map(({ messageId, links }) => [messageId, links]));
}

/** A delivery whose links a machine may have followed, as of its last click. */
export interface SuspectClicks {
  readonly instanceId: number;
  readonly contactId: number;
  readonly deliveryId: number;
  /** Of the message. */
  readonly links: number;
  readonly until: Date;
}

/** Those of whose messages all links were clicked within so many seconds. */
export async function findAllLinkClicks(
  transaction: Transaction,
  suspects: readonly SuspectClicks[],
  withinSeconds: number,
): Promise<Omit<SuspectClicks, "links">[]> {
  // Laterally, contact by contact: joined otherwise, a large batch could cost its square.
  return queryRows<Omit<SuspectClicks, "links">>(
    transaction,
    `select suspect.instance_id as "instanceId", suspect.contact_id as "contactId", suspect.delivery_id as "deliveryId",
       suspect.until
     from unnest(?::bigint[], ?::bigint[], ?::bigint[], ?::integer[], ?::timestamptz[])
       as suspect (instance_id, contact_id, delivery_id, links, until)
     cross join lateral (
       select e.detail ->> 'link' as link from events e
       where e.contact_id = suspect.contact_id and e.delivery_id = suspect.delivery_id and e.kind = ?
         and e.at between suspect.until - make_interval(secs => ?) and suspect.until
       offset 0
     ) as clicks
     group by 1, 2, 3, 4, suspect.links having count(distinct link) >= suspect.links`,
    [
      suspects.map(({ instanceId }) => instanceId),
      suspects.map(({ contactId }) => contactId),
      suspects.map(({ deliveryId }) => deliveryId),
      suspects.map(({ links }) => links),
      suspects.map(({ until }) => until.toISOString()),
      EVENT_KINDS.clicked,
      withinSeconds,
    ],
  );
}

/** What it changes in the counts when clicks turn out to be a machine's. */
const CLICKS_OF_MACHINES = COUNT_COLUMNS.map((column) =>
  column === countColumn("clicked") ? "-count(*)" : column === "machine" ? "count(*)" : "0",
).join(", ");

/** Marks what had been taken for a person's until then. */
export async function markAllLinkClicks(
  transaction: Transaction,
  caught: readonly Omit<SuspectClicks, "links">[],
  withinSeconds: number,
): Promise<void> {
  if (caught.length === 0) return;
  await queryRows(
    transaction,
    `with recent as (
       select clicks.* from unnest(?::bigint[], ?::bigint[], ?::timestamptz[]) as caught (contact_id, delivery_id, until)
       cross join lateral (
         select e.instance_id, e.at, e.id from events e
         where e.contact_id = caught.contact_id and e.delivery_id = caught.delivery_id and e.kind = ?
           and e.at between caught.until - make_interval(secs => ?) and caught.until
         offset 0
       ) as clicks
     ), marked as (
       update events e set machine = true, detail = e.detail || '{"machine": "all-links"}'
       from recent
       where e.instance_id = recent.instance_id and e.at = recent.at and e.id = recent.id and not e.machine
       returning e.instance_id, e.at
     )
     insert into event_count_deltas (instance_id, minute, ${COUNT_COLUMNS.join(", ")})
     select instance_id, date_trunc('minute', at, 'UTC'), ${CLICKS_OF_MACHINES} from marked group by 1, 2`,
    [
      caught.map(({ contactId }) => contactId),
      caught.map(({ deliveryId }) => deliveryId),
      caught.map(({ until }) => until.toISOString()),
      EVENT_KINDS.clicked,
      withinSeconds,
    ],
  );
}

/** A click that a conversion belongs to. */
export interface AttributedClick {
  readonly eeid: string;
  readonly campaignNumid: number;
  readonly deliveryId: number;
}

/** The last click before a moment; one that may be a machine's counts where there is no other. */
export async function findLastClick(
  transaction: Transaction,
  owner: Pick<TouchOwner, "contactId" | "eeid" | "deliveryId">,
  at: Date,
): Promise<AttributedClick | undefined> {
  const [click] = await queryRows<AttributedClick>(
    transaction,
    `select eeid, campaign_numid as "campaignNumid", delivery_id as "deliveryId" from events
     where ${owner.contactId === null ? "eeid = ? and delivery_id = ?" : "contact_id = ?"} and kind = ?
       and at between ?::timestamptz - make_interval(days => ?) and ?
     order by machine, at desc, id desc limit 1`,
    [
      ...(owner.contactId === null ? [owner.eeid, owner.deliveryId] : [owner.contactId]),
      EVENT_KINDS.clicked,
      at,
      ATTRIBUTION_DAYS,
      at,
    ],
  );
  return click;
}

/** Stores an order's conversion once. @returns false where the order was known */
export async function addConversion(
  transaction: Transaction,
  { instanceId, contactId }: Pick<TouchOwner, "instanceId" | "contactId">,
  { reference, deliveryId, at }: { readonly reference: string; readonly deliveryId: number; readonly at: Date },
): Promise<boolean> {
  const added = await transaction("conversions")
    .insert({ instance_id: instanceId, reference, contact_id: contactId, delivery_id: deliveryId, at })
    .onConflict(["instance_id", "reference"])
    .ignore()
    .returning("reference");
  return added.length > 0;
}
