import { type Db, queryRows, type Transaction } from "../../../platform/postgres/db.ts";
import { byInstance } from "../by-instance.ts";
import { COUNT_COLUMNS, EVENT_KINDS, MACHINE_CORRECTIONS } from "../events/event-kinds.ts";
import { onPresent } from "../machines.ts";

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

/**
 * Every table says whose rows it has: with an outer join a Citus asks all machines otherwise.
 * @returns by delivery, without those that are gone, or on a machine that does not answer
 */
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
     left join contacts c on c.instance_id = d.instance_id and c.id = d.contact_id and ${onPresent(db, "c.instance_id")}
     where d.id = any($1::bigint[]) and ${onPresent(db, "d.instance_id")} and ${onPresent(db, "p.instance_id")}
       and ${onPresent(db, "m.instance_id")}`,
    [[...new Set(deliveryIds)]],
  );
  return new Map(rows.map((owner) => [owner.deliveryId, owner]));
}

/** Of a message, what tells a machine's clicks. */
export interface MessageLinks {
  /** Those that a reader can see. */
  readonly visible: number;
  readonly hidden: readonly string[];
}

/** The links of each message that are counted. */
export async function countLinks(db: Db, messageIds: readonly number[]): Promise<Map<number, MessageLinks>> {
  if (messageIds.length === 0) return new Map();
  const rows = await queryRows<MessageLinks & { messageId: number }>(
    db,
    `select message_id as "messageId", (count(*) filter (where not hidden))::int as visible,
       coalesce(array_agg(link) filter (where hidden), '{}') as hidden
     from tracked_links where message_id = any($1::bigint[]) and ${onPresent(db)} group by message_id`,
    [[...new Set(messageIds)]],
  );
  return new Map(rows.map(({ messageId, ...links }) => [messageId, links]));
}

/** A delivery whose touches may be a machine's, as of one of them. */
export interface SuspectTouch {
  readonly instanceId: number;
  readonly contactId: number;
  readonly deliveryId: number;
  readonly at: Date;
}

/** What a machine did with a delivery, from a moment until another, both included. */
export interface MachineStretch extends Omit<SuspectTouch, "at"> {
  readonly since: Date;
  readonly until: Date;
}

/** Those of whose messages all visible links were clicked within so many seconds. */
export async function findAllLinkClicks(
  transaction: Transaction,
  suspects: readonly (SuspectTouch & { readonly links: number })[],
  withinSeconds: number,
): Promise<MachineStretch[]> {
  // Laterally, contact by contact: joined otherwise, a large batch could cost its square.
  return byInstance(transaction, suspects, (own, instanceIds) =>
    queryRows<MachineStretch>(
      transaction,
      `select suspect.instance_id as "instanceId", suspect.contact_id as "contactId", suspect.delivery_id as "deliveryId",
       suspect.at - make_interval(secs => $1) as since, suspect.at as until
     from unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::timestamptz[], $6::integer[])
       as suspect (instance_id, contact_id, delivery_id, at, links)
     cross join lateral (
       select e.detail ->> 'link' as link from events e
       where e.instance_id = any($9::bigint[]) and e.contact_id = suspect.contact_id and e.delivery_id = suspect.delivery_id and e.kind = $7
         and e.at between suspect.at - make_interval(secs => $8) and suspect.at
       offset 0
     ) as clicks
     group by 1, 2, 3, 4, 5, suspect.links having count(distinct link) >= suspect.links`,
      [
        ...[withinSeconds, ...columnsOf(own), own.map(({ links }) => links), EVENT_KINDS.clicked, withinSeconds],
        instanceIds,
      ],
    ),
  );
}

/** Those openings that no other came before, and a click did, at most so many seconds: nobody clicks unseen links. */
export async function findClicksBeforeOpening(
  transaction: Transaction,
  openings: readonly SuspectTouch[],
  withinSeconds: number,
): Promise<MachineStretch[]> {
  return byInstance(transaction, openings, (own, instanceIds) =>
    queryRows<MachineStretch>(
      transaction,
      `select opening.instance_id as "instanceId", opening.contact_id as "contactId", opening.delivery_id as "deliveryId",
       first.click as since, opening.at as until
     from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::timestamptz[]) as opening (instance_id, contact_id, delivery_id, at)
     cross join lateral (
       select min(e.at) filter (where e.kind = $5) as click, min(e.at) filter (where e.kind = $6) as opening from events e
       where e.instance_id = any($8::bigint[]) and e.contact_id = opening.contact_id and e.delivery_id = opening.delivery_id and e.at <= opening.at
     ) as first
     where first.opening = opening.at and first.click >= opening.at - make_interval(secs => $7)`,
      [...columnsOf(own), EVENT_KINDS.clicked, EVENT_KINDS.viewed, withinSeconds, instanceIds],
    ),
  );
}

function columnsOf(touches: readonly SuspectTouch[]) {
  return [
    touches.map(({ instanceId }) => instanceId),
    touches.map(({ contactId }) => contactId),
    touches.map(({ deliveryId }) => deliveryId),
    touches.map(({ at }) => at.toISOString()),
  ];
}

/** Marks what had been taken for a person's until then. @param caught `opens`: openings as well as clicks */
export async function markMachineTouches(
  transaction: Transaction,
  caught: readonly (MachineStretch & { readonly machine: string; readonly opens: boolean })[],
): Promise<void> {
  await byInstance(transaction, caught, (own, instanceIds) =>
    queryRows(
      transaction,
      `with recent as (
       select touches.*, caught.found from unnest($1::bigint[], $2::bigint[], $3::timestamptz[], $4::timestamptz[], $5::jsonb[], $6::boolean[])
         as caught (contact_id, delivery_id, since, until, found, opens)
       cross join lateral (
         select e.instance_id, e.at, e.id from events e
         where e.instance_id = any($9::bigint[]) and e.contact_id = caught.contact_id and e.delivery_id = caught.delivery_id
           and (e.kind = $7 or e.kind = $8 and caught.opens) and e.at between caught.since and caught.until
         offset 0
       ) as touches
     ), marked as (
       update events e set machine = true, detail = e.detail || recent.found
       from recent
       where e.instance_id = any($9::bigint[]) and e.instance_id = recent.instance_id and e.at = recent.at and e.id = recent.id and not e.machine
       returning e.instance_id, e.at, e.kind
     )
     insert into event_count_deltas (instance_id, minute, ${COUNT_COLUMNS.join(", ")})
     select instance_id, date_trunc('minute', at, 'UTC'), ${MACHINE_CORRECTIONS} from marked group by 1, 2`,
      [
        own.map(({ contactId }) => contactId),
        own.map(({ deliveryId }) => deliveryId),
        own.map(({ since }) => since.toISOString()),
        own.map(({ until }) => until.toISOString()),
        own.map(({ machine }) => JSON.stringify({ machine })),
        own.map(({ opens }) => opens),
        EVENT_KINDS.clicked,
        EVENT_KINDS.viewed,
        instanceIds,
      ],
    ),
  );
}

/** A click that a conversion belongs to. */
interface AttributedClick {
  readonly eeid: string;
  readonly campaignNumid: number;
  readonly deliveryId: number;
}

/** The last click before a moment; one that may be a machine's counts where there is no other. */
export async function findLastClick(
  transaction: Transaction,
  owner: Pick<TouchOwner, "instanceId" | "contactId" | "eeid" | "deliveryId">,
  at: Date,
): Promise<AttributedClick | undefined> {
  const [click] = await queryRows<AttributedClick>(
    transaction,
    `select eeid, campaign_numid as "campaignNumid", delivery_id as "deliveryId" from events
     where instance_id = $4 and ${owner.contactId === null ? "eeid = $5 and delivery_id = $6" : "contact_id = $5"} and kind = $1
       and at between $2::timestamptz - make_interval(days => $3) and $2
     order by machine, at desc, id desc limit 1`,
    [
      ...[EVENT_KINDS.clicked, at, ATTRIBUTION_DAYS, owner.instanceId],
      ...(owner.contactId === null ? [owner.eeid, owner.deliveryId] : [owner.contactId]),
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
