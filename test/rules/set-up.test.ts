import { type SpawnSyncReturns, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { packageFolder } from "../../services/platform/package-folder.ts";

/** npm and the compiler take their time on a busy machine. */
const PATIENCE_MS = 300_000;

/**
 * The set-up of the product, run in a clone of a smaller one: its one dependency is a local package, so that npm needs
 * no registry, which runs the real compiler.
 */
let clone: string;
/** Two clones to copy: one that was never used, and one in which everything is installed and built. */
const fresh = mkdtempSync(join(tmpdir(), "palomar-set-up-"));
const ready = mkdtempSync(join(tmpdir(), "palomar-set-up-"));

beforeAll(() => {
  clone = fresh;
  cpSync(join(packageFolder, "bin"), join(clone, "bin"), { recursive: true });
  standIn("compiler", "typescript", "bin/tsc", "typescript/lib/tsc.js");
  standIn("bundler", "rolldown", "bin/cli.mjs", "rolldown/bin/cli.mjs");
  write("package.json", JSON.stringify({ name: "small", type: "module", devDependencies: BUILDERS }));
  write("tsconfig.json", JSON.stringify({ compilerOptions: COMPILER_OPTIONS }));
  write(
    "tsconfig.build.json",
    JSON.stringify({
      extends: "./tsconfig.json",
      include: ["services"],
    }),
  );
  write(
    "rolldown.config.mjs",
    `export default {
       input: { "cli/main": "services/cli/main.ts" },
       platform: "node",
       logLevel: "warn",
       output: { dir: "dist/services", cleanDir: true, format: "cjs", entryFileNames: "[name].cjs" },
     };`,
  );
  write(
    "services/cli/main.ts",
    `import { answer } from "../core/answer.ts";
     console.log(JSON.stringify({ answer, options: process.argv.slice(2) }));
     process.exitCode = Number(process.env["EXIT"] ?? 0);`,
  );
  write("services/core/answer.ts", "export const answer: number = 42;");
  write("services/globals.d.ts", "declare const process: any; declare const console: any;");
  lock();
  copy(fresh, ready);
  clone = ready;
  expect(palomar().status).toBe(0);
}, PATIENCE_MS);

beforeEach(() => {
  clone = mkdtempSync(join(tmpdir(), "palomar-set-up-"));
  copy(fresh, clone);
});

afterEach(() => rmSync(clone, { recursive: true, force: true }));
afterAll(() => {
  for (const folder of [fresh, ready]) rmSync(folder, { recursive: true, force: true });
});

const BUILDERS = { typescript: "file:compiler", rolldown: "file:bundler" };

/** A package of the clone that runs a program of the real one. */
function standIn(folder: string, name: string, program: string, real: string): void {
  const url = pathToFileURL(join(packageFolder, "node_modules", real)).href;
  write(`${folder}/package.json`, JSON.stringify({ name, version: "1.0.0", type: "module" }));
  write(`${folder}/${program}`, `import ${JSON.stringify(url)};\n`);
}

function copy(from: string, to: string): void {
  cpSync(from, to, { recursive: true, verbatimSymlinks: true });
}

const COMPILER_OPTIONS = {
  target: "es2022",
  lib: ["es2022"],
  module: "nodenext",
  moduleResolution: "nodenext",
  types: [],
  rewriteRelativeImportExtensions: true,
  noEmit: true,
};

function write(name: string, content: string): void {
  mkdirSync(dirname(join(clone, name)), { recursive: true });
  writeFileSync(join(clone, name), content);
}

function lock(): void {
  const { status, stderr } = npm("install", "--package-lock-only", "--offline", "--ignore-scripts");
  expect(status, stderr).toBe(0);
}

function npm(...options: string[]): SpawnSyncReturns<string> {
  return spawnSync("npm", options, { cwd: clone, encoding: "utf8" });
}

function palomar(options: string[] = [], environment: Record<string, string> = {}): SpawnSyncReturns<string> {
  return spawnSync(process.execPath, [join(clone, "bin/palomar.mjs"), ...options], {
    cwd: tmpdir(),
    encoding: "utf8",
    env: { ...process.env, ...environment },
  });
}

const INSTALLS = "installing the dependencies";
const BUILDS = "building";

test("a fresh clone is installed and built, and then runs the command with its arguments and exit status", () => {
  const outcome = palomar(["status", "--json"], { EXIT: "1" });
  expect(outcome.stderr).toContain(INSTALLS);
  expect(outcome.stderr).toContain(BUILDS);
  expect(JSON.parse(outcome.stdout)).toEqual({ answer: 42, options: ["status", "--json"] });
  expect(outcome.status).toBe(1);
});

test("the second time there is nothing to do", () => {
  copy(ready, clone);
  const outcome = palomar();
  expect(outcome).toMatchObject({ status: 0, stderr: "" });
  expect(readdirSync(join(clone, "dist")).sort()).toEqual([".palomar-set-up", "services"]);
});

test("a source that changed is built again, though its size and its time are what they were", async () => {
  copy(ready, clone);
  // What is younger than two seconds is read each time.
  await sleep(2_500);
  expect(palomar().stdout).toContain("42");
  expect(readdirSync(join(clone, "dist/services"))).toContain(".set-up-seen");
  const source = join(clone, "services/core/answer.ts");
  const { atime, mtime } = statSync(source);
  write("services/core/answer.ts", readFileSync(source, "utf8").replace("42", "43"));
  utimesSync(source, atime, mtime);
  const outcome = palomar();
  expect(outcome.stderr).toContain(BUILDS);
  expect(outcome.stdout).toContain("43");
});

test("a changed source is built again, and what was built before leaves nothing behind", () => {
  copy(ready, clone);
  write("dist/services/core/answer.js", "of a release before");
  write("services/cli/main.ts", "console.log('changed');");
  rmSync(join(clone, "services/core"), { recursive: true });
  const outcome = palomar();
  expect(outcome.stderr).toContain(BUILDS);
  expect(outcome.stderr).not.toContain(INSTALLS);
  expect(outcome.stdout).toBe("changed\n");
  expect(existsSync(join(clone, "dist/services/core/answer.js"))).toBe(false);
});

test("the console's pages are built by vite, and are no leftovers of the compiler's", () => {
  write("builder/package.json", JSON.stringify({ name: "vite", version: "1.0.0", type: "module" }));
  write(
    "builder/bin/vite.js",
    `import { cpSync } from "node:fs";
     const [verb, folder] = process.argv.slice(2);
     if (verb === "build") cpSync(folder + "/src", "dist/console-web", { recursive: true });`,
  );
  write("services/console/web/src/page.js", "first");
  const devDependencies = { ...BUILDERS, vite: "file:builder" };
  write("package.json", JSON.stringify({ name: "small", type: "module", devDependencies }));
  lock();
  expect(palomar().status).toBe(0);
  const page = () => readFileSync(join(clone, "dist/console-web/page.js"), "utf8");
  expect(page()).toBe("first");
  write("services/console/web/src/page.js", "second");
  expect(palomar().stderr).toContain(BUILDS);
  expect(page()).toBe("second");
});

test("a source that does not compile is an error on standard error, until it is mended", () => {
  write("services/core/answer.ts", "export const answer: number = 'forty-two';");
  for (const _attempt of ["first", "second"]) {
    const outcome = palomar(["status"]);
    expect(outcome).toMatchObject({ status: 1, stdout: "" });
    expect(outcome.stderr).toContain("services/core/answer.ts(1,14): error TS2322");
  }
  write("services/core/answer.ts", "export const answer: number = 43;");
  expect(JSON.parse(palomar().stdout).answer).toBe(43);
});

test("a lockfile that cannot be installed is an error on standard error", () => {
  write("package.json", JSON.stringify({ name: "small", type: "module", dependencies: { unlocked: "file:compiler" } }));
  const outcome = palomar(["status"]);
  expect(outcome).toMatchObject({ status: 1, stdout: "" });
  expect(outcome.stderr).toContain("npm error");
});

test("another lockfile, or packages chosen for another Node, are installed anew", () => {
  copy(ready, clone);
  write("second/package.json", JSON.stringify({ name: "second", version: "1.0.0" }));
  write(
    "package.json",
    JSON.stringify({
      name: "small",
      type: "module",
      devDependencies: { ...BUILDERS, second: "file:second" },
    }),
  );
  lock();
  expect(palomar().stderr).toContain(INSTALLS);
  expect(existsSync(join(clone, "node_modules/second/package.json"))).toBe(true);
  expect(palomar().stderr).toBe("");

  const stamp = join(clone, "node_modules/.palomar-set-up");
  writeFileSync(stamp, readFileSync(stamp, "utf8").replace(/node\d+/, "node1"));
  expect(palomar().stderr).toContain(INSTALLS);
});

test("what somebody installed with npm by hand is taken as it is", () => {
  expect(npm("ci", "--offline").status).toBe(0);
  const outcome = palomar();
  expect(outcome.stderr).toContain(BUILDS);
  expect(outcome.stderr).not.toContain(INSTALLS);
});

test("nothing is installed through a link to somebody else's packages, and packages that fit are used through it", () => {
  const elsewhere = mkdtempSync(join(tmpdir(), "palomar-set-up-"));
  try {
    writeFileSync(join(elsewhere, "theirs"), "kept");
    symlinkSync(elsewhere, join(clone, "node_modules"));
    const outcome = palomar();
    expect(outcome).toMatchObject({ status: 1, stdout: "" });
    expect(outcome.stderr).toContain("node_modules is a symbolic link");
    expect(readdirSync(elsewhere)).toEqual(["theirs"]);
  } finally {
    rmSync(elsewhere, { recursive: true });
  }
  rmSync(join(clone, "node_modules"));
  symlinkSync(join(ready, "node_modules"), join(clone, "node_modules"));
  expect(palomar()).toMatchObject({ status: 0 });
});

test("an installation without sources, or without the compiler, is left alone", () => {
  copy(ready, clone);
  rmSync(join(clone, "node_modules/typescript"), { recursive: true });
  write("services/core/answer.ts", "export const answer: number = 44;");
  expect(palomar()).toMatchObject({ status: 0, stderr: "" });
  rmSync(join(clone, "services"), { recursive: true });
  rmSync(join(clone, "node_modules"), { recursive: true });
  expect(JSON.parse(palomar().stdout).answer).toBe(42);
});

test("of two set-ups at the same moment one works and the other waits", async () => {
  const started = ["first", "second"].map((name) => {
    const child = spawn(process.execPath, [join(clone, "bin/palomar.mjs"), name], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    const output = { stdout: "", stderr: "" };
    child.stdout.setEncoding("utf8").on("data", (text) => (output.stdout += text));
    child.stderr.setEncoding("utf8").on("data", (text) => (output.stderr += text));
    return once(child, "close").then(([status]) => ({ status, ...output }));
  });
  const outcomes = await Promise.all(started);
  expect(outcomes.map(({ status, stdout }) => ({ status, ...JSON.parse(stdout) }))).toEqual([
    { status: 0, answer: 42, options: ["first"] },
    { status: 0, answer: 42, options: ["second"] },
  ]);
  expect(outcomes.map(({ stderr }) => stderr).join("")).toMatch(
    /^palomar: installing[^\n]*\npalomar: building[^\n]*\n$/,
  );
});

test("the lock of a set-up that was killed is taken over", () => {
  const { pid } = spawnSync(process.execPath, ["-e", ""]);
  write("dist/.set-up.lock", `${pid}\n`);
  expect(palomar().status).toBe(0);
  expect(existsSync(join(clone, "dist/.set-up.lock"))).toBe(false);
});

test("the program works through the link that npm makes for it", () => {
  copy(ready, clone);
  symlinkSync(join(clone, "bin/palomar.mjs"), join(clone, "palomar"));
  const outcome = spawnSync(process.execPath, [join(clone, "palomar"), "status"], { encoding: "utf8" });
  expect(JSON.parse(outcome.stdout).options).toEqual(["status"]);
});

test.each(["18.20.8", "20.18.3"])("Node %s is too old: status 2, and nothing is touched", (version) => {
  const older = `data:text/javascript,Object.defineProperty(process,"versions",{value:{...process.versions,node:"${version}"}})`;
  for (const program of ["palomar.mjs", "set-up.mjs"]) {
    const outcome = spawnSync(process.execPath, ["--import", older, join(clone, "bin", program)], { encoding: "utf8" });
    expect(outcome).toMatchObject({ status: 2, stdout: "" });
    expect(outcome.stderr).toContain(`Node 20.19 or newer is needed, and this is ${version}`);
  }
  expect(existsSync(join(clone, "node_modules"))).toBe(false);
});
