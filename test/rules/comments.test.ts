import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { packageFolder } from "../../services/platform/package-folder.ts";

/** A sentence that goes on in the next comment. */
const UNFINISHED = /\/\*\* [^\n]*[,;:] \*\//g;
const MOST_COLUMNS = 140;

const sources = ["services", "test"].flatMap((folder) =>
  readdirSync(join(packageFolder, folder), { recursive: true, encoding: "utf8" })
    .filter((file) => /\.tsx?$/.test(file))
    .map((file) => ({ file: `${folder}/${file}`, text: readFileSync(join(packageFolder, folder, file), "utf8") })),
);

it("the comment of a declaration is a sentence of its own", () => {
  const found = sources.flatMap(({ file, text }) =>
    (text.match(UNFINISHED) ?? []).map((comment) => `${file}: ${comment}`),
  );
  expect(found).toEqual([]);
});

it(`no line of a comment has more than ${MOST_COLUMNS} columns`, () => {
  const found = sources.flatMap(({ file, text }) =>
    text
      .split("\n")
      .filter((line) => line.length > MOST_COLUMNS && /^\s*(?:\*|\/\*\*|\/\/) /.test(line))
      .map((line) => `${file}: ${line.trim()}`),
  );
  expect(found).toEqual([]);
});
