import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { packageFolder } from "../../services/platform/package-folder.ts";
import { makePage } from "../bench/page/page.ts";
import type { Runs } from "../bench/page/results.ts";

const read = (path: string) => readFileSync(join(packageFolder, path), "utf8");
const exists = (path: string) => existsSync(join(packageFolder, path));
const sources = readdirSync(join(packageFolder, "services"), { recursive: true, encoding: "utf8" }).filter((file) =>
  file.endsWith(".ts"),
);

it("every RFC that the code cites stands in core/RFCS.md", () => {
  const index = read("services/core/RFCS.md");
  const cited = new Set(
    sources.flatMap((file) =>
      [...read(join("services", file)).matchAll(/RFC (\d{3,5})/g)].map(([, number]) => number!),
    ),
  );
  expect([...cited].filter((number) => !new RegExp(`\\b${number}\\b`).test(index)).sort()).toEqual([]);
});

it("each RFC stands in core/RFCS.md once, with places that there are", () => {
  const rows = [...read("services/core/RFCS.md").matchAll(/^\| (\d+) \|.*\| ([^|]+) \|$/gm)];
  const numbers = rows.map(([, number]) => number);
  expect(numbers).toEqual([...new Set(numbers)]);
  const places = rows.flatMap(([, , where]) => where!.split(", "));
  const isThere = (place: string) => ["services/", ""].some((at) => exists(at + place) || exists(`${at}${place}.ts`));
  expect(places.length).toBeGreaterThan(100);
  expect(places.filter((place) => !isThere(place))).toEqual([]);
});

it("each threat of docs/security.md is held by tests that there are", () => {
  const [, table] = /^## What stands against what\n([\s\S]*?)^## /m.exec(read("docs/security.md"))!;
  const threats = table!.split("\n").filter((line) => /^\| (?!threat |---)/.test(line));
  expect(threats.length).toBeGreaterThan(20);
  for (const threat of threats) {
    const named = [
      ...threat
        .split("|")
        .at(-2)!
        .matchAll(/`([^`]+)`/g),
    ].map(([, name]) => name!);
    expect(named, threat).not.toEqual([]);
    const missing = named.filter((name) => !exists(`test/${name}.test.ts`) && !exists(name));
    expect(missing, threat).toEqual([]);
  }
});

it("the code map has a paragraph for every folder", () => {
  const map = read("services/README.md");
  const folders = readdirSync(join(packageFolder, "services"), { withFileTypes: true }).filter((entry) =>
    entry.isDirectory(),
  );
  expect(folders.map(({ name }) => name).filter((name) => !map.includes(`**\`${name}/\`**`))).toEqual([]);
});

it("the files that the READMEs of services name are there", () => {
  const files = ["bin", "config", "deploy", "docs", "migrations", "services", "test"].flatMap((folder) =>
    readdirSync(join(packageFolder, folder), { recursive: true, encoding: "utf8" }).map((file) => `/${folder}/${file}`),
  );
  const readmes = files.filter((file) => /^\/services\/.*\/README\.md$/.test(file));
  expect(readmes.length).toBeGreaterThan(10);
  const missing = readmes.flatMap((readme) =>
    [...read(readme).matchAll(/`(\w[\w./*-]*\.(?:[cm]?[jt]s|tsx|json|sql|md))`/g)]
      .map(([, name]) => name!)
      .filter((name) => {
        const ending = new RegExp(`/${name.replaceAll(".", "\\.").replaceAll("*", "[^/]*")}$`);
        return !exists(name) && !files.some((file) => ending.test(file));
      })
      .map((name) => `${readme}: ${name}`),
  );
  expect(missing).toEqual([]);
});

it("the page of benchmarks and its charts are made of docs/benchmarks.json", () => {
  const { markdown, charts } = makePage(JSON.parse(read("docs/benchmarks.json")) as Runs);
  expect(read("docs/benchmarks.md")).toBe(markdown);
  expect(readdirSync(join(packageFolder, "docs/charts")).sort()).toEqual([...charts.keys()].sort());
  for (const [file, svg] of charts) expect(read(`docs/charts/${file}`), file).toBe(svg);
});
