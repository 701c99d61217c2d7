import { randomUUID } from "node:crypto";
import type { ContentVerdict } from "../../core/mail/guard/content.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { traced } from "../../platform/observability/tracing.ts";
import type { Transaction } from "../../platform/postgres/db.ts";
import type { RecipientAddress } from "../../store/mail/contacts/recipients.ts";
import { type StoredVerdict, storeVerdicts } from "../../store/mail/guard/content-verdicts.ts";
import { holdQueued } from "../../store/mail/queue/queue-stops.ts";
import { removeEmptyBatches } from "../../store/mail/sends/batches.ts";
import { addMessages, type MessageContent, type ReportRequest } from "../../store/mail/sends/messages.ts";
import { addBatches, type OpenedBatches, touchBatch } from "../../store/mail/sends/open-batches.ts";
import { gatherAudiences, queueAudiences, type SendCopy } from "./audience.ts";
import {
  type Admission,
  type GateRefusal,
  guardsEverybody,
  type QueueCharged,
  SendingGate,
  trimBookings,
} from "./sending-gate.ts";

/** One call that sends: an operation of the API, or a message submitted by SMTP. */
export interface Send {
  readonly instanceId: number;
  readonly campaignNumid: number;
  /** `api`, `smtp`, or the console user's login. */
  readonly creator: string;
  readonly content: MessageContent;
  /** Domain of the From field as A-labels: whose DKIM key signs. */
  readonly senderDomain: string;
  /** That field's address, as its limits are counted by (`senderKey`). */
  readonly sender: string;
  /** Those of further authors, and of the Sender field. */
  readonly otherSenders?: readonly string[] | undefined;
  /** An address given twice gets one message. */
  readonly recipients: readonly RecipientAddress[];
  readonly copies: readonly SendCopy[];
  /** Keep the exact octets that each recipient gets. */
  readonly archive: boolean;
  /** An earlier batch of the same instance (see `findBatch`) that this send joins. */
  readonly reuseEeid?: string | undefined;
  /** What a content filter said of it; with `hold` its batch waits for somebody to look at it. */
  readonly verdict?: ContentVerdict | undefined;
  /** What it follows from; `acceptSend` finds it out, where traces are made. */
  readonly traceParent?: string | undefined;
  /** Who is told what becomes of it, as far as `dsn` of the recipients asks for it. */
  readonly dsn?: ReportRequest | undefined;
}

export interface AcceptedSend {
  readonly eeid: string;
  /** Messages that will be sent, copies included; invalid and unsubscribed contacts are left out. */
  readonly sent: number;
}

export type SendOutcome = Result<AcceptedSend, GateRefusal>;

/**
 * Accepts a send: recipients become contacts, and batch, message, partitions, deliveries and events are stored.
 * Durable, and visible to the delivery workers, when the caller's transaction commits: then `announceMail`, and answer.
 * An invalid contact gets a `not-sent` event and no message; one that unsubscribed from the campaign gets neither,
 * recipient or copy. What the instance's limits let wait is queued for the windows that have room for it.
 * @returns refused by a limit or a hold of the instance, and then nothing is stored
 * @throws Overtaken where others of the instance were quicker and the limits have no room any more (see `inTransaction`)
 * @throws FieldsOversized where its recipients have too many custom fields
 * @throws BatchOver when `reuseEeid` is no batch of the instance, or none any more, or cancelled
 */
export async function acceptSend(transaction: Transaction, send: Send): Promise<SendOutcome> {
  return (await acceptSends(transaction, [traced(send)]))[0]!;
}

/** A message to so many recipients at most goes ahead of its instance's other mail: somebody waits for it. */
const MOST_AHEAD = 10;

/** There is nothing to join. Who looks before (`findBatch`) meets it where the batch was ended in between. */
export class BatchOver extends Error {}

/** As `acceptSend`, several at once, in as many statements as one takes. */
export async function acceptSends(transaction: Transaction, sends: readonly Send[]): Promise<SendOutcome[]> {
  const { eeids, at, gate } = await openBatches(transaction, sends);
  const admissions = sends.map((send) => gate?.admit(send, countRecipients(send)));
  const admitted: (Send & { eeid: string; admission: Admission | undefined })[] = [];
  for (const [index, send] of sends.entries()) {
    const admission = admissions[index];
    if (admission === undefined || "bookings" in admission) admitted.push({ ...send, eeid: eeids[index]!, admission });
  }
  await removeEmptyBatches(
    transaction,
    sends.flatMap(({ instanceId, reuseEeid }, index) =>
      reuseEeid === undefined && isRefused(admissions[index]) ? [{ instanceId, eeid: eeids[index]! }] : [],
    ),
  );
  const sent = await storeSends(transaction, admitted, { at, gate });
  const accepted = sent.values();
  return admissions.map((admission) => {
    if (isRefused(admission)) return refuse(admission);
    const { eeid, audience } = accepted.next().value!;
    return ok({ eeid, sent: audience.addressees.length });
  });
}

