import { execFile } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { promisify } from "node:util";

const run = promisify(execFile);

/** A server under load: where it listens, and the processes whose time counts as its. */
export interface Contender {
  readonly name: string;
  readonly port: number;
  /** Process ids, those of its children left out: they are found at each measurement. */
  readonly pids: readonly number[];
  /** From the start of its process to its first answer. */
  readonly startMs: number;
  stop(): Promise<void>;
}

export interface LoadResult {
  readonly queriesPerSecond: number;
  readonly cpuMicrosecondsPerQuery: number;
  readonly lost: number;
  /** Of those lost, what the server's sockets had no room for; the others the load generator had none for. */
  readonly droppedByServer: number;
  readonly averageLatencyMs: number;
}

export interface LoadOptions {
  /** File of queries as dnsperf reads it. */
  readonly queries: string;
  readonly seconds: number;
  /** Queries under way at once. */
  readonly outstanding: number;
  /** For dnsperf, as taskset takes them. */
  readonly cores: string;
  /** Of dnsperf; one unless given. */
  readonly threads?: number;
  /** Whether the queries have DO set. */
  readonly dnssecOk?: boolean;
  /** Offered load; as much as it takes when left out. */
  readonly queriesPerSecond?: number;
}

/** Linux accounts CPU time in ticks of a hundredth of a second (USER_HZ). */
const TICK_MICROSECONDS = 10_000;

/** Drives a server with dnsperf and measures what it gets out of it and what that costs. */
export async function measureLoad(contender: Contender, options: LoadOptions): Promise<LoadResult> {
  const { threads = 1 } = options;
  const pids = processTree(contender.pids);
  const before = cpuMicroseconds(pids);
  const droppedBefore = droppedAt(contender.port);
  const { stdout } = await run("taskset", [
    "-c",
    options.cores,
    "dnsperf",
    ...["-s", "127.0.0.1", "-p", String(contender.port), "-d", options.queries, "-l", String(options.seconds)],
    ...["-e", "-c", String(8 * threads), "-T", String(threads), "-q", String(options.outstanding), "-t", "2"],
    ...(options.dnssecOk ? ["-D"] : []),
    ...(options.queriesPerSecond ? ["-Q", String(options.queriesPerSecond)] : []),
  ]);
  const used = cpuMicroseconds(pids) - before;
  const completed = numberIn(stdout, /Queries completed:\s+(\d+)/);
  return {
    queriesPerSecond: numberIn(stdout, /Queries per second:\s+([\d.]+)/),
    cpuMicrosecondsPerQuery: used / completed,
    lost: numberIn(stdout, /Queries lost:\s+(\d+)/),
    droppedByServer: droppedAt(contender.port) - droppedBefore,
    averageLatencyMs: numberIn(stdout, /Average Latency \(s\):\s+([\d.]+)/) * 1000,
  };
}

/** Datagrams that the IPv4 sockets of a port had no room for so far: the last column of /proc/net/udp. */
function droppedAt(port: number): number {
  return socketsOf(port).reduce((sum, columns) => sum + Number(columns.at(-1)), 0);
}

/** Whether somebody has an IPv4 socket for UDP at a port. */
export function isBound(port: number): boolean {
  return socketsOf(port).length > 0;
}

/** The columns of /proc/net/udp for a local port. */
function socketsOf(port: number): string[][] {
  const place = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  const lines = readFileSync("/proc/net/udp", "utf8").split("\n");
  return lines.map((line) => line.trim().split(/\s+/)).filter(([, local]) => local?.endsWith(place));
}

/** Resident memory of a server's processes, pages that they share counted once for each (PSS), in octets. */
export function memoryOctets(contender: Pick<Contender, "pids">): number {
  let kilobytes = 0;
  for (const pid of processTree(contender.pids)) {
    kilobytes += numberIn(readFileSync(`/proc/${pid}/smaps_rollup`, "utf8"), /^Pss:\s+(\d+)/m);
  }
  return kilobytes * 1024;
}

/** These processes and all below them. */
function processTree(roots: readonly number[]): number[] {
  const children = new Map<number, number[]>();
  for (const entry of readdirSync("/proc")) {
    if (!/^\d+$/.test(entry)) continue;
    const parent = statOf(Number(entry))?.parent;
    if (parent !== undefined) children.set(parent, [...(children.get(parent) ?? []), Number(entry)]);
  }
  const found: number[] = [];
  const waiting = [...roots];
  for (let pid = waiting.pop(); pid !== undefined; pid = waiting.pop()) {
    found.push(pid);
    waiting.push(...(children.get(pid) ?? []));
  }
  return found;
}

function cpuMicroseconds(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => sum + (statOf(pid)?.ticks ?? 0) * TICK_MICROSECONDS, 0);
}

function statOf(pid: number): { readonly parent: number; readonly ticks: number } | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The command's name, in parentheses, may hold anything.
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    return { parent: Number(fields[1]), ticks: Number(fields[11]) + Number(fields[12]) };
  } catch {
    return undefined; // it has ended meanwhile
  }
}

function numberIn(text: string, pattern: RegExp): number {
  const match = pattern.exec(text);
  if (!match) throw new Error(`no ${pattern} in:\n${text}`);
  return Number(match[1]);
}
