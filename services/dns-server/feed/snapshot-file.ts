import { createHash, type Hash } from "node:crypto";
import { closeSync, fsync, openSync, readSync, renameSync, rmSync, statSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { promisify } from "node:util";

const synchronise = promisify(fsync);

/**
 * The snapshot file: a head, zones, an end. Numbers are big-endian.
 *
 *     head   "PALOMAR ZONES" 0A, format u32, written at (ms) u48, incarnation: text, transfer access, sealed: text
 *     zone   01, id u48, version u48, restricted u8, reseller: text, the zone's AXFR messages (RFC 5936): each length
 *            u32, octets; then 00000000, or FFFFFFFF where the zone could not be written to its end and is to be passed over
 *     end    00, number of zones u32, SHA-256 of all octets before
 *
 * A text is its length u32 and UTF-8; an empty one stands for none. Formats 1 and 2 had the length of the incarnation
 * in u16, no access and no resellers, format 1 no FFFFFFFF either.
 */
const MAGIC = Buffer.from("PALOMAR ZONES\n", "latin1");
const FORMAT = 3;
/** The first one that says who may transfer. */
const ACCESS_FORMAT = 3;
const OLDEST_FORMAT = 1;
const MARK = { END: 0, ZONE: 1 } as const;
const ZONE_END = { WHOLE: 0, ABANDONED: 0xffffffff } as const;
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
export interface SnapshotZoneHead {
  readonly id: number;
  readonly version: number;
  readonly restricted: boolean;
  /** Null for a feed, which is no reseller's, and in old files. */
  readonly resellerId: string | null;
}

/** A zone of the file. */
export interface SnapshotZone extends SnapshotZoneHead {
  /** Octets of all messages. */
  readonly octets: number;
  /** Read from the file as they are taken, which has to be before the next zone is: each is valid until the next one. */
  readonly messages: Iterable<Uint8Array>;
}

/**
 * Writes a file beside the one in use and puts it in its place when it is whole and on the disk. A zone is begun, gets
 * its messages one by one, so that it never stands in memory a second time, and is ended or abandoned.
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
    this.#number(writtenAtMs, 6);
    this.#text(incarnation);
    this.#text(access);
  }

  beginZone({ id, version, restricted, resellerId }: SnapshotZoneHead): void {
    this.#number(MARK.ZONE, 1);
    this.#number(id, 6);
    this.#number(version, 6);
    this.#number(restricted ? 1 : 0, 1);
    this.#text(resellerId ?? "");
    this.#zones += 1;
  }

  /** Adds the next message of the zone that was begun last. */
  addMessage(message: Uint8Array): void {
    this.#number(message.length, 4);
    this.#bytes(message);
  }

  endZone(): void {
    this.#number(ZONE_END.WHOLE, 4);
  }

  /** Says that the zone begun last is not whole: nobody will read it. */
  abandonZone(): void {
    this.#number(ZONE_END.ABANDONED, 4);
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

  #number(value: number, octets: 1 | 2 | 4 | 6): void {
    if (this.#length + octets > CHUNK_OCTETS) this.#flush();
    this.#length = this.#chunk.writeUIntBE(value, this.#length, octets);
  }

  #text(text: string): void {
    const octets = Buffer.from(text, "utf8");
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
    const format = source.number(4);
    if (!isSnapshot || format < OLDEST_FORMAT || format > FORMAT) {
      throw new Error(`${file} is no snapshot of this format`);
    }
    const writtenAtMs = source.number(6);
    const hasAccess = format >= ACCESS_FORMAT;
    const incarnation = hasAccess ? source.text() : source.take(source.number(2)).toString("utf8");
    const access = (hasAccess && source.text()) || undefined;
    return { head: { writtenAtMs, incarnation, access }, zones: zonesOf(source, descriptor, hasAccess) };
  } catch (error) {
    closeSync(descriptor);
    throw error;
  }
}

function* zonesOf(source: Source, descriptor: number, hasResellers: boolean): Generator<SnapshotZone> {
  try {
    while (source.number(1) === MARK.ZONE) {
      const head = { id: source.number(6), version: source.number(6), restricted: source.number(1) === 1 };
      const zone = { ...head, resellerId: (hasResellers && source.text()) || null };
      const start = source.position;
      let octets = 0;
      let length = source.number(4);
      for (; length !== ZONE_END.WHOLE && length !== ZONE_END.ABANDONED; length = source.number(4)) {
        source.seek(source.position + length);
        octets += length;
      }
      const end = source.position;
      if (length !== ZONE_END.WHOLE) continue;
      yield { ...zone, octets, messages: messagesOf(source, start) };
      source.seek(end);
    }
  } finally {
    closeSync(descriptor);
  }
}

/** The messages that begin at a place of the file. */
function* messagesOf(source: Source, start: number): Generator<Uint8Array> {
  source.seek(start);
  for (let length = source.number(4); length !== ZONE_END.WHOLE; length = source.number(4)) yield source.take(length);
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

  /** Where the next octet stands in the file. */
  get position(): number {
    return this.#position - (this.#end - this.#start);
  }

  /** Goes on elsewhere. */
  seek(position: number): void {
    const chunkStart = this.#position - this.#end;
    if (position >= chunkStart && position <= this.#position) {
      this.#start = position - chunkStart;
      return;
    }
    this.#position = position;
    this.#start = 0;
    this.#end = 0;
  }

  number(octets: 1 | 2 | 4 | 6): number {
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
