import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, inject, test } from "vitest";
import { registerBackupCommand } from "../../services/cli/commands/backup.ts";
import { KeyRing } from "../../services/core/key-ring.ts";
import { loadConfig } from "../../services/platform/config/config.ts";
import { queryRows } from "../../services/platform/postgres/db.ts";
import { migrate } from "../../services/platform/postgres/migrations.ts";
import { ensureAttemptWeeks } from "../../services/store/mail/attempts/attempt-weeks.ts";
import { ensureEventMonths } from "../../services/store/mail/events/event-partitions.ts";
import { backUp, restoreFrom } from "../support/backups.ts";
import { runCommand } from "../support/command.ts";
import { createEmptyDatabase, createTestDatabase, type TestDatabase } from "../support/database.ts";
import { joinWorkers, spreadTables } from "../support/named-server.ts";

/** Backups where Citus is. Needs PALOMAR_TEST_DATABASE_URL to name a coordinator with workers. */
const workers = inject("citusWorkers");
const why = workers.length > 0 ? "" : " (needs PALOMAR_TEST_DATABASE_URL to name a coordinator of Citus)";
const KEY_RING = KeyRing.ofSecret("the deployment's own secret");

describe.skipIf(workers.length === 0)(`a backup on Citus${why}`, () => {
  const databases: TestDatabase[] = [];
  afterEach(async () => {
    for (const database of databases.splice(0)) await database.drop();
  });

  async function make(create: typeof createTestDatabase): Promise<TestDatabase> {
    const database = await create(2);
    databases.push(database);
    return database;
  }

  /** Citus is there, and its script has not run. */
  async function makeUnspread(): Promise<TestDatabase> {
    const database = await make(createEmptyDatabase);
    const name = new URL(database.url).pathname.slice(1);
    await joinWorkers({ url: inject("postgresUrl"), workers }, name);
    return database;
  }

  test("is refused where tables are spread, with what to do, and leaves no file", async () => {
    const { db } = await make(createTestDatabase);
    const file = join(tmpdir(), `${randomBytes(6).toString("hex")}.backup`);
    const config = loadConfig({});
    if (!config.ok) throw new Error(config.error.join("\n"));
    const run = runCommand(registerBackupCommand, { db, keyRing: KEY_RING, config: config.value }, ["backup", file]);
    await expect(run).rejects.toThrow(/citus_create_restore_point on the coordinator .* docs\/scaling\.md/);
    expect([existsSync(file), existsSync(`${file}.new`)]).toEqual([false, false]);
  });

  test("is written and restored before that, months and weeks included, and what was restored is spread then", async () => {
    const [source, target] = [await makeUnspread(), await makeUnspread()];
    await migrate(source.db);
    const [instance] = await queryRows<{ id: number }>(
      source.db,
      "insert into instances (name, host, key_hash) values ('news', 'mail.example.org', $1) returning id",
      [randomBytes(32)],
    );
    const at = new Date("2026-02-01T00:00:00Z");
    await ensureEventMonths(source.db, [at]);
    await ensureAttemptWeeks(source.db, [at]);
    const event = { instance_id: instance!.id, at, kind: 1, detail: {} };
    await source.db("events").insert(event);
    const rows = await restoreFrom(target.db, await backUp(source.db, KEY_RING), KEY_RING);
    expect(rows).toMatchObject({ instances: 1, events: 1 });
    await spreadTables(target.db);
    expect(await target.db("events").where({ instance_id: instance!.id })).toMatchObject([{ at, kind: 1 }]);
    await expect(backUp(target.db, KEY_RING)).rejects.toThrow("spread");
  });
});
