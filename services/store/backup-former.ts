import { createHmac, type KeyObject, timingSafeEqual } from "node:crypto";
import {
  type BackupContent,
  type BackupHead,
  BackupRefused,
  type BackupTable,
  type BackupTableShape,
  type BackupTail,
} from "../core/backup-format.ts";
import type { KeyRing } from "../core/key-ring.ts";
import { OctetReader } from "../platform/octet-reader.ts";

/**
 * The former format: gzip of lines for psql, `COPY … FROM stdin` with rows and `SELECT … setval(…)`. Nothing in it is
 * authenticated. It is read for its rows alone: of statements the names of tables, columns and sequences are taken, which
 * the restore looks up in its own catalogue, and a line that is anything else refuses the file. No line is ever run.
 */
const HEAD = "-- Palomar backup: ";
const END = "-- Palomar backup ends: ";
const COPY = /^COPY ("?\w+"?) \(("?\w+"?(?:, "?\w+"?)*)\) FROM stdin;$/;
const SEQUENCE = /^SELECT pg_catalog\.setval\('"?(\w+)"?', (\d{1,19}), true\);$/;
const MONTH = /^\d{4}-(?:0[1-9]|1[0-2])-01$/;
const MOST_MONTHS = 1_200;

const GZIP = Buffer.of(0x1f, 0x8b);
const MAX_LINE_OCTETS = 1024 * 1024;
/** Ends the rows of a table: a line of its own, which no row can be, as COPY doubles backslashes. */
const ROWS_END = Buffer.from("\n\\.\n", "latin1");

/** Whether a file begins as those of the former format do. */
export async function isFormerBackup(octets: OctetReader): Promise<boolean> {
  return (await octets.peek(GZIP.length)).equals(GZIP);
}

/**
 * @param decompressed of the file
 * @throws BackupRefused
 */
export async function openFormerBackup(decompressed: AsyncIterable<Buffer>, keyRing: KeyRing): Promise<BackupContent> {
  const lines = new LineReader(decompressed);
  const head = parseHead(await lines.next());
  if (!keyRing.keysFor("backup").some((key) => hasMark(key, head.secretMark))) {
    throw new BackupRefused({ kind: "other-secret" });
  }
  const sequences: Record<string, string> = {};
  let rows: BackupTail["rows"] | undefined;
  async function* tables(): AsyncGenerator<BackupTable> {
    while (rows === undefined) {
      const line = await lines.next();
      const shape = parseCopy(line);
      const [, sequence, value] = SEQUENCE.exec(line) ?? [];
      if (shape !== undefined) yield { ...shape, rows: lines.rows() };
      else if (sequence !== undefined) sequences[sequence] = value!;
      else if (line.startsWith(END)) rows = parseCounts(line.slice(END.length));
      else throw new BackupRefused({ kind: "no-backup" });
    }
  }
  return {
    head: { incarnation: "", ...head },
    isAuthenticated: false,
    tables: tables(),
    readTail: async () => {
      if (rows === undefined) throw new BackupRefused({ kind: "truncated" });
      return { rows, sequences };
    },
  };
}

type FormerHead = Pick<BackupHead, "palomar" | "takenAt" | "migrations" | "eventMonths"> & {
  readonly secretMark: string;
};

function parseHead(line: string): FormerHead {
  const head = line.startsWith(HEAD) ? parseObject(line.slice(HEAD.length)) : {};
  const isText = (value: unknown) => typeof value === "string";
  const areTexts = (value: unknown) => Array.isArray(value) && value.every(isText);
  const { palomar, takenAt, migrations, eventMonths, secretMark } = head;
  if (![palomar, takenAt, secretMark].every(isText) || ![migrations, eventMonths].every(areTexts)) {
    throw new BackupRefused({ kind: "no-backup" });
  }
  const months = eventMonths as string[];
  if (months.length > MOST_MONTHS || !months.every((month) => MONTH.test(month))) {
    throw new BackupRefused({ kind: "no-backup" });
  }
  return { palomar, takenAt, migrations, eventMonths, secretMark } as FormerHead;
}

function parseCounts(text: string): Record<string, number> {
  const counts = parseObject(text);
  if (!Object.values(counts).every(Number.isSafeInteger)) throw new BackupRefused({ kind: "no-backup" });
  return counts as Record<string, number>;
}

function parseObject(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null) return value as Record<string, unknown>;
  } catch {
    // As what is no object.
  }
  throw new BackupRefused({ kind: "no-backup" });
}

function parseCopy(line: string): BackupTableShape | undefined {
  const [, table, columns] = COPY.exec(line) ?? [];
  if (table === undefined) return undefined;
  return { name: unquoted(table), columns: columns!.split(", ").map(unquoted) };
}

function unquoted(name: string): string {
  return name.replaceAll('"', "");
}

function hasMark(key: KeyObject, mark: string): boolean {
  const own = createHmac("sha256", key).update("Palomar backup").digest().subarray(0, 8);
  const octets = Buffer.from(mark, "hex");
  return octets.length === own.length && timingSafeEqual(octets, own);
}

/** Lines that are read whole, and rows that may be of any length. */
class LineReader {
  readonly #octets: OctetReader;

  constructor(source: AsyncIterable<Buffer>) {
    this.#octets = new OctetReader(source);
  }

  async next(): Promise<string> {
    for (let wanted = 1024; ; wanted *= 2) {
      const seen = await this.#octets.peek(wanted);
      const end = seen.indexOf(0x0a);
      if (end !== -1) return (await this.#octets.read(end + 1))!.subarray(0, end).toString();
      if (wanted > MAX_LINE_OCTETS) throw new BackupRefused({ kind: "no-backup" });
      if (seen.length < wanted) throw new BackupRefused({ kind: "truncated" });
    }
  }

  /** Rows up to the line that ends them, which is taken as well. */
  async *rows(): AsyncGenerator<Buffer> {
    if ((await this.#octets.peek(3)).equals(ROWS_END.subarray(1))) {
      await this.#octets.read(3);
      return;
    }
    for (;;) {
      const seen = await this.#octets.peek(ROWS_OCTETS);
      const end = seen.indexOf(ROWS_END);
      // What may be the beginning of the end stays for the next look.
      const whole = end === -1 ? seen.length - (ROWS_END.length - 1) : end + 1;
      if (whole <= 0) throw new BackupRefused({ kind: "truncated" });
      yield (await this.#octets.read(whole))!;
      if (end === -1) continue;
      await this.#octets.read(ROWS_END.length - 1);
      return;
    }
  }
}

const ROWS_OCTETS = 64 * 1024;
