import { spawnSync } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { programRunner } from "../../../services/platform/package-folder.ts";

let folder: string;
const at = (name: string) => join(folder, name);
const KEPT = "dist/services/.cache";
const keptFiles = () => readdirSync(at(KEPT)).sort();

/** A build of one program and what it shares with others. */
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "palomar-run-"));
  mkdirSync(at("bin"));
  mkdirSync(at("dist/services/chunks"), { recursive: true });
  copyFileSync(programRunner, at("bin/run.cjs"));
  writeFileSync(at("dist/services/chunks/shared.cjs"), "exports.answer = () => 42;");
  writeFileSync(
    at("dist/services/program.cjs"),
    `const { answer } = require("./chunks/shared.cjs");
     const { basename } = require("node:path");
     console.log(JSON.stringify([answer(), basename(__filename), ...process.argv.slice(2)]));`,
  );
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function run(...options: string[]) {
  const words = [...options, at("bin/run.cjs"), at("dist/services/program.cjs"), "a word"];
  const { stdout, stderr } = spawnSync(process.execPath, words, { encoding: "utf8" });
  return { stdout: stdout.trim(), stderr };
}

const OUTPUT = { stdout: '[42,"program.cjs","a word"]', stderr: "" };

it("runs a program, and leaves its compiled code to the next", () => {
  expect(run()).toEqual(OUTPUT);
  const kept = keptFiles();
  expect(kept).toHaveLength(2);
  const before = kept.map((name) => readFileSync(at(`${KEPT}/${name}`)));
  expect(run()).toEqual(OUTPUT);
  expect(keptFiles().map((name) => readFileSync(at(`${KEPT}/${name}`)))).toEqual(before);
});

it("keeps code apart by options of Node and by the source", () => {
  run();
  expect(run("--single-threaded-gc")).toEqual(OUTPUT);
  expect(keptFiles()).toHaveLength(4);
  writeFileSync(at("dist/services/chunks/shared.cjs"), "exports.answer = () => 43;");
  expect(run().stdout).toContain("[43,");
  expect(keptFiles()).toHaveLength(5);
});

it.each([
  ["cut off", (code: Buffer) => code.subarray(0, code.length / 2)],
  ["damaged", (code: Buffer) => code.fill(0, 100)],
  ["empty", () => Buffer.alloc(0)],
])("compiles anew what is %s, and mends it", (_, damage) => {
  run();
  const before = keptFiles().map((name) => readFileSync(at(`${KEPT}/${name}`)));
  for (const name of keptFiles()) writeFileSync(at(`${KEPT}/${name}`), damage(readFileSync(at(`${KEPT}/${name}`))));
  expect(run()).toEqual(OUTPUT);
  expect(keptFiles().map((name) => readFileSync(at(`${KEPT}/${name}`)).length)).toEqual(
    before.map((code) => code.length),
  );
});

it("runs where nothing can be kept", () => {
  writeFileSync(at(KEPT), "in the way");
  expect(run()).toEqual(OUTPUT);
  expect(existsSync(at(`${KEPT}/x`))).toBe(false);
});
