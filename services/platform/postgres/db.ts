import knexFactory, { type Knex } from "knex";
import pg from "pg";
import { traceConnection } from "../observability/tracing.ts";
import { waitForLaterAttempts } from "./pool-patience.ts";
import type { PoolSockets } from "./pool-sockets.ts";
import { BESIDE_POOL, BY_INDEX, OWN_SESSION, READ_BACK } from "./session-settings.ts";
import type { StatementsUnderWay } from "./statements-under-way.ts";
import { summarise } from "./traced-statements.ts";

/** A handle to PostgreSQL: the pool, or a transaction on it. Every function of `store/` takes one. */
export type Db = Knex;
export type Transaction = Knex.Transaction;

// bigint columns count rows, never beyond 2^53, so they travel as numbers; xid8 stays text.
pg.types.setTypeParser(pg.types.builtins.INT8, Number);
refuseUnreadableTimes();

type TypeId = Parameters<typeof pg.types.getTypeParser>[0];

/** What knex keeps of a pool, for its transactions too. */
type PoolConfig = Knex.Config & { readonly pooled: boolean };

/** How long a connection may take to be made, where nothing else is said. */
const CONNECT_TIMEOUT_MS = 10_000;

/** So long a start that can do without the database waits for its first word. */
export const SILENT_DATABASE_MS = 1_500;

/** By so much the pool waits longer for a connection, made or free, than the driver does, which says what went wrong. */
const POOL_LAG_MS = 5_000;

/** Keep-alives notice a peer that has gone without a word, where the system's own wait is hours. */
const LIVELINESS = {
  keepAlive: true,
  keepAliveInitialDelayMillis: 10_000,
  connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
} as const;

/**
 * Opens a pool. Connections are made on first use, so this never fails by itself.
 * @param options.pooled whether a pooler in transaction mode stands between, where a prepared statement is another's
 *   the next moment: then none has a name
 * @param options.patienceMs how long who wants a connection waits for one to be free, or to be made: a thread that works
 *   for seconds without a pause hears late what the server says
 * @param options.statements is to know of every statement of the pool
 * @param options.sockets is to know of every connection, so that all can be given up at once
 * @param options.byIndex no plan reads a table whole where an index serves. For who works on a queue: it grows by many
 *   thousand rows between two statistics, and a plan that is kept was made by the older ones. Nothing changes behind a
 *   pooler in transaction mode, where a setting is another's the next moment
 */
export function openDb(
  url: string,
  options: {
    readonly connections: number;
    readonly name: string;
    readonly pooled?: boolean;
    readonly patienceMs?: number;
    readonly statements?: StatementsUnderWay;
    readonly sockets?: PoolSockets;
    readonly byIndex?: boolean;
  },
): Db {
  const connectionTimeoutMillis = options.patienceMs ?? CONNECT_TIMEOUT_MS;
  const liveliness = { ...LIVELINESS, connectionTimeoutMillis };
  const poolTimeoutMs = connectionTimeoutMillis + POOL_LAG_MS;
  const own = options.byIndex ? `${OWN_SESSION}; ${BY_INDEX}` : OWN_SESSION;
  const stream = options.sockets && { stream: options.sockets.make };
  const settings = options.pooled ? READ_BACK : `${READ_BACK}; ${own}`;
  const config: PoolConfig = {
    client: "pg",
    connection: { connectionString: url, application_name: `palomar ${options.name}`, ...liveliness, ...stream },
    pool: {
      min: 0,
      max: options.connections,
      createTimeoutMillis: poolTimeoutMs,
      afterCreate: (connection: pg.Client, done: (error?: Error) => void) => {
        options.statements?.follow(connection);
        connection
          .query(settings)
          .then(() => traceConnection(connection))
          .then(
            () => done(),
            (error) => {
              // knex forgets a connection that it cannot have, and leaves it open.
              connection.end().catch(silent);
              done(error);
            },
          );
      },
    },
    acquireConnectionTimeout: poolTimeoutMs,
    pooled: options.pooled ?? false,
    compileSqlOnError: false,
    // What it would print is no more than what its promises say, and they say it to the caller.
    log: { warn: silent, error: silent, deprecate: silent, debug: silent },
  };
  const db = knexFactory(config);
  db.on("query-error", leaveServersWords);
  waitForLaterAttempts(db, connectionTimeoutMillis);
  return db;
}

