import { Command, CommanderError } from "commander";
import { type Config, loadConfig, unknownVariables } from "../platform/config.ts";
import { EmbeddedPostgresError } from "../platform/embedded-postgres-error.ts";
import { packageVersion } from "../platform/package-folder.ts";
import { CommandMisused, CommandRefused, type CommandRuntime, makeRuntime } from "./runtime.ts";

type Register = (program: Command, runtime: CommandRuntime) => void;

/** A module is loaded when its command is called, so that none waits for what the others need. */
const COMMANDS: { readonly [name: string]: readonly (() => Promise<Register>)[] } = {
  start: [async () => (await import("./commands/start.ts")).registerStartCommand],
  migrate: [async () => (await import("./commands/migrate.ts")).registerMigrateCommand],
  status: [async () => (await import("./commands/status.ts")).registerStatusCommand],
  reseller: [async () => (await import("./commands/reseller.ts")).registerResellerCommand],
  acl: [
    async () => (await import("./commands/acl.ts")).registerAclCommand,
    async () => (await import("./commands/acl-show.ts")).registerAclShowCommand,
  ],
  "resolver-block": [async () => (await import("./commands/resolver-block.ts")).registerResolverBlockCommand],
  rpz: [async () => (await import("./commands/rpz.ts")).registerRpzCommand],
  catalog: [async () => (await import("./commands/catalog.ts")).registerCatalogCommand],
  zone: [async () => (await import("./commands/zone.ts")).registerZoneCommand],
  instance: [async () => (await import("./commands/instance.ts")).registerInstanceCommand],
  user: [async () => (await import("./commands/user.ts")).registerUserCommand],
  contact: [async () => (await import("./commands/contact.ts")).registerContactCommand],
  webhook: [async () => (await import("./commands/webhook.ts")).registerWebhookCommand],
  bounce: [async () => (await import("./commands/bounce.ts")).registerBounceCommand],
};

const REFUSED = 1;
const USAGE = 2;

// Who reads the output may have read enough: `palomar contact export demo | head`.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
  process.exit(0);
});
const config = readConfig();
const program = new Command("palomar")
  .description("DNS and mail infrastructure: services and the operator's commands")
  .version(packageVersion)
  .option("--json", "print one JSON object (lists: one array)")
  .configureHelp({ showGlobalOptions: true })
  .exitOverride();
const runtime = makeRuntime(program, config);
for (const load of commandsFor(process.argv.slice(2))) (await load())(program, runtime);
inheritExit(program);

try {
  await program.parseAsync();
} catch (error) {
  process.exitCode = report(error);
}

/** Those of the command that is called; all of them where none is, for the help. */
function commandsFor(words: readonly string[]): readonly (() => Promise<Register>)[] {
  const called = words.find((word) => !word.startsWith("-"));
  return (
    (called !== undefined && Object.hasOwn(COMMANDS, called) && COMMANDS[called]) || Object.values(COMMANDS).flat()
  );
}

function readConfig(): Config {
  const loaded = loadConfig();
  for (const name of unknownVariables()) process.stderr.write(`palomar: unknown variable ${name}\n`);
  if (loaded.ok) return loaded.value;
  for (const problem of loaded.error) process.stderr.write(`palomar: ${problem}\n`);
  process.exit(USAGE);
}

/** Subcommands throw like the program does, so that this file alone decides exit statuses. */
function inheritExit(command: Command): void {
  for (const child of command.commands) inheritExit(child.exitOverride());
}

function report(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : USAGE;
  if (error instanceof CommandMisused) {
    process.stderr.write(`palomar: ${error.message}\n`);
    return USAGE;
  }
  if (error instanceof CommandRefused || error instanceof EmbeddedPostgresError) {
    process.stderr.write(`palomar: ${error.message}\n`);
  } else if ((error as { code?: string }).code === "ECONNREFUSED") {
    process.stderr.write(`palomar: the database does not answer: ${(error as Error).message}\n`);
  } else {
    process.stderr.write(`palomar: ${(error as Error).stack ?? error}\n`);
  }
  return REFUSED;
}
