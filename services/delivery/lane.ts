import type { Phrases } from "../core/mail/bounce/phrases.ts";
import { ANY_SOURCE } from "../core/mail/queue/destination-queue.ts";
import { type RetrySchedule, timeLeft } from "../core/mail/retry.ts";
import { inSpan } from "../platform/observability/tracing.ts";
import type { DueDelivery, LeasedPartition } from "../store/mail/queue/queue-leases.ts";
import { GIVEN_BACK, PUT_OFF, type PutOff, type Tried } from "./attempt.ts";
import { recordOf } from "./attempt-record.ts";
import { type AttemptResult, concernOf, decide, describeResult } from "./decide.ts";
import { LaneWay } from "./lane-way.ts";
import { MessageSender, type SenderTools } from "./message-sender.ts";
import type { OutcomeWriter } from "./outcome-writer.ts";
import type { TroubledDestinations } from "./troubled-destinations.ts";

/** What every lane of a worker shares. */
export interface LaneTools extends SenderTools {
  readonly writer: OutcomeWriter;
  readonly schedule: RetrySchedule;
  readonly wordings: { readonly phrases: Phrases };
  readonly random: () => number;
  /** Ends a lane where there are too many. @returns whether the one that asks is to end */
  giveWay(partition: LeasedPartition): boolean;
  readonly troubled: TroubledDestinations;
}

/** What a destination has said of all recipients, from wherever they are tried: no other one is turned to in this pass. */
interface Verdict {
  readonly result: AttemptResult;
  /**
   * `destination`: the others share the result. `unknown`: it refused some one after another, and what it would say to others is
   * not known: they stay due while the mail's time lasts, and share the result when it is over.
   */
  readonly concern: "destination" | "unknown";
}

/** Delivers the due recipients of one partition, one after another over one session, and gives the partition back. */
export class Lane {
  readonly #partition: LeasedPartition;
  readonly #tools: LaneTools;
  /** One draw for the whole pass, so that recipients deferred together are due together. */
  readonly #draw: number;
  readonly #leasedAtMs = performance.now();
  readonly #way: LaneWay;
  readonly #sender: MessageSender;
  #verdict: Verdict | undefined;

  constructor(partition: LeasedPartition, tools: LaneTools) {
    this.#partition = partition;
    this.#tools = tools;
    this.#draw = tools.random();
    this.#way = new LaneWay(partition, tools);
    this.#sender = new MessageSender(partition, tools, this.#way);
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
    const { writer } = this.#tools;
    const { instanceId, id: partitionId } = this.#partition;
    let end = GIVEN_BACK;
    try {
      for (const delivery of deliveries) {
        await writer.waitForRoom(instanceId);
        const putOff = await this.#next(delivery);
        if (putOff === undefined) continue;
        end = putOff;
        break;
      }
    } catch (error) {
      end = PUT_OFF; // or it would be taken, and fail, again and again without a pause
      throw error;
    } finally {
      this.#sender.end();
      writer.release({ instanceId, partitionId, putOffSeconds: end.seconds, pacedBy: end.pacedBy });
    }
  }

  /** @returns undefined when the next recipient may have its turn */
  async #next(delivery: DueDelivery): Promise<PutOff | undefined> {
    const turnedAway = this.#verdict === undefined ? this.#sender.turnAway() : undefined;
    if (turnedAway !== undefined) return turnedAway;
    if (!this.#tools.mayLeave(this.#partition) || this.#tools.giveWay(this.#partition)) return GIVEN_BACK;
    // In the trace of the call that sent it.
    const attributes = { "palomar.delivery_id": delivery.id, "palomar.attempt": delivery.attempts + 1 };
    const parent = { traceparent: this.#partition.message.traceParent };
    return inSpan("deliver", { kind: "consumer", attributes, parent }, () => this.#deliver(delivery));
  }

  async #deliver(delivery: DueDelivery): Promise<PutOff | undefined> {
    const verdict = this.#verdict;
    // Its turn comes when the destination is out of back-off.
    if (verdict?.concern === "unknown" && timeLeft(this.#ageMs, this.#tools.schedule) > 0) return PUT_OFF;
    this.#way.begin(delivery.attempts);
    if (verdict !== undefined) {
      this.#record(delivery, { kind: "tried", result: verdict.result });
      return undefined;
    }
    const attempt = await this.#sender.send(delivery);
    if (attempt.kind === "put off") return attempt;
    this.#verdict = this.#heed(attempt, delivery.recipient);
    this.#record(delivery, attempt);
    return undefined;
  }

  /**
   * Tells the pace and the destination's back-off what a server said. What it says to one source goes for that one; silence,
   * and the want of a way, for more.
   * @returns what it says of all recipients, once no source of the pool is left to hear otherwise
   */
  #heed({ result, source, messages = 0 }: Tried, recipient: string): Verdict | undefined {
    const { shaping, wordings, troubled } = this.#tools;
    const { destination } = this.#partition;
    // How long a source is to wait that was told to send less is the pace's to say.
    const facts = { messages, durationMs: this.#way.waitedInAttemptMs, exchanger: this.#way.exchanger };
    if (source !== undefined && shaping.note(this.#way.queue, source, result, facts)) return undefined;
    const concern = concernOf(result, wordings.phrases);
    if (concern === "recipient") {
      if (result.kind === "accepted" && source !== undefined) troubled.noteAccepted(destination, source);
      return undefined;
    }
    const { sources: own } = this.#sender;
    const isSaid = result.kind === "failed" && result.failure.kind === "reply" && source !== undefined;
    const sources = result.kind === "unroutable" ? [ANY_SOURCE] : isSaid ? [source] : own;
    const said = { sources, words: describeResult(result), recipient: concern === "unknown" ? recipient : undefined };
    const inTrouble = troubled.noteRefused(destination, said);
    for (const each of inTrouble) this.#way.resting.set(each, 0);
    if (inTrouble.length === 0) return undefined;
    return isSaid && !own.every((other) => this.#way.resting.has(other)) ? undefined : { result, concern };
  }

  /** For how long it has been held. This machine's clock may jump; mail must not be given up for that. */
  get #heldMs(): number {
    return performance.now() - this.#leasedAtMs;
  }

  /** For how long it has been tried. */
  get #ageMs(): number {
    return this.#partition.ageMs + this.#heldMs;
  }

  #record(delivery: DueDelivery, { result, source, archived, giveBack }: Tried): void {
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
    const warmUp = source === undefined ? undefined : shaping.plannedFrom(this.#way.queue, source, this.#way.exchanger);
    writer.add(recordOf(this.#partition, delivery, { ...ended, archived, tlsSessions, warmUp }), giveBack);
    const { words } = outcome;
    const bounceClass = outcome.kind === "bounced" ? outcome.bounceClass : undefined;
    observe({ kind: `delivery-${outcome.kind}`, deliveryId: delivery.id, words, bounceClass });
  }
}
