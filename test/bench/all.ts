/**
 * `npm run bench -- [name…] [--quick]`: runs every benchmark, one after another on an otherwise quiet machine, and writes
 * what they measured into docs/benchmarks.json, and from it the page docs/benchmarks.md with its charts; what did not run
 * stays as it was. Peers take part where they are installed.
 * Of a benchmark that fails the former figures stay, and the exit status is then 1. With `--quick` each does little,
 * which shows that it works and nothing else: the page is printed, and nothing written.
 */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { cpus, release, type as systemName, totalmem } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { packageFolder, packageVersion } from "../../services/platform/package-folder.ts";
import { makePage } from "./page/page.ts";
import type { BenchmarkName, Run, Runs } from "./page/results.ts";

/** With what makes each of them quick. What it prints as its last line is its result, in JSON. */
const BENCHMARKS: readonly (readonly [name: BenchmarkName, ...quick: string[]])[] = [
  ["dns", "--seconds", "2", "--rounds", "1", "--small", "20", "--large", "20"],
  ["dnssec", "--names", "1000", "--seconds", "2", "--rounds", "1", "--changes", "20"],
  ["transfer", "--records", "10000", "--rounds", "1"],
  ["api", "--seconds", "2"],
  ["mail", "1000", "--messages", "200", "--queued", "10000"],
  ["tracking", "2"],
  ["events", "300000"],
  ["explorer", "50000", "--days", "7"],
];

/** Programs whose versions belong beside the figures, and what asks them for it. */
const PEERS: readonly (readonly [name: string, program: string, ...version: string[]])[] = [
  ["NSD", "nsd", "-v"],
  ["Knot", "knotd", "--version"],
  ["BIND", "named", "-v"],
  ["PowerDNS", "pdns_server", "--version"],
  ["Postfix", "postconf", "-d", "-h", "mail_version"],
  ["dnsperf", "dnsperf", "-h"],
];

const DOCS = join(packageFolder, "docs");
const RUNS_FILE = join(DOCS, "benchmarks.json");

const { values, positionals: wanted } = parseArgs({
  allowPositionals: true,
  options: { quick: { type: "boolean", default: false } },
});
const unknown = wanted.filter((name) => !BENCHMARKS.some(([known]) => known === name));
if (unknown.length > 0) {
  process.stderr.write(`bench: no such benchmark: ${unknown.join(", ")}\n`);
  process.exit(2);
}
const measured: Partial<Record<BenchmarkName, Run>> = {};
const failed: string[] = [];
for (const [name, ...quick] of BENCHMARKS) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  const result = await run(name, values.quick ? quick : []);
  if (result === undefined) failed.push(name);
  else measured[name] = { ...describeRun(), result };
}
const former: Runs = values.quick ? {} : JSON.parse(readFileSync(RUNS_FILE, "utf8"));
const runs = { ...former, ...measured } as Runs;
const { markdown, charts } = makePage(runs);
if (!values.quick) {
  writeFileSync(RUNS_FILE, `${JSON.stringify(runs, null, 2)}\n`);
  writeFileSync(join(DOCS, "benchmarks.md"), markdown);
  mkdirSync(join(DOCS, "charts"), { recursive: true });
  for (const [file, svg] of charts) writeFileSync(join(DOCS, "charts", file), svg);
}
process.stdout.write(markdown);
for (const name of failed) process.stderr.write(`bench: ${name} failed\n`);
process.exitCode = failed.length === 0 ? 0 : 1;

/** @returns undefined where it failed */
async function run(name: BenchmarkName, options: readonly string[]): Promise<Run["result"] | undefined> {
  const program = fileURLToPath(new URL(`./${name}.js`, import.meta.url));
  const child = spawn(process.execPath, [program, ...options], { stdio: ["ignore", "pipe", "inherit"] });
  let output = "";
  child.stdout.on("data", (chunk) => {
    output += chunk;
    process.stderr.write(chunk);
  });
  const [status] = await once(child, "close");
  return status === 0 ? JSON.parse(output.trim().split("\n").at(-1)!) : undefined;
}

function describeRun(): Omit<Run, "result"> {
  const processor = cpus()[0]?.model.trim() ?? "unknown";
  const memory = Math.round(totalmem() / 2 ** 30);
  return {
    date: new Date().toISOString().slice(0, 10),
    version: packageVersion,
    node: process.versions.node,
    machine: `${cpus().length} × ${processor}, ${memory} GiB, ${systemName()} ${release()}`,
    peers: PEERS.flatMap((peer) => versionOf(peer) ?? []).join("; ") || "none installed",
  };
}

function versionOf([name, program, ...args]: (typeof PEERS)[number]): string | undefined {
  const { error, stdout, stderr } = spawnSync(program, args, {
    encoding: "utf8",
    env: { PATH: `${process.env.PATH}:/usr/sbin` },
  });
  if (error) return undefined;
  const [version = "of unknown version"] = /\d+\.\d+(?:\.\d+)?/.exec(`${stdout}\n${stderr}`) ?? [];
  return `${name} ${version}`;
}
