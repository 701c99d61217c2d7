/** A replay of what decides the pace, on a clock of its own, at models of providers. */
import { readFileSync } from "node:fs";
import { knownPhrases } from "../../services/core/mail/bounce/class.ts";
import { type Bucket, draw, rateInForce, UNPINNED } from "../../services/core/mail/pace/allowance.ts";
import { learn, type PaceMemory, UNTAUGHT } from "../../services/core/mail/pace/controller.ts";
import { RecentCount } from "../../services/core/mail/pace/recent-count.ts";
import { judgePace, readPaceReplies } from "../../services/core/mail/pace/replies.ts";
import { parseSmtpReply } from "../../services/core/mail/smtp-reply.ts";
import type { ProviderModel } from "./pace-providers.ts";

/** How much is sent: by what is learnt, or at a fixed rate, messages an hour. */
export type PacePolicy = "learnt" | number;

export interface SimulatedDay {
  readonly delivered: number;
  readonly deferred: number;
  /** Of what the provider would have taken. */
  readonly used: number;
  /** How often the rate went down. */
  readonly reductions: number;
  /** Of the rate, by its mean, over the last half. */
  readonly oscillation: number;
  /** The rate at the end of each minute. */
  readonly rates: readonly number[];
}

const STEP_MS = 1_000;
const HOUR_MS = 3_600_000;
/** As config/delivery.json has them for a domain of its own. */
const SESSIONS = 20;
/** Messages a second that go over a session. */
const PER_SESSION = 2;
/** Of what was tried, by which what is tried now is smoothed. */
const FADING = 0.8;

const read = readPaceReplies(JSON.parse(readFileSync("config/pace-replies.json", "utf8")));
if (!read.ok) throw new Error(read.error);
const table = read.value;

/** What a source with endless mail gets through to a provider. */
export function simulate(model: ProviderModel, policy: PacePolicy, hours: number): SimulatedDay {
  const provider = model.make();
  const source = new SimulatedSource(policy);
  const sum = { delivered: 0, deferred: 0, possible: 0 };
  const rates: number[] = [];
  for (let step = 1; step <= (hours * HOUR_MS) / STEP_MS; step += 1) {
    const nowMs = step * STEP_MS;
    const { messages, sessions } = source.next(nowMs);
    const { taken, refusal } = provider.offer(nowMs, messages, sessions);
    source.note({ nowMs, taken, refused: messages - taken, refusal });
    sum.possible += Math.min(provider.capacity(nowMs), SESSIONS * PER_SESSION);
    sum.delivered += taken;
    sum.deferred += messages - taken;
    if (step % 60 === 0) rates.push(source.perHour);
  }
  const { delivered, deferred, possible } = sum;
  const { reductions } = source;
  return { delivered, deferred, used: delivered / possible, reductions, oscillation: oscillationOf(rates), rates };
}

/** What all workers together do, told of everything at once. */
class SimulatedSource {
  readonly #policy: PacePolicy;
  readonly #accepted = new RecentCount();
  #memory: PaceMemory = UNTAUGHT;
  #bucket: Bucket = { tokens: 1, filledAtMs: 0 };
  #tried = 0;
  #sessions = SESSIONS;
  reductions = 0;

  constructor(policy: PacePolicy) {
    this.#policy = policy;
  }

  get perHour(): number {
    return this.#rate ?? this.#most;
  }

  get #rate(): number | null {
    return rateInForce(this.#memory, UNPINNED, this.#policy === "learnt" ? null : this.#policy);
  }

  /** Messages an hour that the sessions carry. */
  get #most(): number {
    return this.#sessions * PER_SESSION * 3_600;
  }

  next(nowMs: number): { messages: number; sessions: number } {
    this.#sessions = Math.min(SESSIONS, this.#memory.connections ?? SESSIONS);
    if (this.#memory.waitsUntilMs > nowMs) return { messages: 0, sessions: this.#sessions };
    const wanted = this.#sessions * PER_SESSION;
    if (this.#rate === null) return { messages: wanted, sessions: this.#sessions };
    const { bucket, granted } = draw(this.#bucket, this.#rate, { nowMs, returned: 0, wanted });
    this.#bucket = bucket;
    return { messages: granted, sessions: this.#sessions };
  }

  note({ nowMs, taken, refused, refusal }: { nowMs: number; taken: number; refused: number; refusal: string }): void {
    if (this.#policy !== "learnt") return;
    for (let message = 0; message < taken; message += 1) this.#accepted.add(nowMs);
    this.#tried = this.#tried * FADING + (taken + refused) * (1 - FADING);
    const of = { provider: "big.example.net", table, phrases: knownPhrases };
    const signal = refused > 0 ? judgePace(parseSmtpReply(refusal)!, "rcpt", of) : undefined;
    const before = this.perHour;
    this.#memory = learn(this.#memory, {
      nowMs,
      triedPerHour: (this.#tried * HOUR_MS) / STEP_MS,
      acceptedPerHour: this.#accepted.perHour(nowMs),
      joiningPerHour: 0,
      sessions: this.#sessions,
      signals: signal === undefined ? [] : [{ ...signal, messages: 1, ageMs: 0 }],
    });
    if (this.perHour < before) this.reductions += 1;
  }
}

/** Standard deviation by mean, of the second half. */
function oscillationOf(rates: readonly number[]): number {
  const half = rates.slice(Math.floor(rates.length / 2));
  const mean = half.reduce((sum, rate) => sum + rate, 0) / half.length;
  const variance = half.reduce((sum, rate) => sum + (rate - mean) ** 2, 0) / half.length;
  return Math.sqrt(variance) / mean;
}
