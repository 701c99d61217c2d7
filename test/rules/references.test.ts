import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Command } from "commander";
import { expect, it } from "vitest";
import type { CommandRuntime } from "../../services/cli/runtime.ts";
import { KeyRing } from "../../services/core/key-ring.ts";
import {
  conflict,
  forbidden,
  invalidField,
  missingField,
  notFound,
  type Refusal,
  unacceptable,
} from "../../services/core/refusal.ts";
import { sentence as sentenceOf } from "../../services/core/sentences.ts";
import { makeDialect as makeDnsDialect } from "../../services/dns-api/dialect.ts";
import { TokenCallers } from "../../services/dns-api/token-callers.ts";
import { makeMailDialect } from "../../services/mail-api/dialect.ts";
import { systemClock } from "../../services/platform/clock.ts";
import { FILE_VARIABLES, VARIABLES } from "../../services/platform/config/config.ts";
import { BROKEN_REQUESTS } from "../../services/platform/http/broken-requests.ts";
import { packageFolder } from "../../services/platform/package-folder.ts";
import type { Db } from "../../services/platform/postgres/db.ts";

// The references are made from the code. `npx vitest run test/rules/references.test.ts -u` writes them anew.
const documentAt = (name: string) => join(packageFolder, "docs", name);

it("docs/metrics.md has every metric with its meaning, and no other", async () => {
  await expect(composeMetrics()).toMatchFileSnapshot(documentAt("metrics.md"));
});

it("docs/variables.md has every variable with its default and meaning", async () => {
  await expect(composeVariables()).toMatchFileSnapshot(documentAt("variables.md"));
});

it("docs/commands.md has every command with its arguments and options", async () => {
  await expect(await composeCommands()).toMatchFileSnapshot(documentAt("commands.md"));
});

it("docs/errors.md has every refusal as the APIs word it", async () => {
  await expect(composeErrors()).toMatchFileSnapshot(documentAt("errors.md"));
});

it("no alert and no dashboard asks for a metric that is not there", () => {
  const defined = new Set(findMetrics().map(({ name }) => name));
  const folder = join(packageFolder, "deploy");
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((file) =>
    /\.(json|ya?ml)$/.test(file),
  );
  const asked = files.flatMap((file) =>
    [...readFileSync(join(folder, file), "utf8").matchAll(/\bpalomar_[a-z_]+/g)].map(([name]) => name),
  );
  expect(asked.length).toBeGreaterThan(0);
  const isDefined = (name: string) => defined.has(name) || defined.has(name.replace(/_(bucket|count|sum)$/, ""));
  expect([...new Set(asked)].filter((name) => !isDefined(name))).toEqual([]);
});

interface Metric {
  readonly name: string;
  readonly type: string;
  readonly labels: string;
  readonly help: string;
}

/** Every metric that the sources define: its name and its help stand side by side whatever makes it. */
function findMetrics(): Metric[] {
  const folder = join(packageFolder, "services");
  const found: Metric[] = [];
  for (const file of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
    if (!file.endsWith(".ts")) continue;
    const source = readFileSync(join(folder, file), "utf8");
    const constants = new Map(
      [...source.matchAll(/const (\w+) = "(palomar_\w+)";/g)].map(([, id, name]) => [id, name]),
    );
    const definitions = [
      ...source.matchAll(
        /(?:"(palomar_[a-z_]+)"|name: ([A-Z_]+)),\s*(?:help: )?"((?:[^"\\]|\\.)*)",?\s*(?:(?:labelNames: )?\[([^\]]*)\])?/g,
      ),
    ];
    for (const { 1: literal, 2: constant, 3: help, 4: labels = "", index } of definitions) {
      const name = literal ?? constants.get(constant);
      if (name === undefined) continue;
      const isHistogram = /new Histogram\(\{\s*(name: )?$/.test(source.slice(0, index));
      const type = isHistogram ? "histogram" : name.endsWith("_total") ? "counter" : "gauge";
      const named = [...labels.matchAll(/"(\w+)"/g)].map(([, label]) => `\`${label}\``).join(", ");
      found.push({ name, type, labels: named || "–", help: help! });
    }
  }
  return found.sort((a, b) => (a.name < b.name ? -1 : 1));
}

function composeMetrics(): string {
  const rows = findMetrics().map(({ name, type, labels, help }) => `| \`${name}\` | ${type} | ${labels} | ${help} |`);
  return `# Metrics

\`GET /metrics\` of the monitoring listener (\`PALOMAR_METRICS_LISTEN\`) shows them in Prometheus' text form: all services
of the stack summed, plus what the database has. The names are stable: one that goes is named in the CHANGELOG a release
before. Times are in seconds, sizes in octets. What nobody can know at the moment, such as the queue while the database is
away, is not shown rather than shown as zero.

| metric | type | labels | meaning |
|---|---|---|---|
${rows.join("\n")}

Beside it \`GET /healthz\` says that the process lives and \`GET /readyz\` whether every service is ready and
[answers](operations.md#services-that-do-not-answer), the zones are loaded and the database answers and takes changes (503 with \`{"problems":[…]}\` otherwise; 200 and \`degraded\` where a zone, an ACL or a TSIG key cannot be read or a zone has no room, and where name servers alone run while the database is away). Where a name server runs, its body has \`served\`, \`expected\`
and \`left_out\` as well: how many zones are answered of how many, and the first 20 that memory has no room for. Dashboards and alert rules over these metrics are in
[deploy/](../deploy/README.md).

Every request over HTTP has a name: what its caller put into \`X-Request-Id\` (up to 128 letters, digits and \`._:+/=-\`), else
one made here. The answer carries it back, the log lines of the request have it as \`requestId\`, and the console hands it on
to the API that it asks, so one search finds a request in the logs of every service it passed.
`;
}

