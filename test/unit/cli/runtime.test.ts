import { Command } from "commander";
import { afterEach, expect, it, vi } from "vitest";
import { makeRuntime } from "../../../services/cli/runtime.ts";
import { loadConfig } from "../../../services/platform/config/config.ts";

afterEach(() => vi.restoreAllMocks());

it.each([
  [["--json"], ["a", "b"], '[{"name":"a"},{"name":"b"}]\n'],
  [["--json"], [], "[]\n"],
  [[], ["a", "b"], "name a\nname b\n"],
  [[], [], ""],
] as const)("prints many results one by one: %j %j", async (options, names, printed) => {
  const config = loadConfig({});
  if (!config.ok) throw new Error(config.error.join("\n"));
  const program = new Command("palomar").option("--json").action(() => {});
  program.parse([...options], { from: "user" });
  let text = "";
  // A reader that has enough each time: the next result waits until it takes more.
  vi.spyOn(process.stdout, "write").mockImplementation((piece) => {
    text += piece;
    setImmediate(() => process.stdout.emit("drain"));
    return false;
  });
  async function* results() {
    for (const name of names) yield { name };
  }
  const count = await makeRuntime(program, config.value).printEach(results(), ({ name }) => `name ${name}`);
  vi.restoreAllMocks();
  expect([count, text]).toEqual([names.length, printed]);
});
