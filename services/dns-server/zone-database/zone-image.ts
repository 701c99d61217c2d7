import type { Denial } from "./denial.ts";
import { IndexReader } from "./index-reader.ts";
import { FLAG, FLAG_BITS, NODE, RECORD_FIXED_OCTETS, RRSET } from "./layout.ts";
import type { StoredName } from "./node-store.ts";
import { ZoneDatabaseReader } from "./reader.ts";
import type { ZoneDatabaseWriter } from "./writer.ts";

/**
 * The image of a zone: its names with their RRsets as the zone database stores them, to be put into another zone database
 * without a look at any record. It comes in parts, none of which ends within a name. Numbers are big-endian but for those
 * of stored RRsets, which are in the machine's own order; there are neither references nor hashes.
 *
 *     first part    how the zone denies: kind u8, octets of the salt u8, iterations u16, salt
 *     name          flags and number of RRsets u32 (layout.ts, `NODE.FLAGS`), octets of the RRsets u32, octets of the name
 *                   u8, the name relative to the apex, the RRsets
 *
 * The apex is the first name; those of the index come next, in its order, so that it is made anew without a search. Names
 * without records are left out: they come by themselves.
 */
const NAME_HEAD_OCTETS = 9;
const DENIAL_HEAD_OCTETS = 4;
const DENIAL_KINDS = ["none", "nsec", "nsec3"] as const;
/** Octets of a part, unless one name has more. */
const PART_OCTETS = 2 ** 16;
/** Flags that come by themselves. */
const FOUND_ANEW = FLAG.WILDCARD_CHILD | FLAG.CHANGE;

/** Makes images, one after another. */
export class ZoneImageMaker {
  readonly #writer: ZoneDatabaseWriter;
  readonly #reader: ZoneDatabaseReader;
  readonly #index: IndexReader;
  #part = new Uint8Array(PART_OCTETS);
  #view = new DataView(this.#part.buffer);
  #length = 0;

  constructor(writer: ZoneDatabaseWriter) {
    this.#writer = writer;
    this.#reader = new ZoneDatabaseReader(writer.memory);
    this.#index = new IndexReader(this.#reader);
  }

  /** How long a secondary may answer from a published zone without news (RFC 1034 §4.3.5, EXPIRE), in seconds. */
  expireSecondsOf(zone: number): number {
    const soa = this.#reader.firstRrset(this.#reader.open(zone)) + RRSET.RECORDS * 4;
    const { octets } = this.#reader.segment;
    const end = soa + RECORD_FIXED_OCTETS + ((octets[soa + 10]! << 8) | octets[soa + 11]!);
    // EXPIRE and MINIMUM are the last two numbers.
    return ((octets[end - 8]! << 24) | (octets[end - 7]! << 16) | (octets[end - 6]! << 8) | octets[end - 5]!) >>> 0;
  }

  /** The parts of a published zone's image as it stands now, whatever changes while they are taken; each valid until the next. */
  *partsOf(zone: number): Generator<Uint8Array> {
    const apex = this.#reader.open(zone);
    const { indexRoot } = this.#reader;
    const { nodes, release } = this.#writer.snapshot(zone);
    try {
      this.#length = 0;
      this.#putDenial(this.#writer.denialOf(zone));
      for (const node of namesInOrder(apex, nodes, this.#index.nodesIn(indexRoot), this.#reader)) {
        const end = this.#endOf(node);
        if (this.#length > 0 && this.#length + NAME_HEAD_OCTETS + end - node > PART_OCTETS) {
          yield this.#part.subarray(0, this.#length);
          this.#length = 0;
        }
        this.#putName(node, end);
      }
      yield this.#part.subarray(0, this.#length);
    } finally {
      release();
    }
  }

  #putDenial(denial: Denial): void {
    const [iterations, salt] = denial.kind === "nsec3" ? [denial.iterations, denial.salt] : [0, NO_OCTETS];
    this.#part[0] = DENIAL_KINDS.indexOf(denial.kind);
    this.#part[1] = salt.length;
    this.#view.setUint16(2, iterations);
    this.#part.set(salt, DENIAL_HEAD_OCTETS);
    this.#length = DENIAL_HEAD_OCTETS + salt.length;
  }

