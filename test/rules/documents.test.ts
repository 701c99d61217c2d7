import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { VARIABLES } from "../../services/platform/config.ts";
import { packageFolder } from "../../services/platform/package-folder.ts";

const read = (path: string) => readFileSync(join(packageFolder, path), "utf8");
const sources = readdirSync(join(packageFolder, "services"), { recursive: true, encoding: "utf8" }).filter((file) =>
  file.endsWith(".ts"),
);

describe("docs/variables.md", () => {
  const text = read("docs/variables.md");
  it.each(Object.entries(VARIABLES))("describes %s", (name, { fallback, meaning }) => {
    const shown = fallback === null ? "unset" : fallback === "" ? "empty" : `\`${fallback}\``;
    expect(text).toContain(`| \`${name}\` | ${shown} | ${meaning} |`);
  });
});

it("every RFC that the code cites stands in core/RFCS.md", () => {
  const index = read("services/core/RFCS.md");
  const cited = new Set(
    sources.flatMap((file) =>
      [...read(join("services", file)).matchAll(/RFC (\d{3,5})/g)].map(([, number]) => number!),
    ),
  );
  expect([...cited].filter((number) => !new RegExp(`\\b${number}\\b`).test(index)).sort()).toEqual([]);
});

it("the code map has a paragraph for every folder", () => {
  const map = read("services/README.md");
  const folders = readdirSync(join(packageFolder, "services"), { withFileTypes: true }).filter((entry) =>
    entry.isDirectory(),
  );
  expect(folders.map(({ name }) => name).filter((name) => !map.includes(`**\`${name}/\`**`))).toEqual([]);
});
