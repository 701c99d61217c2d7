import { spawn } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { packageFolder } from "../../services/platform/package-folder.ts";
import { isInstalled } from "../support/peers-processes.ts";
import { makeDataDir, removeDataDir, type StartedStack, startUsedStack } from "../support/stack.ts";

// Every command that the documents show is run, in the order in which a reader would, against a running stack.
const documents = [
  "README.md",
  "deploy/README.md",
  ...readdirSync(join(packageFolder, "docs"), { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".md"))
    .map((file) => `docs/${file}`),
].sort();

/** Lines that this test cannot run, and which one does. */
const ELSEWHERE: readonly (readonly [RegExp, string])[] = [
  [/\bnpm start\b/, "story.test.ts and set-up.test.ts start a clone"],
  [/\bnpm (test|run (bench|soak|lint|typecheck))/, "continuous integration runs them"],
  [
    /^\s*docker compose (--profile \w+ )?(up|restart)\b/,
    "compose.test.ts runs it in an engine, cluster-compose.test.ts what it starts",
  ],
];

/** Sections that set up machines, and the tests that run them on machines of their own. */
const MACHINES: readonly (readonly [heading: string, where: string])[] = [
  ["A database that fails over", "failover.test.ts"],
  ["Without containers", "systemd.test.ts"],
];

const NEEDED = ["bash", "curl", "openssl", "dig", "delv", "nsupdate"];
const missing = NEEDED.filter((program) => !isInstalled(program));
const why = missing.length > 0 ? ` (skipped: ${missing.join(", ")} not installed)` : "";

const dataDir = makeDataDir();
const folder = mkdtempSync(join(tmpdir(), "palomar-docs-"));
let stack: StartedStack;

beforeAll(async () => {
  if (missing.length > 0) return;
  stack = await startUsedStack(dataDir);
  mkdirSync(join(folder, "bin"));
  writeFileSync(
    join(folder, "bin/palomar"),
    `#!/bin/sh\nPALOMAR_DATA_DIR='${dataDir}' exec '${process.execPath}' '${packageFolder}/bin/palomar.mjs' "$@"\n`,
  );
  chmodSync(join(folder, "bin/palomar"), 0o755);
});

afterAll(async () => {
  await stack?.stop();
  removeDataDir(dataDir);
  rmSync(folder, { recursive: true, force: true });
});

function commandsOf(document: string): string {
  const sections = readFileSync(join(packageFolder, document), "utf8").split(/^## /m);
  const isOfMachines = (section: string) => MACHINES.some(([heading]) => section.startsWith(`${heading}\n`));
  const text =
    document === "deploy/README.md" ? sections.filter((section) => !isOfMachines(section)).join("") : sections.join("");
  const blocks = [...text.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, block]) => block!);
  return blocks
    .join("")
    .split("\n")
    .filter((line) => !ELSEWHERE.some(([pattern]) => pattern.test(line)))
    .join("\n");
}

/** On this stack's addresses, with names that no other document uses. */
function adapt(commands: string, index: number): string {
  const { addresses } = stack;
  const [, dnsPort] = addresses.dns.split(":") as [string, string];
  return (
    commands
      .replaceAll("sudo ", "") // whoever runs the tests is who they need to be
      .replaceAll("npm run -s palomar --", "palomar")
      .replaceAll("docker compose exec console palomar", "palomar")
      .replaceAll(/docker compose run --rm (--no-TTY )?migrate/g, "palomar")
      // On a busy machine something may be wrong for once.
      .replaceAll(/^palomar status$/gm, "until palomar status; do sleep 1; done")
      .replaceAll("http://127.0.0.1:8053", addresses.dns_api)
      .replaceAll("http://127.0.0.1:8025", addresses.mail_api)
      .replaceAll("http://127.0.0.1:8080", addresses.console)
      .replaceAll("-p 5300", `-p ${dnsPort}`)
      .replace(/\b(acme|bakery)\b/g, `$1${index}`)
  );
}

it.skipIf(missing.length > 0).each(documents.map((document, index) => ({ document, index })))(
  `the commands of $document run${why}`,
  async ({ document, index }) => {
    const commands = commandsOf(document);
    if (commands.trim() === "") return;
    const place = join(folder, String(index));
    mkdirSync(place);
    cpSync(join(packageFolder, "deploy"), join(place, "deploy"), { recursive: true });
    const script = join(place, "commands.sh");
    const prelude = document.startsWith("deploy") ? "palomar reseller add acme --name Acme\n" : "";
    writeFileSync(script, adapt(`set -euo pipefail\n${prelude}${commands}`, index));
    const { status, output } = await run(script, place);
    expect({ status, output }).toEqual({ status: 0, output: expect.any(String) });
  },
);

/** For all commands of a document, some of which are repeated until they succeed. */
const PATIENCE_SECONDS = 240;

async function run(script: string, cwd: string): Promise<{ status: number | null; output: string }> {
  const env = { PATH: `${folder}/bin:${process.env.PATH}`, HOME: cwd };
  const child = spawn("timeout", [String(PATIENCE_SECONDS), "bash", "-x", script], { cwd, env });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
  const status = await new Promise<number | null>((resolve) => child.once("close", resolve));
  return { status, output };
}

it("what is left to other tests is still in a document", () => {
  const lines = documents.flatMap((document) => readFileSync(join(packageFolder, document), "utf8").split("\n"));
  for (const [heading] of MACHINES) expect(lines).toContain(`## ${heading}`);
  expect(ELSEWHERE.filter(([pattern]) => !lines.some((line) => pattern.test(line)))).toEqual([]);
});
