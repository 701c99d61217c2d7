import { Counts } from "../core/counts.ts";

/** What takes no more than this part of the budget is not counted: as much as all lanes together may have of it is one. */
const LITTLE = 1 / 256;
/** This part of the lanes, and no more than so many, may wait: the others are for what takes little. */
const WAITING_LANES = 1 / 4;
const MOST_WAITING = 8;
/** This part of the memory, and of the places to wait for it, is the most for one party: others find some left. */
const ONE_PARTY = 1 / 2;
/** Messages refused for want of memory are tried again one after another, so far apart. */
const BETWEEN_TURNS_MS = 50;
/** The first of them, and the last at most, after so long: large messages take a while to make room. */
const SOONEST_TURN_MS = 5_000;
const LATEST_TURN_MS = 60_000;

/** Memory for one message. */
interface Share {
  readonly octets: number;
  readonly parties: readonly string[];
}

/**
 * Bounds the memory of what is composed at the same time: many lanes with a large message each would need more than
 * the machine has. Who asks first is served first, but who waits for its own party alone; what is larger than there is
 * goes alone. What takes little waits for nobody: large messages to a server that stalls must not hold up everything else.
 *
 * `parties`: whose message it is, and where it goes. Each may have a message at least.
 */
export class OctetBudget {
  readonly #most: number;
  readonly #mostWaiting: number;
  readonly #waiting: (Share & { readonly proceed: () => void })[] = [];
  readonly #usedBy = new Counts<string>();
  #used = 0;
  #lastTurnMs = 0;

  /** @param lanes of the worker whose memory it is */
  constructor(mostOctets: number, lanes: number) {
    this.#most = mostOctets;
    this.#mostWaiting = Math.min(MOST_WAITING, Math.floor(lanes * WAITING_LANES));
  }

  /** Whether this one would have to wait, and as many wait already as may, of all or of one of its parties. */
  isCrowdedFor(octets: number, parties: readonly string[]): boolean {
    if (this.#isLittle(octets) || this.#hasRoom(this.#shareOf(octets, parties))) return false;
    const own = parties.map((party) => this.#waiting.filter((each) => each.parties.includes(party)).length);
    return this.#waiting.length >= this.#mostWaiting || Math.max(...own) >= this.#mostWaiting * ONE_PARTY;
  }

  /** Gives whom it is crowded for a turn to come back, one after another. @returns seconds until then */
  bookTurn(): number {
    const now = performance.now();
    const turn = Math.max(this.#lastTurnMs + BETWEEN_TURNS_MS, now + SOONEST_TURN_MS);
    this.#lastTurnMs = Math.min(turn, now + LATEST_TURN_MS);
    return (this.#lastTurnMs - now) / 1000;
  }

  /** Resolves when there is room. @returns gives it back; to be called once */
  async take(octets: number, parties: readonly string[]): Promise<() => void> {
    if (this.#isLittle(octets)) return () => {};
    const share = this.#shareOf(octets, parties);
    if (this.#hasRoom(share)) this.#count(share, share.octets);
    else await new Promise<void>((resolve) => this.#waiting.push({ ...share, proceed: resolve }));
    return () => this.#giveBack(share);
  }

  #hasRoom(share: Share): boolean {
    return this.#mayHave(share) && this.#fits(share) && !this.#waiting.some((first) => this.#mayHave(first));
  }

  #fits({ octets }: Share): boolean {
    return this.#used + octets <= this.#most;
  }

  /** Whether its parties leave enough to others with it. */
  #mayHave({ octets, parties }: Share): boolean {
    const used = parties.map((party) => this.#usedBy.of(party));
    return used.every((own) => own === 0 || own + octets <= this.#most * ONE_PARTY);
  }

  #shareOf(octets: number, parties: readonly string[]): Share {
    return { octets: Math.min(octets, this.#most), parties };
  }

  #isLittle(octets: number): boolean {
    return octets <= this.#most * LITTLE;
  }

  #count({ parties }: Share, change: number): void {
    this.#used += change;
    for (const party of parties) this.#usedBy.add(party, change);
  }

  #giveBack(share: Share): void {
    this.#count(share, -share.octets);
    for (const next of [...this.#waiting]) {
      if (!this.#mayHave(next)) continue;
      if (!this.#fits(next)) break;
      this.#waiting.splice(this.#waiting.indexOf(next), 1);
      this.#count(next, next.octets);
      next.proceed();
    }
  }
}
