/**
 * `npm run bench -- [name…] [--quick]`: runs every benchmark, one after another on an otherwise quiet machine, and writes
 * what they measured into docs/benchmarks.md: one table, with versions, machine and date. Peers take part where they are
 * installed.
 * A benchmark that fails is in the table as failed, and the exit status is then 1. With `--quick` each does little, which
 * shows that it works and nothing else: the table is printed and not written.
 */
import { spawn, spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { cpus, release, type as systemName, totalmem } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { packageFolder, packageVersion } from "../../services/platform/package-folder.ts";

/**
 * With what makes each of them quick. What it prints as its last line as JSON is its result; of the others the last lines
 * as they are.
 */
const BENCHMARKS: readonly (readonly [name: string, ...quick: string[]])[] = [
  ["dns", "--seconds", "2", "--rounds", "1", "--small", "20", "--large", "20"],
  ["dnssec", "--names", "1000", "--seconds", "2", "--rounds", "1", "--changes", "20"],
  ["transfer", "--records", "10000", "--rounds", "1"],
  ["api", "--seconds", "2"],
  ["mail", "1000", "--messages", "200", "--queued", "10000"],
  ["tracking", "2"],
  ["events", "300000"],
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

interface Run {
  readonly name: string;
  readonly status: number | null;
  readonly seconds: number;
  readonly output: string;
}

const { values, positionals: wanted } = parseArgs({
  allowPositionals: true,
  options: { quick: { type: "boolean", default: false } },
});
const unknown = wanted.filter((name) => !BENCHMARKS.some(([known]) => known === name));
if (unknown.length > 0) {
  process.stderr.write(`bench: no such benchmark: ${unknown.join(", ")}\n`);
  process.exit(2);
}
const runs: Run[] = [];
for (const [name, ...quick] of BENCHMARKS) {
  if (wanted.length === 0 || wanted.includes(name)) runs.push(await run(name, values.quick ? quick : []));
}
const table = compose(runs);
if (!values.quick) writeFileSync(join(packageFolder, "docs", "benchmarks.md"), table);
process.stdout.write(`${table}\n`);
process.exitCode = runs.every(({ status }) => status === 0) ? 0 : 1;

function run(name: string, options: readonly string[]): Promise<Run> {
  const startedAt = performance.now();
  const program = fileURLToPath(new URL(`./${name}.js`, import.meta.url));
  const child = spawn(process.execPath, [program, ...options], { stdio: ["ignore", "pipe", "inherit"] });
  let output = "";
  child.stdout.on("data", (chunk) => {
    output += chunk;
    process.stderr.write(chunk);
  });
  return new Promise((resolve) =>
    child.once("close", (status) =>
      resolve({ name, status, seconds: Math.round((performance.now() - startedAt) / 1_000), output }),
    ),
  );
}

function compose(results: readonly Run[]): string {
  const processor = cpus()[0]?.model.trim() ?? "unknown";
  const memory = Math.round(totalmem() / 2 ** 30);
  const versions = PEERS.flatMap((peer) => versionOf(peer) ?? []);
  const rows = results.flatMap(({ name, status, seconds, output }) =>
    status === 0
      ? figuresOf(output).map(([what, value]) => `| ${name} | ${what} | ${value} |`)
      : [`| ${name} | **failed** with status ${status} after ${seconds} s | |`],
  );
  return `# Benchmarks

Written by \`npm run bench\`. Figures of one machine on one day: what counts is the ratio to the peers of the same run, and
whether a later run on the same machine is worse.

| | |
|---|---|
| date | ${new Date().toISOString().slice(0, 10)} |
| Palomar | ${packageVersion} |
| Node | ${process.versions.node} |
| machine | ${cpus().length} × ${processor}, ${memory} GiB, ${systemName()} ${release()} |
| peers | ${versions.join("; ") || "none installed"} |

| benchmark | what | figure |
|---|---|---|
${rows.join("\n")}
`;
}

/** Of a benchmark's JSON line every number and text, by its path; else its last lines. */
function figuresOf(output: string): (readonly [string, string])[] {
  const lines = output.trim().split("\n");
  try {
    return flatten(JSON.parse(lines.at(-1) ?? ""), []);
  } catch {
    return lines.slice(-20).map((line) => [line.replaceAll("|", "/").trim(), ""] as const);
  }
}

function flatten(value: unknown, path: readonly string[]): (readonly [string, string])[] {
  if (value !== null && typeof value === "object") {
    return Object.entries(value).flatMap(([key, inner]) => flatten(inner, [...path, key]));
  }
  const figure = typeof value === "number" ? String(Number(value.toPrecision(4))) : String(value);
  return [[path.join(" · "), figure]];
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
