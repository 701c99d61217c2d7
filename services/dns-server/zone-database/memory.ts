import { randomBytes } from "node:crypto";
import { ARENA_START, HEADER, MAX_SEGMENTS, SEGMENT_MASK } from "./layout.ts";

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

/** Largest segment: references are octet offsets below 2^31. */
const MAX_SEGMENT_OCTETS = 2 ** 31 - 65_536;
/** What a segment grows by, at least. Pages that nobody touched cost address space only. */
const GROWTH_OCTETS = 32 * 1024 * 1024;
/** A capacity that was stored is seen long before so many turns. */
const MOST_TURNS = 10_000;

/** ES2024's growable buffer: Node 20 has it, TypeScript's ES2023 library does not. */
interface GrowableSharedArrayBuffer extends SharedArrayBuffer {
  readonly maxByteLength: number;
  grow(octets: number): void;
}
type GrowableConstructor = new (octets: number, options: { maxByteLength: number }) => GrowableSharedArrayBuffer;

/**
 * A segment of the zone database's memory as one thread sees it: one growable buffer that all threads share, and this
 * thread's views. The views have a fixed length, which keeps access as fast as in an ordinary array; `follow` maps what it
 * has grown by.
 */
export class MemorySegment {
  readonly buffer: SharedArrayBuffer;
  /** Its place among the segments. */
  readonly number: number;
  octets: Uint8Array;
  words: Int32Array;

  constructor(buffer: SharedArrayBuffer, number: number) {
    this.buffer = buffer;
    this.number = number;
    this.octets = new Uint8Array(buffer, 0, buffer.byteLength);
    this.words = new Int32Array(buffer, 0, buffer.byteLength >> 2);
  }

  /**
   * Maps again when a reference lies where the writer has grown the buffer meanwhile; a comparison otherwise. The capacity is
   * stored before the reference, but a processor may show it later.
   */
  follow(reference: number): void {
    for (let turns = 0; reference >= this.octets.length && turns < MOST_TURNS; turns += 1)
      this.#map(Atomics.load(this.words, HEADER.CAPACITY));
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

/** The zone database's memory as one thread sees it: segments, each with the whole of some zones. */
export class ZoneDatabaseMemory {
  readonly segments: readonly MemorySegment[];
  /** The segment with what is there once: the header's epochs and keys, and the zone table. */
  readonly first: MemorySegment;

  /** The views of another thread's zone database, whose buffers came in a message. */
  constructor(buffers: readonly SharedArrayBuffer[]) {
    this.segments = buffers.map((buffer, number) => new MemorySegment(buffer, number));
    this.first = this.segments[0]!;
  }

  /**
   * An empty zone database with hash keys of its own.
   * @param maxOctets what all segments may have together
   * @param segmentOctets what one of them may have
   */
  static create(maxOctets = MAX_SEGMENT_OCTETS, segmentOctets = MAX_SEGMENT_OCTETS): ZoneDatabaseMemory {
    const count = Math.ceil(maxOctets / segmentOctets);
    if (maxOctets % 8 !== 0 || segmentOctets > MAX_SEGMENT_OCTETS || count > MAX_SEGMENTS)
      throw new RangeError(`no zone database has ${maxOctets} octets`);
    const maxByteLength = Math.floor(maxOctets / count / 8) * 8;
    const memory = new ZoneDatabaseMemory(Array.from({ length: count }, () => newBuffer(maxByteLength)));
    for (const { words, buffer } of memory.segments) words[HEADER.CAPACITY] = buffer.byteLength;
    const keys = randomBytes(8);
    memory.first.words[HEADER.HASH_KEY_0] = keys.readInt32LE(0);
    memory.first.words[HEADER.HASH_KEY_1] = keys.readInt32LE(4);
    memory.first.words[HEADER.EPOCH] = 1;
    return memory;
  }

  /** The segment that a zone lies in. */
  segmentOf(zone: number): MemorySegment {
    return this.segments[zone & SEGMENT_MASK]!;
  }

  /** What other threads need for views of their own. */
  get buffers(): readonly SharedArrayBuffer[] {
    return this.segments.map(({ buffer }) => buffer);
  }
}

function newBuffer(maxByteLength: number): SharedArrayBuffer {
  const octets = Math.min(GROWTH_OCTETS, maxByteLength);
  return new (SharedArrayBuffer as unknown as GrowableConstructor)(octets, { maxByteLength });
}

if (ARENA_START % 8 !== 0) throw new Error("the arena must start at a multiple of 8");
