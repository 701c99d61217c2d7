import { type ChildProcess, fork } from "node:child_process";
import { openSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { NODE_OPTIONS_OF } from "../../services/cli/node-options.ts";
import type { Addresses, ServiceName } from "../../services/platform/service.ts";
import { memoryOctets } from "./dns-load.ts";
import { stopChild } from "./dns-peers.ts";

export const SECRET = "the secret of the benchmark";
const START_DEADLINE_MS = 600_000;

/** What a service has observed of its zones. */
export interface Observed {
  readonly kind: string;
  readonly zones: number;
  readonly ms: number;
  readonly level?: string;
}

/** A service of ours in a process of its own. */
export interface BenchService {
  readonly addresses: Addresses;
  /** From the start of its process until it was ready. */
  readonly startMs: number;
  /** Waits until it has observed something. */
  observed(kind: string): Promise<Observed>;
  /** Resident, in octets. */
  memory(): number;
  stop(): Promise<void>;
}

export interface BenchPlace {
  readonly databaseUrl: string;
  readonly folder: string;
}

/** Starts a service, listening on free ports. */
export async function startService(
  name: ServiceName,
  { databaseUrl, folder }: BenchPlace,
  environment: Readonly<Record<string, string>> = {},
): Promise<BenchService> {
  const startedAt = performance.now();
  const log = openSync(join(folder, `${name}.log`), "a");
  const child = fork(PROCESS_FILE, [name], {
    execArgv: [...(NODE_OPTIONS_OF[name] ?? [])],
    stdio: ["ignore", log, log, "ipc"],
    env: {
      ...process.env,
      ...LISTEN,
      DATABASE_URL: databaseUrl,
      PALOMAR_SECRET: SECRET,
      PALOMAR_DATA_DIR: folder,
      ...environment,
    },
  });
  const observations: Observed[] = [];
  let addresses: Addresses | undefined;
  child.on("message", (message: { readonly addresses?: Addresses; readonly observation?: Observed }) => {
    addresses ??= message.addresses;
    if (message.observation) observations.push(message.observation);
  });
  await until(child, () => addresses !== undefined);
  return {
    addresses: addresses!,
    startMs: performance.now() - startedAt,
    memory: () => memoryOctets({ pids: [child.pid!] }),
    stop: () => stopChild(child),
    observed: async (kind) => {
      const find = () => observations.find((one) => one.kind === kind);
      await until(child, () => find() !== undefined);
      return find()!;
    },
  };
}

async function until(child: ChildProcess, isSo: () => boolean): Promise<void> {
  for (const deadline = performance.now() + START_DEADLINE_MS; !isSo(); await sleep(2)) {
    if (child.exitCode !== null) throw new Error(`a service ended with ${child.exitCode}; see its log`);
    if (performance.now() > deadline) throw new Error("a service does not become ready");
  }
}

const LISTEN = Object.fromEntries(
  ["CONSOLE", "DNS_API", "DNS"].map((service) => [`PALOMAR_${service}_LISTEN`, "127.0.0.1:0"]),
);
const PROCESS_FILE = fileURLToPath(new URL("./zones-process.js", import.meta.url));