function isRefused(admission: Admission | GateRefusal | undefined): admission is GateRefusal {
  return admission !== undefined && !("bookings" in admission);
}

/** Stores sends that nothing speaks against, and counts them. @returns them with their audiences */
async function storeSends<S extends Send & { eeid: string; admission: Admission | undefined }>(
  transaction: Transaction,
  sends: readonly S[],
  { at, gate }: Pick<OpenedSends, "at" | "gate">,
) {
  const audiences = await gatherAudiences(transaction, sends);
  const addressed = sends.map((send, index) => {
    const audience = audiences[index]!;
    const { admission } = send;
    const bookings = admission && trimBookings(admission, audience.addressees.length);
    return { ...send, audience, admission: admission && { ...admission, bookings: bookings! }, bookings };
  });
  // Somebody may have to be told that nothing went.
  const going = addressed.filter(
    ({ audience, dsn }) => audience.addressees.length + (dsn === undefined ? 0 : audience.leftOut.length) > 0,
  );
  const ids = await addMessages(transaction, going);
  const messageIds = new Map(going.map((message, index) => [message, ids[index]!]));
  await storeVerdicts(transaction, addressed.flatMap(storedVerdict));
  const messages = addressed.map((message) => {
    const goesAhead = message.audience.addressees.length <= MOST_AHEAD;
    return { ...message, goesAhead, messageId: messageIds.get(message) };
  });
  const queue: QueueCharged = (charges) => queueAudiences(transaction, messages, at, charges);
  const admissions = addressed.flatMap(({ admission }) => admission ?? []);
  if (gate) await gate.charge(admissions, queue);
  else await queue([]);
  for (const { instanceId, messageId, ...send } of messages) {
    const isHeld = storedVerdict({ instanceId, ...send }).some(({ action }) => action === "hold");
    if (isHeld && messageId !== undefined) await holdQueued(transaction, instanceId, messageId);
  }
  return addressed;
}

/** What would be refused has been by whoever could; here it waits. */
function storedVerdict({ instanceId, eeid, verdict }: Send & { readonly eeid: string }): StoredVerdict[] {
  if (verdict === undefined) return [];
  return [{ instanceId, eeid, verdict, action: verdict.action === "refuse" ? "hold" : verdict.action }];
}

/** Those that a send names; who of them is left out is found out later. */
function countRecipients({ recipients, copies }: Send): number {
  return new Set([...recipients, ...copies].map(({ address }) => address.key)).size;
}

interface OpenedSends {
  readonly eeids: readonly string[];
  /** The moment of acceptance, by the database's clock. */
  readonly at: Date;
  /** Undefined where none of the instances has bounds. */
  readonly gate: SendingGate | undefined;
}

/** Opens the batches of the sends; what these are judged by comes with it. */
async function openBatches(transaction: Transaction, sends: readonly Send[]): Promise<OpenedSends> {
  const judging = { sources: sends, everybody: guardsEverybody };
  const eeids = sends.map(({ reuseEeid }) => reuseEeid ?? randomUUID());
  const fresh = sends.flatMap((send, index) =>
    send.reuseEeid === undefined ? [{ ...send, eeid: eeids[index]! }] : [],
  );
  const opened: OpenedBatches[] = await addBatches(transaction, fresh, judging);
  const joined = sends.flatMap(({ reuseEeid, instanceId }) =>
    reuseEeid === undefined ? [] : { reuseEeid, instanceId },
  );
  // In one order, as all who lock several rows do.
  for (const { reuseEeid, instanceId } of joined.sort((a, b) => (a.reuseEeid < b.reuseEeid ? -1 : 1))) {
    const batch = await touchBatch(transaction, { eeid: reuseEeid, instanceId }, judging);
    if (batch === undefined) throw new BatchOver(`${reuseEeid} is no batch of instance ${instanceId} to join`);
    opened.push(batch);
  }
  const { at } = opened[0]!;
  const states = opened.flatMap(({ state }) => state ?? []);
  return { eeids, at, gate: states.length === 0 ? undefined : new SendingGate(states, at) };
}