function composeVariables(): string {
  const rows = Object.entries(VARIABLES).map(([name, { fallback, meaning }]) => {
    const shown = fallback === null ? "unset" : fallback === "" ? "empty" : `\`${fallback}\``;
    return `| \`${name}\` | ${shown} | ${meaning} |`;
  });
  const files = FILE_VARIABLES.map((name) => `\`${name}\``).join(", ");
  return `# Variables

Every setting is an environment variable. All problems are reported together, at start, with exit status 2.
A listen value is \`host:port\`, several parted by commas, or \`off\`; port 0 picks a free one. IPv6 has brackets: \`0.0.0.0:25,[::]:25\`. An empty variable counts as unset.
What is secret may stand in a file instead, which a variable of its own names: ${files}.

| variable | default | meaning |
|---|---|---|
${rows.join("\n")}
`;
}

/** All commands, registered as \`palomar\` does it. */
async function loadCommands(): Promise<Command> {
  const program = new Command("palomar");
  const folder = join(packageFolder, "services/cli/commands");
  const runtime = { config: {} } as CommandRuntime;
  // A file that adds to another's command comes after it.
  const files = readdirSync(folder).sort((a, b) => (a.replace(".ts", "") < b.replace(".ts", "") ? -1 : 1));
  for (const file of files) {
    const module = (await import(join(folder, file))) as Record<string, unknown>;
    for (const [name, register] of Object.entries(module)) {
      if (/^register\w+Command$/.test(name))
        (register as (program: Command, runtime: CommandRuntime) => void)(program, runtime);
    }
  }
  return program;
}

