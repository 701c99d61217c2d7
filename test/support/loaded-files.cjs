/**
 * Says which files of the build a program loads at its start, as JSON: `node loaded-files.cjs RUNNER PROGRAM…`, where the
 * runner is bin/run.cjs. The programs only declare things, or end by themselves.
 */
const vm = require("node:vm");

const loaded = [];
vm.Script = class extends vm.Script {
  constructor(source, options) {
    super(source, options);
    loaded.push({ file: options.filename, octets: source.length });
  }
};

const [runner, ...programs] = process.argv.splice(2);
const { load } = require(runner);
// The runner would keep code of which nothing has run, and no start compiles more of what is kept.
process.removeAllListeners("exit");
process.once("exit", () => process.stdout.write(JSON.stringify(loaded)));
for (const program of programs) load(program);
