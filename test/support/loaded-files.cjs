/**
 * Says which files of the build a program loads at its start, as JSON on a line of its own, the last one:
 * `node loaded-files.cjs RUNNER PROGRAM… [-- WORD…]`, where the runner is bin/run.cjs, and the words are what the programs
 * are called with. The programs only declare things, or end by themselves.
 */
const vm = require("node:vm");

const loaded = [];
vm.Script = class extends vm.Script {
  constructor(source, options) {
    super(source, options);
    loaded.push({ file: options.filename, octets: source.length });
  }
};

const given = process.argv.splice(2);
const end = given.includes("--") ? given.indexOf("--") : given.length;
const [runner, ...programs] = given.slice(0, end);
process.argv.push(...given.slice(end + 1));
const { load } = require(runner);
// The runner would keep code of which nothing has run, and no start compiles more of what is kept.
process.removeAllListeners("exit");
process.once("exit", () => process.stdout.write(JSON.stringify(loaded)));
for (const program of programs) load(program);
