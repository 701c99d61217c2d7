import { MOST_PERSONAL_OCTETS } from "../core/mail/personalise.ts";
import { ok, type Result, refuse } from "../core/result.ts";
import type { Clock } from "../platform/clock.ts";
import type { Observe } from "../platform/observability/observation.ts";
import { inSpan } from "../platform/observability/tracing.ts";
import { isDatabaseAway } from "../platform/postgres/db.ts";
import type { SmtpFailure } from "../platform/smtp/client.ts";
import type { DueDelivery, LeasedPartition } from "../store/mail/queue/queue-leases.ts";
import { type Attempt, GIVEN_BACK, PUT_OFF, PUT_OFF_SECONDS, type PutOff } from "./attempt.ts";
import {
  type ComposedMessage,
  type ComposeOptions,
  composeMessage,
  composingOctets,
  octetsOfValues,
  type PreparedMessage,
} from "./compose.ts";
import { type AttemptResult, SESSION_STAGES } from "./decide.ts";
import type { LaneWay, WayTools } from "./lane-way.ts";
import type { MessageCache } from "./message-cache.ts";
import type { OctetBudget } from "./octet-budget.ts";
import type { SourcePlace, SourcePools } from "./routing/source-pools.ts";
import type { PooledSession } from "./session-pool.ts";

export interface SenderTools extends WayTools {
  readonly messages: MessageCache;
  readonly sources: SourcePools;
  readonly budget: OctetBudget;
  readonly compose: ComposeOptions;
  readonly clock: Clock;
  readonly observe: Observe;
  /** False when the lease is no longer certain, or the partition's batch, its destination or the worker stops. */
  mayLeave(partition: LeasedPartition): boolean;
}

/** A session that nothing was sent over for so long may have ended unnoticed. */
const STALE_AFTER_MS = 1_000;
/**
 * Servers answer ever more slowly to who names many that they do not take: a session is closed after so many refusals of
 * recipients, and after one that took so long.
 */
const MOST_REFUSALS = 8;
const SLOW_REFUSAL_MS = 2_000;
/** RFC 3463 §3.4: X.3.4. */
const TOO_LARGE: AttemptResult = {
  kind: "failed",
  failure: {
    kind: "unsuited",
    reply: { code: 552, enhancedStatus: "5.3.4", lines: ["with the recipient's values the message is too large"] },
  },
};

/**
 * Sends the message of a partition to one recipient after another. What is scarce is taken in this order: leave of the pace, a
 * session, memory, and, when the message is ready and the session stands, the rate of the provider and of the pool.
 */
export class MessageSender {
  readonly #partition: LeasedPartition;
  readonly #tools: SenderTools;
  readonly #way: LaneWay;
  readonly #composingOctets: number;
  /** Whose memory its messages are. */
  readonly #parties: readonly string[];
  /** In the pool; from the first message on. */
  #place: SourcePlace | undefined;

  constructor(partition: LeasedPartition, tools: SenderTools, way: LaneWay) {
    this.#partition = partition;
    this.#tools = tools;
    this.#way = way;
    this.#composingOctets = composingOctets(partition.message.contentOctets);
    this.#parties = [`instance ${partition.instanceId}`, `destination ${partition.destination}`];
  }

  /** That a message may leave from. */
  get sources(): readonly string[] {
    return this.#place?.sources ?? [];
  }

  /** After the last message. */
  end(): void {
    this.#way.release();
    this.#place?.leave();
  }

