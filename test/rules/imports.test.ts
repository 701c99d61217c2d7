import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { packageFolder } from "../../services/platform/package-folder.ts";

const services = join(packageFolder, "services");
const files = readdirSync(services, { recursive: true, encoding: "utf8" }).filter((file) => /\.tsx?$/.test(file));

/** The rings, from the inside out; what a folder may import besides itself. A service: all four. */
const MAY_IMPORT: { readonly [folder: string]: readonly string[] } = {
  core: [],
  platform: ["core"],
  store: ["core", "platform"],
  operations: ["core", "platform", "store"],
};
const SERVICE = ["core", "platform", "store", "operations"];
/** What the command line may import of services: it starts each in a process of its own, and reads what is set for delivery. */
const FOR_COMMANDS = /^[a-z-]+\/(?:main|large-requests)\.ts$|^delivery\/(?:policy|routing\/source-pools)\.ts$/;

function importsOf(file: string): string[] {
  const text = readFileSync(join(services, file), "utf8");
  return [...text.matchAll(/(?:from|import)\s*\(?\s*"(\.[^"]+)"/g)].map(([, path]) =>
    relative(services, resolve(services, dirname(file), path!)),
  );
}

describe("imports point inward", () => {
  it.each(files)("%s", (file) => {
    const folder = file.split("/")[0]!;
    const allowed = [folder, ...(MAY_IMPORT[folder] ?? SERVICE)];
    // Policy tables are data for whoever needs them.
    const outward = importsOf(file).filter(
      (path) =>
        !allowed.includes(path.split("/")[0]!) &&
        !/^\.\.\/config\/[\w/-]+\.json$/.test(path) &&
        !(folder === "cli" && FOR_COMMANDS.test(path)),
    );
    expect(outward).toEqual([]);
  });
});

it("imports go in no circle", () => {
  expect(circles(new Map(files.map((file) => [file, importsOf(file)])))).toEqual([]);
});

describe("core is pure", () => {
  const impure = /from "node:(fs|net|dgram|http|https|tls|dns|child_process|worker_threads|timers)[/"]/;
  it.each(files.filter((file) => file.startsWith("core/")))("%s", (file) => {
    const text = readFileSync(join(services, file), "utf8");
    expect(text).not.toMatch(impure);
    expect(text).not.toMatch(/Date\.now\(|new Date\(\)|Math\.random\(/);
  });
});

describe("use cases hold no SQL", () => {
  it.each(files.filter((file) => file.startsWith("operations/")))("%s", (file) => {
    const text = readFileSync(join(services, file), "utf8");
    expect(text).not.toMatch(/\bqueryRows\b|\b(?:db|transaction)(?:<[^>]*>)?\(\s*["`]|\.raw\(/);
  });
});

it("reads the environment in one file", () => {
  const readers = files.filter((file) => /process\.env\b/.test(readFileSync(join(services, file), "utf8")));
  expect(readers).toEqual(["platform/config/config.ts"]);
});

/** Each circle once, as the files on the way from one of them back to itself. */
function circles(imports: ReadonlyMap<string, readonly string[]>): string[][] {
  const found: string[][] = [];
  const done = new Set<string>();
  const follow = (file: string, way: readonly string[]) => {
    const start = way.indexOf(file);
    if (start >= 0) found.push([...way.slice(start), file]);
    if (start >= 0 || done.has(file)) return;
    for (const next of imports.get(file) ?? []) follow(next, [...way, file]);
    done.add(file);
  };
  for (const file of imports.keys()) follow(file, []);
  return found;
}
