import type { Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGzip, type Gzip } from "node:zlib";
import pg from "pg";
import { from, to } from "pg-copy-streams";
import {
  type BackupContent,
  type BackupHead,
  BackupRefused,
  type BackupTableShape,
  type BackupTail,
} from "../core/backup-format.ts";
import type { KeyRing } from "../core/key-ring.ts";
import { writeFrames } from "../platform/backup-file.ts";
import { type Db, queryRows, type Transaction } from "../platform/postgres/db.ts";
import { isMigrating, migrateTo } from "../platform/postgres/migrations.ts";
import { readCatalogue, readSequences } from "./backup-catalogue.ts";
import { MAX_PIECE_OCTETS, PIECE_HEAD_OCTETS } from "./backup-content.ts";
import { beginIncarnation, readIncarnation } from "./incarnation.ts";
import { listAttemptWeeks } from "./mail/attempts/attempt-weeks.ts";
import { hasSpreadTables } from "./mail/by-instance.ts";
import { listEventMonths } from "./mail/events/event-partitions.ts";

/** Rows by table. */
export type RowCounts = Readonly<Record<string, number>>;

/** What was written. */
export interface WrittenBackup {
  readonly rows: RowCounts;
  /** Tables in our schema that are not ours, which are no part of it. */
  readonly leftOut: readonly string[];
}

/** Rows are compressed in pieces of about this many octets, eight of which may wait. */
const PIECE_OCTETS = 64 * 1024;
const COMPRESSION = { level: 6, chunkSize: PIECE_OCTETS, highWaterMark: 8 * PIECE_OCTETS };

/** So that one server writes values as another reads them, whatever the settings of each. */
const SETTINGS = `set local datestyle = 'ISO'; set local intervalstyle = 'postgres'; set local timezone = 'UTC';
  set local bytea_output = 'hex'; set local extra_float_digits = 1; set local row_security = off;
  set local statement_timeout = 0; set local idle_in_transaction_session_timeout = 0`;

/**
 * Writes the whole content of the database as it is at one moment, while everything goes on (`core/backup-format.ts` has
 * the form), and ends `out`. Holds some hundred KiB at a time, or the largest row.
 * @param about.keyRing has the key "backup", of which the one in force authenticates the file
 * @throws BackupRefused where Citus spreads tables: its machines have no moment in common
 */
export async function writeBackup(
  db: Db,
  out: Writable,
  about: { readonly version: string; readonly keyRing: KeyRing; readonly now: Date },
): Promise<WrittenBackup> {
  let fail: (error: unknown) => void = () => {};
  const failed = new Promise<never>((_, reject) => (fail = reject));
  const written = db.transaction(
    async (transaction) => {
      if (await hasSpreadTables(transaction)) throw new BackupRefused({ kind: "spread" });
      // What is half made comes from no migration that a restore could run.
      if (await isMigrating(transaction)) throw new BackupRefused({ kind: "migrating" });
      await transaction.raw(SETTINGS);
      const { tables, foreign } = await readCatalogue(transaction);
      const head = await describe(transaction, tables, about);
      let tail: BackupTail = { rows: {}, sequences: {} };
      const gzip = createGzip(COMPRESSION);
      const done = pipeline(
        gzip,
        writeFrames(about.keyRing, head, () => tail),
        out,
      ).catch((error) => {
        throw endOf(error);
      });
      // A disk that is full ends the writing long before the database has ended.
      done.catch(fail);
      const rows: Record<string, number> = {};
      for (const table of tables) rows[table.name] = await copyRows(transaction, table, gzip);
      const given = Object.entries(await readSequences(transaction)).filter(([, value]) => value !== null);
      tail = { rows, sequences: Object.fromEntries(given) as Record<string, string> };
      gzip.end();
      await done;
      return { rows, leftOut: foreign };
    },
    { isolationLevel: "repeatable read", readOnly: true },
  );
  return Promise.race([written, failed]);
}

