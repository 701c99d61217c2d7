import { HEADER, MAX_READERS, READER_STRIDE } from "./layout.ts";
import type { MemorySegment } from "./memory.ts";

/**
 * Tells the writer's thread what readers can still see. The writer's steps are counted; readers publish the step, the
 * epoch, at which they entered. What is out of every table since an epoch is seen by nobody once every reader that is
 * inside entered later.
 */
export class Epochs {
  readonly #first: MemorySegment;
  readonly #pins = new Map<symbol, number>();
  /** The epoch of the oldest reader that was inside when the last step ended. */
  #oldestInside = 0;

  /** @param first the segment with the header */
  constructor(first: MemorySegment) {
    this.#first = first;
  }

  /** The writer's current step. */
  get current(): number {
    return this.#first.words[HEADER.EPOCH]!;
  }

  /** Ends the writer's current step. */
  advance(): void {
    const { words } = this.#first;
    // 0 stands for a reader that is outside, so the count leaves it out when it wraps.
    if (Atomics.add(words, HEADER.EPOCH, 1) === -1) Atomics.add(words, HEADER.EPOCH, 1);
    this.#oldestInside = this.#oldestReader();
  }

  /**
   * Whether all readers that were inside when the last step ended had entered after a step. Readers that leave
   * meanwhile change nothing, so that what is done in one step sees one state of them.
   */
  hasPassed(epoch: number): boolean {
    return isBefore(epoch, this.#oldestInside);
  }

  /** Keeps everything that is visible now from being freed, until the returned function is called. */
  pin(): () => void {
    const pin = Symbol("pin");
    this.#pins.set(pin, this.current);
    return () => this.#pins.delete(pin);
  }

  /** The epoch of the oldest reader or pin: what was retired before it may be freed. */
  get oldestHolder(): number {
    let oldest = this.#oldestInside;
    for (const pinned of this.#pins.values()) if (isBefore(pinned, oldest)) oldest = pinned;
    return oldest;
  }

  #oldestReader(): number {
    const { words } = this.#first;
    let oldest = this.current;
    for (let reader = 0; reader < MAX_READERS; reader += 1) {
      const entered = Atomics.load(words, HEADER.READERS + reader * READER_STRIDE);
      if (entered !== 0 && isBefore(entered, oldest)) oldest = entered;
    }
    return oldest;
  }
}

/** Order of epochs, which wrap at 2^32. */
export function isBefore(a: number, b: number): boolean {
  return ((a - b) | 0) < 0;
}
