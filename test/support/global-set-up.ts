import { randomBytes } from "node:crypto";
import { chmodSync, mkdtempSync, readFileSync, rmSync, statfsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { generateDkimKey, type NewDkimKey } from "../../services/core/mail/dkim.ts";
import { makeLogger } from "../../services/platform/observability/logger.ts";
import { openEmbeddedPostgres } from "../../services/platform/postgres/embedded-postgres.ts";
import { dropDatabase, lookAtServer, makeTemplate, type TestServer } from "./named-server.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** The PostgreSQL of this run; `createTestDatabase` clones its template. */
    postgresUrl: string;
    /** Where that is a coordinator of Citus: its workers, by their URLs. */
    citusWorkers: string[];
    /** Whether its files are in memory. */
    inMemory: boolean;
    /** The database that is cloned for each test file. */
    template: string;
    /** Of DKIM, for the domains of `addTestInstance`: to generate one takes a quarter of a second of processor time. */
    dkimKeys: NewDkimKey[];
  }
}

const IN_MEMORY = "/dev/shm";

/** What all folders of a run come to at the same time, and the programs beside them. */
const MEMORY_OCTETS = 8 * 2 ** 30;

/** As many domains as a test gives an instance. */
const DKIM_KEYS = 4;

/** Files that the command line asks for, and those of them that know of no database. */
const ASKED = /^(?:\.\/)?test\//;
const PURE = /^(?:\.\/)?test\/(?:unit|golden|rules)\b/;

/**
 * One real PostgreSQL for the whole run, with a migrated template that every test file clones. Its folder holds those of
 * all tests as well. Where only files are asked for that know of none, there is none.
 */
export default async function setUp(project: TestProject): Promise<(() => Promise<void>) | undefined> {
  const asked = process.argv.filter((word) => ASKED.test(word));
  if (asked.length > 0 && asked.every((name) => PURE.test(name))) return undefined;
  const folder = mkdtempSync(join(chooseFolder(), "palomar-test-"));
  // Programs of other users have their files below it.
  chmodSync(folder, 0o755);
  // Workers take it over.
  process.env.TMPDIR = folder;
  const dkimKeys = Promise.all(Array.from({ length: DKIM_KEYS }, () => generateDkimKey("rsa")));
  const { server, release } = await findServer(folder);
  // On a server that is not ours other runs may be under way.
  const template = `palomar_template_${randomBytes(6).toString("hex")}`;
  await makeTemplate(server, template);
  project.provide("postgresUrl", server.url);
  project.provide("citusWorkers", [...server.workers]);
  project.provide("inMemory", server.inMemory ?? false);
  project.provide("template", template);
  project.provide("dkimKeys", await dkimKeys);
  return async () => {
    await dropDatabase(server, template);
    await release();
    rmSync(folder, { recursive: true, force: true });
  };
}

/** The server that the environment names, or one that is made for the run. */
async function findServer(folder: string): Promise<{ server: TestServer; release: () => Promise<void> }> {
  const url = process.env.PALOMAR_TEST_DATABASE_URL;
  if (url !== undefined) return { server: await lookAtServer(url), release: async () => {} };
  process.stderr.write(
    "PALOMAR_TEST_DATABASE_URL names no server: the tests run on a PostgreSQL of their own, and not on Citus\n",
  );
  const postgres = await openEmbeddedPostgres({ dataDir: folder, logger: makeLogger("test", "warn") });
  const server = { url: postgres.url, workers: [], inMemory: folder.startsWith(IN_MEMORY) };
  return { server, release: () => postgres.release() };
}

/**
 * A clone of the template is a thousand files: on a disk they cost ten times the processor time that they do in memory.
 * @returns a folder in memory, where there is enough and programs may run from it
 */
function chooseFolder(): string {
  if (process.platform !== "linux" || process.availableMemory() < MEMORY_OCTETS) return tmpdir();
  const mount = /^\S+ \/dev\/shm tmpfs (\S+)/m.exec(readFileSync("/proc/mounts", "utf8"));
  return mount === null || /\bnoexec\b/.test(mount[1]!) || roomIn(IN_MEMORY) < MEMORY_OCTETS ? tmpdir() : IN_MEMORY;
}

function roomIn(folder: string): number {
  const { bavail, bsize } = statfsSync(folder);
  return bavail * bsize;
}