/** knex puts a statement before what the server says of it, with a migration's whole text or what a log must not have. */
function leaveServersWords(error: Error & { statement?: string }, { sql }: { readonly sql: string }): void {
  const prefix = `${sql} - `;
  if (error.message.startsWith(prefix)) error.message = error.message.slice(prefix.length);
  error.statement = summarise(sql);
}

/**
 * What the server says of a statement that it refuses, as one line.
 * @param error of `isRefused`
 */
export function wordsOfServer(error: Error): string {
  const { code, detail, hint } = error as pg.DatabaseError;
  const more = [detail, hint].filter((text) => text !== undefined);
  return `${[error.message, ...more].join("; ").replaceAll(/\s*\n\s*/g, " ")} (SQLSTATE ${code})`;
}

/** What a placeholder may stand for, beside what a caller knows better. */
export type Binding = string | number | boolean | null | Uint8Array | readonly (string | number | Uint8Array)[];

/**
 * Runs one statement and gives its rows. `$1` stands for the first value; an array is one value (`= any($1)`,
 * `unnest($1::text[])`) and may hold nulls. It takes its connection from knex's pool or transaction and goes straight to
 * pg from there: of a small request, knex's own way costs more than all else.
 * @param options.name prepares it under this name, for statements that are run all the time
 * @param options.rowMode `array` gives rows as tuples, for results with many of them
 */
export async function queryRows<Row>(
  db: Db,
  sql: string,
  values: readonly unknown[] = [],
  options: { readonly name?: string; readonly rowMode?: "array" } = {},
): Promise<Row[]> {
  // To pg it would be a null, which is seldom what was meant.
  if (values.includes(undefined)) throw new Error("a value is undefined");
  if (isCompleted(db)) throw new Error("the transaction is completed");
  const connection: pg.Client = await db.client.acquireConnection();
  try {
    const statement = { text: sql, values: values.map(toParameter), ...lawfulOptions(db, options) };
    return (await connection.query(statement)).rows as Row[];
  } finally {
    await db.client.releaseConnection(connection);
  }
}

/** Arrays of texts, numbers and nulls as PostgreSQL reads them: to pg, each of their elements costs several times as much. */
function toParameter(value: unknown): unknown {
  if (!Array.isArray(value)) return value;
  const elements: string[] = [];
  for (const element of value) {
    if (element === null) elements.push("NULL");
    else if (typeof element === "number") elements.push(`${element}`);
    else if (typeof element === "string")
      elements.push(`"${ESCAPED.test(element) ? escapeElement(element) : element}"`);
    else return value;
  }
  return `{${elements.join(",")}}`;
}

