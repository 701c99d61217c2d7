import { setTimeout as sleep } from "node:timers/promises";
import type pg from "pg";
import { type Db, openDb } from "./db.ts";
import { UnsuitableDatabase } from "./unsuitable-database.ts";

/** What is said where a pooler in transaction mode stands between without our being told. */
export const POOLER_UNTOLD =
  "DATABASE_URL leads to a pooler in transaction mode: set PALOMAR_LISTEN_DATABASE_URL to the database itself";

/** So long one of two sessions is given to answer while the other has a transaction. */
const PATIENCE_MS = 2_000;

/**
 * Looks whether the way past a pooler is one: notices and locks need sessions.
 * @throws UnsuitableDatabase
 */
export async function requireSessions(databaseUrl: string, listenDatabaseUrl: string | null): Promise<void> {
  if (await keepsSessions(listenDatabaseUrl ?? databaseUrl)) return;
  throw new UnsuitableDatabase(
    listenDatabaseUrl === null
      ? POOLER_UNTOLD
      : "PALOMAR_LISTEN_DATABASE_URL leads to a pooler in transaction mode: it has to name the database itself",
  );
}

/**
 * Whether a connection has a process of the server for itself. Where a pooler shares them, whoever begins a transaction
 * takes the process that was free last, or the next one in turn: then another answers, or none.
 */
async function keepsSessions(url: string): Promise<boolean> {
  const db = openDb(url, { connections: 2, name: "sessions", pooled: true });
  try {
    const connection: pg.Client = await db.client.acquireConnection();
    try {
      const ask = async () => (await connection.query("select pg_backend_pid() as pid")).rows[0].pid as number;
      const pids = [await ask(), await ask()];
      let waiting: Promise<number> | undefined;
      await db.transaction(async (other) => {
        await other.raw("select 1");
        waiting = ask();
        await Promise.race([waiting, sleep(PATIENCE_MS, undefined, { ref: false }).then(() => pids.push(0))]);
      });
      pids.push((await waiting)!);
      return pids.every((pid) => pid === pids[0]);
    } finally {
      await db.client.releaseConnection(connection);
    }
  } finally {
    await db.destroy();
  }
}

/** @throws UnsuitableDatabase where a text that people write might not be kept, or be kept as something else */
export async function requireUtf8(db: Db): Promise<void> {
  const { rows } = await db.raw(
    "select pg_encoding_to_char(encoding) as encoding, datname as name from pg_database where datname = current_database()",
  );
  const [{ encoding, name }] = rows;
  if (encoding === "UTF8") return;
  throw new UnsuitableDatabase(
    `the database ${name} has the encoding ${encoding}, and not UTF8: make one with ` +
      "create database <name> encoding 'UTF8' template template0",
  );
}

/**
 * A transaction that PostgreSQL gives up as two were not one after the other is an error to those who expect
 * `read committed`, which sessions behind a pooler in transaction mode cannot be given.
 * @param db past the pooler
 * @throws UnsuitableDatabase
 */
export async function requireReadCommitted(db: Db): Promise<void> {
  const { rows } = await db.raw(
    "select reset_val as level from pg_settings where name = 'default_transaction_isolation'",
  );
  if (rows[0].level === "read committed") return;
  throw new UnsuitableDatabase(
    `default_transaction_isolation is ${rows[0].level}: behind a pooler in transaction mode it has to be read committed, ` +
      "for the role or the database (alter role <name> set default_transaction_isolation = 'read committed')",
  );
}
