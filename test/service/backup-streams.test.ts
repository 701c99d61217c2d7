import { createReadStream, createWriteStream, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
import { afterAll, beforeAll, expect, test } from "vitest";
import { KeyRing } from "../../services/core/key-ring.ts";
import { queryRows } from "../../services/platform/postgres/db.ts";
import { restoreBackup, writeBackup } from "../../services/store/backup.ts";
import { openBackup } from "../../services/store/backup-content.ts";
import { createEmptyDatabase, createLocalDatabase, type TestDatabase } from "../support/database.ts";
import { mostHeldDuring } from "../support/settled-memory.ts";

const ABOUT = { version: "1", keyRing: KeyRing.ofSecret("a secret"), now: new Date() };

let database: TestDatabase;

beforeAll(async () => {
  database = await createLocalDatabase(1);
  // More than any buffer between holds, compressed as well.
  await queryRows(
    database.db,
    `insert into deployment_facts (name, value)
      select 'fact ' || n, (select string_agg(md5((n * 32 + part)::text), '') from generate_series(1, 32) part)
        from generate_series(1, 20000) n`,
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

test("no backup is written while a migration is half done", async () => {
  const { db } = database;
  await db("deployment_facts").insert({ name: "steps of 0001-something", value: "1" });
  await expect(writeBackup(db, ending(1), ABOUT)).rejects.toMatchObject({ refusal: { kind: "migrating" } });
  await db("deployment_facts").where({ name: "steps of 0001-something" }).delete();
});

test("a backup holds little of a table in memory at a time, and so does a restore", async () => {
  await queryRows(
    database.db,
    "insert into deployment_facts select 'more ' || n, repeat(md5(n::text), 32) from generate_series(1, 80000) n",
  );
  const folder = mkdtempSync(join(tmpdir(), "palomar-backup-"));
  const file = join(folder, "backup");
  const empty = await createEmptyDatabase(1);
  try {
    const written = await mostHeldDuring(() => writeBackup(database.db, createWriteStream(file), ABOUT));
    const read = await mostHeldDuring(async () => {
      const content = await openBackup(createReadStream(file), ABOUT.keyRing);
      expect(await restoreBackup(empty.db, content)).toMatchObject({ deployment_facts: 100_001 });
    });
    // Of 100 MB of rows.
    expect({ written, read }).toEqual({ written: expect.toSatisfy(isLittle), read: expect.toSatisfy(isLittle) });
  } finally {
    await empty.drop();
    rmSync(folder, { recursive: true });
  }
});

const isLittle = (octets: number) => octets < 40 * 1024 * 1024;

test("a backup into what is gone already fails at once", async () => {
  const gone = ending(0);
  gone.destroy();
  await expect(writeBackup(database.db, gone, ABOUT)).rejects.toThrow("the backup ended early");
});
