import pg from "pg";
import { afterAll, beforeAll, describe, inject, it } from "vitest";
import { prepareEventMonths } from "../../services/store/mail/events/event-partitions.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { findWrittenStatements } from "../support/written-statements.ts";

/**
 * Every statement of store/ that is written out is run by a real Citus, which refuses many that one PostgreSQL runs.
 * Needs PALOMAR_TEST_DATABASE_URL to name a coordinator with workers; what is composed at a call is tried by what runs it.
 */
const hasCitus = inject("citusWorkers").length > 0;
const why = hasCitus ? "" : " (needs PALOMAR_TEST_DATABASE_URL to name a coordinator of Citus)";
/** Backup and roles read the catalogue, and take names of tables. */
const STORES = /^store\/(?!backup|database-roles)/;
const statements = findWrittenStatements().filter(({ at, texts }) => STORES.test(at) && texts.length > 0);

let database: TestDatabase;
let client: pg.Client;

describe.skipIf(!hasCitus)(`Citus${why}`, () => {
  beforeAll(async () => {
    database = await createTestDatabase(1);
    await prepareEventMonths(database.db, new Date(VALUES[TIMESTAMPTZ]!));
    client = new pg.Client({ connectionString: database.url });
    await client.connect();
  });

  afterAll(async () => {
    await client?.end();
    await database?.drop();
  });

  it.each(statements.flatMap(({ at, texts }) => texts.map((text) => ({ at, text }))))("runs $at", async ({ text }) => {
    const types = await describeParameters(text);
    const values = types.map((oid) => client.escapeLiteral(VALUES[oid] ?? "1"));
    await client.query("begin");
    try {
      await client.query(`prepare tried as ${text}`);
      await client.query(`execute tried${values.length > 0 ? ` (${values.join(", ")})` : ""}`);
    } catch (error) {
      if (!isOfValues(error as pg.DatabaseError)) throw error;
    } finally {
      await client.query("rollback");
      await client.query("deallocate all");
    }
  });
});

/** What it is given does not fit what is there, as one machine says, or a worker: that is for the tests of what runs it. */
function isOfValues({ code = "", message }: pg.DatabaseError): boolean {
  return /^(?:22|23)/.test(code) || (code === "XX000" && message.includes("violates foreign key constraint"));
}

const TIMESTAMPTZ = 1184;

/** Something of each type, by its oid in pg_type; of others a number as a text. */
const VALUES: Readonly<Record<number, string>> = {
  16: "t",
  114: "{}",
  1082: "2026-11-01",
  1114: "2026-11-01",
  [TIMESTAMPTZ]: "2026-11-01T00:00:00Z",
  1186: "1 hour",
  2205: "instances",
  2950: "00000000-0000-4000-8000-000000000001",
  3802: "{}",
  869: "192.0.2.1",
  1000: "{t}",
  1001: "{1}",
  1005: "{1}",
  1007: "{1}",
  1009: "{1}",
  1016: "{1}",
  1022: "{1}",
  1041: "{192.0.2.1}",
  1182: "{2026-11-01}",
  1185: "{2026-11-01}",
  199: "{{}}",
  2951: "{00000000-0000-4000-8000-000000000001}",
  3807: '{"{}"}',
};

/** The types of a statement's parameters. @see PostgreSQL documentation, extended query */
function describeParameters(text: string): Promise<number[]> {
  return new Promise((resolve, reject) => {
    let types: number[] = [];
    const described: pg.Submittable & Record<string, unknown> = {
      submit(connection: pg.Connection) {
        connection.once("parameterDescription", (message: { dataTypeIDs: number[] }) => {
          types = message.dataTypeIDs;
        });
        connection.parse({ name: "", text, types: [] }, true);
        connection.describe({ type: "S", name: "" }, true);
        connection.sync();
      },
      handleRowDescription: () => {},
      handleError: reject,
      handleReadyForQuery: () => resolve(types),
    };
    client.query(described);
  });
}
