import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { findWrittenStatements, type TypeName, type WrittenStatement } from "../support/written-statements.ts";

/** What the driver makes of PostgreSQL's types; of what is not here, text. */
const NAME_OF_TYPE: Readonly<Record<string, TypeName>> = {
  ...{ bool: "boolean", bytea: "octets", json: "object", jsonb: "object" },
  ...{ int2: "number", int4: "number", int8: "number", float4: "number", float8: "number", oid: "number" },
  ...{ timestamptz: "Date", timestamp: "Date", date: "Date" },
  ...{
    _text: "string[]",
    _varchar: "string[]",
    _uuid: "string[]",
    _name: "string[]",
    _inet: "string[]",
    _cidr: "string[]",
  },
  ...{
    _int2: "number[]",
    _int4: "number[]",
    _int8: "string[]",
    _float8: "number[]",
    _bytea: "array",
    _bool: "array",
    _json: "array",
    _jsonb: "array",
  },
};

/** The share of statements whose whole text stands in the code; the others are tried by what runs them. */
const LEAST_COVERED = 0.85;

const statements = findWrittenStatements();
const covered = statements.filter(({ texts }) => texts.length > 0);
let database: TestDatabase;
let client: pg.Client;
let typeNames: ReadonlyMap<number, string>;

beforeAll(async () => {
  database = await createTestDatabase(1);
  client = new pg.Client({ connectionString: database.url });
  await client.connect();
  const { rows } = await client.query<{ oid: number; name: string }>("select oid, typname as name from pg_type");
  typeNames = new Map(rows.map(({ oid, name }) => [oid, name]));
});

afterAll(async () => {
  await client?.end();
  await database?.drop();
});

it("most statements are written out", () => {
  const others = statements.filter((statement) => !covered.includes(statement)).map(({ at }) => at);
  process.stdout.write(`composed at a call, and tried by what runs them: ${others.join(", ")}\n`);
  expect(covered.length / statements.length).toBeGreaterThan(LEAST_COVERED);
});

describe.each(covered)("$at", (statement) => {
  it.each(statement.texts)("variant %#", async (text) => {
    const fields = await describeStatement(text);
    if (statement.row) expect(differences(statement, text, fields)).toEqual([]);
  });
});

/** Parses and describes a statement without running it. @see PostgreSQL documentation, extended query */
function describeStatement(text: string): Promise<pg.FieldDef[]> {
  return new Promise((resolve, reject) => {
    let fields: pg.FieldDef[] = [];
    const described: pg.Submittable & Record<string, unknown> = {
      submit(connection: pg.Connection) {
        connection.parse({ name: "", text, types: [] }, true);
        connection.describe({ type: "S", name: "" }, true);
        connection.sync();
      },
      handleRowDescription: (message: { fields: pg.FieldDef[] }) => {
        fields = message.fields;
      },
      handleError: reject,
      handleReadyForQuery: () => resolve(fields),
    };
    client.query(described);
  });
}

/** How the columns differ from the type that the rows are given. */
function differences({ row, isTuple }: WrittenStatement, text: string, fields: readonly pg.FieldDef[]): string[] {
  // Of `select *` a type names what is read.
  const takesAll = /(?:select|returning|\.|,)\s*\*/.test(text);
  const found = new Map(fields.map((field, index) => [isTuple ? String(index) : field.name, field]));
  const missing = [...row!.keys()].filter((name) => !found.has(name)).map((name) => `no column ${name}`);
  const others = [...found].flatMap(([name, { dataTypeID }]) => {
    if (!row!.has(name)) return takesAll ? [] : [`column ${name} is not in the type`];
    const told = row!.get(name);
    const type = typeNames.get(dataTypeID) ?? "";
    const actual = NAME_OF_TYPE[type] ?? "string";
    const isJson = actual === "object" && [...(told ?? [])].some((name) => name.endsWith("[]") || name === "array");
    return !told || told.size === 0 || told.has(actual) || isJson
      ? []
      : [`${name} is ${type}, not ${[...told].join(" or ")}`];
  });
  return [...missing, ...others];
}
