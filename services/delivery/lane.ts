import type { Phrases } from "../core/mail/bounce/phrases.ts";
import { MOST_PERSONAL_OCTETS } from "../core/mail/personalise.ts";
import { type RetrySchedule, timeLeft } from "../core/mail/retry.ts";
import { ok, type Result, refuse } from "../core/result.ts";
import type { Clock } from "../platform/clock.ts";
import type { Observe } from "../platform/observability/observation.ts";
import { inSpan } from "../platform/observability/tracing.ts";
import { isDatabaseAway } from "../platform/postgres/db.ts";
import type { SmtpFailure } from "../platform/smtp/client.ts";
import type { DeliveryOutcome } from "../store/mail/queue/deliveries.ts";
import { ANY_SOURCE, lotOf } from "../store/mail/queue/lease-partitions.ts";
import type { DueDelivery, LeasedPartition, PacedBy } from "../store/mail/queue/queue-leases.ts";
import { recordOf } from "./attempt-record.ts";
import {
  type ComposedMessage,
  type ComposeOptions,
  composeMessage,
  composingOctets,
  octetsOfValues,
  type PreparedMessage,
} from "./compose.ts";
import { type AttemptResult, concernOf, decide, describeResult, SESSION_STAGES } from "./decide.ts";
import { LaneWay, type WayTools } from "./lane-way.ts";
import type { MessageCache } from "./message-cache.ts";
import type { OctetBudget } from "./octet-budget.ts";
import type { OutcomeWriter } from "./outcome-writer.ts";
import type { SourcePlace, SourcePools } from "./routing/source-pools.ts";
import type { PooledSession } from "./session-pool.ts";
import type { TroubledDestinations } from "./troubled-destinations.ts";

/** What every lane of a worker shares. */
export interface LaneTools extends WayTools {
  readonly messages: MessageCache;
  readonly sources: SourcePools;
  readonly budget: OctetBudget;
  readonly writer: OutcomeWriter;
  readonly compose: ComposeOptions;
  readonly schedule: RetrySchedule;
  readonly wordings: { readonly phrases: Phrases };
  readonly clock: Clock;
  readonly random: () => number;
  readonly observe: Observe;
  /** False when the lease is no longer certain, or the partition's batch, its destination or the worker stops. */
  mayLeave(partition: LeasedPartition): boolean;
  /** Ends a lane where there are too many. @returns whether the one that asks is to end */
  giveWay(partition: LeasedPartition): boolean;
  readonly troubled: TroubledDestinations;
}

interface Attempt {
  readonly result: AttemptResult;
  /** That it left from; undefined where nobody was spoken to. */
  readonly source?: string | undefined;
  /** Messages that had gone over its session, this one included. */
  readonly messages?: number;
  /** What left, if it is to be kept: it takes its room until it is stored. */
  readonly archived?: DeliveryOutcome["archived"];
  readonly giveBack?: () => void;
}

/** How long a partition waits that met a limit on its way. */
const PUT_OFF_SECONDS = 1;
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

/** Delivers the due recipients of one partition, one after another over one session, and gives the partition back. */
export class Lane {
  readonly #partition: LeasedPartition;
  readonly #tools: LaneTools;
  /** One draw for the whole pass, so that recipients deferred together are due together. */
  readonly #draw: number;
  readonly #leasedAtMs = performance.now();
  #source: SourcePlace | undefined;
  #putOffSeconds = 0;
  #pacedBy: PacedBy | undefined;
  /** A result that is the same for every recipient of the destination, from wherever it is tried. */
  #trouble: AttemptResult | undefined;
  /** It refused some recipients one after another: what it would say to others is not known. */
  #isInDoubt = false;
  readonly #lot: string;
  /** Whose memory its messages are. */
  readonly #parties: readonly string[];
  readonly #way: LaneWay;

