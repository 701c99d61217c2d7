import { createHmac, timingSafeEqual } from "node:crypto";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type pg from "pg";
import { from, to } from "pg-copy-streams";
import { deriveKey, secretsOf } from "../core/secret-box.ts";
import { type Db, queryRows, type Transaction } from "../platform/db.ts";
import { beginIncarnation } from "./incarnation.ts";

/** What the first line of a backup says of it. */
export interface BackupHead {
  readonly palomar: string;
  readonly takenAt: string;
  /** Names of the migrations that the database had. */
  readonly migrations: readonly string[];
  /** Tells whether a secret is the backup's, and nothing else about it. */
  readonly secretMark: string;
  /** First days of the months of the event table. */
  readonly eventMonths: readonly string[];
}

/** Rows by table. */
export type RowCounts = Readonly<Record<string, number>>;

const HEAD = "-- Palomar backup: ";
const END = "-- Palomar backup ends: ";

/**
 * Writes the whole content of the database as it is at one moment, while everything goes on: COPY statements with their
 * data, as psql reads them, behind a line that says what they belong to.
 */
export function writeBackup(
  db: Db,
  out: Writable,
  about: { readonly version: string; readonly secret: string; readonly now: Date },
): Promise<RowCounts> {
  return db.transaction(
    async (transaction) => {
      const head: BackupHead = {
        palomar: about.version,
        takenAt: about.now.toISOString(),
        migrations: (
          await queryRows<{ name: string }>(transaction, "select name from schema_migrations order by 1")
        ).map(({ name }) => name),
        secretMark: markOf(about.secret).toString("hex"),
        eventMonths: await listEventMonths(transaction),
      };
      await writeOut(out, `${HEAD}${JSON.stringify(head)}\n`);
      const counts: Record<string, number> = {};
      for (const { name, columns } of await listTables(transaction)) {
        await writeOut(out, `COPY ${name} (${columns}) FROM stdin;\n`);
        counts[name] = await copyRows(transaction, `select ${columns} from ${name}`, out);
        await writeOut(out, "\\.\n");
      }
      for (const statement of await sequenceStatements(transaction)) await writeOut(out, `${statement};\n`);
      await writeOut(out, `${END}${JSON.stringify(counts)}\n`);
      return counts;
    },
    { isolationLevel: "repeatable read", readOnly: true },
  );
}

/** Why a backup was not restored; nothing has changed then. */
export type RestoreRefusal =
  | { readonly kind: "no-backup" }
  | { readonly kind: "not-empty" }
  | { readonly kind: "other-secret" }
  | { readonly kind: "truncated" }
  | { readonly kind: "newer"; readonly migrations: readonly string[] };

/** Thrown out of the transaction, so that nothing stays of it. */
export class BackupRefused extends Error {
  readonly refusal: RestoreRefusal;

  constructor(refusal: RestoreRefusal) {
    super(refusal.kind);
    this.refusal = refusal;
  }
}

/** What a restore needs of the rest of the product. */
export interface RestoreTools {
  readonly secret: string;
  /** Applies exactly these migrations, in the transaction. */
  readonly migrateTo: (transaction: Transaction, migrations: readonly string[]) => Promise<readonly string[]>;
}

/**
 * Fills an empty database from a backup, in one transaction: the schema that the backup had, then its rows. The caller
 * migrates to its own release afterwards.
 * @throws BackupRefused
 */
export async function restoreBackup(db: Db, source: Readable, tools: RestoreTools): Promise<RowCounts> {
  const lines = createInterface({ input: source, crlfDelay: Number.POSITIVE_INFINITY })[Symbol.asyncIterator]();
  const head = parseHead((await lines.next()).value);
  if (head === undefined) throw new BackupRefused({ kind: "no-backup" });
  // A backup from before the secret was replaced is opened with the one before, as everything else is.
  if (!secretsOf(tools.secret).some((secret) => hasMark(secret, head.secretMark))) {
    throw new BackupRefused({ kind: "other-secret" });
  }
  return db.transaction(async (transaction) => {
    const [table] = await queryRows<{ there: boolean }>(
      transaction,
      "select to_regclass('schema_migrations') is not null as there",
    );
    if (table!.there) throw new BackupRefused({ kind: "not-empty" });
    const unknown = await tools.migrateTo(transaction, head.migrations);
    if (unknown.length > 0) throw new BackupRefused({ kind: "newer", migrations: unknown });
    for (const month of head.eventMonths) await transaction.raw("select make_events_month(?::date)", [month]);
    const tables = await listTables(transaction);
    // Rows that migrations bring are in the backup as they are now; triggers have done their work already.
    for (const { name } of tables.toReversed()) await transaction.raw(`delete from ${name}`);
    for (const { name } of tables) await transaction.raw(`alter table ${name} disable trigger user`);
    const counts = await readStatements(transaction, lines);
    for (const { name } of tables) await transaction.raw(`alter table ${name} enable trigger user`);
    await beginIncarnation(transaction);
    return counts;
  });
}

