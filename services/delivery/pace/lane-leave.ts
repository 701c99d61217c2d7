import type { Leave, TrafficShaping } from "../shaping.ts";

/** Messages wait for so long in all while their partition is in hand: then others have their turn. */
const MOST_WAIT_MS = 10_000;
/** Who is sent away until there is leave comes so much earlier. */
const EARLY_MS = 2_000;

/** The leave of a lane, for one message after another. */
export class LaneLeave {
  readonly #shaping: TrafficShaping;
  readonly #lot: string;
  /** Of the message under way, until it is on the wire. */
  #leave: Leave = FREE;
  #waitedMs = 0;

  constructor(shaping: TrafficShaping, lot: string) {
    this.#shaping = shaping;
    this.#lot = lot;
  }

  /**
   * Takes leave for the next message, where there is some at once.
   * @param sources that it may go from, those first that it would rather
   */
  take(sources: readonly string[]): boolean {
    // Where all rest there is nobody to speak to, which is found next.
    const leave = sources.length === 0 ? FREE : this.#shaping.takeLeave(this.#lot, sources);
    this.#leave = leave ?? FREE;
    return leave !== undefined;
  }

  /**
   * Waits for it.
   * @returns undefined when it has it, else for how many seconds the partition is to go back
   */
  async wait(sources: readonly string[]): Promise<number | undefined> {
    const startedAtMs = performance.now();
    const found = await this.#shaping.waitForLeave(this.#lot, sources, MOST_WAIT_MS - this.#waitedMs);
    this.#waitedMs += performance.now() - startedAtMs;
    if ("waitMs" in found) return Math.max(0, found.waitMs - EARLY_MS) / 1000;
    this.#leave = found;
    return undefined;
  }

  mayUse(source: string): boolean {
    return this.#shaping.mayUse(this.#lot, source, this.#leave);
  }

  /** The message is sent from a source now. @returns false when there is no leave for that one */
  use(source: string): boolean {
    const leave = this.#leave;
    this.#leave = FREE;
    return this.#shaping.useLeave(this.#lot, source, leave);
  }

  /** The message was not sent, or is. */
  end(): void {
    this.#shaping.giveBack(this.#leave);
    this.#leave = FREE;
  }
}

const FREE: Leave = { source: undefined, provider: "" };
