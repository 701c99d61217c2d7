import { RateLimiterMemory } from "rate-limiter-flexible";
import type { ReportRefusal } from "../core/mail/reports/report.ts";
import { readComplaint } from "../operations/mail/interpret.ts";
import { FairTurns } from "../platform/fair-turns.ts";
import { networkOf, sourceOf } from "../platform/lookups/address-blocks.ts";
import type { ServiceContext } from "../platform/service.ts";
import { spend } from "../platform/spend.ts";
import { addInboundMessages, type NewInboundMessage, type RecipientClass } from "../store/mail/inbound/inbound.ts";
import { addUnexplained, type UnexplainedSample } from "../store/mail/inbound/inbound-retention.ts";
import type { Admission } from "./admission.ts";
import { deliveryOf } from "./apply.ts";
import type { ClassPolicy, InboundPolicy } from "./policy.ts";

/**
 * Who an accepted recipient is: a delivery of ours that something came back for, a feedback address, or the address for
 * reports about a sender domain.
 */
export type InboundTarget =
  | { readonly deliveryId: number }
  | { readonly feedbackAddress: string }
  | { readonly reportAddress: string };

/** A message as it came, by SMTP or from a mailbox. */
export type ReceivedMessage = Pick<NewInboundMessage, "mailFrom" | "clientAddress" | "octets" | "source">;

/** Messages of one source at feedback addresses that wait behind the one that has a turn; more have to come again. */
const MOST_WAITING = { stranger: 3, proven: 63 };
/** What mailboxes are as a source. */
const MAILBOXES = "mailboxes";

/** Why nothing follows from a message: the metric's `reason`. */
export type UnexplainedReason = "not-a-complaint" | "not-ours" | "not-understood" | ReportRefusal;

/** What a message at a feedback address is: about a delivery, or nothing of ours. */
interface Judged {
  readonly aboutDeliveryId?: number;
  readonly finding?: unknown;
  readonly unexplained?: UnexplainedReason;
}

export function classOf(target: InboundTarget): RecipientClass {
  if ("deliveryId" in target) return "returnPath";
  return "reportAddress" in target ? "report" : "feedback";
}

/** What tells a target from others. */
export function aboutOf(target: InboundTarget): number | string {
  if ("deliveryId" in target) return target.deliveryId;
  return "reportAddress" in target ? target.reportAddress : target.feedbackAddress;
}

/** Says what is noted of the next message in the sample of what was not understood; undefined: nothing. */
export type NextSample = () => Promise<UnexplainedSample | undefined>;

/** Of one message after another; nothing is noted once there were enough in this hour. */
export function makeSampler({ unexplained }: InboundPolicy): NextSample {
  const { messagesPerHour, messages, octetsOfMessage } = unexplained;
  const limiter = new RateLimiterMemory({ points: messagesPerHour, duration: 3_600 });
  return async () => ((await spend(limiter, "sample")) ? { messages, octetsOfMessage } : undefined);
}

/** Asks for one message, once, in a transaction that may run more often than that. */
export function askedOnce(next: NextSample): NextSample {
  let asked: ReturnType<NextSample> | undefined;
  return () => {
    asked ??= next();
    return asked;
  };
}

/**
 * Stores what came in for the worker to apply. Anybody may write to a feedback address: what comes there is looked at
 * first, and what is about no message of ours is counted and dropped.
 */
