import { randomBytes } from "node:crypto";
import { ARENA_START, HEADER } from "./layout.ts";

/** There is no room in the zone database for what is being written. Nobody has seen anything of it. */
export class ZoneDatabaseFullError extends RangeError {
  /**
   * @param maxOctets what the zone database may have
   * @param leftOctets what was left of it for what is being written
   */
  constructor(maxOctets: number, leftOctets: number) {
    super(`the zones need more than ${maxOctets} octets of memory: ${Math.max(0, leftOctets)} are left for this one`);
  }
}

/** Largest zone database: references are octet offsets below 2^31. */
export const MAX_ZONE_DATABASE_OCTETS = 2 ** 31 - 65_536;
/** What the buffer grows by, at least. Pages that nobody touched cost address space only. */
const GROWTH_OCTETS = 32 * 1024 * 1024;

/** ES2024's growable buffer: Node 20 has it, TypeScript's ES2023 library does not. */
interface GrowableSharedArrayBuffer extends SharedArrayBuffer {
  readonly maxByteLength: number;
  grow(octets: number): void;
}
type GrowableConstructor = new (octets: number, options: { maxByteLength: number }) => GrowableSharedArrayBuffer;

/**
 * The zone database's memory as one thread sees it: one growable buffer that all threads share, and this thread's views.
 * The views have a fixed length, which keeps access as fast as in an ordinary array; `follow` maps what it has grown by.
 */
export class ZoneDatabaseMemory {
  readonly buffer: SharedArrayBuffer;
  octets: Uint8Array;
  words: Int32Array;

  /** The views of another thread's zone database, whose buffer came in a message. */
  constructor(buffer: SharedArrayBuffer) {
    this.buffer = buffer;
    this.octets = new Uint8Array(buffer, 0, buffer.byteLength);
    this.words = new Int32Array(buffer, 0, buffer.byteLength >> 2);
  }

  /** An empty zone database with hash keys of its own. */
  static create(maxOctets: number = MAX_ZONE_DATABASE_OCTETS): ZoneDatabaseMemory {
    if (maxOctets % 8 !== 0 || maxOctets > MAX_ZONE_DATABASE_OCTETS)
      throw new RangeError(`no zone database has ${maxOctets} octets`);
    const buffer = new (SharedArrayBuffer as unknown as GrowableConstructor)(Math.min(GROWTH_OCTETS, maxOctets), {
      maxByteLength: maxOctets,
    });
    const memory = new ZoneDatabaseMemory(buffer);
    const keys = randomBytes(8);
    memory.words[HEADER.HASH_KEY_0] = keys.readInt32LE(0);
    memory.words[HEADER.HASH_KEY_1] = keys.readInt32LE(4);
    memory.words[HEADER.EPOCH] = 1;
    memory.words[HEADER.CAPACITY] = buffer.byteLength;
    return memory;
  }

  /** Maps again when a reference lies where the writer has grown the buffer meanwhile; a comparison otherwise. */
  follow(reference: number): void {
    if (reference >= this.octets.length) this.#map(Atomics.load(this.words, HEADER.CAPACITY));
  }

  /** Octets that the buffer can grow to. */
  get maxOctets(): number {
    return (this.buffer as GrowableSharedArrayBuffer).maxByteLength;
  }

  /**
   * Makes room up to `end`, for the writer.
   * @returns whether it could: not beyond the limit, nor where the system has no memory left
   */
  reserve(end: number): boolean {
    if (end > this.maxOctets) return false;
    const capacity = Math.min(this.maxOctets, Math.max(end, this.buffer.byteLength + GROWTH_OCTETS));
    try {
      (this.buffer as GrowableSharedArrayBuffer).grow(capacity);
    } catch (error) {
      if (error instanceof RangeError) return false;
      throw error;
    }
    this.#map(capacity);
    Atomics.store(this.words, HEADER.CAPACITY, capacity);
    return true;
  }

  #map(capacity: number): void {
    this.octets = new Uint8Array(this.buffer, 0, capacity);
    this.words = new Int32Array(this.buffer, 0, capacity >> 2);
  }
}

if (ARENA_START % 8 !== 0) throw new Error("the arena must start at a multiple of 8");
