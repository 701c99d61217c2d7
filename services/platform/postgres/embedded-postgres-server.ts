import { execFile, spawn } from "node:child_process";
import { type FileHandle, open, readdir, readFile, realpath, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { freePort } from "../bind.ts";
import { isProcessAlive, processStartTime } from "../process-lock.ts";
import { type Cluster, inFolder } from "./embedded-postgres-cluster.ts";
import { EmbeddedPostgresError, errorCode, explainProgramOutput } from "./embedded-postgres-error.ts";

/** A running server of a cluster. */
export type PostgresServer = { readonly pid: number; readonly port: number };

/**
 * Settings of the server, given on its command line so that a new version of Palomar changes them for old clusters.
 * Those that PostgreSQL has by default stand here because everything acknowledged depends on them.
 */
const SETTINGS: Readonly<Record<string, string>> = {
  listen_addresses: "127.0.0.1",
  unix_socket_directories: "",
  fsync: "on",
  synchronous_commit: "on",
  full_page_writes: "on",
  max_connections: "200",
  shared_buffers: "256MB",
  max_wal_size: "2GB",
  // Short statements by the thousand: compiling one costs more than running it.
  jit: "off",
  timezone: "UTC",
  log_timezone: "UTC",
  // "log" leaves out the errors of single statements: their text and details carry people's addresses.
  log_min_messages: "log",
  log_checkpoints: "off",
};

/** A server in crash recovery replays up to max_wal_size. */
const RECOVERY_DEADLINE_MS = 600_000;
/** What stands in the way of a start passes: another server stops, backends of a killed one end. */
const OBSTACLE_DEADLINE_MS = 60_000;
/** Backends of a killed server end by themselves as soon as they look up; one in a long query does not. */
const LINGERING_GRACE_MS = 3_000;
const STOP_DEADLINE_MS = 60_000;
const POLL_MS = 10;
const OBSTACLE_POLL_MS = 100;
const LOG_LIMIT_OCTETS = 8 * 1024 * 1024;

/**
 * Finds the cluster's running server, or starts one, and waits until it takes connections.
 * The caller must hold the data folder's start lock.
 * @param port where the server must listen; undefined: where the last one did, else a free port
 */
export async function ensureServer(cluster: Cluster, port?: number): Promise<PostgresServer> {
  const startedAt = Date.now();
  for (;;) {
    const found = await readPidFile(cluster);
    if (found !== undefined && (await isServerProcess(found.pid, cluster))) {
      const server = await untilReady(found.pid, cluster);
      if (server !== undefined) return server;
      continue; // it stopped meanwhile
    }
    // PostgreSQL takes any living process of its account for the server that the file names; the id may be another's.
    if (found !== undefined && (await isProcessAlive(found.pid))) await rm(pidFileOf(cluster), { force: true });

    const outcome = await start(cluster, port ?? found?.port);
    if (outcome.kind === "started") return outcome.server;
    const waitedMs = Date.now() - startedAt;
    if (outcome.kind === "failed" || waitedMs > OBSTACLE_DEADLINE_MS) {
      throw explainProgramOutput("start-failed", "PostgreSQL does not start", outcome.output, dirname(cluster.folder));
    }
    if (outcome.obstacle === "lingering-backends" && waitedMs > LINGERING_GRACE_MS) await endLingeringBackends(cluster);
    await delay(OBSTACLE_POLL_MS);
  }
}

/** @returns the cluster's server, when it runs and takes connections */
export async function findServer(cluster: Cluster): Promise<PostgresServer | undefined> {
  const found = await readPidFile(cluster);
  if (found?.port === undefined || found.status !== "ready") return undefined;
  return (await isServerProcess(found.pid, cluster)) ? { pid: found.pid, port: found.port } : undefined;
}

/**
 * Stops a running server at once but in order ("fast": open transactions are rolled back) and waits for its end.
 * A process that ends has no folder any more while it still runs, so its start time tells, not its folder.
 */
export async function stopServer(server: PostgresServer): Promise<void> {
  const startTime = await processStartTime(server.pid);
  signal(server.pid, "SIGINT");
  const deadline = Date.now() + STOP_DEADLINE_MS;
  while (startTime !== undefined && (await processStartTime(server.pid)) === startTime) {
    if (Date.now() > deadline) {
      throw new EmbeddedPostgresError("stop-failed", `PostgreSQL (process ${server.pid}) does not stop`);
    }
    await delay(POLL_MS);
  }
}

type Obstacle = "port-taken" | "lingering-backends" | "other-server";
type StartOutcome =
  | { kind: "started"; server: PostgresServer }
  | { kind: "obstructed"; obstacle: Obstacle; output: string }
  | { kind: "failed"; output: string };

const OBSTACLES: ReadonlyArray<readonly [RegExp, Obstacle]> = [
  [/Address already in use/, "port-taken"],
  [/pre-existing shared memory block/, "lingering-backends"],
  [/lock file "postmaster\.pid" already exists/, "other-server"],
];

/** Starts the server in a session of its own, so that Ctrl-C reaches the stack alone, which stops it last. */
async function start(cluster: Cluster, port: number | undefined): Promise<StartOutcome> {
  const { dataFolderArguments, processOptions } = inFolder(cluster.folder, cluster.account);
  const settings = Object.entries({ ...SETTINGS, port: String(port ?? (await freePort())) });
  const log = await openLog(cluster);
  try {
    const logStart = (await log.stat()).size;
    const child = spawn(
      cluster.postgres,
      [...dataFolderArguments, ...settings.flatMap(([name, value]) => ["-c", `${name}=${value}`])],
      { ...processOptions, detached: true, stdio: ["ignore", log.fd, log.fd] },
    );
    await new Promise((resolve, reject) => child.once("spawn", resolve).once("error", reject));
    child.unref();
    const server = await untilReady(child.pid!, cluster);
    if (server !== undefined) return { kind: "started", server };
    const output = (await readFile(cluster.logFile)).subarray(logStart).toString();
    const obstacle = OBSTACLES.find(([pattern]) => pattern.test(output))?.[1];
    return obstacle === undefined ? { kind: "failed", output } : { kind: "obstructed", obstacle, output };
  } finally {
    await log.close();
  }
}

/** @returns undefined when the server ended instead */
async function untilReady(pid: number, cluster: Cluster): Promise<PostgresServer | undefined> {
  const deadline = Date.now() + RECOVERY_DEADLINE_MS;
  while (Date.now() < deadline) {
    const found = await readPidFile(cluster);
    if (found?.pid === pid && found.status === "ready" && found.port !== undefined) return { pid, port: found.port };
    if (!(await isServerProcess(pid, cluster))) return undefined;
    await delay(POLL_MS);
  }
  throw new EmbeddedPostgresError(
    "start-failed",
    `PostgreSQL (process ${pid}) runs, but takes no connections: see ${cluster.logFile}`,
  );
}

type PidFile = { readonly pid: number; readonly port: number | undefined; readonly status: string | undefined };

/** postmaster.pid, a line each: pid, data folder, start time, port, socket folder, address, shared memory, status. */
async function readPidFile(cluster: Cluster): Promise<PidFile | undefined> {
  try {
    const lines = (await readFile(pidFileOf(cluster), "utf8")).split("\n");
    const pid = Number(lines[0]);
    if (!Number.isInteger(pid) || pid < 1) return undefined;
    return { pid, port: Number(lines[3]) || undefined, status: lines[7]?.trim() };
  } catch (error) {
    if (errorCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

function pidFileOf(cluster: Cluster): string {
  return join(cluster.folder, "postmaster.pid");
}

/** Whether a process is a living PostgreSQL of this very cluster: its process id alone may be anybody's by now. */
async function isServerProcess(pid: number, cluster: Cluster): Promise<boolean> {
  return process.platform === "linux" ? isLinuxServerProcess(pid, cluster) : isOtherServerProcess(pid, cluster);
}

async function isLinuxServerProcess(pid: number, cluster: Cluster): Promise<boolean> {
  try {
    if ((await readFile(`/proc/${pid}/comm`, "utf8")).trim() !== "postgres") return false;
    const [found, wanted] = await Promise.all([stat(`/proc/${pid}/cwd`), stat(cluster.folder)]);
    return found.ino === wanted.ino && found.dev === wanted.dev;
  } catch {
    return false; // gone, a zombie, or another user's
  }
}

async function isOtherServerProcess(pid: number, cluster: Cluster): Promise<boolean> {
  const run = async (program: string, ...options: string[]) => {
    const { stdout } = await promisify(execFile)(program, options, { env: { PATH: "/usr/bin:/bin:/usr/sbin" } });
    return stdout.trim();
  };
  try {
    const command = await run("ps", "-o", "comm=", "-p", String(pid));
    const openFolder = await run("lsof", "-a", "-p", String(pid), "-d", "cwd", "-Fn");
    return basename(command) === "postgres" && openFolder.endsWith(`n${await realpath(cluster.folder)}`);
  } catch {
    return false;
  }
}

/** SIGQUIT ends a backend at once; with its server dead it has nobody left to answer to. Linux only. */
async function endLingeringBackends(cluster: Cluster): Promise<void> {
  if (process.platform !== "linux") return;
  for (const entry of await readdir("/proc")) {
    const pid = Number(entry);
    if (Number.isInteger(pid) && (await isLinuxServerProcess(pid, cluster))) signal(pid, "SIGQUIT");
  }
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if (errorCode(error) !== "ESRCH") throw error;
  }
}

/** The log holds starts, stops and crashes only; one older file is kept. */
async function openLog({ logFile, account }: Cluster): Promise<FileHandle> {
  const found = await stat(logFile).catch(() => undefined);
  if (found !== undefined && found.size > LOG_LIMIT_OCTETS) await rename(logFile, `${logFile}.old`);
  const log = await open(logFile, "a", 0o600);
  // A file that root made must not lock out the ordinary user whose data folder this is.
  if (account !== undefined) await log.chown(account.uid, account.gid);
  return log;
}
