import { once } from "node:events";
import type { Command } from "commander";
import type { Config } from "../platform/config/config.ts";
import { CommandMisused, CommandRefused } from "./command-errors.ts";
import type { CommandDatabase, TakeKeys } from "./database.ts";

/** Who is named as the maker of what commands change. */
export const COMMAND_ACTOR = "operator";

/** What every command is given; commands print and refuse through it and never end the process themselves. */
export interface CommandRuntime {
  readonly config: Config;
  /** Opens the database, starting the embedded one for the while when nobody else has, and closes it afterwards. */
  withDatabase<T>(use: (database: CommandDatabase) => Promise<T>, takeKeys?: TakeKeys): Promise<T>;
  /** The result on standard output: the object with `--json`, else the text for people, or octets as they are. */
  print(result: unknown, text: string | Uint8Array): void;
  /**
   * Many results, one after the other as they come: with `--json` one array, else a line each.
   * @returns how many there were
   */
  printEach<T>(results: AsyncIterable<T>, textOf: (result: T) => string): Promise<number>;
  /** A word on standard error, such as progress. */
  note(text: string): void;
  /** Ends the command with exit status 1 and this text on standard error. */
  refuse(text: string): never;
  /** Ends the command with exit status 2 and this text on standard error. */
  misused(text: string): never;
  /**
   * Lets the command finish, and end with this status.
   * @param atOnce although something is still waited for, which may never come
   */
  exitWith(status: 0 | 1, atOnce?: boolean): void;
}

export function makeRuntime(program: Command, config: Config): CommandRuntime {
  const note = (text: string) => {
    process.stderr.write(`${text}\n`);
  };
  return {
    config,
    // The driver takes longer to load than commands that need no database take to run.
    withDatabase: async (use, takeKeys) =>
      (await import("./database.ts")).withDatabase({ config, note }, use, takeKeys),
    print: (result, text) => {
      const line = program.opts().json ? JSON.stringify(result) : text;
      if (typeof line !== "string") process.stdout.write(line);
      else process.stdout.write(line === "" || line.endsWith("\n") ? line : `${line}\n`);
    },
    printEach: (results, textOf) => printEach(results, program.opts().json ? undefined : textOf),
    note,
    refuse: (text) => {
      throw new CommandRefused(text);
    },
    misused: (text) => {
      throw new CommandMisused(text);
    },
    exitWith: (status, atOnce = false) => {
      process.exitCode = status;
      if (atOnce) process.exit();
    },
  };
}

async function printEach<T>(results: AsyncIterable<T>, textOf: ((result: T) => string) | undefined): Promise<number> {
  let count = 0;
  for await (const result of results) {
    const text = textOf ? `${textOf(result)}\n` : `${count === 0 ? "[" : ","}${JSON.stringify(result)}`;
    count += 1;
    if (!process.stdout.write(text)) await once(process.stdout, "drain");
  }
  if (!textOf) process.stdout.write(count === 0 ? "[]\n" : "]\n");
  return count;
}
