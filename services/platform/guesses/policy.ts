/** How guesses at keys are slowed. docs/security.md has what it comes to. */
export interface GuessPolicy {
  /** Of one source, an IPv4 address or an IPv6 /64. */
  readonly source: {
    /** So many wrong keys cost nothing; null: any number, because the protocol has lock-outs of its own. */
    readonly freeFailures: number | null;
    /** The first wait; each further wrong key doubles it. */
    readonly firstWaitMs: number;
    readonly mostWaitMs: number;
    /** Wrong keys are forgotten when so long none was tried. */
    readonly forgetMs: number;
    /** A wrong key that only repeats the source's last one is no guess: it is looked at once in this time, and not counted. */
    readonly repeatMs: number;
  };
  /** Of the sources in an IPv4 /24 or an IPv6 /48 together: so many at once, then one for each `refillMs`. */
  readonly network: Budget;
  /** At one target, from all sources: so many at once, then one for each `refillMs`, the others waiting their turn. */
  readonly target: Budget & {
    /** So many may wait: none waits longer than `mostWaiting` times `refillMs`. */
    readonly mostWaiting: number;
  };
  /** For so long after it was right, a key is known to be right from its source. */
  readonly knownMs: number;
}

interface Budget {
  readonly atOnce: number;
  readonly refillMs: number;
}

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

/** Keys of the APIs. */
export const API_KEY_GUESSES: GuessPolicy = {
  source: {
    freeFailures: 30,
    firstWaitMs: 5 * SECOND,
    mostWaitMs: 15 * MINUTE,
    forgetMs: 24 * HOUR,
    repeatMs: MINUTE,
  },
  network: { atOnce: 300, refillMs: MINUTE },
  target: { atOnce: 60, refillMs: SECOND, mostWaiting: 30 },
  knownMs: 24 * HOUR,
};

/** Keys of campaigns: submission locks sources out by rules of its own, so what is left is the campaign's side. */
export const SUBMISSION_GUESSES: GuessPolicy = {
  ...API_KEY_GUESSES,
  source: { ...API_KEY_GUESSES.source, freeFailures: null },
};
