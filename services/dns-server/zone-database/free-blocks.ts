import type { MemorySegment } from "./memory.ts";
import { CLASSES, classSize } from "./size-class.ts";

/** Words of a free block: the next and the previous one in the list of its size class, and that class. */
const FREE = { NEXT: 0, CLASS: 1, PREVIOUS: 2 } as const;
/** Blocks of this class have no room for three words. They are in no list: neighbours may be joined with them. */
const CRUMB = 0;

/** The memory is looked through for neighbours in regions of 256 KiB. */
const REGION_BITS = 18;
/** Bits of a region's map: one for each multiple of 8 octets at which a free block may begin. */
const REGION_SLOTS = 1 << (REGION_BITS - 3);
/** So many blocks are joined at once; what is left of a longer run comes the next time. */
const MOST_JOINED = 4_096;

/** What the blocks that are joined are part of. */
export interface Joining {
  /** Whether blocks before and behind this place are to stay apart. */
  readonly isBoundary: (place: number) => boolean;
  /** Where the arena ends. */
  readonly end: () => number;
  /** Told of octets that are free and of no block any more. */
  readonly onJoined: (from: number, to: number) => void;
}

/**
 * The free blocks of an arena: a list for each size class, and a map of where they begin, beside the arena, of one bit
 * for 8 octets: 1/64 of the memory at most. With the map, neighbours are found in the order of addresses, some at a
 * time, and any block can be taken in between.
 */
export class FreeBlocks {
  readonly #memory: MemorySegment;
  /** First block of each size class; 0 for none. */
  readonly #first = new Int32Array(CLASSES);
  /** A bit for each class that has one. */
  readonly #filled = new Int32Array(Math.ceil(CLASSES / 32));
  /** Maps of regions in which there have been free blocks, and how many there are. */
  readonly #maps: (Int32Array | undefined)[] = [];
  readonly #counts: number[] = [];
  /** Regions in which blocks have become free since neighbours were joined there. */
  readonly #unjoined = new Set<number>();
  #octets = 0;

  constructor(memory: MemorySegment) {
    this.#memory = memory;
  }

  get octets(): number {
    return this.#octets;
  }

  /** Whether there may be neighbours that could be joined. */
  get isJoinable(): boolean {
    return this.#unjoined.size > 0;
  }

  /** All of them, for whoever checks the books. */
  *[Symbol.iterator](): Generator<{ readonly reference: number; readonly octets: number }> {
    for (let block = this.#nextFrom(0); block !== 0; block = this.#nextFrom(this.#endOf(block))) {
      yield { reference: block, octets: this.#endOf(block) - block };
    }
  }

  /** A block of a class; 0 for none. */
  take(index: number): number {
    const block = this.#first[index]!;
    if (block !== 0) this.#remove(block);
    return block;
  }

  /** The smallest class from `least` on that has a block; -1 for none. */
  classFrom(least: number): number {
    let bits = -1 << (least & 31);
    for (let word = least >> 5; word < this.#filled.length; word += 1, bits = -1) {
      bits &= this.#filled[word]!;
      if (bits !== 0) return word * 32 + 31 - Math.clz32(bits & -bits);
    }
    return -1;
  }

  put(index: number, block: number): void {
    const { words } = this.#memory;
    words[(block >> 2) + FREE.CLASS] = index;
    this.#mark(block);
    this.#octets += classSize(index);
    if (index === CRUMB) return;
    const next = this.#first[index]!;
    words[(block >> 2) + FREE.NEXT] = next;
    words[(block >> 2) + FREE.PREVIOUS] = 0;
    if (next !== 0) words[(next >> 2) + FREE.PREVIOUS] = block;
    this.#setFirst(index, block);
  }

  /** Notes that a block that was in use is free, and may have free neighbours. */
  noteReleased(block: number): void {
    this.#unjoined.add(block >>> REGION_BITS);
  }

  /**
   * Joins free blocks that lie side by side, region by region.
   * @param most blocks to look at, about; one takes a microsecond or two where memory is far away
   * @returns how many were looked at
   */
  join(most: number, joining: Joining): number {
    let seen = 0;
    for (const region of this.#unjoined) {
      if (seen >= most) break;
      this.#unjoined.delete(region);
      seen += 1 + this.#joinRegion(region, joining);
    }
    return seen;
  }

  #joinRegion(region: number, { isBoundary, end: arenaEnd, onJoined }: Joining): number {
    const from = region << REGION_BITS;
    const to = from + 2 ** REGION_BITS;
    let seen = 0;
    const before = this.#lastBefore(from);
    const reaches = before !== 0 && this.#endOf(before) === from;
    for (let start = reaches ? before : this.#nextFrom(from); start !== 0 && start < to; ) {
      let end = this.#endOf(start);
      let blocks = 1;
      for (; blocks < MOST_JOINED && this.#isFree(end) && !isBoundary(end); blocks += 1) end = this.#endOf(end);
      seen += blocks;
      if (blocks === MOST_JOINED) this.#unjoined.add(region);
      if (blocks > 1 || end === arenaEnd()) {
        for (let block = start; block < end; ) {
          const next = this.#endOf(block);
          this.#remove(block);
          block = next;
        }
        onJoined(start, end);
      }
      start = this.#nextFrom(end);
    }
    return seen;
  }

  #remove(block: number): void {
    const { words } = this.#memory;
    const index = words[(block >> 2) + FREE.CLASS]!;
    this.#unmark(block);
    this.#octets -= classSize(index);
    if (index === CRUMB) return;
    const next = words[(block >> 2) + FREE.NEXT]!;
    const previous = words[(block >> 2) + FREE.PREVIOUS]!;
    if (next !== 0) words[(next >> 2) + FREE.PREVIOUS] = previous;
    if (previous !== 0) words[(previous >> 2) + FREE.NEXT] = next;
    else this.#setFirst(index, next);
  }

