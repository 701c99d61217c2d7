#!/usr/bin/env node
/**
 * Makes a clone ready to run: installs the dependencies when node_modules does not match the lockfile, and builds
 * when the sources differ from what dist/ was built from. Everything it says goes to standard error, since the
 * standard output of `palomar … --json` belongs to the command. Node's own modules only: nothing else is there yet.
 */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { basename, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";

const packageFolder = fileURLToPath(new URL("..", import.meta.url));
const inPackage = (...names) => join(packageFolder, ...names);

const OLDEST_NODE = [20, 19];
const INSTALL_STAMP = inPackage("node_modules", ".palomar-set-up");
const BUILD_STAMP = inPackage("dist", ".palomar-set-up");
/** The sources' sizes and times of change when they last were what dist/ was built from. */
const SEEN = inPackage("dist", "services", ".set-up-seen");
/** The console's pages, which a browser runs: vite builds them into dist/console-web. */
const CONSOLE_WEB = inPackage("services", "console", "web");
const LOCK = inPackage("dist", ".set-up.lock");
/** No installation takes this long: such a lock belongs to a set-up that was killed. */
const LOCK_LIFETIME_MS = 15 * 60_000;
const LOCK_POLL_MS = 100;
/** Longer than any file system's clock stands still. */
const MOMENT_MS = 2_000;

/** Ends the process with status 2 on a Node that is too old. */
export function requireNodeVersion() {
  const [major, minor] = process.versions.node.split(".").map(Number);
  if (major > OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor >= OLDEST_NODE[1])) return;
  say(`Node ${OLDEST_NODE.join(".")} or newer is needed, and this is ${process.versions.node}.`);
  process.exit(2);
}

/** Installs and builds what is missing; ends the process with status 1 when that fails. Takes milliseconds otherwise. */
export function setUp() {
  if (isInstallation() || (isInstalled() && isBuilt())) return;
  try {
    mkdirSync(inPackage("dist"), { recursive: true });
    withLock(() => {
      // Another set-up may have done either while this one waited.
      if (!isInstalled()) install();
      if (!isBuilt()) build();
    });
  } catch (error) {
    say(error.message);
    process.exit(1);
  }
}

/** A production image brings dist/ and neither the sources nor the compiler. */
function isInstallation() {
  const isBuildable = existsSync(inPackage("services")) && existsSync(inPackage("tsconfig.build.json"));
  const hasCompiler = existsSync(inPackage("node_modules", "typescript"));
  const isComplete =
    existsSync(inPackage("dist", "services", "cli", "main.cjs")) && existsSync(inPackage("node_modules"));
  return !isBuildable || (isComplete && !hasCompiler);
}

function isInstalled() {
  return readText(INSTALL_STAMP) === installStamp();
}

function installStamp() {
  return `${digestOf([inPackage("package-lock.json")])} ${platform()}`;
}

/** Packages with native code are chosen by platform, and may be by Node's major version. */
function platform() {
  const [nodeMajor] = process.versions.node.split(".");
  return `${process.platform}-${process.arch} node${nodeMajor}\n`;
}

function install() {
  if (!isInstalledByHand()) {
    requireOwnPackages();
    say("installing the dependencies (npm ci), once …");
    const options = ["ci", "--include=dev", "--no-audit", "--no-fund"];
    const npm = process.env.npm_execpath;
    // npm names its own program when it runs a script; another package manager names itself there.
    if (npm && basename(npm).startsWith("npm")) run(process.execPath, [npm, ...options]);
    else run("npm", options);
  }
  writeAtomically(INSTALL_STAMP, installStamp());
}

/**
 * Whether somebody ran npm since, or in our place: every package of the lockfile is there in its version, save optional
 * ones (those of other platforms). What is there for another platform or Node is of no use.
 */
function isInstalledByHand() {
  const stamp = readText(INSTALL_STAMP);
  if (stamp !== undefined && !stamp.endsWith(platform())) return false;
  const { "": _self, ...locked } = JSON.parse(readText(inPackage("package-lock.json"))).packages;
  return Object.entries(locked).every(([folder, { version, optional }]) => {
    const manifest = readText(inPackage(folder, "package.json"));
    if (manifest === undefined) return optional === true;
    return version === undefined || JSON.parse(manifest).version === version;
  });
}

/** npm ci empties the folder first: through a link it would empty somebody else's. */
function requireOwnPackages() {
  if (!lstatSync(inPackage("node_modules"), { throwIfNoEntry: false })?.isSymbolicLink()) return;
  throw new Error(
    "node_modules is a symbolic link to packages that are not those of package-lock.json: nothing is installed through it. Remove the link, or install where it leads.",
  );
}

