import { ARENA_START, HEADER, MAX_READERS, READER_STRIDE } from "./layout.ts";
import type { PictureMemory } from "./memory.ts";

/** Blocks up to this many octets have a free list for each multiple of 8. */
const SMALL_OCTETS = 512;
const SMALL_CLASSES = SMALL_OCTETS / 8;
/** Larger blocks are rounded up to an eighth of a power of two: at most 12.5 % waste. */
const LARGE_STEPS = 8;

/**
 * Hands out blocks of the picture's memory and takes them back once no reader can still be looking at them.
 * Only the writer's thread uses it.
 *
 * Reclamation is by epochs: a block that is out of every table is retired under the current epoch; readers publish the
 * epoch at which they entered; a block is free when every reader that is inside entered later than its retirement.
 */
export class Arena {
  readonly #memory: PictureMemory;
  #end = ARENA_START;
  /** First free block of each size class; a free block's first word refers to the next. */
  readonly #free: number[] = [];
  #retired: Retired[] = [];
  readonly #pins = new Map<symbol, number>();
  #freeOctets = 0;

  constructor(memory: PictureMemory) {
    this.#memory = memory;
  }

  /** Octets that blocks take, with those that wait for readers. */
  get usedOctets(): number {
    return this.#end - ARENA_START - this.#freeOctets;
  }

  /** The size that a block of at least `octets` really gets. */
  blockSize(octets: number): number {
    return classSize(sizeClass(octets));
  }

  /**
   * A block of `blockSize(octets)` octets, its content undefined.
   * @throws when the picture would pass its limit
   */
  allocate(octets: number): number {
    const index = sizeClass(octets);
    const size = classSize(index);
    const free = this.#free[index] ?? 0;
    if (free !== 0) {
      this.#free[index] = this.#memory.words[free >> 2]!;
      this.#freeOctets -= size;
      return free;
    }
    let reference = this.#end;
    if (reference + size > this.#memory.octets.length) {
      // No block lies across a former end: a reader that has not mapped the growth yet can tell by the reference.
      reference = this.#memory.octets.length;
      this.#memory.reserve(reference + size);
    }
    this.#end = reference + size;
    return reference;
  }

  /** Gives a block back that no table refers to any more. */
  retire(reference: number, octets: number): void {
    this.#retired.push({ reference, octets, epoch: this.epoch });
  }

  /** Ends the writer's current step and frees what no reader can see. */
  advance(): void {
    // 0 stands for a reader that is outside, so the count leaves it out when it wraps.
    if (Atomics.add(this.#memory.words, HEADER.EPOCH, 1) === -1) Atomics.add(this.#memory.words, HEADER.EPOCH, 1);
    if (this.#retired.length === 0) return;
    const oldest = this.#oldestHolder();
    const waiting: Retired[] = [];
    for (const block of this.#retired) {
      if (isBefore(block.epoch, oldest)) this.#release(block);
      else waiting.push(block);
    }
    this.#retired = waiting;
  }

  /** The writer's current step. */
  get epoch(): number {
    return this.#memory.words[HEADER.EPOCH]!;
  }

  /** Whether all readers that are inside have entered after a step. */
  hasPassed(epoch: number): boolean {
    return isBefore(epoch, this.#oldestReader());
  }

  /** Keeps everything that is visible now from being freed, until the returned function is called. */
  pin(): () => void {
    const pin = Symbol("pin");
    this.#pins.set(pin, this.#memory.words[HEADER.EPOCH]!);
    return () => this.#pins.delete(pin);
  }

  #release({ reference, octets }: Retired): void {
    const index = sizeClass(octets);
    this.#memory.words[reference >> 2] = this.#free[index] ?? 0;
    this.#free[index] = reference;
    this.#freeOctets += classSize(index);
  }

  #oldestReader(): number {
    let oldest = this.#memory.words[HEADER.EPOCH]!;
    for (let reader = 0; reader < MAX_READERS; reader += 1) {
      const entered = Atomics.load(this.#memory.words, HEADER.READERS + reader * READER_STRIDE);
      if (entered !== 0 && isBefore(entered, oldest)) oldest = entered;
    }
    return oldest;
  }

  /** As `#oldestReader`, pins included. */
  #oldestHolder(): number {
    let oldest = this.#oldestReader();
    for (const pinned of this.#pins.values()) if (isBefore(pinned, oldest)) oldest = pinned;
    return oldest;
  }
}

interface Retired {
  readonly reference: number;
  readonly octets: number;
  readonly epoch: number;
}

/** Order of epochs, which wrap at 2^32. */
function isBefore(a: number, b: number): boolean {
  return ((a - b) | 0) < 0;
}

function sizeClass(octets: number): number {
  if (octets <= SMALL_OCTETS) return Math.max(0, Math.ceil(octets / 8) - 1);
  const exponent = 31 - Math.clz32(octets - 1);
  const step = Math.floor((octets - 1 - 2 ** exponent) / (2 ** exponent / LARGE_STEPS));
  return SMALL_CLASSES + (exponent - Math.log2(SMALL_OCTETS)) * LARGE_STEPS + step;
}

function classSize(index: number): number {
  if (index < SMALL_CLASSES) return (index + 1) * 8;
  const exponent = Math.log2(SMALL_OCTETS) + Math.floor((index - SMALL_CLASSES) / LARGE_STEPS);
  const step = (index - SMALL_CLASSES) % LARGE_STEPS;
  return 2 ** exponent + (step + 1) * (2 ** exponent / LARGE_STEPS);
}