  #setFirst(index: number, block: number): void {
    this.#first[index] = block;
    const bit = 1 << (index & 31);
    if (block === 0) this.#filled[index >> 5]! &= ~bit;
    else this.#filled[index >> 5]! |= bit;
  }

  #endOf(block: number): number {
    return block + classSize(this.#memory.words[(block >> 2) + FREE.CLASS]!);
  }

  #mark(block: number): void {
    const region = block >>> REGION_BITS;
    let map = this.#maps[region];
    if (!map) {
      for (let known = this.#maps.length; known < region; known += 1) this.#maps[known] = undefined;
      map = new Int32Array(REGION_SLOTS / 32);
      this.#maps[region] = map;
      this.#counts[region] = 0;
    }
    map[wordOf(block)]! |= bitOf(block);
    this.#counts[region]! += 1;
  }

  #unmark(block: number): void {
    const region = block >>> REGION_BITS;
    this.#maps[region]![wordOf(block)]! &= ~bitOf(block);
    this.#counts[region]! -= 1;
  }

  #isFree(place: number): boolean {
    const map = this.#maps[place >>> REGION_BITS];
    return map !== undefined && (map[wordOf(place)]! & bitOf(place)) !== 0;
  }

  /** The first free block at a place or behind it; 0 for none. */
  #nextFrom(place: number): number {
    let word = wordOf(place);
    // Bits of the first word that are behind the place, itself included.
    let mask = -bitOf(place);
    for (let region = place >>> REGION_BITS; region < this.#maps.length; region += 1, word = 0, mask = -1) {
      if (!this.#counts[region]) continue;
      const map = this.#maps[region]!;
      for (; word < map.length; word += 1, mask = -1) {
        const bits = map[word]! & mask;
        if (bits !== 0) return placeOf(region, word, 31 - Math.clz32(bits & -bits));
      }
    }
    return 0;
  }

  /** The last free block before the beginning of a region; 0 for none. */
  #lastBefore(regionStart: number): number {
    for (let region = (regionStart >>> REGION_BITS) - 1; region >= 0; region -= 1) {
      if (!this.#counts[region]) continue;
      const map = this.#maps[region]!;
      for (let word = map.length - 1; word >= 0; word -= 1) {
        if (map[word] !== 0) return placeOf(region, word, 31 - Math.clz32(map[word]!));
      }
    }
    return 0;
  }
}

function wordOf(place: number): number {
  return (place & (2 ** REGION_BITS - 1)) >>> 8;
}

function bitOf(place: number): number {
  return 1 << ((place >>> 3) & 31);
}

function placeOf(region: number, word: number, bit: number): number {
  return region * 2 ** REGION_BITS + word * 256 + bit * 8;
}
