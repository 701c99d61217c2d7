import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openDb, openListenConnection, queryRows } from "../../services/platform/postgres/db.ts";
import {
  POOLER_UNTOLD,
  requireReadCommitted,
  requireSessions,
} from "../../services/platform/postgres/suitable-database.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { hasPgBouncer, startPgBouncer } from "../support/peers-pgbouncer.ts";

const TIME = "2026-02-03T04:05:06.789Z";
const VALUES = `select timestamptz '${TIME}' as at, date '2026-02-03' as day, '\\d' as pattern,
  current_setting('timezone') as zone, current_setting('default_transaction_isolation') as isolation`;

let database: TestDatabase;

beforeAll(async () => {
  database = await createTestDatabase(2);
  const settings = [
    ...["datestyle = 'German'", "timezone = 'America/Lima'", "standard_conforming_strings = off"],
    ...["default_transaction_isolation = 'serializable'", "intervalstyle = 'iso_8601'", "statement_timeout = '1h'"],
  ];
  for (const setting of settings) {
    await database.db.raw(`alter database ${new URL(database.url).pathname.slice(1)} set ${setting}`);
  }
});

afterAll(() => database.drop());

/** Reads the values over several connections at once, each of them twice. */
async function readBy(url: string, pooled: boolean): Promise<readonly unknown[]> {
  const db = openDb(url, { connections: 4, name: "test", pooled });
  try {
    const asked = Array.from({ length: 12 }, () => queryRows(db, `${VALUES} from pg_sleep(0.01)`));
    return [...new Set((await Promise.all(asked)).flat().map((row) => JSON.stringify(row)))].map((row) =>
      JSON.parse(row),
    );
  } finally {
    await db.destroy();
  }
}

const OURS = { at: TIME, day: expect.any(String), pattern: "\\d", zone: "UTC" };

it("times are read whatever DateStyle a role or a database has", async () => {
  expect(await readBy(database.url, false)).toEqual([{ ...OURS, isolation: "read committed" }]);
  const client = await openListenConnection(database.url, "test");
  try {
    expect((await client.query(VALUES)).rows).toEqual([
      { ...OURS, at: new Date(TIME), day: expect.any(Date), isolation: "read committed" },
    ]);
    expect((await client.query("show statement_timeout")).rows).toEqual([{ statement_timeout: "0" }]);
  } finally {
    await client.end();
  }
});

it("a time that cannot be read is an error and not null, which would say for ever", async () => {
  await database.db.transaction(async (transaction) => {
    await transaction.raw("set local datestyle = 'SQL, DMY'");
    await expect(queryRows(transaction, `select timestamptz '${TIME}' as at`)).rejects.toThrow("DateStyle is not ISO");
    expect(await queryRows(transaction, "select null::timestamptz as at, timestamptz 'infinity' as ever")).toEqual([
      { at: null, ever: Number.POSITIVE_INFINITY },
    ]);
  });
});

it.each(["timestamptz", "timestamp", "date"])("and so in an array of %s", async (type) => {
  const arrays = `select array['2026-02-03', null]::${type}[] as flat, '{{infinity}}'::${type}[] as deep, '{}'::${type}[] as none`;
  await database.db.transaction(async (transaction) => {
    await transaction.raw("set local datestyle = 'ISO'; set local timezone = 'UTC'");
    const [{ flat, deep, none }] = (await queryRows(transaction, arrays)) as [Record<string, unknown[]>];
    expect([flat, deep, none]).toEqual([[expect.any(Date), null], [[Number.POSITIVE_INFINITY]], []]);
    await transaction.raw("set local datestyle = 'SQL, DMY'");
    await expect(queryRows(transaction, arrays)).rejects.toThrow("DateStyle is not ISO");
  });
});

describe.skipIf(!hasPgBouncer)(
  `behind PgBouncer${hasPgBouncer ? "" : " (skipped: pgbouncer is not installed)"}`,
  () => {
    it.for(["session", "transaction"] as const)("times are read in %s mode", async (mode) => {
      const pooler = await startPgBouncer(database.url, { mode });
      try {
        const pooled = mode === "transaction";
        const isolation = pooled ? "serializable" : "read committed";
        expect(await readBy(pooler.url, pooled)).toEqual([{ ...OURS, isolation }]);
        const untold = requireSessions(pooler.url, null);
        await (pooled ? expect(untold).rejects.toThrow(POOLER_UNTOLD) : expect(untold).resolves.toBeUndefined());
      } finally {
        await pooler.stop();
      }
    });

    it.for([
      { servers: 1, isInTurn: false },
      { servers: 2, isInTurn: true },
      { servers: 4, isInTurn: false },
    ])("in transaction mode sessions are missed with %o", async (options) => {
      const pooler = await startPgBouncer(database.url, options);
      try {
        await expect(requireSessions(pooler.url, null)).rejects.toThrow(POOLER_UNTOLD);
        await expect(requireSessions(database.url, pooler.url)).rejects.toThrow("it has to name the database itself");
        await expect(requireSessions(pooler.url, database.url)).resolves.toBeUndefined();
      } finally {
        await pooler.stop();
      }
    });
  },
);

it("an isolation that a pooler's sessions cannot be given is told at start", async () => {
  const db = openDb(database.url, { connections: 1, name: "test" });
  await expect(requireReadCommitted(db)).rejects.toThrow("default_transaction_isolation is serializable");
  await db.destroy();
});
