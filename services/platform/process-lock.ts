import { execFile } from "node:child_process";
import { createHash, randomUUID } from "node:crypto";
import { link, mkdir, readFile, rename, rm, unlink, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { ok, type Result, refuse } from "../core/result.ts";

/** A lock that this process holds until it releases it, or dies. */
export type ProcessLock = { release(): Promise<void> };

/** The living process that holds a lock. */
export type LockHolder = { readonly pid: number };

const RETRY_MS = 20;

/**
 * Takes the lock file at `path` for this process, or refuses with the process that holds it. A folder that is not
 * there is made, for this user alone.
 *
 * The file carries the holder's process id and start time, so a lock survives neither `kill -9` of its holder
 * nor the reuse of that process id. It speaks for the processes of one machine (one PID namespace) only.
 * Throws when the folder cannot be written.
 */
export async function acquireProcessLock(path: string): Promise<Result<ProcessLock, LockHolder>> {
  const own = await describeSelf();
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  for (;;) {
    if (await createExclusively(path, own)) return ok(lockOf(path, own));
    const found = await readIfPresent(path);
    if (found === undefined) continue; // released between the two calls
    const holder = await livingHolder(found);
    if (holder !== undefined) return refuse(holder);
    if (await replaceStale(path, found, own)) return ok(lockOf(path, own));
  }
}

/** Does what takes moments while this process has the lock file at `path`, after whoever has it. @returns what the work does */
export async function withProcessLock<T>(path: string, work: () => Promise<T> | T): Promise<T> {
  for (;;) {
    const lock = await acquireProcessLock(path);
    if (!lock.ok) {
      await sleep(RETRY_MS);
      continue;
    }
    try {
      return await work();
    } finally {
      await lock.value.release();
    }
  }
}

/** The living process that holds a lock; undefined: nobody does. */
export async function findLockHolder(path: string): Promise<LockHolder | undefined> {
  const found = await readIfPresent(path);
  return found === undefined ? undefined : livingHolder(found);
}

/**
 * When a process started, as an opaque text that differs between two processes that had the same id.
 * @returns undefined when there is no such process, or only its unreaped remains
 */
export async function processStartTime(pid: number): Promise<string | undefined> {
  return process.platform === "linux" ? linuxStartTime(pid) : portableStartTime(pid);
}

/** Whether a process runs: a zombie does not, one that belongs to another user does. */
export async function isProcessAlive(pid: number): Promise<boolean> {
  return (await processStartTime(pid)) !== undefined || existsOutOfSight(pid);
}

function lockOf(path: string, own: string): ProcessLock {
  return {
    async release() {
      if ((await readIfPresent(path)) === own) await unlink(path);
    },
  };
}

async function describeSelf(): Promise<string> {
  return `${process.pid} ${await processStartTime(process.pid)}\n`;
}

async function livingHolder(content: string): Promise<LockHolder | undefined> {
  const [, pidText, startTime] = /^([1-9]\d*) (.+)\n$/.exec(content) ?? [];
  // A holder writes its line before the file gets its name: what does not parse was left by a crash of the machine.
  if (pidText === undefined) return undefined;
  const pid = Number(pidText);
  const current = await processStartTime(pid);
  const alive = current === undefined ? existsOutOfSight(pid) : current === startTime;
  return alive ? { pid } : undefined;
}

/** link(2) refuses an existing name, so the file appears at once with its whole content, or not at all. */
async function createExclusively(path: string, content: string): Promise<boolean> {
  const draft = await writeDraft(path, content);
  try {
    await link(draft, path);
    return true;
  } catch (error) {
    if (isCode(error, "EEXIST")) return false;
    throw error;
  } finally {
    await unlink(draft);
  }
}

/**
 * Replaces the dead holder's file. Two processes may find the same dead holder: a second lock, named after what
 * they found, lets one at a time decide, and the later one sees that the file is no longer the one it judged.
 */
async function replaceStale(path: string, stale: string, own: string): Promise<boolean> {
  const digest = createHash("sha256").update(stale).digest("hex").slice(0, 16);
  const guard = await acquireProcessLock(`${path}.takeover-${digest}`);
  if (!guard.ok) return false;
  try {
    if ((await readIfPresent(path)) !== stale) return false;
    await rename(await writeDraft(path, own), path);
    return true;
  } finally {
    await guard.value.release();
  }
}

async function writeDraft(path: string, content: string): Promise<string> {
  const draft = `${path}.${randomUUID()}`;
  await writeFile(draft, content, { flag: "wx", mode: 0o644 }).catch(async (error) => {
    // On a full disk there is a file all the same.
    await rm(draft, { force: true });
    throw error;
  });
  return draft;
}

async function readIfPresent(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if (isCode(error, "ENOENT")) return undefined;
    throw error;
  }
}

/** proc_pid_stat(5): the command name may hold spaces and brackets; the state is field 3, the start time field 22. */
async function linuxStartTime(pid: number): Promise<string | undefined> {
  try {
    const stat = await readFile(`/proc/${pid}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    if (fields[0] === "Z" || fields[0] === "X") return undefined;
    // Ticks count from the boot, so the boot is part of the name (some sandboxes do not tell it).
    const bootId = (await readIfPresent("/proc/sys/kernel/random/boot_id"))?.trim() ?? "";
    return `${bootId}:${fields[19]}`;
  } catch (error) {
    if (isCode(error, "ENOENT") || isCode(error, "ESRCH")) return undefined;
    throw error;
  }
}

async function portableStartTime(pid: number): Promise<string | undefined> {
  try {
    const { stdout } = await promisify(execFile)("ps", ["-o", "stat=", "-o", "lstart=", "-p", String(pid)], {
      env: { PATH: "/usr/bin:/bin", LC_ALL: "C", TZ: "UTC" },
    });
    const [state, ...startTime] = stdout.trim().split(/\s+/);
    return state === undefined || state.startsWith("Z") ? undefined : startTime.join(" ");
  } catch (error) {
    // ps exits with 1 when it finds no such process.
    if (isCode(error, 1)) return undefined;
    throw error;
  }
}

/** A process of another user may be hidden from us (`/proc` mounted with hidepid); signal 0 still tells that it is there. */
function existsOutOfSight(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return false; // ours to signal, so it would have been in sight: a zombie
  } catch (error) {
    return isCode(error, "EPERM");
  }
}

function isCode(error: unknown, code: string | number): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}
