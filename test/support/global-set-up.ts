import { chmodSync, mkdtempSync, readFileSync, rmSync, statfsSync } from "node:fs";
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

/** What all folders of a run come to at the same time, and the programs beside them. */
const MEMORY_OCTETS = 8 * 2 ** 30;

/**
 * One real PostgreSQL for the whole run, with a migrated template that every test file clones. Its folder holds those of
 * all tests as well.
 */
export default async function setUp(project: TestProject): Promise<() => Promise<void>> {
  const folder = mkdtempSync(join(chooseFolder(), "palomar-test-"));
  // Programs of other users have their files below it.
  chmodSync(folder, 0o755);
  // Workers take it over.
  process.env.TMPDIR = folder;
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

/**
 * A clone of the template is a thousand files: on a disk they cost ten times the processor time that they do in memory.
 * @returns a folder in memory, where there is enough and programs may run from it
 */
function chooseFolder(): string {
  if (process.platform !== "linux" || process.availableMemory() < MEMORY_OCTETS) return tmpdir();
  const mount = /^\S+ \/dev\/shm tmpfs (\S+)/m.exec(readFileSync("/proc/mounts", "utf8"));
  return mount === null || /\bnoexec\b/.test(mount[1]!) || roomIn("/dev/shm") < MEMORY_OCTETS ? tmpdir() : "/dev/shm";
}

function roomIn(folder: string): number {
  const { bavail, bsize } = statfsSync(folder);
  return bavail * bsize;
}
