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
 * A text is its length u32 and its octets; an empty one stands for none. Formats 1 to 3 had AXFR messages in the place of
 * images.
 */
const MAGIC = Buffer.from("PALOMAR ZONES\n", "latin1");
/** To be counted up with every change of images as well (zone-database/layout.ts, `FLAG` and `RRSET`). */
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
export interface SnapshotZoneHead extends ZoneSummary {
  /** What its names take in the zone database. */
  readonly octets: number;
}

/** A zone of the file. */
export interface SnapshotZone extends SnapshotZoneHead {
  /** Of its image, read from the file as they are taken, before the next zone is: each is valid until the next one. */
  readonly parts: Iterable<Uint8Array>;
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

  beginZone(zone: SnapshotZoneHead): void {
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
 * Reads a file, its checksum first, so that nothing of a damaged one is believed.
 * @returns the head and the zones, to be taken once, in order; the descriptor is closed behind the last
 * @throws ENOENT when there is none; an Error that says so when it is damaged or of another format
 */
export function readSnapshot(file: string): { readonly head: SnapshotHead; readonly zones: Iterable<SnapshotZone> } {
  const descriptor = openSync(file, "r");
  try {
    verify(descriptor, file);
    const source = new Source(descriptor);
    const isSnapshot = source.take(MAGIC.length).equals(MAGIC);
    if (!isSnapshot) throw new Error(`${file} is no snapshot`);
    const format = source.number(4);
    if (format !== FORMAT) throw new Error(`${file} has format ${format}, and this version reads format ${FORMAT}`);
    if (!source.take(BYTE_ORDER.length).equals(BYTE_ORDER)) throw new Error(`${file} is of a machine of another kind`);
    const writtenAtMs = source.number(6);
    const incarnation = source.text();
    const access = source.text() || undefined;
    return { head: { writtenAtMs, incarnation, access }, zones: zonesOf(source, descriptor) };
  } catch (error) {
    closeSync(descriptor);
    throw error;
  }
}

function* zonesOf(source: Source, descriptor: number): Generator<SnapshotZone> {
  try {
    while (source.number(1) === MARK.ZONE) {
      const head: SnapshotZoneHead = {
        id: source.number(6),
        version: source.number(6),
        restricted: source.number(1) === 1,
        negativeTtlSeconds: source.number(4),
        expireSeconds: source.number(4),
        octets: source.number(4),
        resellerId: source.text() || null,
        apex: source.copy(source.number(4)),
      };
      const parts = partsOf(source);
      // No iterator that a loop left early would end: the rest is passed over then.
      yield { ...head, parts: { [Symbol.iterator]: () => ({ next: () => parts.next() }) } };
      for (let next = parts.next(); !next.done; ) next = parts.next();
    }
  } finally {
    closeSync(descriptor);
  }
}

function* partsOf(source: Source): Generator<Uint8Array, undefined> {
  for (let length = source.number(4); length > 0; length = source.number(4)) yield source.take(length);
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

  copy(octets: number): Uint8Array {
    return new Uint8Array(this.take(octets));
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
