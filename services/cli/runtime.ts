import type { Command } from "commander";
import type { Config } from "../platform/config.ts";
import { type Db, openDb } from "../platform/db.ts";
import { openEmbeddedPostgres } from "../platform/embedded-postgres.ts";
import { makeLogger } from "../platform/logger.ts";
import { isBehind, migrate } from "../platform/migrations.ts";
import { findSecret } from "../platform/secret.ts";

/** The command was understood and is not done: exit status 1. */
export class CommandRefused extends Error {}

/** The command was called wrongly: exit status 2. */
export class CommandMisused extends Error {}

/** What a command that speaks to the database is given. */
export interface CommandDatabase {
  readonly db: Db;
  readonly secret: string;
  readonly config: Config;
}

/** What every command is given; commands print and refuse through it and never end the process themselves. */
export interface CommandRuntime {
  readonly config: Config;
  /** Opens the database, starting the embedded one for the while when nobody else has, and closes it afterwards. */
  withDatabase<T>(use: (database: CommandDatabase) => Promise<T>): Promise<T>;
  /** The result on standard output: the object with `--json`, else the text for people. */
  print(result: unknown, text: string): void;
  /** A word on standard error, such as progress. */
  note(text: string): void;
  /** Ends the command with exit status 1 and this text on standard error. */
  refuse(text: string): never;
  /** Ends the command with exit status 2 and this text on standard error. */
  misused(text: string): never;
  /** Lets the command finish, and end with this status. */
  exitWith(status: 0 | 1): void;
}

export function makeRuntime(program: Command, config: Config): CommandRuntime {
  return {
    config,
    withDatabase: (use) => withDatabase(config, use),
    print: (result, text) => {
      const line = program.opts().json ? JSON.stringify(result) : text;
      process.stdout.write(line.endsWith("\n") ? line : `${line}\n`);
    },
    note: (text) => {
      process.stderr.write(`${text}\n`);
    },
    refuse: (text) => {
      throw new CommandRefused(text);
    },
    misused: (text) => {
      throw new CommandMisused(text);
    },
    exitWith: (status) => {
      process.exitCode = status;
    },
  };
}

async function withDatabase<T>(config: Config, use: (database: CommandDatabase) => Promise<T>): Promise<T> {
  const server = config.databaseUrl === null ? await openEmbedded(config) : undefined;
  const db = openDb(server?.url ?? (config.databaseUrl as string), { connections: 4, name: "command" });
  try {
    // The embedded database is ours alone; a shared one is brought up to date on purpose, by `migrate` or `start`.
    if (server) await migrate(db);
    else if (await isBehind(db)) throw new CommandRefused("the database is not up to date: run `palomar migrate`");
    return await use({ db, secret: findSecret(config), config });
  } finally {
    await db.destroy();
    await server?.release();
  }
}

function openEmbedded(config: Config) {
  return openEmbeddedPostgres({ dataDir: config.dataDir, logger: makeLogger("command", "error") });
}
