import type { Refusal } from "../../core/refusal.ts";
import { type Result, refuse } from "../../core/result.ts";
import { isLoopback, networkOf, sourceOf } from "../lookups/address-blocks.ts";
import type { Observe } from "../observability/observation.ts";
import { KnownKeys } from "./known-keys.ts";
import type { GuessPolicy } from "./policy.ts";
import { SourceBudgets } from "./source-budgets.ts";
import { TargetLanes } from "./target-lanes.ts";

/** A key that somebody calls with. */
export interface KeyAttempt {
  readonly address: string;
  /** Of the key and everything that decides what it is right for: equal for the same attempt only. */
  readonly digest: string;
  /** What would be opened, such as `reseller acme`; asked only of attempts that might be guesses. */
  readonly target: () => string | Promise<string>;
  /** Whether whoever called has left meanwhile. */
  readonly isGone: () => boolean;
}

export interface KeyGuessesOptions {
  readonly policy: GuessPolicy;
  readonly limitLoopback: boolean;
  readonly observe: Observe;
  /** A monotonic clock, in milliseconds. */
  readonly nowMs?: () => number;
}

/**
 * Tells guesses from calls, and slows them. A key that has been right from its source lately is looked at like any
 * other, and neither counted nor kept waiting; every other attempt first has to be within the budget of its source, then
 * of its network, then waits its turn at its target. What is over a source's budget is not looked at, right or wrong.
 * All of it is in the memory of this process, whose size does not depend on who calls.
 */
export class KeyGuesses {
  readonly #options: KeyGuessesOptions;
  readonly #nowMs: () => number;
  readonly #known: KnownKeys;
  readonly #sources: SourceBudgets;
  readonly #lanes: TargetLanes;
  /** Attempts under way: many callers with the same key at the same moment are one attempt. */
  readonly #underWay = new Map<string, Promise<Refusal | undefined>>();

  constructor(options: KeyGuessesOptions) {
    this.#options = options;
    this.#nowMs = options.nowMs ?? (() => performance.now());
    this.#known = new KnownKeys(options.policy.knownMs);
    this.#sources = new SourceBudgets(options.policy);
    this.#lanes = new TargetLanes(options.policy.target, this.#nowMs);
  }

  /** Whether attempts from there are judged at all: those of this machine are not unless that is wanted. */
  judges(address: string): boolean {
    return this.#options.limitLoopback || !isLoopback(address);
  }

  /**
   * Looks at a key, or refuses to.
   * @param look says whether the key is right: `unauthenticated` when it is wrong
   */
  async judge<T>(attempt: KeyAttempt, look: () => Promise<Result<T, Refusal>>): Promise<Result<T, Refusal>> {
    if (!this.judges(attempt.address)) return look();
    const source = sourceOf(attempt.address);
    const { digest } = attempt;
    if (this.#known.has(source, digest, this.#nowMs())) return this.#lookAtKnown(attempt, source, look);
    const name = `${source} ${digest}`;
    const underWay = this.#underWay.get(name);
    if (underWay) {
      const refusal = await underWay;
      return refusal ? refuse(refusal) : look();
    }
    const looking = this.#lookAtGuess(attempt, source, look);
    const refusal = looking.then(
      (outcome) => (outcome.ok ? undefined : outcome.error),
      (): Refusal => ({ kind: "unavailable" }),
    );
    this.#underWay.set(name, refusal);
    try {
      return await looking;
    } finally {
      this.#underWay.delete(name);
    }
  }

  /** What fills the memory, for tests and for nobody else. */
  get sizes(): { readonly sources: number; readonly keys: number; readonly waiting: number } {
    return { sources: this.#sources.size, keys: this.#known.size, waiting: this.#lanes.waiting };
  }

  async #lookAtKnown<T>(
    { address, digest }: KeyAttempt,
    source: string,
    look: () => Promise<Result<T, Refusal>>,
  ): Promise<Result<T, Refusal>> {
    const outcome = await look();
    if (outcome.ok) this.#known.note(source, digest, this.#nowMs());
    else if (outcome.error.kind === "unauthenticated") {
      this.#known.forget(source, digest);
      this.#sources.countFailure(source, digest, this.#nowMs());
      this.#options.observe({ kind: "key-wrong", client: address });
    }
    return outcome;
  }

  /** The source's last wrong key: it may have become right since. */
  async #lookAgain<T>(
    digest: string,
    source: string,
    look: () => Promise<Result<T, Refusal>>,
  ): Promise<Result<T, Refusal>> {
    const outcome = await look();
    if (outcome.ok) this.#known.note(source, digest, this.#nowMs());
    return outcome;
  }

  async #lookAtGuess<T>(
    attempt: KeyAttempt,
    source: string,
    look: () => Promise<Result<T, Refusal>>,
  ): Promise<Result<T, Refusal>> {
    const { address, digest } = attempt;
    const network = networkOf(address);
    const start = this.#sources.begin(source, network, digest, this.#nowMs());
    if (start.kind === "wait") return this.#refuse(attempt, start.waitMs);
    if (start.kind === "repeated") return this.#lookAgain(digest, source, look);
    let target: string | undefined;
    const takeBack = () => {
      this.#sources.takeBack(source, network, this.#nowMs());
      if (target !== undefined) this.#lanes.giveBack(target);
    };
    try {
      const wanted = await attempt.target();
      const rank = this.#sources.rankOf(source, network, this.#nowMs());
      if (!(await this.#lanes.enter(wanted, { source, rank, isGone: attempt.isGone }))) {
        takeBack();
        return this.#refuse(attempt, this.#lanes.longestWaitMs);
      }
      target = wanted;
      const outcome = await look();
      if (outcome.ok) this.#known.note(source, digest, this.#nowMs());
      if (outcome.ok || outcome.error.kind !== "unauthenticated") takeBack();
      else {
        const failures = this.#sources.noteWrong(source, digest, this.#nowMs());
        const isFirstWait = failures === this.#options.policy.source.freeFailures;
        this.#options.observe({ kind: "key-wrong", level: isFirstWait ? "warn" : "debug", client: address, failures });
      }
      return outcome;
    } catch (error) {
      takeBack();
      throw error;
    }
  }

  #refuse({ address }: KeyAttempt, waitMs: number): Result<never, Refusal> {
    this.#options.observe({ kind: "key-not-looked-at", client: address });
    return refuse({ kind: "rate-limited", retryAfterSeconds: Math.max(1, Math.ceil(waitMs / 1_000)) });
  }
}
