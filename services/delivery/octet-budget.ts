/** What takes no more than this part of the budget is not counted: as much as all lanes together may have of it is one. */
const LITTLE = 1 / 256;
/** This part of the lanes, and no more than so many, may wait: the others are for what takes little. */
const WAITING_LANES = 1 / 4;
const MOST_WAITING = 8;
/** Who is sent away comes back in a turn of its own, within these bounds: large messages take a while to make room. */
const BETWEEN_TURNS_MS = 50;
const SOONEST_TURN_MS = 5_000;
const LATEST_TURN_MS = 60_000;

/**
 * Bounds the memory of what is composed at the same time: many lanes with a large message each would need more than
 * the machine has. Who asks first is served first; what is larger than the whole budget goes alone. What takes little
 * waits for nobody: large messages to a server that stalls must not hold up everything else.
 */
export class OctetBudget {
  readonly #most: number;
  readonly #mostWaiting: number;
  readonly #waiting: { readonly octets: number; readonly proceed: () => void }[] = [];
  #used = 0;
  #lastTurnMs = 0;

  /** @param lanes of the worker whose memory it is */
  constructor(mostOctets: number, lanes: number) {
    this.#most = mostOctets;
    this.#mostWaiting = Math.min(MOST_WAITING, Math.floor(lanes * WAITING_LANES));
  }

  /** Whether this one would have to wait, and as many wait already as may. */
  isCrowdedFor(octets: number): boolean {
    return !this.#isLittle(octets) && !this.#hasRoom(octets) && this.#waiting.length >= this.#mostWaiting;
  }

  /** In how many seconds to come back for whom it is crowded: one after another, and not all at once. */
  secondsUntilTurn(): number {
    const now = performance.now();
    const turn = Math.max(this.#lastTurnMs + BETWEEN_TURNS_MS, now + SOONEST_TURN_MS);
    this.#lastTurnMs = Math.min(turn, now + LATEST_TURN_MS);
    return (this.#lastTurnMs - now) / 1000;
  }

  /** Resolves when there is room. @returns gives it back; to be called once */
  async take(octets: number): Promise<() => void> {
    if (this.#isLittle(octets)) return () => {};
    const share = this.#shareOf(octets);
    if (this.#hasRoom(octets)) this.#used += share;
    else await new Promise<void>((resolve) => this.#waiting.push({ octets: share, proceed: resolve }));
    return () => this.#giveBack(share);
  }

  #hasRoom(octets: number): boolean {
    return this.#waiting.length === 0 && this.#used + this.#shareOf(octets) <= this.#most;
  }

  #shareOf(octets: number): number {
    return Math.min(octets, this.#most);
  }

  #isLittle(octets: number): boolean {
    return octets <= this.#most * LITTLE;
  }

  #giveBack(share: number): void {
    this.#used -= share;
    for (let next = this.#waiting[0]; next && this.#used + next.octets <= this.#most; next = this.#waiting[0]) {
      this.#waiting.shift();
      this.#used += next.octets;
      next.proceed();
    }
  }
}
