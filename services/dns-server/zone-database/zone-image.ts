import type { Denial } from "./denial.ts";
import { IndexReader } from "./index-reader.ts";
import { APEX_TAIL, FLAG, NODE, RECORD_FIXED_OCTETS, RRSET, wordsOf } from "./layout.ts";
import type { StoredNodes } from "./node-store.ts";
import { ZoneDatabaseReader } from "./reader.ts";
import type { ZoneDatabaseWriter } from "./writer.ts";

/**
 * The image of a zone: its nodes as the zone database has them, to be put into another zone database without a look at any
 * record. It comes in parts of whole words in the machine's own order, none of which ends within a node.
 *
 *     first part    how the zone denies: kind, octets of the salt, iterations, the salt, padding to a word
 *     node          layout.ts, `NODE`; what refers to other places of the memory, or comes by itself, is 0
 *
 * The apex is the first node; those of the index come next, in its order, so that it is made anew without a search. Nodes
 * without records are left out: they come by themselves.
 */
const DENIAL_HEAD = { KIND: 0, SALT_OCTETS: 1, ITERATIONS: 2, SALT: 3 } as const;
const DENIAL_KINDS = ["none", "nsec", "nsec3"] as const;
/** Octets of a part, unless one node has more. */
const PART_OCTETS = 2 ** 16;
/** Flags that come by themselves. */
const FOUND_ANEW = FLAG.WILDCARD_CHILD | FLAG.CHANGE;

/** Makes images, one after another. */
export class ZoneImageMaker {
  /** Nodes of all images so far. */
  nodes = 0;
  readonly #writer: ZoneDatabaseWriter;
  readonly #reader: ZoneDatabaseReader;
  readonly #index: IndexReader;
  #part = new Int32Array(PART_OCTETS / 4);
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
  *partsOf(zone: number): Generator<Int32Array> {
    const apex = this.#reader.open(zone);
    const { indexRoot } = this.#reader;
    const { nodes, release } = this.#writer.snapshot(zone);
    try {
      this.#length = 0;
      this.#putDenial(this.#writer.denialOf(zone));
      for (const node of nodesInOrder(apex, nodes, this.#index.nodesIn(indexRoot), this.#reader)) {
        const size = this.#reader.segment.words[(node >> 2) + NODE.SIZE]! >> 2;
        if (this.#length > 0 && this.#length + size > PART_OCTETS / 4) {
          yield this.#part.subarray(0, this.#length);
          this.#length = 0;
        }
        this.#putNode(node, size, node === apex);
      }
      yield this.#part.subarray(0, this.#length);
    } finally {
      release();
    }
  }

  #putDenial(denial: Denial): void {
    const [iterations, salt] = denial.kind === "nsec3" ? [denial.iterations, denial.salt] : [0, NO_OCTETS];
    this.#part[DENIAL_HEAD.KIND] = DENIAL_KINDS.indexOf(denial.kind);
    this.#part[DENIAL_HEAD.SALT_OCTETS] = salt.length;
    this.#part[DENIAL_HEAD.ITERATIONS] = iterations;
    this.#length = DENIAL_HEAD.SALT + wordsOf(salt.length);
    new Uint8Array(this.#part.buffer).set(salt, DENIAL_HEAD.SALT * 4);
  }

  #putNode(node: number, size: number, isApex: boolean): void {
    const { words } = this.#reader.segment;
    this.#reserve(size);
    const part = this.#part;
    const start = this.#length;
    for (let word = 0; word < size; word += 1) part[start + word] = words[(node >> 2) + word]!;
    part[start + NODE.ZONE] = 0;
    part[start + NODE.NEXT] = 0;
    part[start + NODE.PREVIOUS] = 0;
    part[start + NODE.FLAGS]! &= ~FOUND_ANEW;
    part[start + NODE.CHILDREN] = 0;
    this.#length += size;
    if (isApex) part.fill(0, this.#length - APEX_TAIL.WORDS, this.#length);
    this.nodes += 1;
  }

  #reserve(words: number): void {
    if (this.#length + words <= this.#part.length) return;
    const larger = new Int32Array(this.#length + words);
    larger.set(this.#part.subarray(0, this.#length));
    this.#part = larger;
  }
}

/** The apex, the nodes of the index in its order, and all others with records: as a rule parents before their children. */
function* nodesInOrder(
  apex: number,
  nodes: Int32Array,
  indexed: Iterable<number>,
  reader: ZoneDatabaseReader,
): Generator<number> {
  yield apex;
  for (const node of indexed) if (node !== apex) yield node;
  // The list has the youngest first.
  for (let index = nodes.length - 1; index >= 0; index -= 1) {
    const node = nodes[index]!;
    if (node === apex || reader.rrsetCount(node) === 0) continue;
    if ((reader.flags(node) & (FLAG.NSEC | FLAG.NSEC3)) === 0) yield node;
  }
}

/** Fills zones that nobody sees yet with images. */
export class ZoneImageTaker {
  readonly #writer: ZoneDatabaseWriter;
  #zone = 0;
  #isFirst = true;

  constructor(writer: ZoneDatabaseWriter) {
    this.#writer = writer;
  }

  /** Begins with a new zone. */
  begin(zone: number): void {
    this.#zone = zone;
    this.#isFirst = true;
  }

  /** Takes the next part of its image. @throws ZoneDatabaseFullError */
  take({ words, start, end }: StoredNodes): void {
    const first = this.#isFirst ? this.#takeDenial(words, start) : start;
    this.#isFirst = false;
    this.#writer.putNodes(this.#zone, { words, start: first, end });
  }

  /** @returns where the first node begins */
  #takeDenial(words: Int32Array, start: number): number {
    const kind = DENIAL_KINDS[words[start + DENIAL_HEAD.KIND]!]!;
    const saltOctets = words[start + DENIAL_HEAD.SALT_OCTETS]!;
    if (kind === "nsec3") {
      const iterations = words[start + DENIAL_HEAD.ITERATIONS]!;
      const salt = new Uint8Array(words.buffer, words.byteOffset + (start + DENIAL_HEAD.SALT) * 4, saltOctets).slice();
      this.#writer.setDenial(this.#zone, { kind, iterations, salt });
    } else if (kind === "nsec") this.#writer.setDenial(this.#zone, { kind });
    return start + DENIAL_HEAD.SALT + wordsOf(saltOctets);
  }
}

const NO_OCTETS: Uint8Array = new Uint8Array(0);
