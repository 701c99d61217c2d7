import { RateLimiterMemory } from "rate-limiter-flexible";
import type { SmtpReply } from "../core/mail/smtp-reply.ts";
import { sourceOf } from "../platform/lookups/address-blocks.ts";
import type { Db } from "../platform/postgres/db.ts";
import type { MessageSize } from "../platform/smtp/message-collector.ts";
import { spend } from "../platform/spend.ts";
import {
  type InboundRoom,
  measureWaiting,
  RECIPIENT_CLASSES,
  type RecipientClass,
} from "../store/mail/inbound/inbound.ts";
import type { ClassPolicy, InboundPolicy } from "./policy.ts";

/** Why something is not taken now, or not at all: the metric's `reason`. */
type LimitReached = "size" | "source-rate" | "rate" | "delivery-rate" | "waiting";

export interface NotAdmitted {
  readonly limit: LimitReached;
  readonly reply: SmtpReply;
}

/** Of messages that come back for one delivery, in an hour. */
const DELIVERY_WINDOW_SECONDS = 3_600;
const PROVEN_SECONDS = 7 * 86_400;
/** What waits is measured this often; what this process adds meanwhile is counted. */
const MEASURED_FOR_MS = 1_000;

interface AdmissionOptions {
  readonly db: Db;
  readonly policy: InboundPolicy;
  /** PALOMAR_MX_MAX_SIZE. */
  readonly mostOctets: number;
  /** Whether a client is one that rates hold for. */
  readonly isLimited: (clientAddress: string) => boolean;
}

/**
 * Decides what is taken of strangers, the cheapest question first. Rates are of this process; what waits is what the
 * database has, so that a restart opens no gate.
 */
