import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type ESTree, parseSync } from "vite";
import { expect, it } from "vitest";
import { packageFolder } from "../../services/platform/package-folder.ts";

const MOST_LINES = 60;
const MOST_PARAMETERS = 4;

const services = join(packageFolder, "services");
const files = readdirSync(services, { recursive: true, encoding: "utf8" }).filter((file) => /\.tsx?$/.test(file));

const HOT_PATH =
  "runs for each question or record of a zone: an object for its parameters would be an allocation each time";

/** Functions that may be longer, as `file name`, each with the reason. */
const LONG: Readonly<Record<string, string>> = {
  "dns-server/reports/metrics.ts exportStatistics": "a table: each metric and where its value comes from",
  "platform/config/config.ts arrange": "a table: each setting and its variable",
};

/** Functions that may have more parameters, likewise. */
const MANY_PARAMETERS: Readonly<Record<string, string>> = {
  "cli/commands/zone.ts registerImport": "commander gives arguments and options by position",
  "dns-server/message/cookies.ts Cookies.write": HOT_PATH,
  "dns-server/message/response.ts Response.#writeRecords": HOT_PATH,
  "dns-server/pipeline.ts Pipeline.respond": HOT_PATH,
  "dns-server/pipeline.ts Pipeline.respondAgain": HOT_PATH,
  "dns-server/transfer/transfer-streams.ts addRrset": HOT_PATH,
  "dns-server/zone-database/name-draft.ts NameDraft.add": HOT_PATH,
  "dns-server/zone-database/name-hash.ts hashLabel": HOT_PATH,
  "dns-server/zone-database/reader.ts ZoneDatabaseReader.findEntry": HOT_PATH,
  "dns-server/zone-database/reader.ts ZoneDatabaseReader.findNode": HOT_PATH,
  "dns-server/zone-database/reader.ts ZoneDatabaseReader.findWildcard": HOT_PATH,
  "dns-server/zone-database/reader.ts sameOctets": HOT_PATH,
  "dns-server/zone-database/stored-rrset.ts RrsetEncoder.add": HOT_PATH,
  "dns-server/zone-database/stored-rrset.ts RrsetEncoder.#addRecord": HOT_PATH,
  "dns-server/zone-database/stored-rrset.ts RrsetEncoder.#encodeRecord": HOT_PATH,
  "dns-server/zone-database/zone-nodes.ts ZoneNodes.setRrsets": HOT_PATH,
};

interface Measured {
  /** File and name, where it has one; a function within others has their names in front. */
  readonly name: string;
  readonly lines: number;
  readonly parameters: number;
}

const functions = files.flatMap((file) => measure(file, readFileSync(join(services, file), "utf8")));

it(`no function has more than ${MOST_LINES} lines`, () => {
  const found = functions.filter(({ lines }) => lines > MOST_LINES);
  expect(found.filter(({ name }) => !(name in LONG)).map(({ name, lines }) => `${name}: ${lines} lines`)).toEqual([]);
  expect(withoutCause(LONG, found)).toEqual([]);
});

it(`no function has more than ${MOST_PARAMETERS} parameters`, () => {
  const found = functions.filter(({ parameters }) => parameters > MOST_PARAMETERS);
  expect(
    found
      .filter(({ name }) => !(name in MANY_PARAMETERS))
      .map(({ name, parameters }) => `${name}: ${parameters} parameters`),
  ).toEqual([]);
  expect(withoutCause(MANY_PARAMETERS, found)).toEqual([]);
});

it("measures functions of every form", () => {
  const source = `
    export function named(a, b) {
      const inner = (c) => {
        return c;
      };
    }
    class Thing {
      method(a, b, c) {}
      #secret() {}
      field = () => 1;
    }
    export default [() => 0];`;
  expect(measure("a.ts", source)).toEqual([
    { name: "a.ts named", lines: 5, parameters: 2 },
    { name: "a.ts named.inner", lines: 3, parameters: 1 },
    { name: "a.ts Thing.method", lines: 1, parameters: 3 },
    { name: "a.ts Thing.#secret", lines: 1, parameters: 0 },
    { name: "a.ts Thing.field", lines: 1, parameters: 0 },
    { name: "a.ts", lines: 1, parameters: 0 },
  ]);
});

/** @returns the names of a list of exceptions that have become small enough to leave it */
function withoutCause(exceptions: Readonly<Record<string, string>>, found: readonly Measured[]): string[] {
  return Object.keys(exceptions).filter((name) => !found.some((one) => one.name === name));
}

function measure(file: string, source: string): Measured[] {
  const measured: Measured[] = [];
  const lineAt = (offset: number) => source.slice(0, offset).split("\n").length;
  const walk = (value: unknown, outer: readonly string[]) => {
    if (typeof value !== "object" || value === null) return;
    const node = value as ESTree.Node;
    const names = [...outer, ...nameOf(node)];
    if (isFunction(node)) {
      const lines = lineAt(node.end) - lineAt(node.start) + 1;
      measured.push({ name: [file, names.join(".")].join(" ").trim(), lines, parameters: node.params.length });
    }
    for (const child of Object.values(node)) walk(child, names);
  };
  const { program, errors } = parseSync(file, source);
  expect(errors).toEqual([]);
  walk(program, []);
  return measured;
}

function isFunction(node: ESTree.Node): node is ESTree.Function | ESTree.ArrowFunctionExpression {
  const isOne = /^(ArrowFunctionExpression|FunctionExpression|FunctionDeclaration)$/.test(node.type);
  return isOne && (node as ESTree.Function).body !== null;
}

/** @returns the name that a node gives to what stands in it; none or one */
function nameOf(node: ESTree.Node): string[] {
  if ("id" in node && node.id?.type === "Identifier") return [node.id.name];
  if ("key" in node && node.key.type === "Identifier") return [node.key.name];
  if ("key" in node && node.key.type === "PrivateIdentifier") return [`#${node.key.name}`];
  return [];
}
