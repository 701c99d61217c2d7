import type { Command } from "commander";
import { openDb } from "../../platform/db.ts";
import { migrate } from "../../platform/migrations.ts";
import type { CommandRuntime } from "../runtime.ts";

export function registerMigrateCommand(program: Command, runtime: CommandRuntime): void {
  program
    .command("migrate")
    .description("bring the database up to date (start does it as well)")
    .action(async () => {
      const applied = await bringUpToDate(runtime);
      runtime.print({ applied }, applied.length > 0 ? `applied ${applied.join(", ")}` : "already up to date");
    });
}

async function bringUpToDate({ config, withDatabase }: CommandRuntime): Promise<string[]> {
  // The embedded database is migrated by opening it.
  if (config.databaseUrl === null) return withDatabase(async ({ db }) => migrate(db));
  const db = openDb(config.databaseUrl, { connections: 1, name: "migrate" });
  try {
    return await migrate(db);
  } finally {
    await db.destroy();
  }
}