/** Sources that nobody touched since are not read again: all of them take a command longer than what it does. */
function isBuilt() {
  const stamp = readText(BUILD_STAMP);
  if (stamp === undefined) return false;
  const { digest, newestMs } = lookAt(sources());
  const look = stamp + digest;
  if (readText(SEEN) === look) return true;
  if (stamp !== buildStamp()) return false;
  // What is written just now may be written once more within the same moment of the clock.
  if (Date.now() - newestMs < MOMENT_MS) return true;
  try {
    writeAtomically(SEEN, look);
  } catch {
    // Nobody may write there: they are read again each time.
  }
  return true;
}

/** The contents, not the times: git gives every file it writes a new one. */
function buildStamp() {
  return `${digestOf(sources())}\n`;
}

/** What dist/ is built from. */
function sources() {
  const settings = ["package-lock.json", "tsconfig.json", "tsconfig.build.json", "rolldown.config.mjs"];
  return [...settings.map((name) => inPackage(name)), ...filesBelow(inPackage("services"))];
}

/** By the time of change (ctime), which no program can set back. */
function lookAt(files) {
  let newestMs = 0;
  const seen = files.map((file) => {
    const { size, ctimeMs } = statSync(file);
    newestMs = Math.max(newestMs, ctimeMs);
    return `${file} ${size} ${ctimeMs}\n`;
  });
  return { digest: createHash("sha256").update(seen.join("")).digest("hex"), newestMs };
}

function build() {
  say("building …");
  const stamp = buildStamp(); // a source that changes meanwhile must be built again
  rmSync(BUILD_STAMP, { force: true });
  const program = (...names) => inPackage("node_modules", ...names);
  run(process.execPath, [program("typescript", "bin", "tsc"), "-p", inPackage("tsconfig.build.json")]);
  run(process.execPath, [program("rolldown", "bin", "cli.mjs"), "--config"]);
  if (existsSync(CONSOLE_WEB)) {
    run(process.execPath, [program("vite", "bin", "vite.js"), "build", CONSOLE_WEB, "--logLevel", "warn"]);
  }
  writeAtomically(BUILD_STAMP, stamp);
}

function run(program, options) {
  const { status, signal, error, stdout, stderr } = spawnSync(program, options, {
    cwd: packageFolder,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
    maxBuffer: 256 * 1024 * 1024,
  });
  if (status === 0) return;
  const command = [basename(program), ...options].join(" ");
  throw new Error(
    `${stdout ?? ""}${stderr ?? ""}\n${command} failed: ${error?.message ?? signal ?? `status ${status}`}`,
  );
}

/** One set-up at a time; the others wait, and find everything done. */
function withLock(action) {
  while (!tryLock()) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, LOCK_POLL_MS);
  try {
    action();
  } finally {
    rmSync(LOCK, { force: true });
  }
}

function tryLock() {
  try {
    writeFileSync(LOCK, `${process.pid}\n`, { flag: "wx" });
    return true;
  } catch (error) {
    if (error.code !== "EEXIST") throw error;
    removeStaleLock();
    return false;
  }
}

function removeStaleLock() {
  const found = readText(LOCK);
  if (found === undefined || !isStale(found)) return;
  const aside = `${LOCK}.${process.pid}`;
  try {
    renameSync(LOCK, aside);
  } catch (error) {
    if (error.code === "ENOENT") return;
    throw error;
  }
  // Between the look and the move another set-up may have replaced it: then it goes back.
  if (readText(aside) !== found) linkSync(aside, LOCK);
  rmSync(aside);
}

function isStale(lock) {
  const age = Date.now() - (statSync(LOCK, { throwIfNoEntry: false })?.mtimeMs ?? Date.now());
  if (age > LOCK_LIFETIME_MS) return true;
  const pid = Number(lock);
  if (pid === 0) return false; // its owner is about to write it
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return error.code === "ESRCH";
  }
}

function digestOf(files) {
  const hash = createHash("sha256");
  for (const file of files) {
    const content = readFileSync(file);
    hash.update(`${relative(packageFolder, file)} ${content.length}\n`).update(content);
  }
  return hash.digest("hex");
}

function filesBelow(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => `${entry.parentPath}${sep}${entry.name}`)
    .sort();
}

function writeAtomically(file, content) {
  writeFileSync(`${file}.new`, content);
  renameSync(`${file}.new`, file);
}

function readText(file) {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    if (error.code === "ENOENT") return undefined;
    throw error;
  }
}

function say(sentence) {
  process.stderr.write(`palomar: ${sentence}\n`);
}

if (process.argv[1] !== undefined && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  requireNodeVersion();
  setUp();
}
