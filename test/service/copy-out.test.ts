import type pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openListenConnection } from "../../services/platform/postgres/db.ts";
import { copyOut } from "../../services/store/copy-out.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

let database: TestDatabase;
let client: pg.Client;

beforeAll(async () => {
  database = await createTestDatabase();
  client = await openListenConnection(database.url, "test");
});

afterAll(async () => {
  await client?.end();
  await database?.drop();
});

test("gives rows of every length in order, nulls among them, however they are cut on their way", async () => {
  const seen: string[] = [];
  const lengths = "array[0, 1, 100, 8190, 65531, 65536, 200000]";
  await copyOut(
    client,
    `select n::bigint, case when n % 3 = 0 then null else repeat(chr(97 + n % 26), (${lengths})[1 + n % 7])::bytea end, n % 2 = 0
       from generate_series(-70, 140) n order by n`,
    (row) => {
      const text = row.lengths[1]! < 0 ? null : Buffer.from(row.bytes(1)).toString("latin1");
      seen.push(`${row.int8(0)} ${text === null ? "null" : `${text.length}${text.slice(-1)}`} ${row.bool(2)}`);
    },
  );
  const wanted = await client.query(
    `select n || ' ' || coalesce(length(t) || right(t, 1), 'null') || ' ' || (n % 2 = 0)::text as line
       from (select n, case when n % 3 = 0 then null else repeat(chr(97 + n % 26), (${lengths})[1 + n % 7]) end as t
               from generate_series(-70, 140) n) rows order by n`,
  );
  expect(seen).toEqual(wanted.rows.map(({ line }) => line));
});

test("leaves the connection as it was: after rows, after none, after each other, and with other queries behind", async () => {
  const numbers: number[] = [];
  const copies = [3, 0, 5].map((count) =>
    copyOut(client, `select n::bigint from generate_series(1, ${count}) n`, (row) => numbers.push(row.int8(0))),
  );
  const behind = client.query("select 7 as seven");
  await Promise.all(copies);
  expect(numbers).toEqual([1, 2, 3, 1, 2, 3, 4, 5]);
  expect((await behind).rows).toEqual([{ seven: 7 }]);
});

test("says what the database says when it fails midway, and what the taker of a row throws", async () => {
  let rows = 0;
  const failing = copyOut(client, "select 1000 / (5000 - n) from generate_series(1, 9000) n", () => {
    rows += 1;
  });
  await expect(failing).rejects.toThrow(/division by zero/);
  expect(rows).toBeGreaterThan(0);
  const throwing = copyOut(client, "select n from generate_series(1, 100000) n", () => {
    throw new Error("enough");
  });
  await expect(throwing).rejects.toThrow("enough");
  expect((await client.query("select 1 as one")).rows).toEqual([{ one: 1 }]);
});

test("rejects when the connection is lost", async () => {
  const other = await openListenConnection(database.url, "test");
  const pid = (await other.query("select pg_backend_pid() as pid")).rows[0].pid;
  let isKilled: Promise<unknown> | undefined;
  const lost = copyOut(
    other,
    "select n, pg_sleep(case when n > 2000 then 0.01 else 0 end) from generate_series(1, 100000) n",
    () => {
      isKilled ??= client.query("select pg_terminate_backend($1::int)", [pid]);
    },
  );
  await expect(lost).rejects.toThrow();
  await isKilled;
  await other.end().catch(() => {});
});

test("hears notices that come before, between and after the rows", async () => {
  const heard: string[] = [];
  const listener = ({ payload }: pg.Notification) => heard.push(payload ?? "");
  client.on("notification", listener);
  await client.query("listen news");
  for (let round = 0; round < 5; round += 1) {
    const told = database.db.raw("select pg_notify('news', ?)", [String(round)]);
    await copyOut(client, "select n from generate_series(1, 20000) n", () => {});
    await told;
  }
  await client.query("select 1");
  client.off("notification", listener);
  expect(heard.toSorted()).toEqual(["0", "1", "2", "3", "4"]);
});