const ESCAPED = /["\\]/;

function escapeElement(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll('"', '\\"');
}

/** The values of a statement that is put together of pieces: each piece adds its own, and has `$n` for them. */
export class StatementValues {
  readonly all: unknown[];

  constructor(...first: readonly unknown[]) {
    this.all = [...first];
  }

  /** @returns what stands for the value in the statement */
  add(value: unknown): string {
    return `$${this.all.push(value)}`;
  }

  /** @returns what stands for rows of values behind `insert into … values`. A statement has 65,535 values at most. */
  addRows(rows: readonly (readonly unknown[])[]): string {
    return rows.map((row) => `(${row.map((value) => this.add(value)).join(", ")})`).join(", ");
  }
}

/** What stands for itself in a LIKE pattern. */
export function escapeLike(text: string): string {
  return text.replace(/[\\%_]/g, "\\$&");
}

/** So many rows are written out; beyond them the planning that this saves is little beside the work. */
export const MOST_WRITTEN_ROWS = 8;

/**
 * Rows as a table for a statement's `from`: a few are written out as `values`, many come by `unnest`. Of an array
 * PostgreSQL guesses the length until it sees it, so it plans a statement with arrays anew each time; one with `values`
 * it plans once for every connection that prepares it.
 * @param types of the columns, such as `["bigint", "bytea"]`
 * @param values of the statement, to which those of the rows are added
 * @param mostWritten so many rows are written out; 0 beside a table that comes by `unnest`, for which all is planned anew
 * @returns the table's SQL, without a name; its last column numbers the rows from 1
 */
export function rowsTable(
  types: readonly string[],
  rows: readonly (readonly Binding[])[],
  values: StatementValues,
  mostWritten = MOST_WRITTEN_ROWS,
): { readonly sql: string; readonly shape: string } {
  if (rows.length === 0 || rows.length > mostWritten) {
    const arrays = types.map((type, column) => `${values.add(rows.map((row) => row[column]))}::${type}[]`);
    return { sql: `unnest(${arrays.join(", ")}) with ordinality`, shape: "many" };
  }
  const written = rows.map((row, index) => {
    const cells = row.map((cell, column) => `${values.add(cell)}::${types[column]}`);
    return `(${cells.join(", ")}, ${index + 1})`;
  });
  return { sql: `(values ${written.join(", ")})`, shape: String(rows.length) };
}

/** Without the name where a pooler stands between. */
function lawfulOptions<O extends { readonly name?: string }>(db: Db, options: O): Omit<O, "name"> {
  if (options.name === undefined || !(db.client.config as PoolConfig).pooled) return options;
  const { name: _name, ...others } = options;
  return others;
}

function isCompleted(db: Db): boolean {
  return "isCompleted" in db && (db as Transaction).isCompleted();
}

function silent(): void {}

/** The driver reads a time that is not in ISO form as null, which says of many columns that something holds for ever. */
function refuseUnreadableTimes(): void {
  // The driver has no names for arrays: these are the numbers of `pg_type`.
  const [ofTexts, ...ofTimes] = [1009, 1182, 1115, 1185] as number[] as TypeId[];
  const { DATE, TIMESTAMP, TIMESTAMPTZ } = pg.types.builtins;
  const readArray = pg.types.getTypeParser(ofTexts!);
  for (const [index, type] of [DATE, TIMESTAMP, TIMESTAMPTZ].entries()) {
    const read = pg.types.getTypeParser(type);
    const readStrictly = (text: string) => {
      const time = read(text);
      if (time === null) throw new Error(`the database writes a time as ${text}: its DateStyle is not ISO`);
      return time;
    };
    const readEach = (value: unknown): unknown =>
      Array.isArray(value) ? value.map(readEach) : value === null ? null : readStrictly(value as string);
    pg.types.setTypeParser(type, readStrictly);
    pg.types.setTypeParser(ofTimes[index]!, (text: string) => readEach(readArray(text)));
  }
}

/** A connection outside the pool, for LISTEN: an end of it is the caller's to notice and mend. */
export async function openListenConnection(url: string, name: string): Promise<pg.Client> {
  const client = new pg.Client({
    connectionString: url,
    application_name: `palomar ${name} listen`,
    ...LIVELINESS,
  });
  // Without a listener here a lost server would end the process; the caller adds its own beside it.
  client.on("error", () => {});
  await client.connect();
  try {
    await client.query(`${READ_BACK}; ${OWN_SESSION}; ${BESIDE_POOL}`);
  } catch (error) {
    await client.end().catch(silent);
    throw error;
  }
  return client;
}

/** SQLSTATE class 23505: a unique constraint said no. */
export function isUniqueViolation(error: unknown, constraint?: string): boolean {
  const { code, constraint: violated } = (error ?? {}) as { code?: string; constraint?: string };
  return code === "23505" && (constraint === undefined || violated === constraint);
}

/** Errors after which the same transaction may be tried again: serialisation failure, deadlock. */
export function isTransient(error: unknown): boolean {
  return ["40001", "40P01"].includes(codeOf(error));
}

/** Whether PostgreSQL has answered with an error: then the statement has changed nothing. */
export function isRefused(error: unknown): boolean {
  return typeof (error as { code?: unknown }).code === "string" && "severity" in (error as object);
}

/**
 * Whether it is about what was read or is to be stored, now and later, and not about the database: SQLSTATE classes 22 and 23,
 * and what no database said.
 */
export function isAboutData(error: unknown): boolean {
  return /^2[23]/.test(codeOf(error)) || !(isRefused(error ?? {}) || isDatabaseAway(error));
}

/** SQLSTATE 55P03: somebody has locked what is wanted for longer than `lock_timeout`. */
export function isLockedLong(error: unknown): boolean {
  return codeOf(error) === "55P03";
}

/** SQLSTATE 42501: the role may not do this. */
export function isForbidden(error: unknown): boolean {
  return codeOf(error) === "42501";
}

/** SQLSTATE 25006: a standby, or a database that is to be read only. */
export function isReadOnly(error: unknown): boolean {
  return codeOf(error) === "25006";
}

/** SQLSTATE 53100. */
export function isDiskFull(error: unknown): boolean {
  return codeOf(error) === "53100";
}

/** SQLSTATE 53400: a bound such as `temp_file_limit` of the role. */
export function isOutOfBounds(error: unknown): boolean {
  return codeOf(error) === "53400";
}

/** A statement by its name, which the server does not know or knows otherwise: another's session had it. */
export function isAnothersSession(error: unknown): boolean {
  return ["26000", "42P05"].includes(codeOf(error));
}

/** The SQLSTATE of an error, or what the operating system calls it; '' where it has neither. */
function codeOf(error: unknown): string {
  return ((error ?? {}) as { code?: string }).code ?? "";
}

/** Limits of the server's own: of a statement, a transaction between statements or whole, an idle session, a lock. */
const LIMIT_CODES = ["57014", "25P03", "25P04", "57P05", "55P03"];

/** Connection failures. The driver has no such codes: a server says so that cannot reach another one. */
const MACHINE_CODES = ["08000", "08001", "08003", "08006", "08007"];

const AWAY_CODES = [
  ...["ECONNREFUSED", "ECONNRESET", "EPIPE", "ETIMEDOUT", "EHOSTUNREACH", "ENETUNREACH", "ENOTFOUND", "EAI_AGAIN"],
  // Shutting down, crashed, starting up, out of connections, a pooler without a server.
  ...["57P01", "57P02", "57P03", "53300", "08P01"],
  ...MACHINE_CODES,
  // A primary that has just become a standby; one whose disk is full.
  ...["25006", "53100"],
  ...LIMIT_CODES,
];

/** Whether a statement met a limit of the server's own: another one, or one that does less, may be within it. */
export function isOverLimit(error: unknown): boolean {
  return LIMIT_CODES.includes(codeOf(error));
}

/** Whether one of the machines over which Citus spreads instances does not answer: others may. */
export function isOneMachineAway(error: unknown): boolean {
  return MACHINE_CODES.includes(codeOf(error));
}

/** Whether an error says that the database cannot be reached, or has no room or time, rather than that it refuses something. */
export function isDatabaseAway(error: unknown): boolean {
  const { code, name, syscall } = (error ?? {}) as { code?: string; name?: string; syscall?: string };
  // A server that is down has no socket in the file system.
  if (code === "ENOENT" && syscall === "connect") return true;
  return name === "KnexTimeoutError" || AWAY_CODES.includes(code ?? "") || AWAY_TEXT.test(String(error));
}

/** What the driver and the pool say of a connection that is lost, of the statements after it, and of none to be had. */
const AWAY_TEXT =
  /Connection terminated|not queryable|Unable to acquire a connection|timeout (?:exceeded when trying to connect|expired)/;
