import { type ChildProcess, spawn } from "node:child_process";
import { openSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { NODE_OPTIONS_OF } from "../../services/cli/node-options.ts";
import { type Contender, isBound } from "./dns-load.ts";
import { stopChild, untilAnswering } from "./dns-peers.ts";
import { FLOOR, FORGETFUL } from "./dns-report.ts";

export interface PalomarOptions {
  /** The database, already filled; none for an idle process whose memory is compared with. */
  readonly databaseUrl: string;
  readonly folder: string;
  readonly port: number;
  /** Those that it may use, as taskset takes them. */
  readonly cores: string;
  /** That answer over UDP; one unless given. */
  readonly threads?: number;
  /** Has each answer made anew, however often it is asked for. */
  readonly isForgetful?: boolean;
  /** The zone that is asked for to see whether it answers. */
  readonly lastZone: string;
}

const SECRET = "the benchmark's secret";

/** Starts our server, in a process of its own, as the supervisor does. */
export async function startPalomar(options: PalomarOptions): Promise<Contender> {
  const log = openSync(join(options.folder, "output.log"), "a");
  const nodeOptions = NODE_OPTIONS_OF["dns-server"] ?? [];
  const child = spawn("taskset", ["-c", options.cores, process.execPath, ...nodeOptions, PROCESS_FILE], {
    stdio: ["ignore", log, log, "ipc"],
    env: {
      ...process.env,
      DATABASE_URL: options.databaseUrl,
      PALOMAR_SECRET: SECRET,
      PALOMAR_DNS_LISTEN: `127.0.0.1:${options.port}`,
      PALOMAR_DNS_WORKERS: String(options.threads ?? 1),
      ...(options.isForgetful ? { PALOMAR_DNS_ANSWER_CACHE: "0" } : {}),
    },
  });
  const startMs = await untilAnswering(options.port, options.lastZone, child, options.folder);
  return {
    name: options.isForgetful ? FORGETFUL : "Palomar",
    port: options.port,
    pids: [child.pid!],
    startMs,
    stop: () => stopChild(child),
  };
}

/** Starts our socket loop that only echoes: what any server pays at least. */
export async function startFloor(port: number, cores: string): Promise<Contender> {
  const child = spawn("taskset", ["-c", cores, process.execPath, FLOOR_FILE, String(port)], {
    stdio: "inherit",
  });
  await untilBound(port, child);
  return { name: FLOOR, port, pids: [child.pid!], startMs: 0, stop: () => stopChild(child) };
}

/** Waits for a UDP socket on a port of loopback. */
async function untilBound(port: number, child: ChildProcess): Promise<void> {
  for (const deadline = performance.now() + FLOOR_DEADLINE_MS; !isBound(port); await sleep(10)) {
    if (child.exitCode !== null || performance.now() > deadline) throw new Error("the floor does not start");
  }
}

const FLOOR_DEADLINE_MS = 60_000;
const FLOOR_FILE = fileURLToPath(new URL("./dns-floor-process.js", import.meta.url));
const PROCESS_FILE = fileURLToPath(new URL("./dns-palomar-process.js", import.meta.url));
