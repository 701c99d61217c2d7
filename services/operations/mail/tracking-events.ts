import { type Db, queryRows, type Transaction } from "../../platform/postgres/db.ts";
import { lockContacts } from "../../store/mail/contacts/contacts.ts";
import { COUNT_COLUMNS, countColumn, EVENT_KINDS } from "../../store/mail/events/event-kinds.ts";
import { type NewEvent, recordEvents } from "../../store/mail/events/events.ts";
import {
  type CaughtClicks,
  type KeptOfRequest,
  type LastSeen,
  type ReaderTraits,
  type RecallReader,
  recallReaders,
  updateReaders,
} from "../../store/mail/tracking/tracking-readers.ts";
import { changeSubscription, type SubscriptionChoice } from "./tracking-subscriptions.ts";

/** What the request tells about who made it. */
export interface Visitor extends ReaderTraits, KeptOfRequest {
  /** Why it is taken for a machine; absent for a person, as far as one can tell from the request. */
  readonly machine?: string | undefined;
}

/** Something that a recipient did, with everything that is needed to store it later; JSON holds it as it is. */
export type Touch = { readonly deliveryId: number; readonly atMs: number } & (
  | { readonly kind: "open"; readonly visitor: Visitor }
  | { readonly kind: "click"; readonly link: string; readonly visitor: Visitor }
  | { readonly kind: "conversion"; readonly reference: string }
  | { readonly kind: "subscription"; readonly choice: SubscriptionChoice }
);
type View = Extract<Touch, { readonly visitor: Visitor }>;
type Conversion = Extract<Touch, { readonly kind: "conversion" }>;

export interface MachineRule {
  /** An open or click sooner after the delivery is a machine's. */
  readonly machineSeconds: number;
  /** All links of a message, when they are at least so many, clicked within so many seconds: a machine did that. */
  readonly allLinks: { readonly atLeast: number; readonly withinSeconds: number };
  readonly recall: RecallReader;
}

/** A conversion belongs to the last click of so many days. */
const ATTRIBUTION_DAYS = 30;

/**
 * Stores touches in the order of their happening. What belongs to a delivery that is gone, or to a contact that wants
 * no tracking, is dropped.
 */
export async function storeTouches(
  transaction: Transaction,
  touches: readonly Touch[],
  rule: MachineRule,
): Promise<void> {
  const owners = await findOwners(
    transaction,
    touches.map(({ deliveryId }) => deliveryId),
  );
  const views = touches.flatMap((touch): OwnedView[] => {
    const owner = owners.get(touch.deliveryId);
    const isView = touch.kind === "open" || touch.kind === "click";
    if (!isView || owner === undefined || owner.untracked) return [];
    const machine = touch.visitor.machine ?? (isTooSoon(touch, owner, rule) ? "too-soon" : undefined);
    return [{ touch, owner, machine }];
  });
  await recordEvents(transaction, views.map(toEvent));
  await lockSubscribers(transaction, touches, owners);
  const caught = await findAllLinkClicks(transaction, views, rule);
  await updateReaders(transaction, await lastSeen(transaction, views, caught, rule));
  await markAllLinkClicks(transaction, caught, rule);
  for (const touch of touches) {
    if (touch.kind !== "subscription" || !owners.has(touch.deliveryId)) continue;
    await changeSubscription(transaction, touch.deliveryId, touch.choice, new Date(touch.atMs));
  }
  const conversions = touches.flatMap((touch): OwnedConversion[] => {
    const owner = owners.get(touch.deliveryId);
    return touch.kind === "conversion" && owner?.conversions && !owner.untracked ? [{ touch, owner }] : [];
  });
  // In one order: another process may be about to store the same ones.
  for (const { touch, owner } of conversions.sort(byOrder)) await storeConversion(transaction, touch, owner);
}

interface OwnedConversion {
  readonly touch: Conversion;
  readonly owner: TouchOwner;
}

function byOrder(one: OwnedConversion, other: OwnedConversion): number {
  const references = [one.touch.reference, other.touch.reference].map((text) => Buffer.from(text)) as [Buffer, Buffer];
  return one.owner.instanceId - other.owner.instanceId || Buffer.compare(...references);
}