  /**
   * Turns the next message away where there is no memory for it, and no place to wait for some, or where the provider's rate is used
   * up: its destination is not leased before it has room anyway. @returns undefined where it may go on
   */
  turnAway(): PutOff | undefined {
    const { budget, shaping } = this.#tools;
    if (budget.isCrowdedFor(this.#composingOctets, this.#parties)) return this.#waitForMemory();
    return shaping.isUsedUp(this.#way.queue) ? GIVEN_BACK : undefined;
  }

  async send(delivery: DueDelivery): Promise<Attempt> {
    const { instanceName, campaignNumid } = this.#partition.message;
    this.#place ??= this.#tools.sources.enter(instanceName, campaignNumid);
    const place = this.#place;
    if (!place?.hasToken()) return PUT_OFF;
    const { sources } = place;
    const { touchedDaysAgo } = delivery;
    const waits = await this.#way.leave.take({ sources, usable: this.#way.usableOf(sources), touchedDaysAgo });
    if (waits !== undefined) return waits;
    try {
      return await this.#sendWithLeave(delivery, place);
    } finally {
      this.#way.leave.end();
    }
  }

  async #sendWithLeave(delivery: DueDelivery, place: SourcePlace): Promise<Attempt> {
    // First of all: a destination that does not answer is to take no memory for messages.
    const reached = await this.#way.acquire(place);
    if (reached === undefined) {
      if (this.#way.leave.avoid(place.sources)) return this.send(delivery);
      return { kind: "put off", seconds: Math.max(PUT_OFF_SECONDS, this.#way.restSeconds(place.sources)) };
    }
    if (!reached.ok) return reached.error;
    // Other lanes may have taken the room or the rate while this one connected.
    return this.turnAway() ?? this.#sendInMemory(delivery, place);
  }

  async #sendInMemory(delivery: DueDelivery, place: SourcePlace): Promise<Attempt> {
    const { budget } = this.#tools;
    let giveBack = await budget.take(this.#composingOctets, this.#parties);
    let isKept = false;
    try {
      const prepared = await this.#prepare(delivery);
      if (!prepared.ok) return { kind: "tried", result: prepared.error };
      const personal = octetsOfValues(prepared.value, delivery);
      if (personal > MOST_PERSONAL_OCTETS) {
        this.#way.forgetPath();
        return { kind: "tried", result: TOO_LARGE };
      }
      if (personal > this.#partition.message.contentOctets) {
        const all = this.#composingOctets + composingOctets(personal);
        if (budget.isCrowdedFor(all, this.#parties)) return this.#waitForMemory();
        giveBack();
        giveBack = await budget.take(all, this.#parties);
      }
      const composed = await this.#compose(prepared.value, delivery);
      if (!composed.ok) return { kind: "tried", result: composed.error };
      const attempt = await this.#transmit(composed.value, place);
      const { archived } = composed.value;
      if (attempt.kind !== "tried" || archived === undefined) return attempt;
      isKept = true;
      return { ...attempt, archived, giveBack };
    } finally {
      if (!isKept) giveBack();
    }
  }

  /** The partition comes back when others whose messages are large have had their turns. */
  #waitForMemory(): PutOff {
    return { kind: "put off", seconds: this.#tools.budget.bookTurn() };
  }

  #prepare(delivery: DueDelivery): Promise<Result<PreparedMessage, AttemptResult>> {
    return this.#unlessBroken(delivery, () =>
      this.#tools.messages.find({ ...this.#partition.message, instanceId: this.#partition.instanceId }),
    );
  }

  #compose(prepared: PreparedMessage, delivery: DueDelivery): Promise<Result<ComposedMessage, AttemptResult>> {
    const { compose, clock } = this.#tools;
    const now = new Date(clock.nowMs());
    return inSpan("compose", {}, () =>
      this.#unlessBroken(delivery, () => composeMessage(prepared, delivery, { ...compose, now })),
    );
  }

  /**
   * What cannot be composed is no fault of the recipient: it is put off, and the operator told. Where the database is away the
   * partition is given back, as nothing is known of the message.
   */
  async #unlessBroken<T>(delivery: DueDelivery, make: () => Promise<T>): Promise<Result<T, AttemptResult>> {
    try {
      return ok(await make());
    } catch (error) {
      if (isDatabaseAway(error)) throw error;
      this.#way.forgetPath();
      this.#tools.observe({ kind: "message-not-composed", level: "error", deliveryId: delivery.id, err: error });
      const reply = { code: 451, enhancedStatus: "4.3.0", lines: ["the message could not be composed"] } as const;
      return refuse({ kind: "failed", failure: { kind: "reply", stage: "message", reply } });
    }
  }

  /** A kept session may have ended unnoticed: then the message is tried over another one. */
  async #transmit(composed: ComposedMessage, place: SourcePlace): Promise<Attempt> {
    for (let isFirst = true; ; isFirst = false) {
      const acquired = await this.#way.acquire(place);
      if (acquired === undefined) return PUT_OFF;
      if (!acquired.ok) return acquired.error;
      const pooled = acquired.value;
      const { source } = pooled;
      // The last moment: making ready may have taken long, and what was stopped, or may be another's by now, does not leave.
      if (!this.#tools.mayLeave(this.#partition)) return GIVEN_BACK;
      const isUsedUp = isFirst ? this.#useRates(place, source) : undefined;
      if (isUsedUp !== undefined) return isUsedUp;
      const mayBeStale = pooled.messages > 0 || performance.now() - pooled.openedAtMs > STALE_AFTER_MS;
      pooled.messages += 1;
      const sentAtMs = performance.now();
      const sent = await this.#way.waitFor(pooled.session.send(composed.envelope, composed.octets));
      if (!sent.ok && isRecipientRefused(sent.error)) leaveTarpit(pooled, performance.now() - sentAtMs);
      this.#way.releaseIfUsedUp(pooled);
      const { messages } = pooled;
      if (sent.ok) {
        const result = { kind: "accepted", reply: sent.value, tells: pooled.session.offersDsn } as const;
        return { kind: "tried", result, source, messages };
      }
      if (!mayBeStale || !isStaleSession(sent.error)) {
        return { kind: "tried", result: { kind: "failed", failure: sent.error }, source, messages };
      }
    }
  }

  /**
   * Uses the provider's rate and the pool's for one message, or neither: what is not sent has taken nothing.
   * @returns undefined when it has both
   */
  #useRates(place: SourcePlace, source: string): PutOff | undefined {
    if (!place.hasToken()) return PUT_OFF;
    return this.#way.leave.use(source) && place.takeToken() ? undefined : GIVEN_BACK;
  }
}

function isRecipientRefused(failure: SmtpFailure): boolean {
  return failure.kind === "reply" && failure.stage === "rcpt";
}

/** Counts a refusal, and closes the session where more would be waited for. */
function leaveTarpit(pooled: PooledSession, tookMs: number): void {
  pooled.refusals += 1;
  if (pooled.refusals >= MOST_REFUSALS || tookMs >= SLOW_REFUSAL_MS) pooled.close();
}

/** Ended before it said anything to the message's sender: one that is broken off at a recipient was alive. */
function isStaleSession(failure: SmtpFailure): boolean {
  if (failure.kind === "broken") return SESSION_STAGES.has(failure.stage);
  return failure.kind === "reply" && failure.reply.code === 421 && failure.stage === "mail";
}
