import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Command } from "commander";
import { findKeys } from "../../platform/config/secret.ts";
import { type Db, openDb } from "../../platform/postgres/db.ts";
import { migrate } from "../../platform/postgres/migrations.ts";
import { requireSessions } from "../../platform/postgres/suitable-database.ts";
import { roleOf, rolePolicy } from "../../store/database-roles.ts";
import { completeKeyRing } from "../../store/deployment-keys.ts";
import { makeRoles } from "../make-roles.ts";
import type { CommandRuntime } from "../runtime.ts";
import { checkSurroundings } from "../stack.ts";

export function registerMigrateCommand(program: Command, runtime: CommandRuntime): void {
  program
    .command("migrate")
    .option(
      "--roles <folder>",
      "then make a role for each service, of the URLs in <folder>/database_url_<service> (its - as _)",
    )
    .description("bring the database up to date (start does it as well)")
    .action(async ({ roles: folder }: { roles?: string }) => {
      const problems = await checkSurroundings(runtime.config, []);
      if (problems.length > 0) runtime.misused(problems.join("\npalomar: "));
      const passwords = folder === undefined ? undefined : readPasswords(runtime, folder);
      const applied = await withOwner(runtime, async (db) => {
        const applied = await migrate(db);
        // The services' roles may not note the keys that this database goes with.
        await completeKeyRing(db, findKeys(runtime.config));
        if (passwords) await makeRoles(db, passwords);
        return applied;
      });
      runtime.print({ applied }, applied.length > 0 ? `applied ${applied.join(", ")}` : "already up to date");
    });
}

/** Of each role, from the URL that its service connects with. */
function readPasswords(runtime: CommandRuntime, folder: string): Map<string, string> {
  return new Map(
    Object.keys(rolePolicy.services).map((service) => {
      const role = roleOf(service);
      const file = join(folder, `database_url_${service.replaceAll("-", "_")}`);
      if (!existsSync(file)) return runtime.refuse(`${file}: is not there`);
      const url = readUrl(file);
      if (url === undefined) return runtime.refuse(`${file}: cannot be read as a URL`);
      if (url.username !== role || url.password === "") {
        return runtime.refuse(`${file}: has to name the role ${role} and its password`);
      }
      return [role, decodeURIComponent(url.password)] as const;
    }),
  );
}

function readUrl(file: string): URL | undefined {
  try {
    return new URL(readFileSync(file, "utf8").trim());
  } catch {
    return undefined;
  }
}

/** Runs it as the owner of the tables, which is who `DATABASE_URL` names here. */
async function withOwner<T>({ config, withDatabase }: CommandRuntime, act: (db: Db) => Promise<T>): Promise<T> {
  // The embedded database is migrated by opening it.
  if (config.databaseUrl === null) return withDatabase(({ db }) => act(db));
  await requireSessions(config.databaseUrl, config.listenDatabaseUrl);
  // Past a pooler, which would end a statement that takes long.
  const db = openDb(config.listenDatabaseUrl ?? config.databaseUrl, { connections: 1, name: "migrate" });
  try {
    return await act(db);
  } finally {
    await db.destroy();
  }
}
