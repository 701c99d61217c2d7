import type { ZoneSummary } from "../../store/dns/zone-states.ts";
import { wordsOf } from "../zone-database/layout.ts";
import type { StoredNodes } from "../zone-database/node-store.ts";
import { CorruptRecordError } from "../zone-database/stored-rrset.ts";

/**
 * Zones one after another, as the snapshot file has them and as they come from the thread that makes images (zone-image-thread.ts),
 * in chunks of which none ends within what is said of a zone, nor within a part of its image:
 *
 *     zone   1, id: number, version: number, restricted, TTL of negative answers, EXPIRE, octets that its names take,
 *            reseller: -1 for that of the zone before, or text; apex: text, the parts of its image
 *            (zone-database/zone-image.ts): how many words each has, then these; then 0, or -1 and a text that says
 *            why there is no more of it
 *
 * All is of 32-bit words in the machine's own order, so that images lie as they do in memory. A number is two words, the
 * higher one first. A text is its length and its octets, padded to a word; an empty one stands for none.
 */
const ZONE = 1;
const PARTS_END = 0;
const FAULT = -1;
const SAME_RESELLER = -1;
/** A chunk has no more words, unless one part has. */
const CHUNK_WORDS = 1 << 18;
/** Of what is said of a zone, texts aside. */
const HEAD_WORDS = 11;

/** What is said of a zone beside its content. */
export interface SnapshotZone extends ZoneSummary {
  /** What its names take in the zone database; 0 where that is not known yet. */
  readonly octets: number;
}

/** Writes zones: each is begun, gets the parts of its image one by one, and is ended. */
export class ZoneStreamWriter {
  /** Zones so far. */
  zones = 0;
  readonly #onChunk: ((octets: Uint8Array) => void) | undefined;
  #words = new Int32Array(CHUNK_WORDS);
  #octets = new Uint8Array(this.#words.buffer);
  /** Words in use. */
  #length = 0;
  /** Of the zone before. */
  #resellerId: string | null = null;

  /** @param onChunk takes a chunk that is full; without it there is one, however large */
  constructor(onChunk?: (octets: Uint8Array) => void) {
    this.#onChunk = onChunk;
  }

  /** @param octets what its names take in the zone database; 0 where that is not known yet */
  beginZone(zone: ZoneSummary, octets: number): void {
    const isOfSame = zone.resellerId === this.#resellerId;
    const reseller = isOfSame ? NO_OCTETS : Buffer.from(zone.resellerId ?? "", "utf8");
    this.#reserve(HEAD_WORDS + wordsOf(reseller.length) + wordsOf(zone.apex.length));
    this.word(ZONE);
    this.number(zone.id);
    this.number(zone.version);
    this.word(zone.restricted ? 1 : 0);
    this.word(zone.negativeTtlSeconds);
    this.word(zone.expireSeconds);
    this.word(octets);
    if (isOfSame) this.word(SAME_RESELLER);
    else this.text(reseller);
    this.#resellerId = zone.resellerId;
    this.text(zone.apex);
    this.zones += 1;
  }

  addPart(part: Int32Array): void {
    this.#reserve(1 + part.length);
    this.#words[this.#length] = part.length;
    this.#words.set(part, this.#length + 1);
    this.#length += 1 + part.length;
  }

  endZone(): void {
    this.word(PARTS_END);
  }

  /** Ends a zone of which there is no more, whatever came before. */
  failZone(why: string): void {
    this.word(FAULT);
    this.text(Buffer.from(why, "utf8"));
  }

  word(value: number): void {
    this.#reserve(1);
    this.#words[this.#length++] = value;
  }

  number(value: number): void {
    this.word(Math.floor(value / 2 ** 32));
    this.word(value);
  }

  text(octets: Uint8Array): void {
    this.word(octets.length);
    this.octets(octets);
  }

  /** Octets as they are, padded to a word. */
  octets(octets: Uint8Array): void {
    const words = wordsOf(octets.length);
    this.#reserve(words);
    if (words > 0) this.#words[this.#length + words - 1] = 0;
    this.#octets.set(octets, this.#length * 4);
    this.#length += words;
  }

  /** What is there, which is gone with the next call of this object. */
  take(): Uint8Array {
    const taken = this.#octets.subarray(0, this.#length * 4);
    this.#length = 0;
    return taken;
  }

