import { copyFileSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, inject, test } from "vitest";
import { packageFolder } from "../../services/platform/package-folder.ts";
import { isBehind, migrate } from "../../services/platform/postgres/migrations.ts";
import { createEmptyDatabase } from "../support/database.ts";
import { joinWorkers, spreadTables } from "../support/named-server.ts";

const workers = inject("citusWorkers");
const why = workers.length > 0 ? "" : " (needs PALOMAR_TEST_DATABASE_URL to name a coordinator of Citus)";
/** The last before those that a deployment got whose tables are spread. */
const SPREAD_AT = "0387";

describe.skipIf(workers.length === 0)(`a Citus whose tables are spread${why}`, () => {
  test("takes every later migration, and keeps what is told of who is there", async () => {
    const ours = join(packageFolder, "migrations");
    const early = mkdtempSync(join(tmpdir(), "palomar-early-"));
    for (const file of readdirSync(ours))
      if (file.slice(0, 4) <= SPREAD_AT) copyFileSync(join(ours, file), join(early, file));
    const database = await createEmptyDatabase();
    const { db, url } = database;
    try {
      await joinWorkers({ url, workers }, new URL(url).pathname.slice(1));
      await migrate(db, early);
      await spreadTables(db);
      await db("instances").insert({ name: "there", host: "mail.test", key_hash: "k" });
      for (const scope of ["there", "gone"]) {
        await db("console_audit").insert({
          ...{
            at: new Date(),
            actor: "ana",
            address: "192.0.2.1",
            action: scope,
            object: scope,
            scope_role: "instance",
            scope,
          },
        });
      }
      await migrate(db);
      expect(await isBehind(db)).toBe(false);
      expect(await db("console_audit").orderBy("action").select("action", "scope_role", "scope")).toEqual([
        { action: "gone", scope_role: "operator", scope: null },
        { action: "there", scope_role: "instance", scope: "there" },
      ]);
    } finally {
      await database.drop();
      rmSync(early, { recursive: true });
    }
  });
});
