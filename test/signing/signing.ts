/**
 * Random sequences of every operation that changes a zone, and after each step three judges of the zone as transferred:
 * `npm run check:signing [-- --steps 5000 --seed 1 --workers 2 --log]`, `-- --replay SEED:INDEX[:PLACE,PLACE…]` for one again.
 * The last line is "N steps passed, N failed"; the exit status is 1 when anything failed.
 */
import { type ChildProcess, fork } from "node:child_process";
import { randomInt } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { makeLogger } from "../../services/platform/observability/logger.ts";
import { type Db, openDb } from "../../services/platform/postgres/db.ts";
import { openEmbeddedPostgres } from "../../services/platform/postgres/embedded-postgres.ts";
import { migrate } from "../../services/platform/postgres/migrations.ts";
import { isInstalled } from "../support/peers-processes.ts";
import { runSequence, type SequenceId, type SequenceOutcome, SIZES, shrink } from "./sequence.ts";
import { type Ground, openGround } from "./world.ts";

const { values } = parseArgs({
  options: {
    steps: { type: "string", default: "5000" },
    seed: { type: "string" },
    workers: { type: "string", default: "2" },
    replay: { type: "string" },
    log: { type: "boolean", default: false },
    /** For this program's own use: the part of a worker. */
    worker: { type: "string" },
    database: { type: "string" },
  },
});

/** So long a failing sequence is made shorter. */
const SHRINKING_MS = 120_000;
const PROGRESS_MS = 60_000;

