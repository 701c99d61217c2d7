import { createHash, type Hash, webcrypto } from "node:crypto";
import { closeSync, fsync, openSync, renameSync, rmSync, writeSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { dirname } from "node:path";
import { promisify } from "node:util";
import type { SuspendedZone } from "./zone-standings.ts";
import { type SnapshotZone, WordSource, ZoneStreamWriter } from "./zone-stream.ts";

const synchronise = promisify(fsync);

/**
 * The snapshot file: what kind it is, chunks, an end. All but the magic and the format is of 32-bit words in the machine's own
 * order, so that images lie as they do in memory.
 *
 *     kind   "PALOMAR ZONES" 0A, format (big-endian, in 4 octets), 01020304 as this machine writes it, 0000
 *     chunk  the first: confirmed at (ms): number, life: text, transfer access, sealed: text, suspended zones, as JSON: text; all
 *            others have zones, as zone-stream.ts has them
 *     end    of each chunk its octets and their SHA-256; then the number of chunks, of zones, nodes of all images, SHA-256 of
 *            the kind and of the end so far
 *
 * A number is two words, the higher one first. A text is its length and its octets, padded to a word; an empty one stands for none.
 */
const MAGIC = Buffer.from("PALOMAR ZONES\n", "latin1");
/** To be counted up with every change of what images have (zone-database/layout.ts, size-class.ts). */
const FORMAT = 7;
const BYTE_ORDER = Buffer.from(Uint32Array.of(0x01020304).buffer);
/** Octets of the kind, padded to a word. */
const KIND_OCTETS = 24;
const DIGEST_OCTETS = 32;
/** What the end has of a chunk, in octets. */
const CHUNK_ENTRY_OCTETS = 4 + DIGEST_OCTETS;
/** The end's last octets, which say how long it is. */
const COUNTS_OCTETS = 3 * 4;
const TAIL_OCTETS = COUNTS_OCTETS + DIGEST_OCTETS;
/** Chunks whose checksums are looked at side by side. */
const CHECKED_AT_ONCE = 4;

export interface SnapshotHead {
  /** When the zones were last known to be what the database has. */
  readonly confirmedAtMs: number;
  /** Of the database that the zones were read from. */
  readonly life: string;
  /** Who may transfer, as `sealAccess` has it; undefined where that was not known. */
  readonly access: string | undefined;
  /** None of these zones is in the file. */
  readonly suspended: readonly SuspendedZone[];
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
  /** Of the kind, and at last of the end. */
  readonly #hash: Hash = createHash("sha256");
  readonly #chunks: Buffer[] = [];
  readonly #zones = new ZoneStreamWriter((octets) => this.#putChunk(octets));

  /** @throws where the file cannot be made, or its beginning not be written; nothing of it is left then */
  constructor(file: string, head: SnapshotHead) {
    this.#file = file;
    this.#draft = `${file}.new`;
    this.#descriptor = openSync(this.#draft, "w", 0o600);
    try {
      this.#putKind();
      this.#putHead(head);
    } catch (error) {
      this.discard();
      throw error;
    }
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
    const rest = this.#zones.take();
    if (rest.length > 0) this.#putChunk(rest);
    const counts = Int32Array.of(this.#chunks.length, this.#zones.zones, nodes);
    const end = Buffer.concat([...this.#chunks, Buffer.from(counts.buffer)]);
    this.#put(end);
    this.#put(this.#hash.update(end).digest());
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

  #putKind(): void {
    const kind = Buffer.alloc(KIND_OCTETS);
    MAGIC.copy(kind);
    kind.writeUInt32BE(FORMAT, MAGIC.length);
    BYTE_ORDER.copy(kind, MAGIC.length + 4);
    this.#hash.update(kind);
    this.#put(kind);
  }

  #putHead({ confirmedAtMs, life, access = "", suspended }: SnapshotHead): void {
    const head = new ZoneStreamWriter();
    head.number(confirmedAtMs);
    head.text(Buffer.from(life, "utf8"));
    head.text(Buffer.from(access, "utf8"));
    const rows = suspended.map(({ id, apex, resellerId }) => [id, Buffer.from(apex).toString("base64"), resellerId]);
    head.text(Buffer.from(JSON.stringify(rows), "utf8"));
    this.#putChunk(head.take());
  }

  #putChunk(octets: Uint8Array): void {
    const length = Buffer.from(Int32Array.of(octets.length).buffer);
    this.#chunks.push(Buffer.concat([length, createHash("sha256").update(octets).digest()]));
    this.#put(octets);
  }

  #put(octets: Uint8Array): void {
    for (let from = 0; from < octets.length; ) from += writeSync(this.#descriptor, octets, from);
  }
}

/** A chunk of a file, as its end has it. */
interface Chunk {
  readonly position: number;
  readonly octets: number;
  readonly digest: Buffer;
}

/**
 * Reads a file, its checksums first, so that nothing of a damaged one is believed. Reading and checking are done on other threads:
 * of some chunks at a time when it is opened, and of the next chunk while one is worked on.
 */
export class SnapshotReader {
  readonly head: SnapshotHead;
  /** How much there is: octets of the file, zones, and nodes of their images. */
  readonly size: { readonly octets: number; readonly zones: number; readonly nodes: number };
  readonly #handle: FileHandle;
  readonly #chunks: readonly Chunk[];

  private constructor(handle: FileHandle, end: End, head: SnapshotHead) {
    this.#handle = handle;
    this.#chunks = end.chunks;
    this.size = end.size;
    this.head = head;
  }

  /** @throws ENOENT when there is none; an Error that says so when it is damaged or of another format */
  static async open(file: string): Promise<SnapshotReader> {
    const handle = await open(file, "r");
    try {
      const end = await readEnd(handle, file);
      const [first] = end.chunks;
      if (first === undefined) throw damaged(file);
      await verify(handle, end, file);
      const source = new WordSource(await readChunk(handle, first, new Int32Array(first.octets >> 2)));
      const text = () => Buffer.from(source.text()).toString("utf8");
      const head = { confirmedAtMs: source.number(), life: text(), access: text() || undefined };
      const rows: [id: number, apex: string, resellerId: string | null][] = JSON.parse(text());
      const suspended = rows.map(([id, apex, resellerId]) => ({ id, apex: Buffer.from(apex, "base64"), resellerId }));
      return new SnapshotReader(handle, end, { ...head, suspended });
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  close(): Promise<void> {
    return this.#handle.close();
  }

  /** The chunks that have zones, each valid until the next is asked for. */
  async *chunks(): AsyncGenerator<Int32Array> {
    const chunks = this.#chunks.slice(1);
    // The one at hand, and the next.
    const buffers = [bufferFor(chunks), bufferFor(chunks)];
    const begin = (index: number) => {
      const chunk = chunks[index];
      const reading = chunk && readChunk(this.#handle, chunk, buffers[index % 2]!);
      // Nobody may come to ask for it.
      reading?.catch(() => {});
      return reading;
    };
    let next = begin(0);
    for (let index = 1; next !== undefined; index += 1) {
      const chunk: Int32Array = await next;
      next = begin(index);
      yield chunk;
    }
  }
}

type End = Pick<SnapshotReader, "size"> & { readonly chunks: readonly Chunk[] };

/** Reads what there is in a file, and whether it is one of ours. */
async function readEnd(handle: FileHandle, file: string): Promise<End> {
  const { size } = await handle.stat();
  const kind = await readOctets(handle, file, 0, Math.min(size, KIND_OCTETS));
  checkKind(kind, file);
  const tail = await readOctets(handle, file, size - TAIL_OCTETS, TAIL_OCTETS);
  const [count, zones, nodes] = wordsIn(tail, 3) as [number, number, number];
  const entriesOctets = count * CHUNK_ENTRY_OCTETS;
  const start = size - TAIL_OCTETS - entriesOctets;
  if (count < 0 || start < KIND_OCTETS) throw damaged(file);
  const entries = await readOctets(handle, file, start, entriesOctets);
  const hash = createHash("sha256").update(kind).update(entries).update(tail.subarray(0, COUNTS_OCTETS));
  if (!hash.digest().equals(tail.subarray(COUNTS_OCTETS))) throw damaged(file);
  let position = KIND_OCTETS;
  const chunks = Array.from({ length: count }, (_, index): Chunk => {
    const entry = entries.subarray(index * CHUNK_ENTRY_OCTETS, (index + 1) * CHUNK_ENTRY_OCTETS);
    const [octets] = wordsIn(entry, 1) as [number];
    if (octets < 0 || octets % 4 !== 0) throw damaged(file);
    position += octets;
    return { position: position - octets, octets, digest: entry.subarray(4) };
  });
  if (position !== start) throw damaged(file);
  return { chunks, size: { octets: size, zones, nodes } };
}

/** The first words of octets that begin where a word does. */
function wordsIn({ buffer, byteOffset }: Buffer, count: number): number[] {
  return [...new Int32Array(buffer, byteOffset, count)];
}

function checkKind(kind: Buffer, file: string): void {
  if (!kind.subarray(0, MAGIC.length).equals(MAGIC)) throw new Error(`${file} is no snapshot`);
  if (kind.length < KIND_OCTETS) throw damaged(file);
  const format = kind.readUInt32BE(MAGIC.length);
  if (format !== FORMAT) throw new Error(`${file} has format ${format}, and this version reads format ${FORMAT}`);
  const order = kind.subarray(MAGIC.length + 4, MAGIC.length + 4 + BYTE_ORDER.length);
  if (!order.equals(BYTE_ORDER)) throw new Error(`${file} is of a machine of another kind`);
}

/** Checks all chunks, some at a time. @throws where one is damaged */
async function verify(handle: FileHandle, { chunks }: End, file: string): Promise<void> {
  const left = chunks.values();
  const verifySome = async () => {
    const buffer = bufferFor(chunks);
    for (const chunk of left) {
      const digest = Buffer.from(await webcrypto.subtle.digest("SHA-256", await readChunk(handle, chunk, buffer)));
      if (!digest.equals(chunk.digest)) throw damaged(file);
    }
  };
  const results = await Promise.allSettled(Array.from({ length: CHECKED_AT_ONCE }, verifySome));
  for (const result of results) if (result.status === "rejected") throw result.reason;
}

/** @returns a buffer that has room for each of some chunks */
function bufferFor(chunks: readonly Chunk[]): Int32Array<ArrayBuffer> {
  return new Int32Array(chunks.reduce((most, { octets }) => Math.max(most, octets >> 2), 0));
}

/** @returns the words of a chunk, at the beginning of `buffer` */
async function readChunk(
  handle: FileHandle,
  { position, octets }: Chunk,
  buffer: Int32Array<ArrayBuffer>,
): Promise<Int32Array<ArrayBuffer>> {
  const words = buffer.subarray(0, octets >> 2);
  await fill(handle, new Uint8Array(words.buffer, 0, words.byteLength), position);
  return words;
}

async function readOctets(handle: FileHandle, file: string, position: number, length: number): Promise<Buffer> {
  if (position < 0) throw damaged(file);
  // Its own, so that words begin where words do.
  const octets = Buffer.allocUnsafeSlow(length);
  await fill(handle, octets, position);
  return octets;
}

async function fill(handle: FileHandle, octets: Uint8Array, position: number): Promise<void> {
  for (let done = 0; done < octets.length; ) {
    const { bytesRead } = await handle.read(octets, done, octets.length - done, position + done);
    if (bytesRead === 0) throw new Error("the snapshot ends early");
    done += bytesRead;
  }
}

function damaged(file: string): Error {
  return new Error(`${file} is damaged: its checksum does not match`);
}
