import type { Refusal } from "../core/refusal.ts";
import type { Result } from "../core/result.ts";
import { FairTurns } from "../platform/fair-turns.ts";
import { KnownKeys } from "../platform/guesses/known-keys.ts";
import { networkOf, sourceOf } from "../platform/lookups/address-blocks.ts";

/** How long an address is known that a login was right from. */
const KNOWN_MS = 30 * 86_400_000;
const MANY_OF_SOURCE = { mostWaiting: 16, retryAfterSeconds: 5 };
const MANY_OF_NETWORK = { mostWaiting: 64, retryAfterSeconds: 5 };

/** Who wants work on a password done. */
export interface PasswordCaller {
  readonly login: string;
  readonly address: string;
}

/**
 * Work on passwords, each piece of which takes a processor and a thread of all file and name look-ups for a while: one at a
 * time of callers whose login was right from their address lately, and one of all others, in turn by network and within it by
 * source. It goes by what is remembered here alone, the same for a login that nobody has.
 */
export class PasswordTurns {
  readonly #callers = new FairTurns({ atOnce: Number.POSITIVE_INFINITY, perClient: 1 });
  readonly #sources = new FairTurns({ atOnce: Number.POSITIVE_INFINITY, perClient: 1 });
  readonly #known = new FairTurns({ atOnce: 1, perClient: 1 });
  readonly #strangers = new FairTurns({ atOnce: 1, perClient: 1 });
  readonly #rightLately = new KnownKeys(KNOWN_MS);

  /**
   * Counts and judges one attempt of a caller after the other, so that those that are right do not count for the next; refused
   * where too many wait.
   */
  async oneByOne<T, R>({ login, address }: PasswordCaller, attempt: () => Promise<Result<T, R>>) {
    return this.#callers.runOrRefuse(`${sourceOf(address)} ${login}`, MANY_OF_SOURCE, attempt);
  }

  /** Does the work when it is the caller's turn; refused where too much of its source's or its network's waits for theirs. */
  async run<T>(
    { login, address }: PasswordCaller,
    work: () => Promise<Result<T, Refusal>>,
  ): Promise<Result<T, Refusal>> {
    const source = sourceOf(address);
    const lane = this.#rightLately.has(source, login, performance.now()) ? this.#known : this.#strangers;
    return this.#sources.runOrRefuse(source, MANY_OF_SOURCE, () =>
      lane.runOrRefuse(networkOf(address), MANY_OF_NETWORK, work),
    );
  }

  /** The login's password was right. */
  noteRight({ login, address }: PasswordCaller): void {
    this.#rightLately.note(sourceOf(address), login, performance.now());
  }
}