  /** Makes room for words that belong together. */
  #reserve(words: number): void {
    if (this.#length > 0 && this.#length + words > CHUNK_WORDS) this.#onChunk?.(this.take());
    if (this.#length + words <= this.#words.length) return;
    const larger = new Int32Array(Math.max(2 * this.#words.length, this.#length + words));
    larger.set(this.#words.subarray(0, this.#length));
    this.#words = larger;
    this.#octets = new Uint8Array(larger.buffer);
  }
}

/** The words of a chunk, in order. */
export class WordSource {
  words: Int32Array;
  #position = 0;
  #octets: Uint8Array;

  constructor(words: Int32Array) {
    this.words = words;
    this.#octets = new Uint8Array(words.buffer, words.byteOffset, words.byteLength);
  }

  /** Whether nothing of it is left. */
  get isEmpty(): boolean {
    return this.#position === this.words.length;
  }

  /** Begins with another chunk. */
  begin(words: Int32Array): void {
    this.words = words;
    this.#octets = new Uint8Array(words.buffer, words.byteOffset, words.byteLength);
    this.#position = 0;
  }

  word(): number {
    return this.words[this.take(1)]!;
  }

  number(): number {
    return this.word() * 2 ** 32 + (this.word() >>> 0);
  }

  /** The octets of a text, valid until the next call. */
  text(): Uint8Array {
    return this.octets(this.word());
  }

  octets(length: number): Uint8Array {
    const start = 4 * this.take(wordsOf(length));
    return this.#octets.subarray(start, start + length);
  }

  /** As `text`, to be kept: octet by octet, as they are few. */
  shortText(): Uint8Array {
    const copy = new Uint8Array(this.word());
    const start = 4 * this.take(wordsOf(copy.length));
    for (let index = 0; index < copy.length; index += 1) copy[index] = this.#octets[start + index]!;
    return copy;
  }

  /** Takes the next words. @returns where they begin in `words` */
  take(count: number): number {
    const start = this.#position;
    if (start + count > this.words.length) throw new Error("zones end early");
    this.#position = start + count;
    return start;
  }
}

/** Reads zones, chunk by chunk. There may be millions of them, so that little is made for each. */
export class ZoneStreamReader {
  readonly #source = new WordSource(new Int32Array(0));
  readonly #part: { words: Int32Array; start: number; end: number } = { words: new Int32Array(0), start: 0, end: 0 };
  #isInZone = false;
  /** Of the zone before. */
  #resellerId: string | null = null;

  /** Begins with the next chunk. */
  begin(words: Int32Array): void {
    this.#source.begin(words);
  }

  /** Whether nothing is left of the chunk at hand. */
  get isEmpty(): boolean {
    return this.#source.isEmpty;
  }

  /** Whether what comes next is of the zone at hand. */
  get isInZone(): boolean {
    return this.#isInZone;
  }

  /** The next zone, where one begins; it is to be read to its end. */
  nextZone(): SnapshotZone {
    const source = this.#source;
    if (source.word() !== ZONE) throw new Error("what is no zone stands where one begins");
    this.#isInZone = true;
    return {
      id: source.number(),
      version: source.number(),
      restricted: source.word() === 1,
      negativeTtlSeconds: source.word() >>> 0,
      expireSeconds: source.word() >>> 0,
      octets: source.word() >>> 0,
      resellerId: this.#readReseller(),
      apex: source.shortText(),
    };
  }

  /**
   * The next part of the image of the zone at hand, valid until the next one; undefined behind the last.
   * @throws CorruptRecordError where there is no more of it
   */
  nextPart(): StoredNodes | undefined {
    const source = this.#source;
    const length = source.word();
    if (length <= PARTS_END) {
      this.#isInZone = false;
      if (length === FAULT) throw new CorruptRecordError(Buffer.from(source.text()).toString("utf8"));
      return undefined;
    }
    const start = source.take(length);
    this.#part.words = source.words;
    this.#part.start = start;
    this.#part.end = start + length;
    return this.#part;
  }

  #readReseller(): string | null {
    const length = this.#source.word();
    if (length !== SAME_RESELLER) this.#resellerId = Buffer.from(this.#source.octets(length)).toString("utf8") || null;
    return this.#resellerId;
  }
}

const NO_OCTETS: Uint8Array = new Uint8Array(0);
