import { HEADER_OCTETS } from "./message/query.ts";
import type { ZoneDatabaseReader } from "./zone-database/reader.ts";

/** A datagram's buffer, its length a multiple of 4, seen in two ways. */
export interface DatagramView {
  readonly octets: Uint8Array;
  readonly words: Int32Array;
}

/** What an answer depends on beside its query, and what it counts as. */
export class AnswerFacts {
  /** The zones that there were (`ZoneDatabaseReader.zoneSet`). */
  zoneSet = 0;
  /** The one zone that it comes from, 0 for none, and what was shown of it (`publishedOf`). */
  zone = 0;
  published = 0;
  /** What the rate limit tells answers apart by (`RateLimit.judge`). */
  kind = 0;
  origin = 0;
  rcode = 0;
  truncated = false;
}

/** Places of a bucket. Each has a query's hash, and where its answer stands in the ring, 0 for nowhere. */
const WAYS = 4;
const WAY_WORDS = 2;
const BUCKET_WORDS = WAYS * WAY_WORDS;
/** A way for so many words of the ring: an answer takes some 40 to 150. */
const RING_WORDS_A_WAY = 32;

/** An answer in the ring: these words, then the query's words but the first, which has its ID, then the answer's. */
const ENTRY = {
  /** Octets of the query and of the answer, 16 bits each. */
  LENGTHS: 0,
  /** Flags of the query's header, 16 bits, then TC and the rcode of the answer. */
  FLAGS: 1,
  ZONE_SET: 2,
  ZONE: 3,
  PUBLISHED: 4,
  KIND: 5,
  ORIGIN: 6,
  WORDS: 7,
} as const;
const QUERY_FLAGS = 0xffff_0000 | 0;
const TRUNCATED = 0x8000;
const RCODE_MASK = 0x0fff;

/** Longer queries are rare, and would push many others out. */
const MOST_QUERY_OCTETS = 256;

/** So many queries are looked for before it is judged whether that pays. If fewer have been found, so many pass by. */
const TRIAL = 262_144;
const LEAST_FOUND = TRIAL / 4;
const REST = 7 * TRIAL;

/** Places are 31 bits. */
const LAST_PLACE = 2 ** 31;

/**
 * Answers that one thread gave, by the octets of their queries, to be given again for as long as the zone database says the
 * same. They stand one behind the other in a ring, where the newest takes the place of the oldest. A query that comes for the
 * first time leaves its hash alone, so that a flood of random names pushes nothing out; where hardly any comes twice, the cache
 * rests for a while and costs nothing.
 */
export class AnswerCache {
  /** Of the answer that was found last, or is to be kept. */
  readonly facts = new AnswerFacts();
  readonly #reader: ZoneDatabaseReader;
  /** A power of two of words. */
  readonly #ring: Int32Array;
  readonly #index: Int32Array;
  /** Where the next answer goes, counted from the first that ever was; what is a ring or more behind is overwritten. */
  #head: number;
  /** Of the query that was looked for last: its hash, 0 when it is not to be kept; the way that has it, or its bucket. */
  #hash = 0;
  #way = 0;
  #wasSeen = false;
  /** Which way of its bucket the last new query took, where all had answers. */
  #turn = 0;
  #sought = 0;
  #found = 0;
  #resting = 0;

  /** @param mebioctets what the ring takes of memory, a power of two */
  constructor(reader: ZoneDatabaseReader, mebioctets: number) {
    this.#reader = reader;
    this.#ring = new Int32Array(mebioctets << 18);
    this.#index = new Int32Array((this.#ring.length / RING_WORDS_A_WAY) * WAY_WORDS);
    this.#head = this.#ring.length;
  }

  /**
   * Looks for the answer to a query.
   * @param octets of the query; what is behind them in its last word is overwritten
   * @param out gets the answer, with the query's ID
   * @returns octets of the answer, and `facts` has what it counts as; 0 when there is none
   */
  find(query: DatagramView, octets: number, out: DatagramView): number {
    this.#hash = 0;
    if (this.#resting > 0) {
      this.#resting -= 1;
      return 0;
    }
    if (octets < HEADER_OCTETS || octets > MOST_QUERY_OCTETS) return 0;
    this.#judge();
    const entry = this.#entryOf(query, octets);
    if (entry < 0 || !this.#isTheSame(entry, query, octets) || !this.#isCurrent(entry)) return 0;
    this.#found += 1;
    this.#readFacts(entry);
    return this.#copy(entry, query, out);
  }

  /**
   * Keeps the answer to the query that was looked for last and not found, as `facts` say, unless that came for the first time.
   * @param octets of the answer
   */
  keep(query: DatagramView, queryOctets: number, out: DatagramView, octets: number): void {
    if (this.#hash === 0) return;
    if (!this.#wasSeen) {
      this.#way = this.#wayFor(this.#way);
      this.#setWay(0);
      return;
    }
    const queryWords = wordsOf(queryOctets);
    const words = wordsOf(octets);
    const entry = this.#takeRoom(ENTRY.WORDS + queryWords - 1 + words);
    const ring = this.#ring;
    const { facts } = this;
    ring[entry + ENTRY.LENGTHS] = (queryOctets << 16) | octets;
    ring[entry + ENTRY.FLAGS] = flagsOf(query) | (facts.truncated ? TRUNCATED : 0) | facts.rcode;
    ring[entry + ENTRY.ZONE_SET] = facts.zoneSet;
    ring[entry + ENTRY.ZONE] = facts.zone;
    ring[entry + ENTRY.PUBLISHED] = facts.published;
    ring[entry + ENTRY.KIND] = facts.kind;
    ring[entry + ENTRY.ORIGIN] = facts.origin;
    let at = entry + ENTRY.WORDS;
    for (let word = 1; word < queryWords; word += 1) ring[at++] = query.words[word]!;
    for (let word = 0; word < words; word += 1) ring[at++] = out.words[word]!;
  }

  /** Where in the ring the answer to a query of this hash stands; −1 when there is none. */
  #entryOf(query: DatagramView, octets: number): number {
    const hash = hashOf(query, octets);
    const index = this.#index;
    const bucket = ((hash >>> 8) * BUCKET_WORDS) & (index.length - 1);
    this.#hash = hash;
    this.#way = bucket;
    this.#wasSeen = false;
    for (let way = bucket; way < bucket + BUCKET_WORDS; way += WAY_WORDS) {
      if (index[way] !== hash) continue;
      this.#way = way;
      this.#wasSeen = true;
      return this.#hasAnswer(way) ? index[way + 1]! & (this.#ring.length - 1) : -1;
    }
    return -1;
  }

  #hasAnswer(way: number): boolean {
    const place = this.#index[way + 1]!;
    return place !== 0 && place >= this.#head - this.#ring.length;
  }