/** What a worker tells. */
type Report =
  | { readonly kind: "step" }
  | { readonly kind: "sequence"; readonly id: SequenceId; readonly outcome: SequenceOutcome };

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** Starts the workers on a PostgreSQL of their own, and counts. @returns whether nothing failed */
async function conduct(): Promise<boolean> {
  const missing = ["dnssec-verify", "ldns-verify-zone"].filter((program) => !isInstalled(program));
  if (missing.length > 0) print(`not installed, and so not asked: ${missing.join(", ")}`);
  const folder = mkdtempSync(join(tmpdir(), "palomar-check-signing-"));
  const postgres = await openEmbeddedPostgres({ dataDir: folder, logger: makeLogger("check", "warn") });
  try {
    return values.replay === undefined ? await conductAll(postgres.url) : await replay(postgres.url, values.replay);
  } finally {
    await postgres.release();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function conductAll(server: string): Promise<boolean> {
  const seed = values.seed === undefined ? randomInt(2 ** 31) : Number(values.seed);
  const [wanted, workers] = [Number(values.steps), Number(values.workers)];
  if (![seed, wanted, workers].every((number) => Number.isSafeInteger(number) && number >= 0) || workers === 0) {
    throw new Error("--steps, --seed and --workers are whole numbers");
  }
  print(`seed ${seed}, ${wanted} steps, ${workers} workers; replay with --replay SEED:INDEX`);
  for (const { weight, least, most, steps } of SIZES) {
    print(`${weight} % of the sequences: a zone of ${least} to ${most} names, ${steps} steps`);
  }
  const tally = new Tally(seed);
  const children: ChildProcess[] = [];
  let isEnough = false;
  const enough = () => {
    isEnough = true;
    for (const child of children) if (child.connected) child.send("enough");
  };
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, enough);
  const progress = setInterval(() => print(tally.line()), PROGRESS_MS);
  const databases = await Promise.all(Array.from({ length: workers }, (_, index) => makeDatabase(server, index)));
  await Promise.all(
    databases.map(
      (database, index) =>
        new Promise<void>((resolve) => {
          const args = ["--worker", String(index), "--workers", String(workers), "--seed", String(seed)];
          const child = fork(fileURLToPath(import.meta.url), [...args, "--database", database]);
          children.push(child);
          child.on("message", (report: Report) => {
            tally.note(report);
            if (!isEnough && (tally.steps >= wanted || tally.failures > 0)) enough();
          });
          child.on("exit", (code) => {
            if (code !== 0) tally.crashed(`worker ${index} ended with status ${code}`);
            resolve();
          });
        }),
    ),
  );
  clearInterval(progress);
  print(tally.line());
  print(tally.operations());
  print(`${tally.steps} steps passed, ${tally.failures} failed`);
  return tally.failures === 0 && tally.steps >= wanted;
}

/** What came of all workers together. */
class Tally {
  readonly #seed: number;
  readonly #started = performance.now();
  readonly #done = new Map<string, number>();
  readonly #sizes: number[] = [];
  #refused = 0;
  steps = 0;
  failures = 0;

  constructor(seed: number) {
    this.#seed = seed;
  }

  note(report: Report): void {
    if (report.kind === "step") {
      this.steps += 1;
      return;
    }
    const { id, outcome } = report;
    const { size, done, refused, failure } = outcome;
    this.#sizes.push(size);
    this.#refused += refused;
    for (const [name, count] of Object.entries(done)) this.#done.set(name, (this.#done.get(name) ?? 0) + count);
    if (values.log) print(`sequence ${id.index}: ${size} names, ${JSON.stringify(done)}`);
    if (!failure) return;
    this.failures += 1;
    print(`FAILED after ${failure.operation}, in a zone of ${size} names:`);
    for (const complaint of failure.complaints.slice(0, 20)) print(`  ${JSON.stringify(complaint)}`);
    print(`again: npm run check:signing -- --replay ${this.#seed}:${id.index}:${failure.places.join(",")}`);
  }

  crashed(why: string): void {
    this.failures += 1;
    print(`FAILED: ${why}`);
  }

  line(): string {
    const seconds = (performance.now() - this.#started) / 1000;
    const largest = Math.max(0, ...this.#sizes);
    return `${this.steps} steps in ${seconds.toFixed(0)} s, ${this.#sizes.length} zones of up to ${largest} names, ${this.#refused} attempts refused`;
  }

  operations(): string {
    return [...this.#done]
      .sort(([, a], [, b]) => b - a)
      .map(([name, count]) => `${name} ${count}`)
      .join(", ");
  }
}

/** A worker takes every so-manieth sequence, until it is told that it is enough. */
async function work(index: number): Promise<void> {
  const [seed, workers] = [Number(values.seed), Number(values.workers)];
  let isEnough = false;
  process.on("message", () => {
    isEnough = true;
  });
  process.on("disconnect", () => process.exit(1));
  const tell = (report: Report) => process.send!(report);
  await onGround(values.database!, async (ground) => {
    for (let sequence = index; !isEnough; sequence += workers) {
      const id = { seed, index: sequence };
      const outcome = await runSequence(ground, id, () => {
        tell({ kind: "step" });
        return !isEnough;
      });
      const shorter = outcome.failure && (await shrink(ground, id, outcome.failure.places, SHRINKING_MS));
      tell({ kind: "sequence", id, outcome: shorter ?? outcome });
    }
  });
  process.removeAllListeners("disconnect");
  process.disconnect();
}

async function replay(server: string, text: string): Promise<boolean> {
  const [, seed, index, places] = /^(\d+):(\d+)(?::([\d,]+))?$/.exec(text) ?? [];
  if (seed === undefined) throw new Error("--replay is SEED:INDEX or SEED:INDEX:PLACE,PLACE…");
  const only = places?.split(",").map(Number);
  const id = { seed: Number(seed), index: Number(index), only };
  const outcome = await onGround(await makeDatabase(server, 0), (ground) => runSequence(ground, id));
  const tally = new Tally(id.seed);
  tally.note({ kind: "sequence", id, outcome });
  print(tally.operations());
  return outcome.failure === undefined;
}

async function onGround<T>(url: string, run: (ground: Ground) => Promise<T>): Promise<T> {
  const db = openDb(url, { connections: 8, name: "check" });
  const ground = await openGround({ db, url });
  try {
    return await run(ground);
  } finally {
    await ground.close();
    await db.destroy();
  }
}

/** A migrated database, whose commits do not wait for the disk. */
async function makeDatabase(server: string, index: number): Promise<string> {
  const name = `signing_${index}`;
  await onDatabase(server, async (db) => {
    await db.raw(`create database ${name}`);
    await db.raw(`alter database ${name} set synchronous_commit = off`);
  });
  const url = new URL(server);
  url.pathname = `/${name}`;
  await onDatabase(url.href, (db) => migrate(db));
  return url.href;
}

async function onDatabase(url: string, run: (db: Db) => Promise<unknown>): Promise<void> {
  const db = openDb(url, { connections: 1, name: "check set-up" });
  try {
    await run(db);
  } finally {
    await db.destroy();
  }
}

if (values.worker !== undefined) await work(Number(values.worker));
else process.exitCode = (await conduct()) ? 0 : 1;
