import { type Denial, NO_DENIAL } from "./denial.ts";
import { IndexReader } from "./index-reader.ts";
import { APEX_TAIL, FLAG, FLAG_BITS, NODE, RECORD_FIXED_OCTETS, RRSET, wordsOf } from "./layout.ts";
import type { NameDraft } from "./name-draft.ts";
import type { EncodedRrsets, StoredNodes } from "./node-store.ts";
import { ZoneDatabaseReader } from "./reader.ts";
import { classSize, sizeClass } from "./size-class.ts";
import type { ZoneDatabaseWriter } from "./writer.ts";

/**
 * The image of a zone: its nodes as the zone database has them, to be put into another zone database without a look at any
 * record. It comes in parts of whole words in the machine's own order, none of which ends within a node.
 *
 *     first part    how the zone denies: kind, octets of the salt, iterations, the salt, padding to a word
 *     node          layout.ts, `NODE`; what refers to other places of the memory, or is set anew there, is 0
 *
 * The apex is the first node; those of the index come next, in its order, so that it is made anew without a search. Nodes
 * without records are left out: the zone database makes them with the names below them.
 */
const DENIAL_HEAD = { KIND: 0, SALT_OCTETS: 1, ITERATIONS: 2, SALT: 3 } as const;
const DENIAL_KINDS = ["none", "nsec", "nsec3"] as const;
/** Octets of a part, unless one node has more. */
const PART_OCTETS = 2 ** 16;
/** From so many octets on a block copy pays for itself. */
const LONG_OCTETS = 96;
/** Flags that the zone database sets anew when a node is put in. */
const FOUND_ANEW = FLAG.WILDCARD_CHILD | FLAG.CHANGE;

/** The part of an image that is being made. */
class Part {
  words = new Int32Array(PART_OCTETS / 4);
  octets = new Uint8Array(this.words.buffer);
  /** Words in use. */
  length = 0;

  /** Begins an image. */
  begin(denial: Denial): void {
    const [iterations, salt] = denial.kind === "nsec3" ? [denial.iterations, denial.salt] : [0, NO_OCTETS];
    this.words[DENIAL_HEAD.KIND] = DENIAL_KINDS.indexOf(denial.kind);
    this.words[DENIAL_HEAD.SALT_OCTETS] = salt.length;
    this.words[DENIAL_HEAD.ITERATIONS] = iterations;
    this.length = DENIAL_HEAD.SALT + wordsOf(salt.length);
    this.octets.set(salt, DENIAL_HEAD.SALT * 4);
  }

  /** Whether it ends before a node of so many words. */
  isFullFor(words: number): boolean {
    return this.length > 0 && this.length + words > PART_OCTETS / 4;
  }

  /** What there is, which is valid until the next node; another one begins. */
  take(): Int32Array {
    const taken = this.words.subarray(0, this.length);
    this.length = 0;
    return taken;
  }

  /** @returns where the words of another node begin, whose content is undefined */
  add(words: number): number {
    const start = this.length;
    this.length += words;
    if (this.length > this.words.length) {
      const larger = new Int32Array(this.length);
      larger.set(this.words.subarray(0, start));
      this.words = larger;
      this.octets = new Uint8Array(larger.buffer);
    }
    return start;
  }
}

/** Makes images, one after another. */
export class ZoneImageMaker {
  /** Nodes of all images so far. */
  nodes = 0;
  readonly #writer: ZoneDatabaseWriter;
  readonly #reader: ZoneDatabaseReader;
  readonly #index: IndexReader;
  readonly #part = new Part();

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
      this.#part.begin(this.#writer.denialOf(zone));
      for (const node of nodesInOrder(apex, nodes, this.#index.nodesIn(indexRoot), this.#reader)) {
        const size = this.#reader.segment.words[(node >> 2) + NODE.SIZE]! >> 2;
        if (this.#part.isFullFor(size)) yield this.#part.take();
        this.#putNode(node, size, node === apex);
      }
      yield this.#part.take();
    } finally {
      release();
    }
  }

