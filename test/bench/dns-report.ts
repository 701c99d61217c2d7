import type { ChangeResult } from "./dns-changes.ts";

/** What is measured of each server, over all rounds. */
export interface Row {
  readonly name: string;
  readonly queriesPerSecond: number;
  readonly cpuMicroseconds: number;
  readonly lost: number;
  readonly droppedByServer: number;
  readonly startMs?: number;
  readonly octetsPerRecord?: number;
}

/** Prints what was measured of several servers, beside the better of NSD and Knot. */
export function printRows(title: string, rows: readonly Row[]): void {
  const best = Math.min(
    ...rows.filter(({ name }) => name === "NSD" || name === "Knot").map((row) => row.cpuMicroseconds),
  );
  print(`${title}\n`);
  print(
    "| server | queries/s | CPU µs/query | to the better of NSD and Knot | lost | of them at its socket | start, s | octets/record |",
  );
  print("|---|---|---|---|---|---|---|---|");
  for (const row of rows) {
    const cells = [
      row.name,
      row.queriesPerSecond.toFixed(0),
      row.cpuMicroseconds.toFixed(2),
      Number.isFinite(best) ? (row.cpuMicroseconds / best).toFixed(2) : "–",
      row.lost,
      row.droppedByServer,
      row.startMs === undefined ? "–" : (row.startMs / 1000).toFixed(2),
      row.octetsPerRecord?.toFixed(0) ?? "–",
    ];
    print(`| ${cells.join(" | ")} |`);
  }
  print("");
}

/**
 * Prints how much of what a query costs us is the sockets', whatever server it is, and how much ours: the floor is our own
 * socket loop without an answer in it.
 */
export function printFloor(rows: readonly Row[]): void {
  const [floor, own] = [FLOOR, "Palomar"].map((name) => rows.find((row) => row.name === name)?.cpuMicroseconds);
  if (floor === undefined || own === undefined) return;
  const ours = own - floor;
  const share = (100 * ours) / own;
  print(
    `Of ${own.toFixed(2)} µs a query ${floor.toFixed(2)} are the sockets' and ${ours.toFixed(2)} ours: ${share.toFixed(0)} %.`,
  );
  for (const { name, cpuMicroseconds } of rows) {
    if (name === FLOOR || name === "Palomar") continue;
    print(`${name} takes ${(cpuMicroseconds - floor).toFixed(2)} µs more than the floor, Palomar ${ours.toFixed(2)}.`);
  }
  print("");
}

/** The name of the socket loop that only echoes, among the servers. */
export const FLOOR = "floor";

/** The name of our server where it gives no answer again. */
export const FORGETFUL = "Palomar, no cache";

/** What so many threads answer to so many threads that ask. */
export interface ThreadsResult {
  readonly serverThreads: number;
  readonly clientThreads: number;
  readonly queriesPerSecond: number;
  readonly cpuMicroseconds: number;
}

/** Prints what threads of the server and of the load make of the cores that they share. */
export function printThreads(cores: number, results: readonly ThreadsResult[]): void {
  print(`Threads that answer beside threads that ask, ${cores} cores for both\n`);
  print("| server | clients | queries/s | CPU µs/query |\n|---|---|---|---|");
  for (const { serverThreads, clientThreads, queriesPerSecond, cpuMicroseconds } of results) {
    print(`| ${serverThreads} | ${clientThreads} | ${queriesPerSecond.toFixed(0)} | ${cpuMicroseconds.toFixed(2)} |`);
  }
  print("");
}

/** Prints how soon changes were on the wire. */
export function printChanges(changes: readonly ChangeResult[]): void {
  print("| changes/s | commit to wire p50, ms | p99, ms | answer p99.9 meanwhile, ms | Knot's, ms | unanswered |");
  print("|---|---|---|---|---|---|");
  for (const change of changes) {
    const cells = [
      change.changesPerSecond.toFixed(0),
      change.wireP50Ms.toFixed(1),
      change.wireP99Ms.toFixed(1),
      change.answerP999Ms.toFixed(1),
      change.knotAnswerP999Ms?.toFixed(1) ?? "–",
      change.unanswered,
    ];
    print(`| ${cells.join(" | ")} |`);
  }
  print("");
}

export function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
