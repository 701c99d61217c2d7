import { createHash, type Hash } from "node:crypto";
import { closeSync, fsync, openSync, readSync, renameSync, rmSync, statSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { promisify } from "node:util";
import type { StoredNodes } from "../zone-database/node-store.ts";
import { type SnapshotZone, WordSource, ZoneStreamReader, ZoneStreamWriter } from "./zone-stream.ts";

const synchronise = promisify(fsync);

/**
 * The snapshot file: a head, zones, an end. All but the magic and the format is of 32-bit words in the machine's own order,
 * so that images lie as they do in memory.
 *
 *     head   "PALOMAR ZONES" 0A, format (big-endian, in 4 octets), 01020304 as this machine writes it, 0000, written at
 *            (ms): number, incarnation: text, transfer access, sealed: text
 *     zone   as zone-stream.ts has it
 *     end    0, number of zones, nodes of all images, SHA-256 of all octets before
 *
 * A number is two words, the higher one first. A text is its length and its octets, padded to a word; an empty one stands for none.
 */
const MAGIC = Buffer.from("PALOMAR ZONES\n", "latin1");
/** To be counted up with every change of what images have (zone-database/layout.ts, size-class.ts). */
const FORMAT = 5;
const BYTE_ORDER = Buffer.from(Uint32Array.of(0x01020304).buffer);
/** Octets of the magic, the format and the order of octets, padded to a word. */
const KIND_OCTETS = 24;
/** Where a zone would begin. */
const END = 0;
const DIGEST_OCTETS = 32;
const CHUNK_OCTETS = 1 << 20;

export interface SnapshotHead {
  readonly writtenAtMs: number;
  /** Of the database that the zones were read from. */
  readonly incarnation: string;
  /** Who may transfer, as `sealAccess` has it; undefined where that was not known. */
  readonly access: string | undefined;
}

/**
 * Writes a file beside the one in use and puts it in its place when it is whole and on the disk. A zone is begun, gets
 * the parts of its image one by one, so that it never stands in memory a second time, and is ended.
 */
export class SnapshotWriter {
  readonly #file: string;
  readonly #draft: string;
  readonly #descriptor: number;
  #isOpen = true;
  readonly #hash: Hash = createHash("sha256");
  readonly #zones = new ZoneStreamWriter((octets) => this.#put(octets));

  constructor(file: string, { writtenAtMs, incarnation, access = "" }: SnapshotHead) {
    this.#file = file;
    this.#draft = `${file}.new`;
    this.#descriptor = openSync(this.#draft, "w", 0o600);
    const kind = Buffer.alloc(KIND_OCTETS);
    MAGIC.copy(kind);
    kind.writeUInt32BE(FORMAT, MAGIC.length);
    BYTE_ORDER.copy(kind, MAGIC.length + 4);
    this.#zones.octets(kind);
    this.#zones.number(writtenAtMs);
    this.#zones.text(Buffer.from(incarnation, "utf8"));
    this.#zones.text(Buffer.from(access, "utf8"));
  }

  beginZone(zone: SnapshotZone): void {
    this.#zones.beginZone(zone, zone.octets);
  }

  /** Adds the next part of the image of the zone that was begun last. */
  addPart(part: Int32Array): void {
    this.#zones.addPart(part);
  }

  endZone(): void {
    this.#zones.endZone();
  }

  /** Ends the file and puts it in the place of the one before. @param nodes that all images have */
  async finish(nodes: number): Promise<void> {
    this.#zones.word(END);
    this.#zones.word(this.#zones.zones);
    this.#zones.word(nodes);
    this.#put(this.#zones.take());
    writeSync(this.#descriptor, this.#hash.digest());
    await synchronise(this.#descriptor);
    this.#close();
    renameSync(this.#draft, this.#file);
    // The new name is on the disk when its folder is.
    const folder = openSync(dirname(this.#file), "r");
    await synchronise(folder).finally(() => closeSync(folder));
  }

  /** Gives up, also when `finish` has failed; the file before stays. */
  discard(): void {
    this.#close();
    rmSync(this.#draft, { force: true });
  }

  /** Once: the number may be another file's by now. */
  #close(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    closeSync(this.#descriptor);
  }

  #put(octets: Uint8Array): void {
    this.#hash.update(octets);
    for (let from = 0; from < octets.length; ) from += writeSync(this.#descriptor, octets, from);
  }
}

/**
 * Reads a file, its checksum first, so that nothing of a damaged one is believed. There may be millions of zones, so that
 * little is made for each.
 */
export class SnapshotReader {
  readonly head: SnapshotHead;
  /** How much there is: octets of the file, zones, and nodes of their images. */
  readonly size: { readonly octets: number; readonly zones: number; readonly nodes: number };
  readonly #descriptor: number;
  readonly #source: FileSource;
  readonly #zones: ZoneStreamReader;

  /** @throws ENOENT when there is none; an Error that says so when it is damaged or of another format */
  constructor(file: string) {
    this.#descriptor = openSync(file, "r");
    try {
      const octets = verify(this.#descriptor, file);
      const counts = new Int32Array(2);
      this.#source = new FileSource(this.#descriptor);
      this.#zones = new ZoneStreamReader(this.#source);
      this.head = this.#readHead(file);
      readSync(this.#descriptor, counts, 0, counts.byteLength, octets - counts.byteLength);
      this.size = { octets, zones: counts[0]!, nodes: counts[1]! };
    } catch (error) {
      this.close();
      throw error;
    }
  }

  close(): void {
    closeSync(this.#descriptor);
  }

  /** Goes on to the next zone, over what is left of the one at hand; undefined behind the last. */
  nextZone(): SnapshotZone | undefined {
    return this.#zones.nextZone();
  }

  /** The next part of the image of the zone at hand, valid until the next one; undefined behind the last. */
  nextPart(): StoredNodes | undefined {
    return this.#zones.nextPart();
  }

  #readHead(file: string): SnapshotHead {
    const source = this.#source;
    const kind = Buffer.from(source.octets(KIND_OCTETS));
    if (!kind.subarray(0, MAGIC.length).equals(MAGIC)) throw new Error(`${file} is no snapshot`);
    const format = kind.readUInt32BE(MAGIC.length);
    if (format !== FORMAT) throw new Error(`${file} has format ${format}, and this version reads format ${FORMAT}`);
    const order = kind.subarray(MAGIC.length + 4, MAGIC.length + 4 + BYTE_ORDER.length);
    if (!order.equals(BYTE_ORDER)) throw new Error(`${file} is of a machine of another kind`);
    const text = () => Buffer.from(source.text()).toString("utf8");
    return { writtenAtMs: source.number(), incarnation: text(), access: text() || undefined };
  }
}

/** @returns how many octets the checksum is of */
function verify(descriptor: number, file: string): number {
  const size = statSync(file).size;
  const hash = createHash("sha256");
  const chunk = Buffer.allocUnsafe(CHUNK_OCTETS);
  let position = 0;
  for (const end = size - DIGEST_OCTETS; position < end; ) {
    const octets = readSync(descriptor, chunk, 0, Math.min(CHUNK_OCTETS, end - position), position);
    if (octets === 0) break;
    hash.update(chunk.subarray(0, octets));
    position += octets;
  }
  const stored = Buffer.alloc(DIGEST_OCTETS);
  readSync(descriptor, stored, 0, DIGEST_OCTETS, position);
  if (!hash.digest().equals(stored)) throw new Error(`${file} is damaged: its checksum does not match`);
  return position;
}

/** Words of a file, in order. */
class FileSource extends WordSource {
  readonly #descriptor: number;
  /** In the file, in octets. */
  #position = 0;

  constructor(descriptor: number) {
    super(new Int32Array(CHUNK_OCTETS / 4), 0);
    this.#descriptor = descriptor;
  }

  protected override fill(count: number): void {
    const left = this.words.subarray(this.start, this.end);
    const words = count > this.words.length ? new Int32Array(count) : this.words;
    words.set(left);
    const target = new Uint8Array(words.buffer);
    let octets = left.length * 4;
    while (octets < count * 4) {
      const read = readSync(this.#descriptor, target, octets, target.length - octets, this.#position);
      if (read === 0) throw new Error("the snapshot ends early");
      octets += read;
      this.#position += read;
    }
    // Where only a part of a word has come it is read again.
    this.#position -= octets & 3;
    this.begin(words, octets >> 2);
  }
}
