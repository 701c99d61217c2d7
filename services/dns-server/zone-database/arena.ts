import { type Epochs, isBefore } from "./epochs.ts";
import { FreeBlocks } from "./free-blocks.ts";
import { ARENA_START } from "./layout.ts";
import { type MemorySegment, ZoneDatabaseFullError } from "./memory.ts";
import { classSize, sizeClass } from "./size-class.ts";

/** Free blocks looked at in one step of joining neighbours: some 10 ms at the worst. */
const BLOCKS_A_STEP = 4_096;
/** Steps for an allocation that there is no other way for. */
const STEPS_IN_NEED = 2;
/** From this share of the memory on, neighbours are joined before there is need. */
const NEARLY_ALL = 7 / 8;
/** Up to this share of the memory large free blocks are split at once; beyond, large ones may be hard to come by. */
const PLENTY_UNTIL = 1 / 2;
/** Large is a block of which the wanted one takes no more than this part: what is left stays of use. */
const SMALL_PART = 1 / 4;

/**
 * Hands out blocks of a segment of the zone database's memory and takes them back once no reader can still be looking at them.
 * Only the writer's thread uses it. `allocate` is the only thing that fails, and then nothing has changed.
 *
 * Every octet between the arena's start and its end is of one block: one that is in use, that waits for readers, or
 * that is free. Large free blocks, such as a hash table leaves that has grown, are split for small ones while there is
 * plenty of memory; after that only when there is no other way. Neighbours are joined only when it is used nearly to its
 * end: a step at a time, so that the thread is held up for some milliseconds only.
 *
 * A block that is out of every table is retired under the current epoch, and free when no reader can see it (epochs.ts).
 */
export class Arena {
  readonly #memory: MemorySegment;
  readonly #epochs: Epochs;
  #end = ARENA_START;
  readonly #free: FreeBlocks;
  /** The oldest first, from `#firstRetired` on. */
  #retired: Retired[] = [];
  #firstRetired = 0;
  #waitingOctets = 0;
  /** Former ends of the mapped memory, which no block lies across. */
  readonly #boundaries = new Set<number>();
  #lastBoundary = 0;
  /** Octets that blocks may take, for what is written now; at most `totalOctets`. */
  allowance: number;

  constructor(memory: MemorySegment, epochs: Epochs) {
    this.#memory = memory;
    this.#epochs = epochs;
    this.#free = new FreeBlocks(memory);
    this.allowance = this.totalOctets;
  }

  /** Octets that there could be of blocks. */
  get totalOctets(): number {
    return this.#memory.maxOctets - ARENA_START;
  }