async function composeCommands(): Promise<string> {
  const lines: string[] = [];
  const describe = (command: Command, path: string) => {
    describeOne(command, path);
    for (const child of command.commands) describe(child, `${path} ${child.name()}`);
  };
  const describeOne = (command: Command, path: string) => {
    // A name that only its subcommands share is no command.
    if (command.commands.length > 0 && command.registeredArguments.length === 0) return;
    const words = command.registeredArguments.map((argument) => {
      const word = `${argument.name()}${argument.variadic ? "…" : ""}`;
      return argument.required ? `<${word}>` : `[${word}]`;
    });
    lines.push(`## \`${[path, ...words].join(" ")}\``, "", `${sentence(command.description())}`, "");
    const options = command.options.filter(({ hidden }) => !hidden);
    const told = command.registeredArguments.filter(({ description, argChoices }) => description || argChoices);
    if (options.length + told.length === 0) return;
    lines.push(`| ${told.length > 0 ? "argument or option" : "option"} | meaning |`, "|---|---|");
    for (const argument of told) {
      const choices = argument.argChoices ? ` (${argument.argChoices.join(", ")})` : "";
      lines.push(`| \`${argument.name().replaceAll("|", "\\|")}\` | ${argument.description}${choices} |`);
    }
    for (const { flags, description, mandatory, argChoices } of options) {
      const choices = argChoices ? ` (${argChoices.join(", ")})` : "";
      lines.push(`| \`${flags.replaceAll("|", "\\|")}\` | ${description}${choices}${mandatory ? "; required" : ""} |`);
    }
    lines.push("");
  };
  const program = await loadCommands();
  for (const command of program.commands.toSorted((a, b) => (a.name() < b.name() ? -1 : 1)))
    describe(command, `palomar ${command.name()}`);
  return `# Commands

\`palomar\` is the package's program; from a clone it is called as \`npm run -s palomar -- …\`. Every command takes \`--json\`, which
makes it print one object (lists: one array), and \`--help\`. Results go to standard output, everything else to standard
error. Exit status: 0 done, 1 refused or failed, 2 wrong usage or configuration. Commands read the same
variables as the services: give them the same.

${lines.join("\n")}`;
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

const REFUSALS: readonly (readonly [Refusal, string])[] = [
  [{ kind: "unknown-path" }, "the path does not exist"],
  [
    { kind: "wrong-method", allowed: ["<methods>"] },
    "the path does not take this method; `Allow` has those that it takes",
  ],
  [{ kind: "unauthenticated" }, "no credentials, or wrong ones"],
  [forbidden("as-stated", { text: "…" }), "known, but not entitled; the text says to what"],
  [{ kind: "malformed-json" }, "the body is no JSON object in UTF-8"],
  [
    { kind: "unknown-coding", known: ["<codings>"] },
    "`Content-Encoding` names none of these, or several; `Accept-Encoding` has them",
  ],
  [missingField("<field>"), "a field is absent or null"],
  [
    invalidField("<field>", "as-stated", { text: "<reason>" }),
    "a field, or a part of the path, has the wrong type or form: one of a path or a query is percent-encoded UTF-8",
  ],
  [unacceptable("as-stated", { text: "…" }), "well-formed, but not acceptable; the text says why"],
  [notFound("as-stated", { text: "…" }), "no such object, or one of somebody else's"],
  [conflict("as-stated", { text: "…" }), "it contradicts what is there"],
  [
    { kind: "too-large" },
    "the body is larger than `PALOMAR_API_BODY_LIMIT`, or has more than a million values or 10,000 different names of members",
  ],
  [
    { kind: "rate-limited", retryAfterSeconds: 1 },
    "too many requests for one key, or streams, exports or searches of one caller at a time, or guesses at keys from one address, or at one reseller or instance; `Retry-After` says how long",
  ],
  [
    { kind: "rate-limited", retryAfterSeconds: 1, ...sentenceOf("as-stated", { text: "quota exceeded for now: …" }) },
    "changes a minute, or large zone files at a time, of a company or a reseller; `Retry-After` says how long (DNS API)",
  ],
  [
    unacceptable("quota-exceeded", {
      ...{ quota: "<quota>", holder: "<whose>", allowed: "<allowed>", used: "<used>", wanted: "<wanted>" },
    }),
    "more than the quotas of a company or a reseller allow; with the line and column of the `$GENERATE` by which a zone file becomes too much (DNS API)",
  ],
  [
    {
      kind: "rate-limited",
      retryAfterSeconds: 1,
      ...sentenceOf("sending-limit-reached", { allowed: "<n>", grain: "hora", whose: "<whose>", time: "<time>" }),
    },
    "more than the instance, the campaign or the sender may send in this hour (`hora`) or day (`dia`); `Retry-After` and the text say when it goes on (mail API)",
  ],
  [
    unacceptable("sending-limit-too-low", { allowed: "<n>", grain: "hora", whose: "<whose>" }),
    "one call with more recipients than a whole hour or day allows (mail API)",
  ],
  [
    unacceptable("sending-limit-never", { allowed: "<n>", grain: "hora", whose: "<whose>", days: "<n>" }),
    "one call with more recipients than the hours ahead ever have room for, where a limit lets mail wait (mail API)",
  ],
  [{ kind: "unavailable" }, "the database or another part is away for now; `Retry-After` says when to come again"],
  [{ kind: "internal" }, "a bug: logged with its stack under the `X-Request-Id` of the answer"],
];

/** Refused before it is known what is asked for. */
const BROKEN: Readonly<Record<Exclude<keyof typeof BROKEN_REQUESTS, 413>, string>> = {
  400: "no HTTP, or HTTP that others may read otherwise (RFC 9112): no Host or two, two Authorization fields, a length beside chunks, a broken field; the connection is closed, as with the next four",
  408: "the request did not come whole in a minute, or its head in 20 s; a large body came slowly while another caller waited for its place",
  417: "`Expect` has something else than `100-continue`",
  431: "the head is larger than 16 KiB (its target, and the names and values of its fields), or has more than 100 fields",
  501: "CONNECT",
};

function composeErrors(): string {
  const nowhere = {} as Db;
  const unused = KeyRing.ofSecret("unused");
  const tools = { db: nowhere, keyRing: unused, clock: systemClock };
  const tokens = new TokenCallers({ ...tools, observe: () => {} });
  const dialects = [makeDnsDialect({ ...tools, tokens }), makeMailDialect(tools)];
  const rowOf = (refusal: Refusal, meaning: string, status?: string) => {
    const words = dialects.map((dialect) => dialect.toHttp(refusal));
    const answers = words.map((one) => `${status ?? one.status} | \`${JSON.stringify(one.body)}\``);
    return `| ${answers.join(" | ")} | ${meaning} |`;
  };
  const rows = [
    ...REFUSALS.map(([refusal, meaning]) => rowOf(refusal, meaning)),
    ...Object.entries(BROKEN).map(([status, meaning]) =>
      rowOf(BROKEN_REQUESTS[Number(status) as keyof typeof BROKEN], meaning, status),
    ),
  ];
  return `# Errors

Both APIs answer every refusal with a status and one text. Where the table has \`…\`, the text is the refusal's own and says
what is wrong; it never says whether something that the caller may not see exists. Whoever accepts
\`application/problem+json\` gets the same text as \`detail\` of a problem (RFC 9457), with a \`code\` that stays what it is and
the \`values\` that fill the text.

| DNS API | body | mail API | body | when |
|---|---|---|---|---|
${rows.join("\n")}

SMTP (submission and the MX listener) answers with enhanced status codes (RFC 3463): 4xx means that the same may work later,
5xx that it will not. While the database is away it is \`451 4.3.0\`, and nothing is taken without being stored first.
Submission says \`452 4.5.3\` to what is above a sending limit, with the time at which it goes on, and \`550 5.5.3\` to one message
with more recipients than the limit of a whole hour or day.
`;
}