  constructor(partition: LeasedPartition, tools: LaneTools) {
    this.#partition = partition;
    this.#tools = tools;
    this.#draw = tools.random();
    this.#lot = lotOf(partition.destination, partition.pool);
    this.#parties = [`instance ${partition.instanceId}`, `destination ${partition.destination}`];
    this.#way = new LaneWay(partition, tools);
  }

  /** For how long the far side lets it wait; see `LaneWay`. */
  get waitedMs(): number {
    return this.#way.waitedMs;
  }

  /** Equal for lanes that wait for the same servers. */
  get path(): string {
    return this.#way.key;
  }

  async run(deliveries: readonly DueDelivery[]): Promise<void> {
    const { writer, mayLeave, giveWay } = this.#tools;
    try {
      for (const delivery of deliveries) {
        await writer.waitForRoom(this.#partition.instanceId);
        if (this.#trouble === undefined && this.#mustWait()) {
          this.#comeBack();
          break;
        }
        if (!mayLeave(this.#partition) || giveWay(this.#partition)) break;
        if (!(await this.#deliverTraced(delivery))) break;
      }
    } catch (error) {
      this.#putOff(); // or it would be taken, and fail, again and again without a pause
      throw error;
    } finally {
      this.#way.release();
      this.#source?.leave();
      const { instanceId, id: partitionId } = this.#partition;
      const pacedBy = this.#pacedBy;
      writer.release({ instanceId, partitionId, putOffSeconds: this.#putOffSeconds, pacedBy });
    }
  }

  /** In the trace of the call that sent it. */
  #deliverTraced(delivery: DueDelivery): Promise<boolean> {
    const attributes = { "palomar.delivery_id": delivery.id, "palomar.attempt": delivery.attempts + 1 };
    const parent = { traceparent: this.#partition.message.traceParent };
    return inSpan("deliver", { kind: "consumer", attributes, parent }, () => this.#deliver(delivery));
  }

  /** @returns false when it was not tried: the rest of the partition is not to be tried now either */
  async #deliver(delivery: DueDelivery): Promise<boolean> {
    if (this.#isInDoubt && timeLeft(this.#ageMs, this.#tools.schedule) > 0) {
      // Due it stays, and its turn comes when the destination is out of back-off.
      this.#putOff();
      return false;
    }
    this.#way.begin(delivery.attempts);
    const attempt = this.#trouble ? { result: this.#trouble } : await this.#composeAndSend(delivery);
    if (attempt === undefined) return false;
    this.#note(attempt, delivery.recipient);
    this.#record(delivery, attempt);
    return true;
  }

  async #composeAndSend(delivery: DueDelivery): Promise<Attempt | undefined> {
    const source = this.#enterPool();
    if (!source?.hasToken()) return this.#putOff();
    if (!(await this.#getLeave(delivery, source))) return undefined;
    try {
      return await this.#sendWithLeave(delivery, source);
    } finally {
      this.#way.leave.end();
    }
  }

  /**
   * Takes leave to send one message at its provider's pace, and waits a while for it, with the session kept.
   * @returns false where that takes long: the partition goes back until then
   */
  async #getLeave({ touchedDaysAgo }: DueDelivery, { sources }: SourcePlace): Promise<boolean> {
    const { leave, resting, source: usual } = this.#way;
    const isResting = (source: string) => resting.has(source);
    const wish = { sources, isResting, usual, touchedDaysAgo };
    const putOffSeconds = await leave.get(wish, (wait) => this.#way.waitAside(wait));
    if (putOffSeconds === undefined) return true;
    this.#putOff(putOffSeconds);
    this.#pacedBy = { provider: this.#tools.shaping.providerOf(this.#lot), sources, isPlanned: leave.isPlanned };
    return false;
  }

  async #sendWithLeave(delivery: DueDelivery, source: SourcePlace): Promise<Attempt | undefined> {
    // First of all: a destination that does not answer is to take no memory for messages.
    const reached = await this.#way.acquire(source);
    if (reached === undefined) {
      if (this.#way.leave.avoid(source.sources)) return this.#composeAndSend(delivery);
      return this.#putOff(Math.max(PUT_OFF_SECONDS, this.#way.restSeconds(source.sources)));
    }
    if (!reached.ok) return reached.error;
    // Other lanes may have taken the room or the rate while this one connected.
    if (this.#mustWait()) return this.#comeBack();
    let giveBack = await this.#tools.budget.take(this.#composingOctets, this.#parties);
    let attempt: Attempt | undefined;
    try {
      const prepared = await this.#prepare(delivery);
      const personal = prepared.ok ? octetsOfValues(prepared.value, delivery) : 0;
      if (personal > this.#partition.message.contentOctets && personal <= MOST_PERSONAL_OCTETS) {
        const all = this.#composingOctets + composingOctets(personal);
        if (this.#tools.budget.isCrowdedFor(all, this.#parties)) return this.#putOff(this.#tools.budget.bookTurn());
        giveBack();
        giveBack = await this.#tools.budget.take(all, this.#parties);
      }
      if (!prepared.ok) attempt = { result: prepared.error };
      else if (personal > MOST_PERSONAL_OCTETS) attempt = this.#tooLarge();
      else attempt = await this.#composeAndAttempt(prepared.value, delivery, source);
    } finally {
      if (attempt?.archived === undefined) giveBack();
    }
    return attempt && { ...attempt, giveBack };
  }

  #tooLarge(): Attempt {
    this.#way.forgetPath();
    return { result: TOO_LARGE };
  }

  async #composeAndAttempt(
    prepared: PreparedMessage,
    delivery: DueDelivery,
    source: SourcePlace,
  ): Promise<Attempt | undefined> {
    const composed = await this.#compose(prepared, delivery);
    if (!composed.ok) return { result: composed.error };
    const attempt = await this.#attempt(composed.value, source);
    return attempt && { ...attempt, archived: composed.value.archived };
  }

  get #composingOctets(): number {
    return composingOctets(this.#partition.message.contentOctets);
  }

  /** Whether there is no memory for the message, and no place to wait for it, or the provider's rate is used up. */
  #mustWait(): boolean {
    const { budget, shaping } = this.#tools;
    return budget.isCrowdedFor(this.#composingOctets, this.#parties) || shaping.isUsedUp(this.#lot);
  }

  /** Takes a turn for memory; a destination whose rate is used up is not leased before it has room anyway. */
  #comeBack(): undefined {
    const { budget } = this.#tools;
    if (budget.isCrowdedFor(this.#composingOctets, this.#parties)) this.#putOff(budget.bookTurn());
  }

  /**
   * Uses leave to send one message, of the provider's rate and of the pool's, or of neither. What is not sent has taken
   * nothing: this comes when the message is ready, and the session stands.
   */
  #takeTokens(place: SourcePlace, source: string): boolean {
    if (!place.hasToken()) this.#putOff();
    return place.hasToken() && this.#way.leave.use(source) && place.takeToken();
  }

  #enterPool(): SourcePlace | undefined {
    const { instanceName, campaignNumid } = this.#partition.message;
    this.#source ??= this.#tools.sources.enter(instanceName, campaignNumid);
    return this.#source;
  }

  #putOff(seconds = PUT_OFF_SECONDS): undefined {
    this.#putOffSeconds = seconds;
  }

  /** For how long it has been held. This machine's clock may jump; mail must not be given up for that. */
  get #heldMs(): number {
    return performance.now() - this.#leasedAtMs;
  }

  /** For how long it has been tried. */
  get #ageMs(): number {
    return this.#partition.ageMs + this.#heldMs;
  }

  #record(delivery: DueDelivery, { result, source, archived, giveBack }: Attempt): void {
    const { schedule, wordings, writer, observe, shaping } = this.#tools;
    const attemptsMade = delivery.attempts + 1;
    const progress = { attemptsMade, ageMs: this.#ageMs };
    const outcome = decide(result, progress, { schedule, random: () => this.#draw, phrases: wordings.phrases });
    const ended = {
      result,
      outcome,
      endedAt: new Date(this.#partition.leasedAt.getTime() + this.#heldMs),
      durationMs: this.#way.waitedInAttemptMs,
      path: this.#way.attemptPath,
    };
    const tlsSessions = this.#way.takeTlsSessions();
    const warmUp = source === undefined ? undefined : shaping.plannedFrom(this.#lot, source, this.#way.exchanger);
    writer.add(recordOf(this.#partition, delivery, { ...ended, archived, tlsSessions, warmUp }), archived && giveBack);
    const { words } = outcome;
    const bounceClass = outcome.kind === "bounced" ? outcome.bounceClass : undefined;
    observe({ kind: `delivery-${outcome.kind}`, deliveryId: delivery.id, words, bounceClass });
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

  /**
   * A kept session may have ended unnoticed: then the message is tried over another one.
   * @returns undefined when it was not tried
   */
  async #attempt(composed: ComposedMessage, place: SourcePlace): Promise<Attempt | undefined> {
    const { mayLeave } = this.#tools;
    for (let isFirst = true; ; isFirst = false) {
      const acquired = await this.#way.acquire(place);
      if (acquired === undefined) return this.#putOff();
      if (!acquired.ok) return acquired.error;
      const { source } = acquired.value;
      // The last moment: making ready may have taken long, and what was stopped, or may be another's by now, does not leave.
      if (!mayLeave(this.#partition) || (isFirst && !this.#takeTokens(place, source))) {
        return undefined;
      }
      const pooled = acquired.value;
      const mayBeStale = pooled.messages > 0 || performance.now() - pooled.openedAtMs > STALE_AFTER_MS;
      pooled.messages += 1;
      const sentAtMs = performance.now();
      const sent = await this.#way.waitFor(pooled.session.send(composed.envelope, composed.octets));
      if (!sent.ok && isRecipientRefused(sent.error)) leaveTarpit(pooled, performance.now() - sentAtMs);
      this.#way.releaseIfUsedUp(pooled);
      const { messages } = pooled;
      if (sent.ok) {
        return { result: { kind: "accepted", reply: sent.value, tells: pooled.session.offersDsn }, source, messages };
      }
      if (!mayBeStale || !isStaleSession(sent.error)) {
        return { result: { kind: "failed", failure: sent.error }, source, messages };
      }
    }
  }

  /** What a server says to one source goes for that one; silence, and the want of a way, for more. */
  #note({ result, source, messages = 0 }: Attempt, recipient: string): void {
    if (this.#trouble) return;
    const { shaping, wordings, troubled } = this.#tools;
    const { destination } = this.#partition;
    // How long a source is to wait that was told to send less is the pace's to say.
    const facts = { messages, durationMs: this.#way.waitedInAttemptMs, exchanger: this.#way.exchanger };
    if (source !== undefined && shaping.note(this.#lot, source, result, facts)) return;
    const concern = concernOf(result, wordings.phrases);
    if (concern === "recipient") {
      if (result.kind === "accepted" && source !== undefined) troubled.noteAccepted(destination, source);
      return;
    }
    const own = this.#source?.sources ?? [];
    const isSaid = result.kind === "failed" && result.failure.kind === "reply" && source !== undefined;
    const sources = result.kind === "unroutable" ? [ANY_SOURCE] : isSaid ? [source] : own;
    const said = { sources, words: describeResult(result), recipient: concern === "unknown" ? recipient : undefined };
    const inTrouble = troubled.noteRefused(destination, said);
    for (const each of inTrouble) this.#way.resting.set(each, 0);
    if (inTrouble.length === 0) return;
    if (isSaid && !own.every((other) => this.#way.resting.has(other))) return;
    this.#trouble = result;
    this.#isInDoubt = concern === "unknown";
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