interface TouchOwner {
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

interface OwnedView {
  readonly touch: View;
  readonly owner: TouchOwner;
  readonly machine: string | undefined;
}

async function findOwners(db: Db, deliveryIds: readonly number[]): Promise<Map<number, TouchOwner>> {
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

/** Filters look at a message while it is still being handed over. */
function isTooSoon({ atMs }: View, { finishedAt }: TouchOwner, { machineSeconds }: MachineRule): boolean {
  if (machineSeconds === 0) return false;
  return finishedAt === null || atMs < finishedAt.getTime() + machineSeconds * 1000;
}

function toEvent({ touch, owner, machine }: OwnedView): NewEvent {
  const { userAgent, network } = touch.visitor;
  return {
    instanceId: owner.instanceId,
    at: new Date(touch.atMs),
    kind: touch.kind === "open" ? "viewed" : "clicked",
    contactId: owner.contactId,
    email: owner.recipient,
    campaignNumid: owner.campaignNumid,
    eeid: owner.eeid,
    deliveryId: owner.deliveryId,
    machine: machine !== undefined,
    detail: {
      userAgent,
      network,
      ...(touch.kind === "click" ? { link: touch.link } : {}),
      ...(machine === undefined ? {} : { machine }),
    },
  };
}

/** What it changes in the counts when clicks turn out to be a machine's. */
const CLICKS_OF_MACHINES = COUNT_COLUMNS.map((column) =>
  column === countColumn("clicked") ? "-count(*)" : column === "machine" ? "count(*)" : "0",
).join(", ");

/** A filter that follows every link gives itself away with the last one only. @returns whose clicks were a filter's */
async function findAllLinkClicks(
  transaction: Transaction,
  views: readonly OwnedView[],
  { allLinks }: MachineRule,
): Promise<CaughtClicks[]> {
  const clicks = new Map<number, OwnedView>();
  for (const view of views) {
    if (view.touch.kind === "click" && view.machine === undefined && view.owner.contactId !== null) {
      clicks.set(view.owner.deliveryId, view);
    }
  }
  const linkCounts = await countLinks(
    transaction,
    [...clicks.values()].map(({ owner }) => owner.messageId),
  );
  const suspects = [...clicks.values()].filter(
    ({ owner }) => (linkCounts.get(owner.messageId) ?? 0) >= allLinks.atLeast,
  );
  if (suspects.length === 0) return [];
  // Laterally, contact by contact: joined otherwise, a large batch could cost its square.
  const caught = await queryRows<Omit<CaughtClicks, "visitor">>(
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
      suspects.map(({ owner }) => owner.instanceId),
      suspects.map(({ owner }) => owner.contactId),
      suspects.map(({ owner }) => owner.deliveryId),
      suspects.map(({ owner }) => linkCounts.get(owner.messageId)),
      suspects.map(({ touch }) => new Date(touch.atMs).toISOString()),
      EVENT_KINDS.clicked,
      allLinks.withinSeconds,
    ],
  );
  return caught.map((whose) => ({ ...whose, visitor: clicks.get(whose.deliveryId)!.touch.visitor }));
}

/** Marks what had been taken for a person's until then. */
async function markAllLinkClicks(
  transaction: Transaction,
  caught: readonly CaughtClicks[],
  { allLinks }: MachineRule,
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
      allLinks.withinSeconds,
    ],
  );
}

async function countLinks(db: Db, messageIds: readonly number[]): Promise<Map<number, number>> {
  const rows = await queryRows<{ messageId: number; links: number }>(
    db,
    `select message_id as "messageId", count(*)::int as links from tracked_links where message_id = any(?::bigint[])
     group by message_id`,
    [[...new Set(messageIds)]],
  );
  return new Map(rows.map(({ messageId, links }) => [messageId, links]));
}

/**
 * Where some change their subscription, all contacts that may be changed are locked first, in the order in which
 * everything locks contacts.
 */
async function lockSubscribers(
  transaction: Transaction,
  touches: readonly Touch[],
  owners: ReadonlyMap<number, TouchOwner>,
): Promise<void> {
  if (!touches.some(({ kind }) => kind === "subscription")) return;
  const contactIds = touches.flatMap(({ deliveryId }) => owners.get(deliveryId)?.contactId ?? []);
  await lockContacts(transaction, contactIds);
}

/**
 * With what and where people among the contacts were last seen; what a request does not tell stays as it was. Who turns
 * out to have been a machine leaves what the last event of a person before it told, or nothing.
 */
async function lastSeen(
  transaction: Transaction,
  views: readonly OwnedView[],
  caught: readonly CaughtClicks[],
  rule: MachineRule,
): Promise<LastSeen[]> {
  const caughtIds = new Set(caught.map(({ deliveryId }) => deliveryId));
  const seen = new Map<number, LastSeen>();
  for (const { touch, owner, machine } of views) {
    const { instanceId, contactId, deliveryId } = owner;
    const isPerson = machine === undefined && !(touch.kind === "click" && caughtIds.has(deliveryId));
    if (!isPerson || contactId === null) continue;
    const { device, deviceSubtypeId, place = null } = touch.visitor;
    const before = seen.get(contactId) ?? { device: null, deviceSubtypeId: null, place: null };
    const reader = device ? { device, deviceSubtypeId } : before;
    seen.set(contactId, { ...before, ...reader, instanceId, contactId, place: place ?? before.place });
  }
  const unmasked = caught.filter(({ contactId }) => !seen.has(contactId));
  return [...seen.values(), ...(await recallReaders(transaction, unmasked, rule))];
}

/** Once for an order, and only after a click; a click that may be a machine's counts where there is no other. */
async function storeConversion(transaction: Transaction, touch: Conversion, owner: TouchOwner): Promise<void> {
  const at = new Date(touch.atMs);
  const [click] = await queryRows<{ eeid: string; campaign_numid: number; delivery_id: number }>(
    transaction,
    `select eeid, campaign_numid, delivery_id from events
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
  if (click === undefined) return;
  const added = await transaction("conversions")
    .insert({
      instance_id: owner.instanceId,
      reference: touch.reference,
      contact_id: owner.contactId,
      delivery_id: click.delivery_id,
      at,
    })
    .onConflict(["instance_id", "reference"])
    .ignore()
    .returning("reference");
  if (added.length === 0) return;
  await recordEvents(transaction, [
    {
      instanceId: owner.instanceId,
      at,
      kind: "converted",
      contactId: owner.contactId,
      email: owner.recipient,
      campaignNumid: click.campaign_numid,
      eeid: click.eeid,
      deliveryId: click.delivery_id,
      detail: { reference: touch.reference },
    },
  ]);
}