  /** The way of a bucket for a new query: one that nobody has, else one without an answer, else another one each time. */
  #wayFor(bucket: number): number {
    this.#turn = (this.#turn + WAY_WORDS) % BUCKET_WORDS;
    let found = bucket + this.#turn;
    for (let way = bucket; way < bucket + BUCKET_WORDS; way += WAY_WORDS) {
      if (this.#index[way] === 0) return way;
      if (!this.#hasAnswer(way)) found = way;
    }
    return found;
  }

  #isTheSame(entry: number, query: DatagramView, octets: number): boolean {
    const ring = this.#ring;
    if (ring[entry + ENTRY.LENGTHS]! >>> 16 !== octets) return false;
    if ((ring[entry + ENTRY.FLAGS]! & QUERY_FLAGS) !== flagsOf(query)) return false;
    const { words } = query;
    const end = wordsOf(octets);
    for (let word = 1; word < end; word += 1) if (ring[entry + ENTRY.WORDS - 1 + word] !== words[word]) return false;
    return true;
  }

  #isCurrent(entry: number): boolean {
    const ring = this.#ring;
    if (ring[entry + ENTRY.ZONE_SET] !== this.#reader.zoneSet) return false;
    const zone = ring[entry + ENTRY.ZONE]!;
    return zone === 0 || ring[entry + ENTRY.PUBLISHED] === this.#reader.publishedOf(zone);
  }

  #readFacts(entry: number): void {
    const ring = this.#ring;
    const { facts } = this;
    const flags = ring[entry + ENTRY.FLAGS]!;
    facts.kind = ring[entry + ENTRY.KIND]!;
    facts.origin = ring[entry + ENTRY.ORIGIN]!;
    facts.rcode = flags & RCODE_MASK;
    facts.truncated = (flags & TRUNCATED) !== 0;
  }

  #copy(entry: number, query: DatagramView, out: DatagramView): number {
    const ring = this.#ring;
    const lengths = ring[entry + ENTRY.LENGTHS]!;
    const octets = lengths & 0xffff;
    const answer = entry + ENTRY.WORDS + wordsOf(lengths >>> 16) - 1;
    const words = wordsOf(octets);
    const to = out.words;
    for (let word = 0; word < words; word += 1) to[word] = ring[answer + word]!;
    out.octets[0] = query.octets[0]!;
    out.octets[1] = query.octets[1]!;
    return octets;
  }

  /** Takes words at the head of the ring for the query at hand. @returns where they are */
  #takeRoom(words: number): number {
    const { length } = this.#ring;
    const left = length - (this.#head & (length - 1));
    if (left < words) this.#head += left;
    // All that is known is forgotten before places would begin anew.
    if (this.#head > LAST_PLACE - 2 * length) {
      this.#index.fill(0);
      this.#head = length;
    }
    this.#setWay(this.#head);
    const entry = this.#head & (length - 1);
    this.#head += words;
    return entry;
  }

  #setWay(place: number): void {
    this.#index[this.#way] = this.#hash;
    this.#index[this.#way + 1] = place;
  }

  #judge(): void {
    this.#sought += 1;
    if (this.#sought < TRIAL) return;
    if (this.#found < LEAST_FOUND) this.#resting = REST;
    this.#sought = 0;
    this.#found = 0;
  }
}

function flagsOf({ octets }: DatagramView): number {
  return (octets[2]! << 24) | (octets[3]! << 16);
}

function wordsOf(octets: number): number {
  return (octets + 3) >> 2;
}

/** Of a query without its ID, of which words are compared afterwards. @returns not 0 */
function hashOf(query: DatagramView, length: number): number {
  const { octets, words } = query;
  for (let at = length; (at & 3) !== 0; at += 1) octets[at] = 0;
  let hash = flagsOf(query);
  const end = wordsOf(length);
  for (let word = 1; word < end; word += 1) {
    hash = Math.imul(hash ^ words[word]!, 0x85ebca6b);
    hash ^= hash >>> 15;
  }
  hash = Math.imul(hash, 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) | 1;
}
