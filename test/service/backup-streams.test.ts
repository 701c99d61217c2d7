import { Writable } from "node:stream";
import { afterAll, beforeAll, expect, test } from "vitest";
import { queryRows } from "../../services/platform/db.ts";
import { writeBackup } from "../../services/store/backup.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

const ABOUT = { version: "1", secret: "a secret", now: new Date() };

let database: TestDatabase;

beforeAll(async () => {
  database = await createTestDatabase(1);
  // More than any buffer between holds.
  await queryRows(
    database.db,
    "insert into deployment_facts (name, value) select 'fact ' || n, repeat('x', 1000) from generate_series(1, 20000) n",
  );
});
afterAll(async () => {
  await database.drop();
});

/** Takes so much, and is then gone: with an error as where the disk is full, or without. */
function ending(afterOctets: number, error?: Error): Writable {
  let taken = 0;
  const out: Writable = new Writable({
    highWaterMark: 1_024,
    write: (chunk: Buffer, _encoding, done) => {
      taken += chunk.length;
      if (taken < afterOctets) setImmediate(done);
      else setImmediate(() => out.destroy(error));
    },
  });
  return out.on("error", () => {});
}

test.each([
  ["at its beginning, by an error", 0, new Error("no space left")],
  ["at its beginning", 0, undefined],
  ["amid the rows, by an error", 1_000_000, new Error("no space left")],
  ["amid the rows", 1_000_000, undefined],
])("a backup whose file ends %s fails, and leaves the connection to others", async (_when, octets, error) => {
  await expect(writeBackup(database.db, ending(octets, error), ABOUT)).rejects.toThrow(
    error?.message ?? "the backup ended early",
  );
  expect(await queryRows(database.db, "select 1 as one")).toEqual([{ one: 1 }]);
});

test("a backup into what is gone already fails at once", async () => {
  const gone = ending(0);
  gone.destroy();
  await expect(writeBackup(database.db, gone, ABOUT)).rejects.toThrow("the backup ended early");
});
