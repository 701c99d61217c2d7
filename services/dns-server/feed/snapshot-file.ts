import { createHash, type Hash } from "node:crypto";
import { closeSync, fsync, openSync, readSync, renameSync, rmSync, statSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { promisify } from "node:util";
import type { ZoneSummary } from "../../store/dns/zone-states.ts";

const synchronise = promisify(fsync);

/**
 * The snapshot file: a head, zones, an end. Numbers are big-endian, but for those of images that say otherwise.
 *
 *     head   "PALOMAR ZONES" 0A, format u32, 01020304 as this machine writes it, written at (ms) u48, incarnation: text,
 *            transfer access, sealed: text
 *     zone   01, id u48, version u48, restricted u8, TTL of negative answers u32, EXPIRE u32, octets that its names take
 *            u32, reseller: text, apex: text, the parts of its image (zone-database/zone-image.ts): each length u32,
 *            octets; then 00000000
 *     end    00, number of zones u32, SHA-256 of all octets before
 *
 * A text is its length u32 and its octets; an empty one stands for none.
 */
const MAGIC = Buffer.from("PALOMAR ZONES\n", "latin1");
/** To be counted up with every change of images as well (zone-database/layout.ts, `FLAG`, `RRSET` and `EMBEDDED_NAMES`). */
const FORMAT = 4;
const BYTE_ORDER = Buffer.from(Uint32Array.of(0x01020304).buffer);
const MARK = { END: 0, ZONE: 1 } as const;
const DIGEST_OCTETS = 32;
const CHUNK_OCTETS = 1 << 20;

export interface SnapshotHead {
  readonly writtenAtMs: number;
  /** Of the database that the zones were read from. */
  readonly incarnation: string;
  /** Who may transfer, as `sealAccess` has it; undefined where that was not known. */
  readonly access: string | undefined;
}

/** What the file says of a zone beside its content. */
export interface SnapshotZone extends ZoneSummary {
  /** What its names take in the zone database. */
  readonly octets: number;
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
  readonly #chunk = Buffer.allocUnsafe(CHUNK_OCTETS);
  #length = 0;
  #zones = 0;

  constructor(file: string, { writtenAtMs, incarnation, access = "" }: SnapshotHead) {
    this.#file = file;
    this.#draft = `${file}.new`;
    this.#descriptor = openSync(this.#draft, "w", 0o600);
    this.#bytes(MAGIC);
    this.#number(FORMAT, 4);
    this.#bytes(BYTE_ORDER);
    this.#number(writtenAtMs, 6);
    this.#text(incarnation);
    this.#text(access);
  }

  beginZone(zone: SnapshotZone): void {
    this.#number(MARK.ZONE, 1);
    this.#number(zone.id, 6);
    this.#number(zone.version, 6);
    this.#number(zone.restricted ? 1 : 0, 1);
    this.#number(zone.negativeTtlSeconds, 4);
    this.#number(zone.expireSeconds, 4);
    this.#number(zone.octets, 4);
    this.#text(zone.resellerId ?? "");
    this.#octets(zone.apex);
    this.#zones += 1;
  }

  /** Adds the next part of the image of the zone that was begun last. */
  addPart(part: Uint8Array): void {
    this.#octets(part);
  }

  endZone(): void {
    this.#number(0, 4);
  }

  /** Ends the file and puts it in the place of the one before. */
  async finish(): Promise<void> {
    this.#number(MARK.END, 1);
    this.#number(this.#zones, 4);
    this.#flush();
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

  #number(value: number, octets: 1 | 4 | 6): void {
    if (this.#length + octets > CHUNK_OCTETS) this.#flush();
    this.#length = this.#chunk.writeUIntBE(value, this.#length, octets);
  }

  #text(text: string): void {
    this.#octets(Buffer.from(text, "utf8"));
  }

  #octets(octets: Uint8Array): void {
    this.#number(octets.length, 4);
    this.#bytes(octets);
  }

  #bytes(octets: Uint8Array): void {
    if (this.#length + octets.length > CHUNK_OCTETS) this.#flush();
    if (octets.length > CHUNK_OCTETS) {
      this.#put(octets);
      return;
    }
    this.#chunk.set(octets, this.#length);
    this.#length += octets.length;
  }

  #flush(): void {
    this.#put(this.#chunk.subarray(0, this.#length));
    this.#length = 0;
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
  readonly #descriptor: number;
  readonly #source: Source;
  #isInZone = false;
  /** The text that the last zone's reseller had; most zones have that of the zone before. */
  #resellerId = "";
  #resellerOctets: Uint8Array = new Uint8Array(0);

  /** @throws ENOENT when there is none; an Error that says so when it is damaged or of another format */
  constructor(file: string) {
    this.#descriptor = openSync(file, "r");
    try {
      verify(this.#descriptor, file);
      this.#source = new Source(this.#descriptor);
      this.head = this.#readHead(file);
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
    const source = this.#source;
    while (this.#isInZone) this.nextPart();
    if (source.number(1) !== MARK.ZONE) return undefined;
    this.#isInZone = true;
    return {
      id: source.number(6),
      version: source.number(6),
      restricted: source.number(1) === 1,
      negativeTtlSeconds: source.number(4),
      expireSeconds: source.number(4),
      octets: source.number(4),
      resellerId: this.#readReseller(),
      apex: new Uint8Array(source.take(source.number(4))),
    };
  }

  /** The next part of the image of the zone at hand, valid until the next one; undefined behind the last. */
  nextPart(): Uint8Array | undefined {
    const length = this.#source.number(4);
    if (length > 0) return this.#source.take(length);
    this.#isInZone = false;
    return undefined;
  }

  #readHead(file: string): SnapshotHead {
    const source = this.#source;
    if (!source.take(MAGIC.length).equals(MAGIC)) throw new Error(`${file} is no snapshot`);
    const format = source.number(4);
    if (format !== FORMAT) throw new Error(`${file} has format ${format}, and this version reads format ${FORMAT}`);
    if (!source.take(BYTE_ORDER.length).equals(BYTE_ORDER)) throw new Error(`${file} is of a machine of another kind`);
    return { writtenAtMs: source.number(6), incarnation: source.text(), access: source.text() || undefined };
  }

  #readReseller(): string | null {
    const octets = this.#source.take(this.#source.number(4));
    if (octets.length === 0) return null;
    if (!octets.equals(this.#resellerOctets)) {
      this.#resellerOctets = new Uint8Array(octets);
      this.#resellerId = octets.toString("utf8");
    }
    return this.#resellerId;
  }
}

function verify(descriptor: number, file: string): void {
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
}

/** Octets of a file, in order. */
class Source {
  readonly #descriptor: number;
  #chunk = Buffer.allocUnsafe(CHUNK_OCTETS);
  #start = 0;
  #end = 0;
  #position = 0;

  constructor(descriptor: number) {
    this.#descriptor = descriptor;
  }

  number(octets: 1 | 4 | 6): number {
    if (this.#end - this.#start < octets) this.#fill(octets);
    let number = 0;
    for (let left = octets; left > 0; left -= 1) number = number * 256 + this.#chunk[this.#start++]!;
    return number;
  }

  text(): string {
    return this.take(this.number(4)).toString("utf8");
  }

  /** The next octets, valid until the next call. */
  take(octets: number): Buffer {
    if (this.#end - this.#start < octets) this.#fill(octets);
    const taken = this.#chunk.subarray(this.#start, this.#start + octets);
    this.#start += octets;
    return taken;
  }

  #fill(octets: number): void {
    const left = this.#chunk.subarray(this.#start, this.#end);
    const larger = octets > this.#chunk.length ? Buffer.allocUnsafe(octets) : this.#chunk;
    left.copy(larger);
    this.#chunk = larger;
    this.#end = left.length;
    this.#start = 0;
    while (this.#end < octets) {
      const read = readSync(this.#descriptor, larger, this.#end, larger.length - this.#end, this.#position);
      if (read === 0) throw new Error("the snapshot ends early");
      this.#end += read;
      this.#position += read;
    }
  }
}
