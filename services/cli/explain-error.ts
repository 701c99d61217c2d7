import { MissingKey } from "../core/key-ring.ts";
import { EmbeddedPostgresError } from "../platform/postgres/embedded-postgres-error.ts";
import { UnsuitableDatabase } from "../platform/postgres/unsuitable-database.ts";
import { CommandRefused } from "./command-errors.ts";

/** What is said of a database that is away, or says nothing. */
export const DATABASE_SILENT = "the database does not answer";

/** Errors whose message was written for the operator. */
const OPERATORS = [CommandRefused, EmbeddedPostgresError, MissingKey, UnsuitableDatabase];

/** SQLSTATEs by which a server turns somebody away: wrong password, no entry for the host, no such database. */
const TURNED_AWAY = ["28P01", "28000", "3D000"];

/** An error as a sentence, where the operator can do something about it; undefined where it is a bug. */
export async function explainError(error: unknown): Promise<string | undefined> {
  if (!(error instanceof Error)) return undefined;
  if (OPERATORS.some((kind) => error instanceof kind)) return error.message;
  // The driver takes long to load, and commands that need no database do without.
  const { isDatabaseAway, isForbidden, isRefused, wordsOfServer } = await import("../platform/postgres/db.ts");
  const words = isRefused(error) ? wordsOfServer(error) : textOf(error);
  if (isDatabaseAway(error)) return `${DATABASE_SILENT}: ${words}`;
  const { code } = error as { code?: string };
  return TURNED_AWAY.includes(code ?? "") || isForbidden(error) ? `the database turns us away: ${words}` : undefined;
}

/** Of several addresses that were tried, each has an error of its own, and the whole has no text. */
function textOf(error: Error): string {
  return error instanceof AggregateError ? error.errors.map(({ message }) => message).join("; ") : error.message;
}
