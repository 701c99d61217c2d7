import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { bigints, integers, jsons, texts, trimNulls } from "../../services/platform/postgres/array-columns.ts";
import { isDatabaseAway, queryRows, rowsTable, StatementValues } from "../../services/platform/postgres/db.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase(2);
});
afterAll(() => database.drop());

describe("queryRows", () => {
  test("puts values in the place of $1 and the others, and leaves jsonb's operators", async () => {
    const rows = await queryRows(database.db, `select $1::text as n, '{"a":1}'::jsonb ? $2 as has`, [7, "a"]);
    expect(rows).toEqual([{ n: "7", has: true }]);
  });

  test("takes an array as one value, nulls in it included", async () => {
    const sql = "select value from unnest($1::text[]) value";
    expect(await queryRows(database.db, sql, [["a", null, "b"]])).toEqual([
      { value: "a" },
      { value: null },
      { value: "b" },
    ]);
  });

  test("gives arrays back as they were, whatever their texts hold", async () => {
    const texts = [
      "",
      "NULL",
      "null",
      'a "word"',
      "back\\slash",
      '\\"',
      "{a,b}",
      " blank ",
      "two\nlines",
      "ñ 漢 🙂",
      null,
    ];
    expect(
      await queryRows(database.db, "select $1::text[] as texts, $2::integer[] as numbers, $3::text[] as none", [
        texts,
        [1, -2, null, "3"],
        [],
      ]),
    ).toEqual([{ texts, numbers: [1, -2, null, 3], none: [] }]);
    const octets = Buffer.from([0, 92, 255]);
    const [row] = await queryRows(
      database.db,
      "select $1::bytea[] as octets, $2::boolean[] as flags, $3::jsonb[] as json",
      [
        [octets, null],
        [true, false],
        ['{"a":"\\"\\\\"}', null],
      ],
    );
    expect(row).toEqual({ octets: [octets, null], flags: [true, false], json: [{ a: '"\\' }, null] });
  });

  test("takes columns in PostgreSQL's own format: what they hold, and nulls", async () => {
    const words = ["", "NULL", '\\"{a,b}"', "two\nlines", "ñ 漢 🙂", "lone \ud83d", null, "x".repeat(70_000)];
    const numbers = [0, -1, 1, 2 ** 31, -(2 ** 31) - 1, Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER, null];
    const smaller = [0, -1, 2 ** 31 - 1, -(2 ** 31)];
    const values = [{ a: '"\\', b: [1, null] }, "ñ", 0, false, null];
    const [row] = await queryRows(
      database.db,
      "select $1::text[] as words, $2::bigint[]::text[] as numbers, $3::integer[] as smaller, $4::jsonb[] as values, $5::text[] as none",
      [texts(words), bigints(numbers), integers(smaller), jsons(values), texts([])],
    );
    expect(row).toEqual({
      words: words.map((word) => word?.replace("lone \ud83d", "lone \ufffd") ?? null),
      numbers: numbers.map((number) => number?.toString() ?? null),
      smaller,
      values,
      none: [],
    });
  });

  test("a column without the nulls at its end is filled with them again", async () => {
    const column = [null, "a", null, null];
    expect(trimNulls(column)).toEqual([null, "a"]);
    const sql = "select value from unnest($1::text[], $2::integer[]) as given (value, n) order by n";
    const rows = await queryRows(database.db, sql, [texts(trimNulls(column)), integers([1, 2, 3, 4])]);
    expect(rows).toEqual(column.map((value) => ({ value })));
    expect(trimNulls([null, null])).toEqual([]);
  });

  test("gives the rows of prepared statements, and tuples where asked", async () => {
    for (const wanted of [1, 2, 3]) {
      const options = { name: "count to", rowMode: "array" } as const;
      const rows = await queryRows(database.db, "select n from generate_series(1, $1::int) n", [wanted], options);
      expect(rows).toEqual(Array.from({ length: wanted }, (_, index) => [index + 1]));
    }
  });

  test.each([
    ["too few values", "select $1", []],
    ["too many values", "select $1::int", [1, 2]],
    ["an undefined value", "select $1", [undefined]],
  ])("throws for %s", async (_, sql, values) => {
    await expect(queryRows(database.db, sql, values)).rejects.toThrow(/value|parameter/);
  });

  test("keeps to its transaction, gives the connection back, and refuses a completed one", async () => {
    const { db } = database;
    await db.raw("create table marks (n int)");
    const transaction = await db.transaction();
    await queryRows(transaction, "insert into marks values ($1)", [1]);
    expect(await queryRows(db, "select n from marks")).toEqual([]);
    await transaction.rollback();
    await expect(queryRows(transaction, "select 1")).rejects.toThrow("completed");
    for (let round = 0; round < 10; round += 1) {
      await expect(queryRows(db, "select 1 / $1::int", [0])).rejects.toMatchObject({ code: "22012" });
    }
    expect(await queryRows(db, "select n from marks")).toEqual([]);
  });
});

describe("rowsTable", () => {
  test.each([1, 2, 8, 9, 100])("is a table of %d rows, in order", async (count) => {
    const rows = Array.from({ length: count }, (_, index) => [index * 10, Buffer.from([index])]);
    const values = new StatementValues();
    const table = rowsTable(["bigint", "bytea"], rows, values);
    const found = await queryRows<{ n: number; octets: Buffer; place: number }>(
      database.db,
      `select * from ${table.sql} as t (n, octets, place) order by place`,
      values.all,
    );
    expect(found.map(({ n, octets }) => [n, octets])).toEqual(rows);
    expect(found.map(({ place }) => place)).toEqual(rows.map((_, index) => index + 1));
  });

  test("is an empty one without rows", async () => {
    const values = new StatementValues();
    const table = rowsTable(["bigint"], [], values);
    expect(await queryRows(database.db, `select * from ${table.sql} as t (n, place)`, values.all)).toEqual([]);
  });
});

test("a connection that is lost within a transaction means that the database is away, for the statements after as well", async () => {
  const { db } = database;
  const errors: unknown[] = [];
  const lost = db.transaction(async (transaction) => {
    for (const statement of ["select pg_terminate_backend(pg_backend_pid())", "select 1", "select 2"]) {
      await queryRows(transaction, statement).catch((error) => errors.push(error));
    }
    throw errors[0];
  });
  await lost.catch((error) => errors.push(error));
  expect(errors.length).toBeGreaterThan(2);
  expect(errors.filter((error) => !isDatabaseAway(error))).toEqual([]);
  expect(await queryRows(db, "select 1 as one")).toEqual([{ one: 1 }]);
});
