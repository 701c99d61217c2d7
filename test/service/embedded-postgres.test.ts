import { execFileSync } from "node:child_process";
import { closeSync, existsSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { makeLogger } from "../../services/platform/observability/logger.ts";
import { type EmbeddedPostgres, openEmbeddedPostgres } from "../../services/platform/postgres/embedded-postgres.ts";
import { isProcessAlive } from "../../services/platform/process-lock.ts";
import { runPalomar } from "../support/deployment.ts";
import { eventually } from "../support/stack.ts";

const logger = makeLogger("test", "silent");
const isRoot = process.platform === "linux" && process.getuid?.() === 0;

/** A data folder with a cluster at rest, made once: copying it takes less than initdb does. */
let rested: string;
let parent: string;
let dataDir: string;
let users: EmbeddedPostgres[];

beforeAll(async () => {
  rested = await mkdtemp(join(tmpdir(), "palomar-postgres-"));
  await (await openEmbeddedPostgres({ dataDir: rested, logger })).release();
});

afterAll(() => rm(rested, { recursive: true, force: true }));

beforeEach(async () => {
  // mkdtemp makes a folder that only this user may enter: as root, the server's account is shut out of its parents.
  parent = await mkdtemp(join(tmpdir(), "palomar-postgres-"));
  dataDir = join(parent, "data");
  execFileSync("cp", ["-a", rested, dataDir]);
  users = [];
});

afterEach(async () => {
  await Promise.all(users.map((user) => user.release()));
  await rm(parent, { recursive: true, force: true });
});

/** As on the first start. */
const removeDataDir = () => rm(dataDir, { recursive: true });

async function openUser(): Promise<EmbeddedPostgres> {
  const user = await openEmbeddedPostgres({ dataDir, logger });
  users.push(user);
  return user;
}

async function query(user: EmbeddedPostgres, sql: string): Promise<Record<string, unknown>[]> {
  const client = new Client(user.url);
  client.on("error", () => {});
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

function restarted(user: EmbeddedPostgres): Promise<void> {
  return new Promise((resolve) => user.onRestart(resolve));
}

const fileMode = async (...names: string[]) => ((await stat(join(dataDir, ...names))).mode & 0o777).toString(8);

test("a new data folder gets a private, durable UTF-8 cluster that listens on loopback only", async () => {
  await removeDataDir();
  const user = await openUser();
  const [settings] = await query(
    user,
    `select current_database() as database, current_user as role, pg_encoding_to_char(encoding) as encoding, datcollate as collation,
            current_setting('listen_addresses') as addresses, current_setting('unix_socket_directories') as sockets,
            current_setting('fsync') as fsync, current_setting('synchronous_commit') as commits,
            current_setting('data_checksums') as checksums, current_setting('max_connections')::int as connections
     from pg_database where datname = current_database()`,
  );
  expect(settings).toEqual({
    database: "palomar",
    role: "palomar",
    encoding: "UTF8",
    collation: "C",
    addresses: "127.0.0.1",
    sockets: "",
    fsync: "on",
    commits: "on",
    checksums: "on",
    connections: 200,
  });
  const rules = await query(user, "select distinct auth_method from pg_hba_file_rules");
  expect(rules).toEqual([{ auth_method: "scram-sha-256" }]);
  expect(await fileMode("secrets", "postgres-password")).toBe("600");
  expect(await fileMode("postgres.log")).toBe("600");
  expect(await fileMode("postgres")).toBe("700");
});

test("a wrong password is refused", async () => {
  const user = await openUser();
  const url = new URL(user.url);
  url.password = "wrong";
  await expect(new Client(url.href).connect()).rejects.toMatchObject({ code: "28P01" });
});

test("the extensions that PostgreSQL brings can be loaded", async () => {
  const user = await openUser();
  for (const name of ["pgcrypto", "citext", "pg_trgm", "btree_gist"]) await query(user, `create extension ${name}`);
});

test.skipIf(!isRoot)("run by root, the server is not root's (skipped unless run by root on Linux)", async () => {
  await openUser();
  expect((await stat(`/proc/${await serverPid()}`)).uid).not.toBe(0);
});

test("several users share one server, and the last one to leave stops it", async () => {
  const [first, second] = [await openUser(), await openUser()];
  const pid = await serverPid();
  expect(second.url).toBe(first.url);
  await first.release();
  expect(await query(second, "select 1 as one")).toEqual([{ one: 1 }]);
  await second.release();
  expect(await isProcessAlive(pid)).toBe(false);
  await expect(serverPid()).rejects.toMatchObject({ code: "ENOENT" });
});

test("who is refused the database is no user: the last one to leave still stops the server", async () => {
  const user = await openUser();
  const url = new URL(user.url);
  url.pathname = "template1";
  const template = new Client(url.href);
  await template.connect();
  try {
    // PostgreSQL copies no template that somebody is connected to.
    await template.query("drop database palomar");
    await expect(openEmbeddedPostgres({ dataDir, logger })).rejects.toMatchObject({ code: "55006" });
  } finally {
    await template.end();
  }
  const pid = await serverPid();
  await user.release();
  expect(await isProcessAlive(pid)).toBe(false);
});

test("users that start at once on a new folder share one server; when they leave at once it is stopped", async () => {
  await removeDataDir();
  const opened = await Promise.all(Array.from({ length: 6 }, openUser));
  const pid = await serverPid();
  expect(new Set(opened.map(({ url }) => url)).size).toBe(1);
  await Promise.all(opened.map((user) => user.release()));
  expect(await isProcessAlive(pid)).toBe(false);
});

test("a user that comes while the last one leaves always gets a server that runs", async () => {
  let current = await openUser();
  await query(current, "create table visits (number int)");
  for (let number = 1; number <= 10; number++) {
    const [next] = await Promise.all([openUser(), current.release()]);
    await query(next, `insert into visits values (${number})`);
    current = next;
  }
  expect(await query(current, "select count(*)::int as count from visits")).toEqual([{ count: 10 }]);
});

test("releasing twice is the same as once", async () => {
  const user = await openUser();
  await Promise.all([user.release(), user.release()]);
  await user.release();
});

test("after kill -9 of the server it is back at the same address with every committed row, for all its users", async () => {
  const [first, second] = [await openUser(), await openUser()];
  await query(first, "create table kept as select generate_series(1, 1000) as number");
  const pid = await serverPid();
  const back = Promise.all([restarted(first), restarted(second)]);
  process.kill(pid, "SIGKILL");
  await back;
  expect(await serverPid()).not.toBe(pid);
  expect(await query(second, "select count(*)::int as count from kept")).toEqual([{ count: 1000 }]);
});

test("a backend of the killed server that is busy for long does not keep it from coming back", async () => {
  const user = await openUser();
  const busy = query(user, "select count(*) from generate_series(1, 1e12::bigint)");
  const ended = expect(busy).rejects.toThrow();
  await eventually(
    () => query(user, "select from pg_stat_activity where query like '%1e12%' and state = 'active'"),
    (found) => found.length === 2, // the question finds itself, too
  );
  const back = restarted(user);
  process.kill(await serverPid(), "SIGKILL");
  await back;
  await ended;
  expect(await query(user, "select 1 as one")).toEqual([{ one: 1 }]);
});

test("a postmaster.pid whose process id belongs to another process by now is no obstacle", async () => {
  const file = join(dataDir, "postgres", "postmaster.pid");
  await writeFile(file, `${process.pid}\n${dataDir}\n1700000000\n5432\n\n127.0.0.1\n  1234567         1\nready   \n`);
  const user = await openUser();
  expect(await query(user, "select 1 as one")).toEqual([{ one: 1 }]);
});

test("what a first start left that was killed half-way is cleared away", async () => {
  await removeDataDir();
  await mkdir(join(dataDir, "postgres.incomplete-abc123", "cluster", "base"), { recursive: true });
  expect(await query(await openUser(), "select 1 as one")).toEqual([{ one: 1 }]);
  expect((await readdir(dataDir)).sort()).toEqual(["postgres", "postgres.log", "secrets"]);
});

test("the data of another major version are left alone, and the error says both versions", async () => {
  await writeFile(join(dataDir, "postgres", "PG_VERSION"), "15\n");
  await expect(openUser()).rejects.toMatchObject({
    failure: "other-major-version",
    message: expect.stringMatching(/PostgreSQL 15.*PostgreSQL 18/),
  });
});

test("a lost password is named, and no cluster is touched", async () => {
  await rm(join(dataDir, "secrets", "postgres-password"));
  await expect(openUser()).rejects.toMatchObject({ failure: "password-missing" });
});

test("data that are taken away from a running stack are not replaced by an empty database", async () => {
  const user = await openUser();
  await rename(dataDir, `${dataDir}-elsewhere`);
  process.kill(
    Number((await readFile(join(`${dataDir}-elsewhere`, "postgres", "postmaster.pid"), "utf8")).split("\n")[0]),
    "SIGKILL",
  );
  // Whoever tries to bring it back leaves the folder of its lock.
  await eventually(
    async () => existsSync(dataDir),
    (tried) => tried,
  );
  await new Promise((resolve) => setTimeout(resolve, 300));
  await expect(stat(join(dataDir, "postgres"))).rejects.toMatchObject({ code: "ENOENT" });

  const back = restarted(user);
  const putBack = async () => {
    await rm(dataDir, { recursive: true, force: true });
    await rename(`${dataDir}-elsewhere`, dataDir);
  };
  // Between two steps of it there may be one more attempt.
  await eventually(
    () => putBack().then(() => true, String),
    (done) => done === true,
  );
  await back;
  expect(await query(user, "select 1 as one")).toEqual([{ one: 1 }]);
});

test("a data folder that cannot be made is named", async () => {
  await removeDataDir();
  await writeFile(dataDir, "a file");
  await expect(openUser()).rejects.toMatchObject({
    failure: "data-folder-unusable",
    message: expect.stringContaining(dataDir),
  });
});

test("what PostgreSQL says when it does not start is in the error", async () => {
  await writeFile(join(dataDir, "postgres", "postgresql.conf"), "no_such_setting = 1\n");
  await expect(openUser()).rejects.toMatchObject({
    failure: "start-failed",
    message: expect.stringContaining('unrecognized configuration parameter "no_such_setting"'),
  });
});

test("a command says when it made a new database, and where; asking for the status makes none", async () => {
  await removeDataDir();
  const env = { PALOMAR_DATA_DIR: dataDir };
  const asked = await runPalomar(["status", "--json"], env);
  expect({ status: asked.status, stderr: asked.stderr }).toEqual({ status: 1, stderr: "" });
  const problem = `there is no database in the data folder ${dataDir} (PALOMAR_DATA_DIR)`;
  expect(JSON.parse(asked.stdout).problems).toContain(problem);
  expect(existsSync(dataDir)).toBe(false);

  const list = () => runPalomar(["user", "list", "--json"], env);
  const stderr = `palomar: a new, empty database was made in ${dataDir} (PALOMAR_DATA_DIR)\n`;
  expect(await list()).toEqual({ status: 0, stdout: "[]\n", stderr });
  expect(await list()).toEqual({ status: 0, stdout: "[]\n", stderr: "" });
});

test.skipIf(!canMount())("a full disk is called that (skipped where no tmpfs may be mounted)", async () => {
  await removeDataDir();
  await mkdir(dataDir);
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=20m", "tmpfs", dataDir]);
  try {
    await expect(openUser()).rejects.toMatchObject({ failure: "disk-full", message: expect.stringContaining(dataDir) });
  } finally {
    execFileSync("umount", [dataDir]);
  }
});

test.skipIf(!canMount())(
  "a server that runs is joined on a full disk (skipped where no tmpfs may be mounted)",
  async () => {
    const folder = join(parent, "small");
    await mkdir(folder);
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=300m", "tmpfs", folder]);
    try {
      execFileSync("cp", ["-a", `${dataDir}/.`, folder]);
      await removeDataDir();
      dataDir = folder;
      const first = await openUser();
      // PostgreSQL keeps what a first connection reads of a database's catalogue.
      await query(first, "select 1 as one");
      fillDisk(folder);
      const second = await openUser();
      expect(await query(second, "select 1 as one")).toEqual([{ one: 1 }]);
      expect(second.url).toBe(first.url);
    } finally {
      await rm(join(folder, "filling"), { force: true });
      await Promise.all(users.map((user) => user.release()));
      execFileSync("umount", [folder]);
    }
  },
);

/** Leaves not one octet to anybody. */
function fillDisk(folder: string): void {
  const file = openSync(join(folder, "filling"), "w");
  try {
    for (const size of [1 << 20, 1 << 12, 1]) {
      try {
        for (;;) writeSync(file, Buffer.alloc(size));
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
      }
    }
  } finally {
    closeSync(file);
  }
}

function canMount(): boolean {
  const folder = mkdtempSync(join(tmpdir(), "palomar-mount-"));
  try {
    execFileSync("mount", ["-t", "tmpfs", "tmpfs", folder], { stdio: "ignore" });
    execFileSync("umount", [folder]);
    return true;
  } catch {
    return false;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
