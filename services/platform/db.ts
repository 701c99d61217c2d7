import knexFactory, { type Knex } from "knex";
import pg from "pg";

/** A handle to PostgreSQL: the pool, or a transaction on it. Every function of `store/` takes one. */
export type Db = Knex;
export type Transaction = Knex.Transaction;

// bigint columns count rows, never beyond 2^53, so they travel as numbers; xid8 stays text.
pg.types.setTypeParser(pg.types.builtins.INT8, Number);

/** Opens a pool. Connections are made on first use, so this never fails by itself. */
export function openDb(url: string, options: { readonly connections: number; readonly name: string }): Db {
  return knexFactory({
    client: "pg",
    connection: { connectionString: url, application_name: `palomar ${options.name}`, keepAlive: true },
    pool: { min: 0, max: options.connections },
    acquireConnectionTimeout: 15_000,
    // What it would print is no more than what its promises say, and they say it to the caller.
    log: { warn: silent, error: silent, deprecate: silent, debug: silent },
  });
}

/** What a placeholder may stand for, beside what a caller knows better. */
export type Binding = string | number | boolean | null | Uint8Array | readonly (string | number | Uint8Array)[];

/**
 * Runs one statement and gives its rows. `?` stands for a value, `??` for an identifier; an array is one value
 * (`= any(?)`, `unnest(?::text[])`) and may hold nulls, which knex's own types do not foresee.
 * @param options.name prepares it under this name, for statements that are run all the time
 * @param options.rowMode `array` gives rows as tuples, for results with many of them
 */
export async function queryRows<Row>(
  db: Db,
  sql: string,
  values: readonly unknown[] = [],
  options: { readonly name?: string; readonly rowMode?: "array" } = {},
): Promise<Row[]> {
  return (await db.raw(sql, values as Knex.RawBinding[]).options(options)).rows;
}

function silent(): void {}

/** A connection outside the pool, for LISTEN: an end of it is the caller's to notice and mend. */
export async function openListenConnection(url: string, name: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, application_name: `palomar ${name} listen`, keepAlive: true });
  // Without a listener here a lost server would end the process; the caller adds its own beside it.
  client.on("error", () => {});
  await client.connect();
  return client;
}

/** SQLSTATE class 23505: a unique constraint said no. */
export function isUniqueViolation(error: unknown, constraint?: string): boolean {
  const { code, constraint: violated } = (error ?? {}) as { code?: string; constraint?: string };
  return code === "23505" && (constraint === undefined || violated === constraint);
}

/** Errors after which the same transaction may be tried again: serialisation failure, deadlock. */
export function isTransient(error: unknown): boolean {
  const { code } = (error ?? {}) as { code?: string };
  return code === "40001" || code === "40P01";
}
