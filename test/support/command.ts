import { Command } from "commander";
import { CommandMisused, CommandRefused } from "../../services/cli/command-errors.ts";
import type { CommandDatabase } from "../../services/cli/database.ts";
import type { CommandRuntime } from "../../services/cli/runtime.ts";

/** What a command printed. */
export interface Printed {
  /** As people read it. */
  readonly lines: readonly string[];
  /** As `--json` has it. */
  readonly json: readonly unknown[];
}

/**
 * Runs a command as its user would, in this process.
 * @param register one of the functions in services/cli/commands
 * @throws CommandRefused, CommandMisused
 */
export async function runCommand(
  register: (program: Command, runtime: CommandRuntime) => void,
  database: CommandDatabase,
  words: readonly string[],
): Promise<Printed> {
  const lines: string[] = [];
  const json: unknown[] = [];
  const runtime: CommandRuntime = {
    config: database.config,
    withDatabase: (use) => use(database),
    print: (result, text) => {
      json.push(result);
      lines.push(...String(text).split("\n"));
    },
    printEach: async (results, toLine) => {
      for await (const result of results) {
        json.push(result);
        lines.push(toLine(result));
      }
      return lines.length;
    },
    note: () => {},
    refuse: (text) => {
      throw new CommandRefused(text);
    },
    misused: (text) => {
      throw new CommandMisused(text);
    },
    exitWith: () => {},
  };
  const program = new Command().exitOverride();
  register(program, runtime);
  await program.parseAsync(words, { from: "user" });
  return { lines, json };
}
