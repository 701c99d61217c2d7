import { type ChildProcess, execFile, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import type { Credentials } from "../../services/cli/demo.ts";
import { packageFolder } from "../../services/platform/package-folder.ts";
import { acquireProcessLock } from "../../services/platform/process-lock.ts";
import type { ServiceName } from "../../services/platform/service.ts";
import { atExit } from "./at-exit.ts";

/** `addresses.json` of a running stack. */
export interface StackAddresses {
  readonly mail_api: string;
  readonly dns_api: string;
  readonly console: string;
  readonly tracking: string;
  readonly dns: string;
  readonly submission: string;
  readonly submissions: string;
  readonly mx: string;
  readonly metrics: string;
}

export interface StartedStack {
  readonly dataDir: string;
  readonly addresses: StackAddresses;
  readonly credentials: Credentials;
  /** The process that `npm start` runs. */
  readonly process: ChildProcess;
  /** What the start printed. */
  readonly printed: () => string;
  /** Asks it to stop, and waits until it has. @returns its exit status */
  stop(): Promise<number | null>;
}

const LISTENERS = [
  "MAIL_API",
  "DNS_API",
  "CONSOLE",
  "TRACKING",
  "DNS",
  "SUBMISSION",
  "SUBMISSIONS",
  "MX",
  "METRICS",
] as const;

/** Ports of the system's choosing for every listener, so that tests never meet. */
export const FREE_PORTS = Object.fromEntries(LISTENERS.map((name) => [`PALOMAR_${name}_LISTEN`, "127.0.0.1:0"]));

const START_DEADLINE_MS = 240_000;

/** The program that operators run. */
export const PALOMAR = join(packageFolder, "bin/palomar.mjs");

/** Nothing of the tests' own environment but where programs are. */
export const OWN_ENVIRONMENT = { PATH: process.env.PATH ?? "", HOME: process.env.HOME ?? "" };

/** Makes a data folder that is removed with `removeDataDir`. */
export function makeDataDir(): string {
  return mkdtempSync(join(tmpdir(), "palomar-system-"));
}

/**
 * Removes what `makeDataDir` made.
 * @throws Error when a service asked its database for more than its role may (config/database-roles.json)
 */
export function removeDataDir(dataDir: string): void {
  const log = join(dataDir, "postgres.log");
  const forbidden = existsSync(log) ? (readFileSync(log, "utf8").match(/^.*permission denied.*$/gm) ?? []) : [];
  rmSync(dataDir, { recursive: true, force: true });
  if (forbidden.length > 0) throw new Error(`beyond the role of a service:\n${[...new Set(forbidden)].join("\n")}`);
}

/**
 * As `startStack` on a folder that nobody has used, without what only a first start does: it is filled with what a stack leaves
 * that was started once and stopped. The credentials have been printed then, and the services' secrets are those of all
 * such folders of a run. For what is not about a first start.
 * @param services as of `startStack`: each takes half a second of processor time to start, and a hundredth of it from then on
 */
export async function startUsedStack(
  dataDir: string,
  environment: Readonly<Record<string, string>> = {},
  services: readonly ServiceName[] = [],
): Promise<StartedStack> {
  const used = join(tmpdir(), "palomar-used-stack");
  await makeOnce(used, async (draft) => {
    const stack = await startStack(draft);
    await stack.stop();
  });
  // PostgreSQL's files are its own user's.
  await promisify(execFile)("cp", ["-a", `${used}/.`, dataDir]);
  return startStack(dataDir, environment, services);
}

/** Has a folder of the run made by whoever of its workers needs it first. */
async function makeOnce(folder: string, make: (draft: string) => Promise<void>): Promise<void> {
  while (!existsSync(folder)) {
    const lock = await acquireProcessLock(`${folder}.lock`);
    try {
      if (!lock.ok || existsSync(folder)) continue;
      const draft = makeDataDir();
      await make(draft);
      renameSync(draft, folder);
    } finally {
      if (lock.ok) await lock.value.release();
      else await sleep(50);
    }
  }
}

/**
 * Starts the built product as an operator does, on free ports, and waits until it is ready.
 * @param services those alone, where a test has nothing to do with the others; empty: all of them
 */
export async function startStack(
  dataDir: string,
  environment: Readonly<Record<string, string>> = {},
  services: readonly ServiceName[] = [],
): Promise<StartedStack> {
  const started = await startPalomar(services, { PALOMAR_DATA_DIR: dataDir, ...environment });
  return {
    dataDir,
    addresses: started.addresses,
    credentials: JSON.parse(readFileSync(join(dataDir, "credentials.json"), "utf8")),
    process: started.process,
    printed: started.printed,
    stop: async () => {
      started.process.kill("SIGINT");
      return ended(started.process);
    },
  };
}

/** `palomar start`, ready, in a process group of its own. */
export interface StartedPalomar {
  readonly addresses: StackAddresses;
  readonly process: ChildProcess;
  /** What it printed so far. */
  readonly printed: () => string;
}

/**
 * Starts these services, or all of them, on free ports unless the environment says where, and waits until they are ready.
 * @param wrapper a program to put before `node`, such as `ip netns exec`
 */
export async function startPalomar(
  services: readonly string[],
  environment: Readonly<Record<string, string>> & { readonly PALOMAR_DATA_DIR: string },
  wrapper: readonly string[] = [],
): Promise<StartedPalomar> {
  const [program, ...words] = [...wrapper, process.execPath, PALOMAR, "start", ...services];
  const child = spawn(program!, words, {
    env: { ...OWN_ENVIRONMENT, ...FREE_PORTS, PALOMAR_LOG_LEVEL: "warn", ...environment },
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });
  // Whatever becomes of the test, its stack must not stay.
  child.once(
    "exit",
    atExit(() => killGroup(child)),
  );
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
  const addressesFile = join(environment.PALOMAR_DATA_DIR, "addresses.json");
  const deadline = Date.now() + START_DEADLINE_MS;
  while (!output.includes("Palomar is ready.") || !existsSync(addressesFile)) {
    if (child.exitCode !== null) throw new Error(`the stack ended with status ${child.exitCode}:\n${output}`);
    if (Date.now() > deadline) {
      await killStack(child);
      throw new Error(`the stack was not ready in time:\n${output}`);
    }
    await sleep(50);
  }
  return {
    addresses: JSON.parse(readFileSync(addressesFile, "utf8")),
    process: child,
    printed: () => output,
  };
}

/** `kill -9` of the whole process group: the supervisor and every service, but not the database. */
export function killStack(child: ChildProcess): Promise<number | null> {
  killGroup(child);
  return ended(child);
}

/** `kill -9` of one of a stack's services, once it runs: it may have been killed a moment ago. The supervisor starts it anew. */
export async function killService(stack: ChildProcess, name: string): Promise<void> {
  const service = await eventually(
    async () => serviceOf(stack, name),
    (pid) => pid !== undefined,
  );
  process.kill(service!, "SIGKILL");
}

/** The process of one of a stack's services; undefined while it does not run. */
export function serviceOf({ pid }: ChildProcess, name: string): number | undefined {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").map(Number);
  return children.find((child) => {
    const words = wordsOf(child);
    return words.some((word) => word.includes("service-process")) && words.includes(name);
  });
}

/** What a process was started with; nothing when it ends just now. */
function wordsOf(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
  } catch {
    return [];
  }
}

function killGroup(child: ChildProcess): void {
  if (child.pid !== undefined && child.exitCode === null && child.signalCode === null)
    process.kill(-child.pid, "SIGKILL");
}

export function ended(child: ChildProcess): Promise<number | null> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve(child.exitCode);
  return new Promise((resolve) => child.once("exit", (code) => resolve(code)));
}

/** Between two questions of `eventually`, at least and at most. */
const LEAST_PAUSE_MS = 30;
const MOST_PAUSE_MS = 250;

/**
 * Asks again until the answer pleases, less often the longer it takes: questions take the cores from what they wait for.
 * @throws Error with the last answer
 */
export async function eventually<T>(
  ask: () => Promise<T>,
  pleases: (answer: T) => boolean,
  timeoutMs = 60_000,
): Promise<T> {
  const startedAt = Date.now();
  for (;;) {
    const answer = await ask();
    if (pleases(answer)) return answer;
    const waitedMs = Date.now() - startedAt;
    if (waitedMs > timeoutMs) throw new Error(`still not as expected: ${JSON.stringify(answer)}`);
    await sleep(Math.min(LEAST_PAUSE_MS + waitedMs / 10, MOST_PAUSE_MS));
  }
}
