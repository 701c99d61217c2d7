import type { Arena } from "./arena.ts";
import { TABLE, TOMBSTONE } from "./layout.ts";
import type { MemorySegment } from "./memory.ts";

/** Slots of a shard that holds its first entry. */
const FIRST_SLOTS = 8;
/** A shard is made anew when entries and tombstones fill more than this part of it. */
const MAX_FILL = 0.7;

/**
 * The writer's side of an open-addressing hash table whose readers take no lock (reader.ts has the other side).
 * Entries are references with the whole hash beside; which entry is meant is for the caller's references to say.
 */
export class HashTable {
  readonly #memory: MemorySegment;
  readonly #arena: Arena;
  /** Word index of the first shard's reference. */
  readonly #shards: number;
  readonly #shardBits: number;
  /** Where each shard is, as the memory has it too: to look there would cost more than all else of an insertion. */
  readonly #tables: Int32Array;
  /** The slots of each less one. */
  readonly #masks: Int32Array;
  /** Entries and tombstones of each. */
  readonly #entries: Uint32Array;
  readonly #tombstones: Uint32Array;

  constructor(memory: MemorySegment, arena: Arena, place: { readonly shards: number; readonly shardBits: number }) {
    this.#memory = memory;
    this.#arena = arena;
    this.#shards = place.shards;
    this.#shardBits = place.shardBits;
    this.#tables = new Int32Array(1 << place.shardBits);
    this.#masks = new Int32Array(1 << place.shardBits);
    this.#entries = new Uint32Array(1 << place.shardBits);
    this.#tombstones = new Uint32Array(1 << place.shardBits);
    for (let shard = 0; shard < 1 << place.shardBits; shard += 1) {
      this.#tables[shard] = this.#newShard(FIRST_SLOTS);
      this.#masks[shard] = FIRST_SLOTS - 1;
      memory.words[place.shards + shard] = this.#tables[shard]!;
    }
  }

  /**
   * Makes room for an entry, so that the next `insert` of this hash cannot fail.
   * @throws ZoneDatabaseFullError, and then nothing has changed
   */
  makeRoom(hash: number): void {
    const shard = hash >>> (32 - this.#shardBits);
    const slots = this.#masks[shard]! + 1;
    if (this.#entries[shard]! + this.#tombstones[shard]! + 1 <= slots * MAX_FILL) return;
    // Twice the size when it is more than half full of entries.
    this.#remake(shard, this.#entries[shard]! > (slots * MAX_FILL) / 2 ? slots * 2 : slots);
  }

  /**
   * Makes room for so many entries in all, so that the table need not be made anew as they come, and leaves no former shards behind.
   * @throws ZoneDatabaseFullError
   */
  expect(entries: number): void {
    const most = entries / (1 << this.#shardBits);
    // Shards differ by the root of what they have: for nearly all of them three times that is enough.
    const slots = 2 ** Math.ceil(Math.log2((most + 3 * Math.sqrt(most)) / MAX_FILL));
    for (let shard = 0; shard < 1 << this.#shardBits; shard += 1) {
      if (this.#masks[shard]! + 1 < slots) this.#remake(shard, slots);
    }
  }

  /** Adds an entry that is not there yet, after `makeRoom`. */
  insert(hash: number, reference: number): void {
    const shard = hash >>> (32 - this.#shardBits);
    const slot = this.#freeSlot(shard, hash);
    if (this.#memory.words[slot] === TOMBSTONE) this.#tombstones[shard]! -= 1;
    this.#entries[shard]! += 1;
    this.#fill(slot, hash, reference);
  }

  /** Puts another reference in the place of one that is there; readers see the one or the other. */
  replace(hash: number, old: number, reference: number): void {
    Atomics.store(this.#memory.words, this.#slotOf(hash, old), reference);
  }

  remove(hash: number, reference: number): void {
    const shard = hash >>> (32 - this.#shardBits);
    Atomics.store(this.#memory.words, this.#slotOf(hash, reference), TOMBSTONE);
    this.#entries[shard]! -= 1;
    this.#tombstones[shard]! += 1;
  }

  #newShard(slots: number): number {
    const size = this.#arena.blockSize((TABLE.SLOTS + slots * TABLE.SLOT_WORDS) * 4);
    const table = this.#arena.allocate(size);
    const words = this.#memory.words;
    words.fill(0, table >> 2, (table + size) >> 2);
    words[(table >> 2) + TABLE.MASK] = slots - 1;
    words[(table >> 2) + TABLE.SIZE] = size;
    return table;
  }

  /** Copies a shard without its tombstones to one of so many slots. */
  #remake(shard: number, newSlots: number): void {
    const old = this.#tables[shard]!;
    const slots = this.#masks[shard]! + 1;
    this.#tables[shard] = this.#newShard(newSlots);
    this.#masks[shard] = newSlots - 1;
    const words = this.#memory.words;
    const firstSlot = (old >> 2) + TABLE.SLOTS;
    for (let slot = firstSlot; slot < firstSlot + slots * TABLE.SLOT_WORDS; slot += TABLE.SLOT_WORDS) {
      const reference = words[slot]!;
      if (reference <= TOMBSTONE) continue;
      const hash = words[slot + 1]!;
      this.#fill(this.#freeSlot(shard, hash), hash, reference);
    }
    this.#tombstones[shard] = 0;
    Atomics.store(words, this.#shards + shard, this.#tables[shard]!);
    this.#arena.retire(old, words[(old >> 2) + TABLE.SIZE]!);
  }

  /** The tag goes first: whoever sees the reference sees its tag. */
  #fill(slot: number, hash: number, reference: number): void {
    this.#memory.words[slot + 1] = hash;
    Atomics.store(this.#memory.words, slot, reference);
  }

  #freeSlot(shard: number, hash: number): number {
    const { words } = this.#memory;
    const mask = this.#masks[shard]!;
    const firstSlot = (this.#tables[shard]! >> 2) + TABLE.SLOTS;
    for (let index = hash & mask; ; index = (index + 1) & mask) {
      const slot = firstSlot + index * TABLE.SLOT_WORDS;
      if (words[slot]! <= TOMBSTONE) return slot;
    }
  }

  /** @throws when the reference is not there: a bug of the writer */
  #slotOf(hash: number, reference: number): number {
    const { words } = this.#memory;
    const shard = hash >>> (32 - this.#shardBits);
    const mask = this.#masks[shard]!;
    const firstSlot = (this.#tables[shard]! >> 2) + TABLE.SLOTS;
    for (let index = hash & mask; ; index = (index + 1) & mask) {
      const slot = firstSlot + index * TABLE.SLOT_WORDS;
      if (words[slot] === reference) return slot;
      if (words[slot] === 0) throw new Error(`the zone database's table has no reference ${reference}`);
    }
  }
}
