import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { makeLogger } from "../../services/platform/observability/logger.ts";
import { openDb } from "../../services/platform/postgres/db.ts";
import { openEmbeddedPostgres } from "../../services/platform/postgres/embedded-postgres.ts";
import { migrate } from "../../services/platform/postgres/migrations.ts";
import { withDatabase } from "./database.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** The PostgreSQL of this run; `createTestDatabase` clones its template. */
    postgresUrl: string;
  }
}

/** One real PostgreSQL for the whole run, with a migrated template that every test file clones. */
export default async function setUp(project: TestProject): Promise<() => Promise<void>> {
  const folder = mkdtempSync(join(tmpdir(), "palomar-test-"));
  const postgres = await openEmbeddedPostgres({ dataDir: folder, logger: makeLogger("test", "warn") });
  const server = openDb(postgres.url, { connections: 1, name: "test set-up" });
  await server.raw("create database palomar_template");
  await server.destroy();
  const template = openDb(withDatabase(postgres.url, "palomar_template"), { connections: 1, name: "test set-up" });
  await migrate(template);
  await template.destroy();
  project.provide("postgresUrl", postgres.url);
  return async () => {
    await postgres.release();
    rmSync(folder, { recursive: true, force: true });
  };
}
