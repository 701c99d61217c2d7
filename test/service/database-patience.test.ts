import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { TLSSocket } from "node:tls";
import { afterAll, beforeAll, expect, test } from "vitest";
import { findDatabaseProblem } from "../../services/cli/database-answers.ts";
import { DATABASE_READ_ONLY, explainError } from "../../services/cli/explain-error.ts";
import { packageFolder } from "../../services/platform/package-folder.ts";
import { type Db, isDatabaseAway, openDb, queryRows } from "../../services/platform/postgres/db.ts";
import { migrate } from "../../services/platform/postgres/migrations.ts";
import { PoolSockets } from "../../services/platform/postgres/pool-sockets.ts";
import { createTestDatabase, type TestDatabase, withDatabase } from "../support/database.ts";
import { withTableHeld } from "../support/held-table.ts";
import { createCertificate } from "../unit/dns-server/test-certificate.ts";

/** Longer than a connection may take where nothing is said. */
const LATE_MS = 11_000;

let database: TestDatabase;

beforeAll(async () => {
  database = await createTestDatabase();
});

afterAll(() => database.drop());

/** Asks by a way on which the server hears of a new connection late, as from a process that is busy itself. */
async function askLate(patienceMs?: number) {
  const target = new URL(database.url);
  const server = createServer((client) => {
    client.pause();
    setTimeout(() => {
      const upstream = connect(Number(target.port), target.hostname);
      // Either side may end as it likes.
      Promise.all([pipeline(client, upstream), pipeline(upstream, client)]).catch(() => {});
    }, LATE_MS);
    client.on("error", () => {});
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const url = Object.assign(new URL(target), { hostname: "127.0.0.1", port: String(port) }).href;
  const db = openDb(url, { connections: 1, name: "test", ...(patienceMs === undefined ? {} : { patienceMs }) });
  try {
    return await queryRows(db, "select 1 as one");
  } finally {
    await db.destroy();
    server.close();
  }
}

test("a connection that is made late is waited for as long as was said, and else ten seconds", async () => {
  const [patient, hasty, usual] = await Promise.allSettled([askLate(60_000), askLate(200), askLate()]);
  expect(patient).toEqual({ status: "fulfilled", value: [{ one: 1 }] });
  for (const given of [hasty, usual]) {
    expect(given.status).toBe("rejected");
    expect(isDatabaseAway((given as PromiseRejectedResult).reason)).toBe(true);
  }
});

test("who has just come is not refused with an attempt to connect that was begun before, for another", async () => {
  const target = new URL(database.url);
  let connections = 0;
  const server = createServer((client) => {
    client.on("error", () => {});
    connections += 1;
    // The second stays silent.
    if (connections === 2) return;
    const upstream = connect(Number(target.port), target.hostname);
    Promise.all([pipeline(client, upstream), pipeline(upstream, client)]).catch(() => {});
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const url = Object.assign(new URL(target), { hostname: "127.0.0.1", port: String(port) }).href;
  const db = openDb(url, { connections: 2, name: "test", patienceMs: 3_000 });
  const work = (seconds: number) => queryRows(db, "select pg_sleep($1)", [seconds]);
  try {
    // The second is served by the first one's connection, and the attempt that was begun for it goes on.
    await Promise.all([work(0.5), work(0)]);
    await Promise.all([work(4), work(0)]);
    expect(connections).toBe(3);
  } finally {
    await db.destroy();
    server.close();
  }
});

test("what waits at a server that stays silent is given up at once, and so is whatever is asked afterwards", async () => {
  const server = createServer((client) => client.on("error", () => {}));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const sockets = new PoolSockets();
  const db = openDb(`postgres://someone@127.0.0.1:${port}/none`, { connections: 1, name: "test", sockets });
  const ask = () => queryRows(db, "select 1").catch((error: unknown) => error);
  const asked = [ask(), ask()];
  await once(server, "connection");
  const begunMs = performance.now();
  sockets.giveUp();
  const errors = [...(await Promise.all(asked)), await ask()];
  await db.destroy();
  expect(errors.map(isDatabaseAway)).toEqual([true, true, true]);
  expect(performance.now() - begunMs).toBeLessThan(3_000);
  server.close();
});

const nameOf = ({ url }: TestDatabase) => new URL(url).pathname.slice(1);

/** Uses a database over connections that have what was set for it. */
async function withSettings<T>(
  target: TestDatabase,
  settings: readonly string[],
  use: (db: Db) => Promise<T>,
): Promise<T> {
  for (const setting of settings) await target.db.raw(`alter database ${nameOf(target)} set ${setting}`);
  const db = openDb(target.url, { connections: 3, name: "test" });
  try {
    return await use(db);
  } finally {
    await db.destroy();
    await target.db.raw(`alter database ${nameOf(target)} reset all`);
  }
}

const errorOf = (asked: Promise<unknown>) =>
  asked.then(
    () => undefined,
    (error: Error) => error,
  );

test("limits that a server sets itself are told from what it refuses", async () => {
  const errors: (Error | undefined)[] = [];
  await withSettings(database, ["statement_timeout = '100ms'"], async (db) => {
    errors.push(await errorOf(queryRows(db, "select pg_sleep(60)")));
    expect(await explainError(errors[0])).toMatch(/^the database does not serve us now: canceling.*SQLSTATE 57014/);
  });
  await withSettings(database, ["lock_timeout = '50ms'"], (db) =>
    withTableHeld(database.url, "zones", async () => {
      errors.push(await errorOf(queryRows(db, "select from zones")));
    }),
  );
  await withSettings(database, ["idle_in_transaction_session_timeout = '50ms'"], async (db) => {
    const idle = db.transaction(async (transaction) => {
      await new Promise((resolve) => setTimeout(resolve, 3_000));
      await transaction.raw("select 1");
    });
    errors.push(await errorOf(idle));
  });
  expect(errors.map((error) => [error, isDatabaseAway(error)])).toEqual(Array(3).fill([expect.any(Error), true]));
});

test("a database that is read-only is said to be", async () => {
  await withSettings(database, ["default_transaction_read_only = on"], async (db) => {
    expect(await findDatabaseProblem(db)).toBe(DATABASE_READ_ONLY);
    expect(await explainError(await errorOf(db("nodes").delete()))).toBe(DATABASE_READ_ONLY);
  });
  await withSettings(database, [], async (db) => expect(await findDatabaseProblem(db)).toBeUndefined());
});

test("a pool that has no connection in time says so in our words", async () => {
  const db = openDb(database.url, { connections: 1, name: "test", patienceMs: -3_000 });
  try {
    await db.transaction(async () => {
      const error = await errorOf(queryRows(db, "select 1"));
      expect(await explainError(error)).toBe("the database does not answer: no connection was made or free in time");
    });
  } finally {
    await db.destroy();
  }
});

test.each([
  ["N", /^the database speaks no TLS/],
  ["S", /^the database's certificate is not trusted: self-signed certificate.*sslrootcert=<file>/],
])("a server that answers %s to a question for TLS is explained", async (answer, sentence) => {
  const certificate = await createCertificate();
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => {
      socket.write(answer);
      if (answer === "S") new TLSSocket(socket, { isServer: true, ...certificate }).on("error", () => {});
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const db = openDb(`postgres://a@127.0.0.1:${port}/db?sslmode=verify-full`, { connections: 1, name: "test" });
  expect(await explainError(await errorOf(queryRows(db, "select 1")))).toMatch(sentence);
  await db.destroy();
  server.close();
});

test("a server's socket that is not there is a database that is away", async () => {
  const db = openDb("postgres://a@localhost/db?host=/nowhere", { connections: 1, name: "test" });
  const error = await errorOf(queryRows(db, "select 1"));
  expect(isDatabaseAway(error)).toBe(true);
  expect(await explainError(error)).toMatch("the database does not answer: connect ENOENT /nowhere/.s.PGSQL.5432");
  await db.destroy();
});

test("a migration takes its time, and is named with the place where the server refuses it", async () => {
  const folder = mkdtempSync(join(tmpdir(), "palomar-refused-"));
  cpSync(join(packageFolder, "migrations"), folder, { recursive: true });
  writeFileSync(join(folder, "9001-slow.sql"), "select pg_sleep(3);\n");
  writeFileSync(join(folder, "9002-wrong.sql"), "create table one (id int);\n\ncreate table two (id no_type);\n");
  const other = await createTestDatabase(2);
  try {
    await withSettings(other, ["statement_timeout = '2s'"], async (db) => {
      expect(await explainError(await errorOf(migrate(db, folder)))).toBe(
        'migration 9002-wrong.sql is refused: type "no_type" does not exist (SQLSTATE 42704), at line 3 of its step',
      );
      expect(await db("schema_migrations").max({ last: "name" })).toEqual([{ last: "9001-slow.sql" }]);
    });
  } finally {
    await other.drop();
    rmSync(folder, { recursive: true });
  }
});

test("a migration that was mended is taken for what a database has of it from before", async () => {
  const other = await createTestDatabase(1);
  const note = (checksum: string) =>
    other.db("schema_migrations").where({ name: "0394-what-is-told-of-who-is-gone.sql" }).update({ checksum });
  try {
    await note("d5");
    await expect(migrate(other.db)).rejects.toThrow("was changed after it was applied");
    await note("077aa1816bafa062aa65c6d4f892103607ae716672b7edf3fdf9d232610b4715");
    expect(await migrate(other.db)).toEqual([]);
  } finally {
    await other.drop();
  }
});

test.each(["SQL_ASCII", "LATIN1"])("a database in %s is left as it is", async (encoding) => {
  const name = `test_${randomBytes(6).toString("hex")}`;
  await database.db.raw(
    `create database ${name} encoding '${encoding}' locale 'C' locale_provider libc template template0`,
  );
  const db = openDb(withDatabase(database.url, name), { connections: 2, name: "test" });
  try {
    const said = await explainError(await errorOf(migrate(db)));
    expect(said).toMatch(`the database ${name} has the encoding ${encoding}, and not UTF8`);
    expect((await db.raw("select to_regclass('schema_migrations') as name")).rows).toEqual([{ name: null }]);
  } finally {
    await db.destroy();
    await database.db.raw(`drop database ${name}`);
  }
});
