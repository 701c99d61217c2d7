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
process.once("exit", () => process.stdout.write(JSON.stringify(loaded)));

const [runner, ...programs] = process.argv.splice(2);
for (const program of programs) require(runner).load(program);
