import { randomUUID } from "node:crypto";
import { type FileHandle, mkdir, open, readdir, readFile, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";

/** A place in a spool: everything before it has been read. */
export interface SpoolPosition {
  readonly segment: number;
  readonly offset: number;
}

interface SpoolBatch<T> {
  readonly records: readonly T[];
  /** Where the next batch begins. */
  readonly next: SpoolPosition;
}

const SEGMENT_OCTETS = 16 * 2 ** 20;
const READ_OCTETS = 512 * 2 ** 10;
const LINE_FEED = 0x0a;

/**
 * A queue on disk with one reader: records are appended to numbered files, a line of JSON each, and are on the disk
 * when `append` resolves. Appends that come together share one write and one flush. A line that a crash cut short was
 * never acknowledged and is skipped.
 */
export class Spool<T> {
  /** Names this spool for as long as its folder lives. */
  readonly id: string;
  readonly #folder: string;
  #file: FileHandle;
  #segment: number;
  /** Octets of the current file that are on the disk. */
  #durable = 0;
  #isBroken = false;
  #waiting: { readonly line: string; readonly resolve: () => void; readonly reject: (error: unknown) => void }[] = [];
  #writing: Promise<void> | undefined;

  private constructor(folder: string, id: string, segment: number, file: FileHandle) {
    this.#folder = folder;
    this.id = id;
    this.#segment = segment;
    this.#file = file;
  }

  /** Opens the spool in a folder, which is made when absent. One process at a time may have it open. */
  static async open<T>(folder: string): Promise<Spool<T>> {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const id = await readOrMakeId(join(folder, "id"));
    // Always a new file: the last one may end in half a line.
    const segment = ((await listSegments(folder)).at(-1) ?? 0) + 1;
    return new Spool<T>(folder, id, segment, await openSegment(folder, segment));
  }

  /** Resolves when the record is on the disk. @throws when it cannot be written */
  append(record: T): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ line: `${JSON.stringify(record)}\n`, resolve, reject });
      this.#writing ??= this.#writeAll();
    });
  }

  /**
   * The next records, in the order of their appending; all in one file.
   * @returns undefined when there are none
   */
  async read(from: SpoolPosition): Promise<SpoolBatch<T> | undefined> {
    for (const segment of await this.#segmentsFrom(from.segment)) {
      const offset = segment === from.segment ? from.offset : 0;
      const lines = await this.#readLines(segment, offset);
      if (lines.length > 0) {
        const records = parseLines<T>(lines);
        return { records, next: { segment, offset: offset + lines.length } };
      }
    }
    return undefined;
  }

  /** Removes the files that end before a position. */
  async discardBefore({ segment }: SpoolPosition): Promise<void> {
    for (const old of await listSegments(this.#folder)) {
      if (old < segment && old !== this.#segment) await unlink(segmentPath(this.#folder, old));
    }
  }

  /** Waits for what is being written. */
  async close(): Promise<void> {
    await this.#writing;
    await this.#file.close();
  }

  async #writeAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting;
      this.#waiting = [];
      try {
        await this.#write(Buffer.from(batch.map(({ line }) => line).join(""), "utf8"));
        for (const { resolve } of batch) resolve();
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
    }
    this.#writing = undefined;
  }

  async #write(octets: Buffer): Promise<void> {
    if (this.#isBroken || this.#durable >= SEGMENT_OCTETS) await this.#startSegment();
    // Should it fail, part of it may be in the file: what comes next must not stand behind half a line.
    this.#isBroken = true;
    await this.#file.appendFile(octets);
    await this.#file.datasync();
    this.#isBroken = false;
    this.#durable += octets.length;
  }

  async #startSegment(): Promise<void> {
    const next = this.#segment + 1;
    const file = await openSegment(this.#folder, next);
    const finished = this.#file;
    this.#file = file;
    this.#segment = next;
    this.#durable = 0;
    this.#isBroken = false;
    await finished.close();
  }

  async #segmentsFrom(first: number): Promise<number[]> {
    if (first === this.#segment) return [first];
    return (await listSegments(this.#folder)).filter((segment) => segment >= first);
  }

  /** Whole lines from an offset on; in the current file only those that are on the disk. */
  async #readLines(segment: number, offset: number): Promise<Buffer> {
    const limit = segment === this.#segment ? Math.min(READ_OCTETS, this.#durable - offset) : READ_OCTETS;
    if (limit <= 0) return Buffer.alloc(0);
    const file = await open(segmentPath(this.#folder, segment), "r");
    try {
      const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(limit), 0, limit, offset);
      return buffer.subarray(0, buffer.subarray(0, bytesRead).lastIndexOf(LINE_FEED) + 1);
    } finally {
      await file.close();
    }
  }
}

/** A line that is no JSON was cut short by a crash and continued by nobody: nothing acknowledged is in it. */
function parseLines<T>(octets: Buffer): T[] {
  return octets
    .toString("utf8")
    .split("\n")
    .flatMap((line) => {
      try {
        return line === "" ? [] : [JSON.parse(line) as T];
      } catch {
        return [];
      }
    });
}

async function readOrMakeId(path: string): Promise<string> {
  const known = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return "";
    throw error;
  });
  if (/^[0-9a-f-]{36}$/.test(known.trim())) return known.trim();
  const id = randomUUID();
  await writeFile(path, `${id}\n`, { mode: 0o600, flush: true });
  return id;
}

async function listSegments(folder: string): Promise<number[]> {
  const names = await readdir(folder);
  return names
    .flatMap((name) => (/^\d{8,}\.spool$/.test(name) ? [Number.parseInt(name, 10)] : []))
    .sort((a, b) => a - b);
}

async function openSegment(folder: string, segment: number): Promise<FileHandle> {
  const file = await open(segmentPath(folder, segment), "wx", 0o600);
  await syncFolder(folder);
  return file;
}

/** The name of a new file is on the disk only when its folder is. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

function segmentPath(folder: string, segment: number): string {
  return join(folder, `${String(segment).padStart(8, "0")}.spool`);
}
