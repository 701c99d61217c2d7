import type { Transaction } from "../../platform/postgres/db.ts";
import { lockContacts } from "../../store/mail/contacts/contacts.ts";
import { type NewEvent, recordEvents } from "../../store/mail/events/events.ts";
import {
  addConversion,
  countLinks,
  findAllLinkClicks,
  findLastClick,
  findTouchOwners,
  markAllLinkClicks,
  type TouchOwner,
} from "../../store/mail/tracking/touches.ts";
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

/**
 * Stores touches in the order of their happening. What belongs to a delivery that is gone, or to a contact that wants
 * no tracking, is dropped.
 */
export async function storeTouches(
  transaction: Transaction,
  touches: readonly Touch[],
  rule: MachineRule,
): Promise<void> {
  const owners = await findTouchOwners(
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
  const caught = await catchMachines(transaction, views, rule);
  await updateReaders(transaction, await lastSeen(transaction, views, caught, rule));
  await markAllLinkClicks(transaction, caught, rule.allLinks.withinSeconds);
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

interface OwnedView {
  readonly touch: View;
  readonly owner: TouchOwner;
  readonly machine: string | undefined;
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

/** A filter that follows every link gives itself away with the last one only. @returns whose clicks were a filter's */
async function catchMachines(
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
  const suspects = [...clicks.values()].flatMap(
    ({ owner: { instanceId, contactId, deliveryId, messageId }, touch }) => {
      const links = linkCounts.get(messageId) ?? 0;
      if (contactId === null || links < allLinks.atLeast) return [];
      return [{ instanceId, contactId, deliveryId, links, until: new Date(touch.atMs) }];
    },
  );
  if (suspects.length === 0) return [];
  const caught = await findAllLinkClicks(transaction, suspects, allLinks.withinSeconds);
  return caught.map((whose) => ({ ...whose, visitor: clicks.get(whose.deliveryId)!.touch.visitor }));
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
  const click = await findLastClick(transaction, owner, at);
  if (click === undefined) return;
  const { reference } = touch;
  if (!(await addConversion(transaction, owner, { reference, deliveryId: click.deliveryId, at }))) return;
  await recordEvents(transaction, [
    {
      instanceId: owner.instanceId,
      at,
      kind: "converted",
      contactId: owner.contactId,
      email: owner.recipient,
      campaignNumid: click.campaignNumid,
      eeid: click.eeid,
      deliveryId: click.deliveryId,
      detail: { reference },
    },
  ]);
}