async function readStatements(transaction: Transaction, lines: AsyncIterator<string>): Promise<RowCounts> {
  for (;;) {
    const { value: line, done } = await lines.next();
    if (done) throw new BackupRefused({ kind: "truncated" });
    if (line.startsWith(END)) return JSON.parse(line.slice(END.length));
    if (line.startsWith("COPY ")) await copyIn(transaction, line, lines);
    else if (line.startsWith("SELECT pg_catalog.setval(")) await transaction.raw(line);
    else throw new BackupRefused({ kind: "no-backup" });
  }
}

async function copyIn(transaction: Transaction, statement: string, lines: AsyncIterator<string>): Promise<void> {
  const client = (await transaction.client.acquireConnection()) as pg.Client;
  const stream = client.query(from(statement));
  await pipeline(rowsUntilEnd(lines), stream);
}

async function* rowsUntilEnd(lines: AsyncIterator<string>): AsyncGenerator<string> {
  let chunk = "";
  for (;;) {
    const { value: line, done } = await lines.next();
    if (done) throw new BackupRefused({ kind: "truncated" });
    if (line === "\\.") break;
    chunk += `${line}\n`;
    if (chunk.length < CHUNK_CHARACTERS) continue;
    yield chunk;
    chunk = "";
  }
  if (chunk !== "") yield chunk;
}

const CHUNK_CHARACTERS = 64 * 1024;

async function copyRows(transaction: Transaction, query: string, out: Writable): Promise<number> {
  const client = (await transaction.client.acquireConnection()) as pg.Client;
  const stream = client.query(to(`copy (${query}) to stdout`));
  let failure: unknown;
  for await (const chunk of stream) {
    // A statement that is left in its midst keeps the connection: what nobody takes is read all the same.
    if (failure === undefined) await writeOut(out, chunk).catch((error: unknown) => (failure = error));
  }
  if (failure !== undefined) throw failure;
  return stream.rowCount;
}

interface BackedUpTable {
  readonly name: string;
  readonly columns: string;
}

/**
 * Every table, those before that others refer to. Columns that PostgreSQL computes are left out, and transaction numbers,
 * which mean nothing in another cluster.
 */
async function listTables(db: Db): Promise<BackedUpTable[]> {
  const tables = await queryRows<BackedUpTable & { oid: number }>(
    db,
    `select c.oid::int, quote_ident(c.relname) as name,
            string_agg(quote_ident(a.attname), ', ' order by a.attnum) as columns
       from pg_class c join pg_attribute a on a.attrelid = c.oid
      where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
        and c.relname <> 'schema_migrations' and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
        and not (a.atttypid = 'xid8'::regtype and a.atthasdef)
      group by c.oid, c.relname order by c.relname`,
  );
  const references = await queryRows<{ referrer: number; referred: number }>(
    db,
    "select conrelid::int as referrer, confrelid::int as referred from pg_constraint where contype = 'f' and conrelid <> confrelid",
  );
  const ordered: (BackedUpTable & { oid: number })[] = [];
  for (let left = tables; left.length > 0; ) {
    const free = left.filter(
      ({ oid }) =>
        !references.some(({ referrer, referred }) => referrer === oid && left.some((other) => other.oid === referred)),
    );
    if (free.length === 0) throw new Error(`tables refer to each other in a circle: ${left.map(({ name }) => name)}`);
    ordered.push(...free);
    left = left.filter((table) => !free.includes(table));
  }
  return ordered;
}

async function listEventMonths(db: Db): Promise<string[]> {
  const rows = await queryRows<{ month: string }>(
    db,
    `select replace(substr(relname, 8), '_', '-') || '-01' as month
       from pg_inherits join pg_class on pg_class.oid = inhrelid where inhparent = 'events'::regclass order by 1`,
  );
  return rows.map(({ month }) => month);
}

async function sequenceStatements(db: Db): Promise<string[]> {
  const rows = await queryRows<{ name: string; value: string }>(
    db,
    `select quote_ident(sequencename) as name, last_value::text as value from pg_sequences
      where schemaname = current_schema() and last_value is not null order by 1`,
  );
  return rows.map(({ name, value }) => `SELECT pg_catalog.setval('${name}', ${value}, true)`);
}

function parseHead(line: string | undefined): BackupHead | undefined {
  return line?.startsWith(HEAD) ? JSON.parse(line.slice(HEAD.length)) : undefined;
}

function markOf(secret: string): Buffer {
  return createHmac("sha256", deriveKey(secret, "backup")).update("Palomar backup").digest().subarray(0, 8);
}

function hasMark(secret: string, mark: string): boolean {
  const own = markOf(secret);
  const octets = Buffer.from(mark, "hex");
  return octets.length === own.length && timingSafeEqual(octets, own);
}

/** @throws when the stream has ended under it, such as by a disk that is full: it never drains then */
async function writeOut(out: Writable, chunk: string | Uint8Array): Promise<void> {
  if (out.destroyed) throw endOf(out);
  if (out.write(chunk)) return;
  await new Promise<void>((resolve) => {
    const settle = () => {
      out.off("drain", settle).off("close", settle);
      resolve();
    };
    out.on("drain", settle).on("close", settle);
  });
  if (out.destroyed) throw endOf(out);
}

function endOf({ errored }: Writable): Error {
  return errored ?? new Error("the backup ended early");
}