export class Admission {
  readonly #options: AdmissionOptions;
  readonly #rates: Readonly<Record<RecipientClass, ClassRates>>;
  readonly #added: Record<RecipientClass, { messages: number; octets: number }>;
  #waiting: Promise<Readonly<Record<RecipientClass, InboundRoom>>> | undefined;
  #measuredAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: AdmissionOptions) {
    this.#options = options;
    const { returnPath, feedback, report, windowSeconds } = options.policy;
    this.#rates = {
      returnPath: ratesOf(returnPath, windowSeconds),
      feedback: ratesOf(feedback, windowSeconds),
      report: ratesOf(report, windowSeconds),
    };
    this.#added = nothingAdded();
  }

  /** A message whose size is known before it is sent. @returns why a recipient of the class cannot have it */
  judgeSize(of: RecipientClass, octets: number): NotAdmitted | undefined {
    return octets > this.sizeFor([of]).mostOctets ? { limit: "size", reply: TOO_BIG } : undefined;
  }

  /**
   * What a message to recipients of these classes may have, and what is kept of it for those that keep the most. A
   * report is packed, and taken whole or not at all; of a bounce or a complaint the beginning is enough.
   */
  sizeFor(classes: readonly RecipientClass[]): MessageSize {
    const { policy, mostOctets: ofListener } = this.#options;
    const mostOctets = classes.includes("report")
      ? Math.min(ofListener, policy.report.keptOctetsOfMessage)
      : ofListener;
    const keptOctets = Math.max(0, ...classes.map((one) => policy[one].keptOctetsOfMessage));
    return { mostOctets, keptOctets: Math.min(mostOctets, keptOctets) };
  }

  /**
   * Counts a recipient, and decides whether it is taken.
   * @param about the delivery of a return path, or the report address
   */
  async admit(
    of: RecipientClass,
    { clientAddress, about }: { readonly clientAddress: string; readonly about: number | string | undefined },
  ): Promise<NotAdmitted | undefined> {
    const { bySource, altogether, byDelivery } = this.#rates[of];
    if (this.#options.isLimited(clientAddress)) {
      const source = sourceOf(clientAddress);
      const isProven = await this.isProven(of, source);
      if (!isProven && (await isSpent(altogether, ALL))) return { limit: "rate", reply: TOO_MANY };
      if (!(await spend(bySource, source))) return { limit: "source-rate", reply: TOO_MANY };
      if (about !== undefined && (await isSpent(byDelivery, String(about)))) {
        return { limit: "delivery-rate", reply: TOO_OFTEN };
      }
      if (!isProven) await altogether.penalty(ALL);
    }
    // With the database away nothing can be stored either, and that is said behind the message.
    const hasRoom = await this.hasRoom(of).catch(() => true);
    return hasRoom ? undefined : { limit: "waiting", reply: NO_ROOM };
  }

  /** Whether a message of this source was about a delivery of ours within a week. */
  async isProven(of: RecipientClass, source: string): Promise<boolean> {
    return (await this.#rates[of].proven.get(source)) !== null;
  }

  /**
   * Counts a message that was stored. The source of one about a delivery is not one of the strangers any more; a report
   * proves nothing, as anybody can read its address.
   */
  async countStored(
    of: RecipientClass,
    stored: { readonly about: number | string; readonly octets: number; readonly clientAddress: string | null },
  ): Promise<void> {
    const { about, octets, clientAddress } = stored;
    this.#added[of].messages += 1;
    this.#added[of].octets += octets;
    const { byDelivery, proven } = this.#rates[of];
    await byDelivery.penalty(String(about));
    if (clientAddress !== null && of !== "report") await proven.set(sourceOf(clientAddress), 1, PROVEN_SECONDS);
  }

  /** Whether one more message may wait, whoever sent it. */
  async hasRoom(of: RecipientClass): Promise<boolean> {
    const waiting = (await this.#measure())[of];
    const added = this.#added[of];
    const most = this.#options.policy[of].waiting;
    return waiting.messages + added.messages < most.messages && waiting.octets + added.octets < most.octets;
  }

  #measure(): Promise<Readonly<Record<RecipientClass, InboundRoom>>> {
    const nowMs = performance.now();
    if (this.#waiting === undefined || nowMs - this.#measuredAtMs > MEASURED_FOR_MS) {
      this.#measuredAtMs = nowMs;
      const before = nothingAdded();
      for (const of of RECIPIENT_CLASSES) Object.assign(before[of], this.#added[of]);
      const measured = measureWaiting(this.#options.db).then((waiting) => {
        // What was added before the measure is in it.
        for (const of of RECIPIENT_CLASSES) {
          this.#added[of].messages -= before[of].messages;
          this.#added[of].octets -= before[of].octets;
        }
        return waiting;
      });
      measured.catch(() => {
        if (this.#waiting === measured) this.#waiting = undefined;
      });
      this.#waiting = measured;
    }
    return this.#waiting;
  }
}

interface ClassRates {
  readonly bySource: RateLimiterMemory;
  readonly altogether: RateLimiterMemory;
  readonly byDelivery: RateLimiterMemory;
  /** Sources whose reports were about mail of ours: what strangers have together does not hold them up. */
  readonly proven: RateLimiterMemory;
}

function ratesOf(policy: ClassPolicy, duration: number): ClassRates {
  return {
    bySource: new RateLimiterMemory({ points: policy.messagesPerSource, duration }),
    altogether: new RateLimiterMemory({ points: policy.messagesAltogether, duration }),
    byDelivery: new RateLimiterMemory({ points: policy.perDelivery.messages, duration: DELIVERY_WINDOW_SECONDS }),
    proven: new RateLimiterMemory({ points: 1, duration: PROVEN_SECONDS }),
  };
}

const ALL = "all";

async function isSpent(limiter: RateLimiterMemory, key: string): Promise<boolean> {
  const seen = await limiter.get(key);
  return seen !== null && seen.consumedPoints >= limiter.points;
}

function nothingAdded(): Record<RecipientClass, { messages: number; octets: number }> {
  const nothing = () => ({ messages: 0, octets: 0 });
  return { returnPath: nothing(), feedback: nothing(), report: nothing() };
}

const TOO_BIG: SmtpReply = {
  code: 552,
  enhancedStatus: "5.3.4",
  lines: ["message exceeds the size limit of this address"],
};
const TOO_MANY: SmtpReply = { code: 451, enhancedStatus: "4.7.0", lines: ["too many messages, try again later"] };
const TOO_OFTEN: SmtpReply = { code: 450, enhancedStatus: "4.2.1", lines: ["too many messages, try again later"] };
/** RFC 5321 §4.2.3, RFC 3463 §3.4 */
export const NO_ROOM: SmtpReply = {
  code: 452,
  enhancedStatus: "4.3.1",
  lines: ["insufficient storage, try again later"],
};
