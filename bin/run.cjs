/**
 * Runs what the build made, from the code that V8 compiled of it before: a process starts in two thirds of the time.
 *
 *     node bin/run.cjs dist/services/cli/service-process.cjs dns-api
 *
 * The first process that lacks some of that code leaves it in dist/services/.cache, which goes with each build. It is kept
 * by Node's version and options, as V8 takes it from the same alone, and by the source's digest. A folder that cannot be
 * written has none. Node's own modules only.
 */
const { hash } = require("node:crypto");
const { mkdirSync, readFileSync, renameSync, writeFileSync } = require("node:fs");
const { createRequire } = require("node:module");
const { dirname, join, resolve } = require("node:path");
const { Script } = require("node:vm");
const { threadId } = require("node:worker_threads");

const CACHE = join(__dirname, "..", "dist", "services", ".cache");
const COMPILER = [process.version, process.arch, ...process.execArgv, process.env.NODE_OPTIONS].join(" ");
const COMPILER_DIGEST = hash("sha1", COMPILER);
/** Node's own modules and native packages, wherever in the build they are asked for. */
const requireOther = createRequire(__filename);
/** What a process compiles at its start, and for the first requests, has been compiled this long after it. */
const KEEP_AFTER_MS = 5_000;
const DIGEST_OCTETS = 20;

const modules = new Map();
/** Scripts whose code was not there, by the file for it. */
const compiled = new Map();

/** @returns the exports of a CommonJS file of the build, which imports nothing dynamically */
function load(file) {
  const known = modules.get(file);
  if (known !== undefined) return known.exports;
  const module = { exports: {} };
  modules.set(file, module);
  const require = (id) => (id.startsWith(".") ? load(resolve(dirname(file), id)) : requireOther(id));
  compile(file).call(module.exports, module.exports, Object.assign(require, requireOther), module, file, dirname(file));
  return module.exports;
}

function compile(filename) {
  const source = readFileSync(filename);
  const kept = join(CACHE, `${hash("sha1", source)}-${COMPILER_DIGEST}`);
  const script = new Script(`(function (exports, require, module, __filename, __dirname) {${source.toString()}\n})`, {
    filename,
    cachedData: readKept(kept),
  });
  // Undefined where there was none.
  if (script.cachedDataRejected !== false) compiled.set(kept, script);
  return script.runInThisContext();
}

/** V8 believes what it is given: what is not whole is not given to it. */
function readKept(file) {
  try {
    const content = readFileSync(file);
    const code = content.subarray(DIGEST_OCTETS);
    return digestOf(code).equals(content.subarray(0, DIGEST_OCTETS)) ? code : undefined;
  } catch {
    return undefined;
  }
}

function keep() {
  try {
    if (compiled.size > 0) mkdirSync(CACHE, { recursive: true });
    for (const [file, script] of compiled) {
      const code = script.createCachedData();
      const draft = `${file}.${process.pid}-${threadId}`;
      writeFileSync(draft, Buffer.concat([digestOf(code), code]));
      renameSync(draft, file);
    }
  } catch {
    // Nobody may write there, or there is no room: the next start takes as long as this one.
  }
  compiled.clear();
}

function digestOf(code) {
  return hash("sha1", code, "buffer");
}

// As Node has it from release 21 on: to find out where it runs, pg would otherwise have Node load all of its fetch.
globalThis.navigator ??= { userAgent: `Node.js/${process.versions.node.split(".")[0]}` };
// A program of its own, or of a thread; `palomar.mjs` loads one itself.
const isProgram = process.argv[1] === __filename;
const keepSoon = () => setTimeout(keep, KEEP_AFTER_MS).unref();
// A service waits for the database first, and says when it has started: code that has not run is not compiled yet.
if (isProgram && process.send) process.once("started", keepSoon);
else keepSoon();
process.once("exit", keep);
if (isProgram) load(resolve(process.argv.splice(2, 1)[0]));
module.exports = { load };