export class Intake {
  readonly #context: ServiceContext;
  readonly #admission: Admission;
  readonly #policy: InboundPolicy;
  readonly #nextSample: NextSample;
  /** By source: one message of each is in {@link #standings}. */
  readonly #sources = new FairTurns({ atOnce: Number.POSITIVE_INFINITY, perClient: 1 });
  /** Strangers by network, those who are none by source: one message of each standing is in {@link #judging}. */
  readonly #standings = {
    stranger: new FairTurns({ atOnce: 1, perClient: 1 }),
    proven: new FairTurns({ atOnce: 1, perClient: 1 }),
  };
  /** By standing. */
  readonly #judging = new FairTurns({ atOnce: 1, perClient: 1 });

  constructor(context: ServiceContext, policy: InboundPolicy, admission: Admission) {
    this.#context = context;
    this.#policy = policy;
    this.#admission = admission;
    this.#nextSample = makeSampler(policy);
  }

  /**
   * @param targets each once
   * @param options.isLimited whether what there may be for one delivery holds for who sent it
   * @returns `no-room`: nothing was stored, it has to come again
   */
  async store(
    message: ReceivedMessage,
    targets: readonly InboundTarget[],
    { isLimited }: { readonly isLimited: boolean },
  ): Promise<"stored" | "no-room"> {
    const { db, observe } = this.#context;
    const rows = targets.flatMap((target) => {
      if ("deliveryId" in target) return [bounceRow(cut(message, this.#policy.returnPath), target.deliveryId)];
      return "reportAddress" in target ? [reportRow(message, target.reportAddress)] : [];
    });
    const feedback = targets.flatMap((target) => ("feedbackAddress" in target ? [target] : []));
    const complaint = cut(message, this.#policy.feedback);
    const judged = feedback.length === 0 ? undefined : await this.#judgeInTurn(complaint, isLimited);
    if (judged === "no-room") return judged;
    if (judged?.aboutDeliveryId !== undefined) {
      const { aboutDeliveryId } = judged;
      rows.push(...feedback.map(({ feedbackAddress }) => feedbackRow(complaint, feedbackAddress, aboutDeliveryId)));
    }
    for (const row of rows) if (!(await this.#admission.hasRoom(classOfRow(row)))) return "no-room";
    const limited = rows.map((row) => ({
      ...row,
      perDelivery: isLimited && !row.isReport ? this.#policy[classOfRow(row)].perDelivery : undefined,
    }));
    const leftOut = new Set(await addInboundMessages(db, limited));
    for (const row of limited) {
      const recipientClass = classOfRow(row);
      if (leftOut.has(row)) observe({ kind: "inbound-dropped", recipientClass, reason: "delivery" });
      else {
        const about = row.deliveryId ?? row.aboutDeliveryId ?? row.feedbackAddress!;
        const { clientAddress } = message;
        await this.#admission.countStored(recipientClass, { about, octets: row.octets.length, clientAddress });
      }
    }
    if (judged?.unexplained !== undefined) {
      await this.#drop({ ...complaint, deliveryId: null, ...feedback[0]! }, judged.unexplained, judged.finding);
    }
    return "stored";
  }

  /**
   * Who is proven waits for one message of strangers at a time, as these write what takes long to read; half of the time is left
   * to everybody else.
   */
  async #judgeInTurn(message: ReceivedMessage, isLimited: boolean): Promise<Judged | "no-room"> {
    const { clientAddress } = message;
    const source = clientAddress === null ? MAILBOXES : sourceOf(clientAddress);
    const isStranger = clientAddress !== null && isLimited && !(await this.#admission.isProven("feedback", source));
    const standing = isStranger ? "stranger" : "proven";
    if (this.#sources.waitingOf(source) >= MOST_WAITING[standing]) return "no-room";
    return this.#sources.run(source, () =>
      this.#standings[standing].run(isStranger ? networkOf(source) : source, () =>
        this.#judging.runThenRest(standing, () => this.#judgeFeedback(message)),
      ),
    );
  }

  async #judgeFeedback({ octets }: ReceivedMessage): Promise<Judged> {
    const { keyRing, clock } = this.#context;
    const complaint = await readComplaint(octets);
    const now = new Date(clock.nowMs());
    const about = complaint && deliveryOf({ deliveryId: null }, complaint, { keyRing, now });
    if (about !== undefined) return { aboutDeliveryId: about.deliveryId };
    const { results, feedbackType } = complaint ?? {};
    const finding = complaint && { kind: complaint.kind, results, feedbackType };
    return { finding, unexplained: complaint ? "not-ours" : "not-a-complaint" };
  }

  async #drop(message: NewInboundMessage, reason: UnexplainedReason, finding: unknown): Promise<void> {
    const { db, observe } = this.#context;
    observe({ kind: "inbound-dropped", recipientClass: "feedback", reason });
    const sample = await this.#nextSample();
    if (sample !== undefined) await addUnexplained(db, message, { reason, finding, sample });
  }
}

/** What is kept of a message: some mail systems return the whole original, behind what they have to say. */
function cut(message: ReceivedMessage, { keptOctetsOfMessage }: ClassPolicy): ReceivedMessage {
  return { ...message, octets: message.octets.subarray(0, keptOctetsOfMessage) };
}

function bounceRow(message: ReceivedMessage, deliveryId: number): NewInboundMessage {
  return { ...message, deliveryId, feedbackAddress: null };
}

function feedbackRow(message: ReceivedMessage, feedbackAddress: string, aboutDeliveryId: number): NewInboundMessage {
  return { ...message, deliveryId: null, feedbackAddress, aboutDeliveryId };
}

/** It is read by a worker: whatever it takes to unpack, nobody who sends something waits for it. */
function reportRow(message: ReceivedMessage, reportAddress: string): NewInboundMessage {
  return { ...message, deliveryId: null, feedbackAddress: reportAddress, isReport: true };
}

function classOfRow({ deliveryId, isReport }: NewInboundMessage): RecipientClass {
  if (deliveryId !== null) return "returnPath";
  return isReport ? "report" : "feedback";
}