async function describe(
  transaction: Transaction,
  tables: readonly BackupTableShape[],
  about: { readonly version: string; readonly now: Date },
): Promise<BackupHead> {
  const migrations = await queryRows<{ name: string }>(transaction, "select name from schema_migrations order by 1");
  return {
    palomar: about.version,
    takenAt: about.now.toISOString(),
    incarnation: await readIncarnation((await transaction.client.acquireConnection()) as pg.Client),
    migrations: migrations.map(({ name }) => name),
    eventMonths: await listEventMonths(transaction),
    attemptWeeks: await listAttemptWeeks(transaction),
    tables,
  };
}

async function copyRows(transaction: Transaction, table: BackupTableShape, out: Gzip): Promise<number> {
  const client = (await transaction.client.acquireConnection()) as pg.Client;
  const stream = client.query(
    to(`copy (select ${columnsOf(table)} from ${pg.escapeIdentifier(table.name)}) to stdout`),
  );
  let failure: unknown;
  let pieces: Buffer[] = [];
  let octets = 0;
  const flush = async () => {
    await writePieces(out, Buffer.concat(pieces, octets));
    pieces = [];
    octets = 0;
  };
  for await (const piece of stream as AsyncIterable<Buffer>) {
    // A statement that is left in its midst keeps the connection: what nobody takes is read all the same.
    if (failure !== undefined) continue;
    pieces.push(piece);
    octets += piece.length;
    if (octets >= PIECE_OCTETS) await flush().catch((error: unknown) => (failure = error));
  }
  if (failure !== undefined) throw failure;
  await flush();
  await write(out, Buffer.alloc(PIECE_HEAD_OCTETS));
  return stream.rowCount;
}

async function writePieces(out: Gzip, octets: Buffer): Promise<void> {
  for (let start = 0; start < octets.length; start += MAX_PIECE_OCTETS) {
    const piece = octets.subarray(start, start + MAX_PIECE_OCTETS);
    const head = Buffer.alloc(PIECE_HEAD_OCTETS);
    head.writeUInt32BE(piece.length);
    await write(out, Buffer.concat([head, piece]));
  }
}

/**
 * Fills an empty database from a backup, in one transaction that ends when all of the backup has been verified: the schema
 * that the backup had, made by our own migrations, then its rows. Every statement is made of the names of that schema; the
 * backup's names are looked up in it, and its rows are data of COPY. Takes the rights of the database's owner, no more.
 * The caller migrates to its own release afterwards.
 * @throws BackupRefused
 */
export async function restoreBackup(db: Db, { head, tables, readTail }: BackupContent): Promise<RowCounts> {
  return db.transaction(async (transaction) => {
    await transaction.raw(SETTINGS);
    const [known] = await queryRows<{ there: boolean }>(
      transaction,
      "select to_regclass('schema_migrations') is not null as there",
    );
    if (known!.there) throw new BackupRefused({ kind: "not-empty" });
    const unknown = await migrateTo(transaction, head.migrations);
    if (unknown.length > 0) throw new BackupRefused({ kind: "newer", migrations: unknown });
    for (const month of head.eventMonths) await transaction.raw("select make_events_month(?::date)", [month]);
    for (const week of head.attemptWeeks ?? []) await transaction.raw("select make_attempts_week(?::date)", [week]);
    const catalogue = (await readCatalogue(transaction)).tables;
    // Rows that migrations bring are in the backup as they are now; triggers have done their work already.
    for (const { name } of catalogue.toReversed()) await transaction.raw("delete from ??", [name]);
    for (const { name } of catalogue) await transaction.raw("alter table ?? disable trigger user", [name]);
    const rows: Record<string, number> = {};
    for await (const table of tables) {
      const own = findTable(catalogue, table, rows);
      rows[own.name] = await copyIn(transaction, own, table.rows);
    }
    await finish(transaction, catalogue, rows, await readTail());
    return rows;
  });
}