  #putName(node: number, end: number): void {
    const reader = this.#reader;
    const { octets, words } = reader.segment;
    const nameStart = node + NODE.NAME * 4;
    const nameLength = octets[nameStart]!;
    const start = reader.firstRrset(node);
    this.#reserve(NAME_HEAD_OCTETS + nameLength + end - start);
    this.#view.setUint32(this.#length, words[(node >> 2) + NODE.FLAGS]! & ~FOUND_ANEW);
    this.#view.setUint32(this.#length + 4, end - start);
    this.#length += 8;
    this.#copy(octets, nameStart, nameStart + 1 + nameLength);
    this.#copy(octets, start, end);
  }

  /** Where the last record of a node ends. */
  #endOf(node: number): number {
    const reader = this.#reader;
    let end = reader.firstRrset(node);
    for (let left = reader.rrsetCount(node); left > 0; left -= 1) {
      const rrset = (end + 3) & ~3;
      end = rrset + RRSET.RECORDS * 4 + reader.segment.words[(rrset >> 2) + RRSET.LENGTH]!;
    }
    return end;
  }

  #copy(source: Uint8Array, start: number, end: number): void {
    const part = this.#part;
    let position = this.#length;
    for (let index = start; index < end; index += 1) part[position++] = source[index]!;
    this.#length = position;
  }

  #reserve(octets: number): void {
    if (this.#length + octets <= this.#part.length) return;
    const larger = new Uint8Array(this.#length + octets);
    larger.set(this.#part.subarray(0, this.#length));
    this.#part = larger;
    this.#view = new DataView(larger.buffer);
  }
}

/** The apex, the names of the index in its order, and all others with records. */
function* namesInOrder(
  apex: number,
  nodes: Int32Array,
  indexed: Iterable<number>,
  reader: ZoneDatabaseReader,
): Generator<number> {
  yield apex;
  for (const node of indexed) if (node !== apex) yield node;
  for (let index = 0; index < nodes.length; index += 1) {
    const node = nodes[index]!;
    if (node === apex || reader.rrsetCount(node) === 0) continue;
    if ((reader.flags(node) & (FLAG.NSEC | FLAG.NSEC3)) === 0) yield node;
  }
}

/** Fills zones that nobody sees yet with images. */
export class ZoneImageTaker implements StoredName {
  /** The part at hand. */
  octets: Uint8Array = NO_OCTETS;
  readonly owner = new Uint8Array(2 * 255);
  nameLength = 0;
  flags = 0;
  start = 0;
  length = 0;
  count = 0;
  readonly #writer: ZoneDatabaseWriter;
  #zone = 0;
  #apex: Uint8Array = NO_OCTETS;
  #isFirst = true;

  constructor(writer: ZoneDatabaseWriter) {
    this.#writer = writer;
  }

  /** Begins with a new zone. @param apex its own, in wire form */
  begin(zone: number, apex: Uint8Array): void {
    this.#zone = zone;
    this.#apex = apex;
    this.#isFirst = true;
  }

  /** Takes the next part of its image. @throws ZoneDatabaseFullError */
  take(part: Uint8Array): void {
    this.octets = part;
    let position = this.#isFirst ? this.#takeDenial(part) : 0;
    this.#isFirst = false;
    while (position < part.length) position = this.#takeName(position);
  }

  #takeDenial(part: Uint8Array): number {
    const kind = DENIAL_KINDS[part[0]!]!;
    const end = DENIAL_HEAD_OCTETS + part[1]!;
    const iterations = (part[2]! << 8) | part[3]!;
    if (kind === "nsec3") {
      this.#writer.setDenial(this.#zone, { kind, iterations, salt: part.slice(DENIAL_HEAD_OCTETS, end) });
    } else if (kind === "nsec") this.#writer.setDenial(this.#zone, { kind });
    return end;
  }

  /** @returns where the next name begins */
  #takeName(head: number): number {
    const { octets, owner } = this;
    const flags = this.#uint32(head);
    this.flags = flags & ((1 << FLAG_BITS) - 1);
    this.count = flags >>> FLAG_BITS;
    this.length = this.#uint32(head + 4);
    this.nameLength = octets[head + 8]!;
    this.start = head + NAME_HEAD_OCTETS + this.nameLength;
    let position = 0;
    for (let index = head + NAME_HEAD_OCTETS; index < this.start; index += 1) owner[position++] = octets[index]!;
    for (let index = 0; index < this.#apex.length; index += 1) owner[position++] = this.#apex[index]!;
    this.#writer.putStored(this.#zone, this);
    return this.start + this.length;
  }

  #uint32(at: number): number {
    const { octets } = this;
    return ((octets[at]! << 24) | (octets[at + 1]! << 16) | (octets[at + 2]! << 8) | octets[at + 3]!) >>> 0;
  }
}

const NO_OCTETS: Uint8Array = new Uint8Array(0);