  get #hasPlenty(): boolean {
    return this.#end < this.totalOctets * PLENTY_UNTIL;
  }

  /** Octets that blocks take, with those that wait for readers. */
  get usedOctets(): number {
    return this.#end - ARENA_START - this.#free.octets;
  }

  /** Octets among those that nobody needs any more and that readers may still look at. */
  get waitingOctets(): number {
    return this.#waitingOctets;
  }

  /** Free blocks, for whoever checks the books. */
  freeBlocks(): Iterable<{ readonly reference: number; readonly octets: number }> {
    return this.#free;
  }

  /** The size that a block of at least `octets` really gets. */
  blockSize(octets: number): number {
    return classSize(sizeClass(octets));
  }

  /**
   * A block of `blockSize(octets)` octets, its content undefined.
   * @throws ZoneDatabaseFullError when there is no room, or what there is is kept for others
   */
  allocate(octets: number): number {
    const index = sizeClass(octets);
    const size = classSize(index);
    if (this.usedOctets + size <= this.allowance) {
      for (let steps = 0; ; steps += 1) {
        const block =
          this.#free.take(index) ||
          (this.#hasPlenty && this.#takeLarger(index, sizeClass(size / SMALL_PART))) ||
          this.#takeEnd(size) ||
          this.#takeLarger(index, index + 1);
        if (block !== 0) return block;
        if (steps === STEPS_IN_NEED || !this.#free.isJoinable) break;
        this.#joinSome();
      }
    }
    throw new ZoneDatabaseFullError(this.#memory.maxOctets, this.allowance - this.usedOctets);
  }

  /**
   * So many octets behind all blocks, of which the caller makes blocks; a multiple of 8.
   * @returns 0 where there is no room there, or what there is is kept for others
   */
  allocateRun(octets: number): number {
    return this.usedOctets + octets <= this.allowance ? this.#takeEnd(octets) : 0;
  }

  /** Gives a block back that no table refers to any more. */
  retire(reference: number, octets: number): void {
    this.#retired.push({ reference, octets, epoch: this.#epochs.current });
    this.#waitingOctets += this.blockSize(octets);
  }

  /** Takes a block back at once that no reader can have seen. */
  freeUnseen(reference: number, octets: number): void {
    this.#free.put(sizeClass(octets), reference);
    this.#free.noteReleased(reference);
  }

  /** Frees what no reader can see any more, and looks at nothing else: it may be millions of blocks that wait. */
  free(): void {
    const oldest = this.#epochs.oldestHolder;
    for (; this.#firstRetired < this.#retired.length; this.#firstRetired += 1) {
      const block = this.#retired[this.#firstRetired]!;
      if (!isBefore(block.epoch, oldest)) break;
      this.#release(block);
    }
    if (this.#firstRetired * 2 <= this.#retired.length) return;
    this.#retired = this.#retired.slice(this.#firstRetired);
    this.#firstRetired = 0;
  }

  /**
   * Joins some of the free blocks that lie side by side, where the memory is used nearly to its end.
   * @returns whether there may be more
   */
  joinAhead(): boolean {
    if (this.#end - ARENA_START < this.totalOctets * NEARLY_ALL || !this.#free.isJoinable) return false;
    this.#joinSome();
    return this.#free.isJoinable;
  }

  #release({ reference, octets }: Retired): void {
    const index = sizeClass(octets);
    this.#free.put(index, reference);
    this.#free.noteReleased(reference);
    this.#waitingOctets -= classSize(index);
  }

  /** A block behind all others; 0 where the memory ends. */
  #takeEnd(size: number): number {
    const mapped = this.#memory.octets.length;
    let block = this.#end;
    if (block + size > mapped) {
      // No block lies across a former end: a reader that has not mapped the growth yet can tell by the reference.
      if (!this.#memory.reserve(mapped + size)) return 0;
      this.#boundaries.add(mapped);
      this.#lastBoundary = mapped;
      this.#end = mapped;
      this.#giveBack(block, mapped);
      block = mapped;
    }
    this.#end = block + size;
    return block;
  }

  /** The beginning of the smallest free block that is of the class `least` or a larger one; 0 for none. */
  #takeLarger(index: number, least: number): number {
    const larger = this.#free.classFrom(least);
    if (larger < 0) return 0;
    const block = this.#free.take(larger);
    this.#giveBack(block + classSize(index), block + classSize(larger));
    return block;
  }

  #joinSome(): void {
    this.#free.join(BLOCKS_A_STEP, {
      isBoundary: (place) => this.#boundaries.has(place),
      end: () => this.#end,
      onJoined: (from, to) => {
        // The end stays behind the last boundary: a block across it would begin where a reader needs no growth to look.
        if (to === this.#end && from >= this.#lastBoundary) this.#end = from;
        else this.#giveBack(from, to);
      },
    });
  }

  /** Makes free blocks of the octets between two places. */
  #giveBack(from: number, to: number): void {
    for (let start = from; start < to; ) {
      let index = sizeClass(to - start);
      if (classSize(index) > to - start) index -= 1;
      this.#free.put(index, start);
      start += classSize(index);
    }
  }
}

interface Retired {
  readonly reference: number;
  readonly octets: number;
  readonly epoch: number;
}