/** The table of our catalogue that one of the backup is, with its columns in the backup's order. */
function findTable(
  catalogue: readonly BackupTableShape[],
  { name, columns }: BackupTableShape,
  done: RowCounts,
): BackupTableShape {
  const own = catalogue.find((table) => table.name === name);
  if (own === undefined || Object.hasOwn(done, name)) throw new BackupRefused({ kind: "unknown-table", table: name });
  const ordered = columns.flatMap((column) => own.columns.filter((one) => one === column));
  const differing = [
    ...columns.filter((column) => !own.columns.includes(column)),
    ...own.columns.filter((column) => !ordered.includes(column)),
  ];
  if (differing.length > 0 || ordered.length !== own.columns.length) {
    throw new BackupRefused({ kind: "other-columns", table: own.name, columns: differing });
  }
  return { name: own.name, columns: ordered };
}

/** SQLSTATE classes of data that a table does not take: data exceptions, constraints, limits. */
const DATA_ERRORS = /^(?:22|23|54)/;

async function copyIn(transaction: Transaction, table: BackupTableShape, rows: AsyncIterable<Buffer>): Promise<number> {
  const client = (await transaction.client.acquireConnection()) as pg.Client;
  const stream = client.query(from(`copy ${pg.escapeIdentifier(table.name)} (${columnsOf(table)}) from stdin`));
  try {
    await pipeline(rows, stream);
  } catch (error) {
    throw refusalOf(error, table.name);
  }
  return stream.rowCount;
}

/** What the database does not take is a refusal; that it is away, or a bug of ours, is none. */
function refusalOf(error: unknown, place: string): unknown {
  const { code, message } = error as { readonly code?: string; readonly message: string };
  return DATA_ERRORS.test(code ?? "") ? new BackupRefused({ kind: "not-taken", place, reason: message }) : error;
}

async function finish(
  transaction: Transaction,
  catalogue: readonly BackupTableShape[],
  rows: RowCounts,
  tail: BackupTail,
): Promise<void> {
  const missing = catalogue.filter(({ name }) => !(name in rows)).map(({ name }) => name);
  if (missing.length > 0) throw new BackupRefused({ kind: "missing-tables", tables: missing });
  // COPY ends at a line of its own making as well; what came after it would be missing.
  const other = Object.keys(rows).find((name) => rows[name] !== tail.rows[name]);
  if (other !== undefined) throw new BackupRefused({ kind: "other-count", table: other });
  const sequences = await readSequences(transaction);
  for (const [sequence, value] of Object.entries(tail.sequences)) {
    if (!Object.hasOwn(sequences, sequence)) throw new BackupRefused({ kind: "unknown-sequence", sequence });
    await queryRows(transaction, "select setval(quote_ident($1)::regclass, $2::bigint)", [sequence, value]).catch(
      (error) => {
        throw refusalOf(error, sequence);
      },
    );
  }
  for (const { name } of catalogue) await transaction.raw("alter table ?? enable trigger user", [name]);
  await beginIncarnation(transaction);
}

function columnsOf({ columns }: BackupTableShape): string {
  return columns.map((column) => pg.escapeIdentifier(column)).join(", ");
}

/** @throws when the stream has ended under it, such as by a disk that is full: it never drains then */
async function write(out: Gzip, octets: Uint8Array): Promise<void> {
  if (out.destroyed) throw endOf(out.errored);
  if (out.write(octets)) return;
  await new Promise<void>((resolve) => {
    const settle = () => {
      out.off("drain", settle).off("close", settle);
      resolve();
    };
    out.on("drain", settle).on("close", settle);
  });
  if (out.destroyed) throw endOf(out.errored);
}

/** What ended the writing: the file's error, or its end before ours. */
function endOf(error: unknown): unknown {
  const isUnexplained = error == null || (error as NodeJS.ErrnoException).code === "ERR_STREAM_PREMATURE_CLOSE";
  return isUnexplained ? new Error("the backup ended early") : error;
}
