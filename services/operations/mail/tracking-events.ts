import type { Transaction } from "../../platform/postgres/db.ts";
import { lockContacts } from "../../store/mail/contacts/contacts.ts";
import { type NewEvent, recordEvents } from "../../store/mail/events/events.ts";
import { isWhole } from "../../store/mail/machines.ts";
import {
  addConversion,
  countLinks,
  findAllLinkClicks,
  findClicksBeforeOpening,
  findLastClick,
  findTouchOwners,
  type MachineStretch,
  type MessageLinks,
  markMachineTouches,
  type SuspectTouch,
  type TouchOwner,
} from "../../store/mail/tracking/touches.ts";
import {
  type CaughtMachine,
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
  /** An open or click sooner after the delivery is a machine's, as is a click so long before the first opening; 0 is off. */
  readonly machineSeconds: number;
  /** All visible links of a message, when they are at least so many, clicked within so many seconds: a machine did that. */
  readonly allLinks: readonly { readonly atLeast: number; readonly withinSeconds: number }[];
  readonly recall: RecallReader;
}

/**
 * Stores touches in the order of their happening. What belongs to a delivery that is gone, or to a contact that wants
 * no tracking, is dropped.
 * @returns those that are to be kept: a machine does not answer, and may have their deliveries
 */
export async function storeTouches(
  transaction: Transaction,
  touches: readonly Touch[],
  rule: MachineRule,
): Promise<Touch[]> {
  const isComplete = isWhole(transaction);
  const owners = await findTouchOwners(
    transaction,
    touches.map(({ deliveryId }) => deliveryId),
  );
  const owned = touches.flatMap((touch) => {
    const owner = owners.get(touch.deliveryId);
    const isView = touch.kind === "open" || touch.kind === "click";
    return isView && owner !== undefined && !owner.untracked ? [{ touch, owner }] : [];
  });
  const links = await countLinks(
    transaction,
    owned.flatMap(({ touch, owner }) => (touch.kind === "click" ? [owner.messageId] : [])),
  );
  const views = owned.map((view): OwnedView => ({ ...view, machine: findMachine(view, links, rule) }));
  await recordEvents(transaction, views.map(toEvent));
  await lockSubscribers(transaction, touches, owners);
  const caught = await catchMachines(transaction, views, { links, rule });
  await updateReaders(transaction, await lastSeen(transaction, views, caught, rule));
  await markMachineTouches(transaction, caught);
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
  return isComplete ? [] : touches.filter(({ deliveryId }) => !owners.has(deliveryId));
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

/** What tells at once that no person did it. */
function findMachine(
  { touch, owner }: Pick<OwnedView, "touch" | "owner">,
  links: ReadonlyMap<number, MessageLinks>,
  rule: MachineRule,
): string | undefined {
  if (touch.visitor.machine !== undefined) return touch.visitor.machine;
  if (touch.kind === "click" && links.get(owner.messageId)?.hidden.includes(touch.link)) return "hidden-link";
  return isTooSoon(touch, owner, rule) ? "too-soon" : undefined;
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

/** What gives itself away only by the last thing it did. @returns what was taken for a person's and is a machine's */
async function catchMachines(
  transaction: Transaction,
  views: readonly OwnedView[],
  { links, rule }: { readonly links: ReadonlyMap<number, MessageLinks>; readonly rule: MachineRule },
): Promise<CaughtMachine[]> {
  const clicks = new Map<number, OwnedView>();
  const openings = new Map<number, OwnedView>();
  for (const view of views) {
    const { deliveryId, contactId } = view.owner;
    if (view.machine !== undefined || contactId === null) continue;
    if (view.touch.kind === "click") clicks.set(deliveryId, view);
    else if (!openings.has(deliveryId)) openings.set(deliveryId, view);
  }
  const caught: CaughtMachine[] = [];
  const add = (stretches: readonly MachineStretch[], of: Map<number, OwnedView>, machine: string, opens: boolean) => {
    for (const stretch of stretches) {
      caught.push({ ...stretch, machine, opens, visitor: of.get(stretch.deliveryId)!.touch.visitor });
    }
  };
  for (const { atLeast, withinSeconds } of rule.allLinks) {
    const suspects = [...clicks.values()].flatMap((view) => {
      const { visible = 0 } = links.get(view.owner.messageId) ?? {};
      return visible < atLeast ? [] : [{ ...suspectOf(view), links: visible }];
    });
    add(await findAllLinkClicks(transaction, suspects, withinSeconds), clicks, "all-links", false);
  }
  if (rule.machineSeconds > 0) {
    const suspects = [...openings.values()].map(suspectOf);
    const early = await findClicksBeforeOpening(transaction, suspects, rule.machineSeconds);
    add(early, openings, "click-first", true);
  }
  return caught;
}

/** Of a contact's view. */
function suspectOf({ owner: { instanceId, contactId, deliveryId }, touch }: OwnedView): SuspectTouch {
  return { instanceId, contactId: contactId!, deliveryId, at: new Date(touch.atMs) };
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
  const contacts = touches.flatMap(({ deliveryId }) => {
    const { instanceId, contactId } = owners.get(deliveryId) ?? { contactId: null };
    return contactId === null ? [] : [{ instanceId: instanceId!, id: contactId }];
  });
  await lockContacts(transaction, contacts);
}

/**
 * With what and where people among the contacts were last seen; what a request does not tell stays as it was. Who turns
 * out to have been a machine leaves what the last event of a person before it told, or nothing.
 */
async function lastSeen(
  transaction: Transaction,
  views: readonly OwnedView[],
  caught: readonly CaughtMachine[],
  { recall }: MachineRule,
): Promise<LastSeen[]> {
  const clickers = new Set(caught.map(({ deliveryId }) => deliveryId));
  const openers = new Set(caught.flatMap(({ deliveryId, opens }) => (opens ? [deliveryId] : [])));
  const seen = new Map<number, LastSeen>();
  for (const { touch, owner, machine } of views) {
    const { instanceId, contactId, deliveryId } = owner;
    const isPerson = machine === undefined && !(touch.kind === "click" ? clickers : openers).has(deliveryId);
    if (!isPerson || contactId === null) continue;
    const { device, deviceSubtypeId, place = null } = touch.visitor;
    const before = seen.get(contactId) ?? { device: null, deviceSubtypeId: null, place: null };
    const reader = device ? { device, deviceSubtypeId } : before;
    seen.set(contactId, { ...before, ...reader, instanceId, contactId, place: place ?? before.place });
  }
  const unmasked = caught.filter(({ contactId }) => !seen.has(contactId));
  return [...seen.values(), ...(await recallReaders(transaction, unmasked, recall))];
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