  #putNode(node: number, size: number, isApex: boolean): void {
    const { words } = this.#reader.segment;
    const start = this.#part.add(size);
    const part = this.#part.words;
    for (let word = 0; word < size; word += 1) part[start + word] = words[(node >> 2) + word]!;
    part[start + NODE.ZONE] = 0;
    part[start + NODE.NEXT] = 0;
    part[start + NODE.PREVIOUS] = 0;
    part[start + NODE.FLAGS]! &= ~FOUND_ANEW;
    part[start + NODE.CHILDREN] = 0;
    if (isApex) part.fill(0, start + size - APEX_TAIL.WORDS, start + size);
    this.nodes += 1;
  }
}

/** A name of a zone that is in no zone database: so many octets of the owner are in front of the apex. */
export interface DraftedName {
  readonly owner: Uint8Array;
  readonly nameLength: number;
}

/**
 * Makes images of zones that are in no zone database, of one after another, from names in canonical order. A node without
 * records comes by itself, as everywhere in images.
 */
export class ZoneImageDraft {
  readonly #part = new Part();
  readonly #onPart: (part: Int32Array) => void;
  #denial: Denial = NO_DENIAL;

  /** @param onPart takes each part, which is valid while it is handled */
  constructor(onPart: (part: Int32Array) => void) {
    this.#onPart = onPart;
  }

  /** How the zone at hand denies existence, as its apex has said. */
  get denial(): Denial {
    return this.#denial;
  }

  /** Begins with another zone, whose apex comes next. */
  begin(): void {
    this.#denial = NO_DENIAL;
  }

  /** Puts in the records of a name, which are finished. */
  putName(name: DraftedName, draft: NameDraft): void {
    const isApex = name.nameLength === 0;
    if (isApex) {
      this.#denial = draft.denial;
      this.#part.begin(draft.denial);
    }
    if (draft.rrsets.count > 0) {
      const kept = this.#denial.kind === "nsec" ? draft.flags : draft.flags & ~FLAG.NSEC;
      // NS at the apex is no cut.
      this.#putNode(name, draft.rrsets, isApex ? kept & ~FLAG.CUT : kept);
    }
    if (draft.nsec3Rrsets.count > 0 && !isApex) this.#putNode(name, draft.nsec3Rrsets, FLAG.NSEC3);
  }

  /** Ends the zone. */
  end(): void {
    this.#onPart(this.#part.take());
  }

  #putNode({ owner, nameLength }: DraftedName, rrsets: EncodedRrsets, flags: number): void {
    const nameWords = wordsOf(1 + nameLength);
    const tailWords = nameLength === 0 ? APEX_TAIL.WORDS : 0;
    const octetsInUse = (NODE.NAME + nameWords + wordsOf(rrsets.length) + tailWords) * 4;
    const size = classSize(sizeClass(octetsInUse));
    if (this.#part.isFullFor(size >> 2)) this.#onPart(this.#part.take());
    const start = this.#part.add(size >> 2);
    const { words, octets } = this.#part;
    // Padding is 0, as are the words that the zone database sets when the node is put in.
    words.fill(0, start, start + NODE.NAME + nameWords);
    words.fill(0, start + (octetsInUse >> 2) - tailWords - 1, start + (size >> 2));
    words[start + NODE.FLAGS] = flags | (rrsets.count << FLAG_BITS);
    words[start + NODE.SIZE] = size;
    const nameAt = (start + NODE.NAME) * 4;
    octets[nameAt] = nameLength;
    for (let index = 0; index < nameLength; index += 1) octets[nameAt + 1 + index] = owner[index]!;
    const rrsetsAt = (start + NODE.NAME + nameWords) * 4;
    if (rrsets.length > LONG_OCTETS) octets.set(rrsets.octets.subarray(0, rrsets.length), rrsetsAt);
    else for (let index = 0; index < rrsets.length; index += 1) octets[rrsetsAt + index] = rrsets.octets[index]!;
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
