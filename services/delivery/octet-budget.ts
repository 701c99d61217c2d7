/** What takes no more than this part of the budget is not counted. */
const LITTLE = 1 / 256;
/** Who would have to wait behind so many others had better come back later. */
const MOST_WAITING = 8;

/**
 * Bounds the memory of what is composed at the same time: many lanes with a large message each would need more than
 * the machine has. Who asks first is served first; what is larger than the whole budget goes alone. What takes little
 * waits for nobody: large messages to a server that stalls must not hold up everything else.
 */
export class OctetBudget {
  readonly #most: number;
  readonly #waiting: { readonly octets: number; readonly proceed: () => void }[] = [];
  #used = 0;

  constructor(mostOctets: number) {
    this.#most = mostOctets;
  }

  /** Whether so many wait already that this one's turn would be far off. */
  isCrowdedFor(octets: number): boolean {
    return this.#waiting.length >= MOST_WAITING && !this.#isLittle(octets);
  }

  /** Resolves when there is room. @returns gives it back; to be called once */
  async take(octets: number): Promise<() => void> {
    if (this.#isLittle(octets)) return () => {};
    const share = Math.min(octets, this.#most);
    if (this.#waiting.length > 0 || this.#used + share > this.#most) {
      await new Promise<void>((resolve) => this.#waiting.push({ octets: share, proceed: resolve }));
    } else this.#used += share;
    return () => this.#giveBack(share);
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
