import { MissingKey } from "../core/key-ring.ts";
import { EmbeddedPostgresError } from "../platform/postgres/embedded-postgres-error.ts";
import { UnsuitableDatabase } from "../platform/postgres/unsuitable-database.ts";
import { CommandRefused } from "./command-errors.ts";

/** What is said of a database that is away, or says nothing. */
export const DATABASE_SILENT = "the database does not answer";

/** Of one that answers and does not serve: it starts, has no connection left, or a limit of its own was reached. */
const DATABASE_BUSY = "the database does not serve us now";

/** What is said of a database that answers and takes nothing. */
export const DATABASE_READ_ONLY = "the database is read-only (a standby?)";

/** What is said of one that answers and has no room for what is written. */
export const DATABASE_FULL = "the disk of the database is full";

/** Errors whose message was written for the operator. */
const OPERATORS = [CommandRefused, EmbeddedPostgresError, MissingKey, UnsuitableDatabase];

/** SQLSTATEs by which a server turns somebody away: wrong password, no entry for the host, no such database. */
const TURNED_AWAY = ["28P01", "28000", "3D000"];

/** Codes of Node's and OpenSSL's where a server's certificate, or its name, is not what it should be. */
const UNTRUSTED = /^(?:CERT_|ERR_TLS_CERT|UNABLE_TO_(?:GET|VERIFY)|SELF_SIGNED_|DEPTH_ZERO_)/;
/** The driver's word for a server that answers no to a question for TLS; it has no code. */
const NO_TLS = /does not support SSL/;

/** An error as a sentence, where the operator can do something about it; undefined where it is a bug. */
export async function explainError(error: unknown): Promise<string | undefined> {
  if (!(error instanceof Error)) return undefined;
  if (OPERATORS.some((kind) => error instanceof kind)) return error.message;
  // The driver takes long to load, and commands that need no database do without.
  const { isAnothersSession, isDatabaseAway, isForbidden, isReadOnly, isRefused, wordsOfServer } = await import(
    "../platform/postgres/db.ts"
  );
  if (isReadOnly(error)) return DATABASE_READ_ONLY;
  if (isAnothersSession(error)) return (await import("../platform/postgres/suitable-database.ts")).POOLER_UNTOLD;
  const words = isRefused(error) ? wordsOfServer(error) : textOf(error);
  if (isDatabaseAway(error)) return `${isRefused(error) ? DATABASE_BUSY : DATABASE_SILENT}: ${words}`;
  const { code } = error as { code?: string };
  if (UNTRUSTED.test(code ?? "")) {
    return `the database's certificate is not trusted: ${words}. sslrootcert=<file> in DATABASE_URL names its authority`;
  }
  if (NO_TLS.test(error.message)) return "the database speaks no TLS, and sslmode in DATABASE_URL asks for it";
  return TURNED_AWAY.includes(code ?? "") || isForbidden(error) ? `the database turns us away: ${words}` : undefined;
}

/** Of several addresses that were tried, each has an error of its own, and the whole has no text. */
function textOf(error: Error): string {
  // The pool's own words are about its settings, which nobody here can change.
  if (error.name === "KnexTimeoutError") return "no connection was made or free in time";
  return error instanceof AggregateError ? error.errors.map(({ message }) => message).join("; ") : error.message;
}
