import { Command, CommanderError } from "commander";
import { type Config, loadConfig, namedPaths, unknownVariables } from "../platform/config/config.ts";
import { packageVersion } from "../platform/package-folder.ts";
import { CommandMisused } from "./command-errors.ts";
import { endNow } from "./ending.ts";
import { explainError } from "./explain-error.ts";
import { type CommandRuntime, makeRuntime } from "./runtime.ts";

type Register = (program: Command, runtime: CommandRuntime) => void;

/** A module is loaded when its command is called, so that none waits for what the others need. */
const COMMANDS: { readonly [name: string]: readonly (() => Promise<Register>)[] } = {
  start: [async () => (await import("./commands/start.ts")).registerStartCommand],
  migrate: [async () => (await import("./commands/migrate.ts")).registerMigrateCommand],
  database: [async () => (await import("./commands/database.ts")).registerDatabaseCommand],
  secret: [async () => (await import("./commands/secret.ts")).registerSecretCommand],
  backup: [async () => (await import("./commands/backup.ts")).registerBackupCommand],
  restore: [async () => (await import("./commands/backup.ts")).registerRestoreCommand],
  status: [async () => (await import("./commands/status.ts")).registerStatusCommand],
  reseller: [async () => (await import("./commands/reseller.ts")).registerResellerCommand],
  acl: [
    async () => (await import("./commands/acl.ts")).registerAclCommand,
    async () => (await import("./commands/acl-show.ts")).registerAclShowCommand,
  ],
  "resolver-block": [async () => (await import("./commands/resolver-block.ts")).registerResolverBlockCommand],
  rpz: [async () => (await import("./commands/rpz.ts")).registerRpzCommand],
  pool: [async () => (await import("./commands/pool.ts")).registerPoolCommand],
  token: [async () => (await import("./commands/token.ts")).registerTokenCommand],
  company: [async () => (await import("./commands/quota.ts")).registerCompanyCommand],
  catalog: [async () => (await import("./commands/catalog.ts")).registerCatalogCommand],
  zone: [async () => (await import("./commands/zone.ts")).registerZoneCommand],
  dnssec: [async () => (await import("./commands/dnssec.ts")).registerDnssecCommand],
  instance: [
    async () => (await import("./commands/instance.ts")).registerInstanceCommand,
    async () => (await import("./commands/instance-guard.ts")).registerInstanceGuardCommand,
  ],
  user: [async () => (await import("./commands/user.ts")).registerUserCommand],
  message: [async () => (await import("./commands/message.ts")).registerMessageCommand],
  contact: [async () => (await import("./commands/contact.ts")).registerContactCommand],
  suppression: [async () => (await import("./commands/suppression.ts")).registerSuppressionCommand],
  webhook: [async () => (await import("./commands/webhook.ts")).registerWebhookCommand],
  bounce: [async () => (await import("./commands/bounce.ts")).registerBounceCommand],
  mail: [async () => (await import("./commands/mail.ts")).registerMailCommand],
  "warm-up": [async () => (await import("./commands/warm-up.ts")).registerWarmUpCommand],
  pace: [async () => (await import("./commands/pace.ts")).registerPaceCommand],
  mailbox: [async () => (await import("./commands/mailbox.ts")).registerMailboxCommand],
};

/** Commands that look at the files which the configuration names before they begin, and tell all that is wrong together. */
const LOOK_AT_FILES: readonly (string | undefined)[] = ["start", "migrate"];

const REFUSED = 1;
const USAGE = 2;

// Who reads the output may have read enough: `palomar contact export demo | head`; of a backup nobody has.
process.stdout.once("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
  if (process.exitCode) process.stderr.write("palomar: standard output was closed before all of it was written\n");
  process.stdout.on("error", () => {});
  void endNow(Number(process.exitCode ?? 0));
});
const program = new Command("palomar")
  .description("DNS and mail infrastructure: services and the operator's commands")
  .version(packageVersion)
  .option("--json", "print one JSON object (lists: one array)")
  .configureHelp({ showGlobalOptions: true })
  .exitOverride();
void main();

async function main(): Promise<void> {
  const runtime = makeRuntime(program, await readConfig());
  try {
    for (const load of commandsFor(process.argv.slice(2))) (await load())(program, runtime);
    inheritExit(program);
    await program.parseAsync();
  } catch (error) {
    process.exitCode = await report(error);
  }
}

/** Those of the command that is called; where none is, all of them for the help, and none for the version. */
function commandsFor(words: readonly string[]): readonly (() => Promise<Register>)[] {
  if (words[0] === "--version" || words[0] === "-V") return [];
  const called = calledOf(words);
  return (
    (called !== undefined && Object.hasOwn(COMMANDS, called) && COMMANDS[called]) || Object.values(COMMANDS).flat()
  );
}

function calledOf(words: readonly string[]): string | undefined {
  return words.find((word) => !word.startsWith("-"));
}

async function readConfig(): Promise<Config> {
  const loaded = loadConfig();
  for (const name of unknownVariables()) process.stderr.write(`palomar: unknown variable ${name}\n`);
  if (loaded.ok) return loaded.value;
  const ofFiles = LOOK_AT_FILES.includes(calledOf(process.argv.slice(2)))
    ? await (await import("./stack.ts")).checkPaths(namedPaths())
    : [];
  for (const problem of [...loaded.error, ...ofFiles]) process.stderr.write(`palomar: ${problem}\n`);
  process.exit(USAGE);
}

/** Subcommands throw like the program does, so that this file alone decides exit statuses. */
function inheritExit(command: Command): void {
  for (const child of command.commands) inheritExit(child.exitOverride());
}

/** Says what went wrong: in a sentence where the operator can do something about it, with its stack where it is a bug. */
async function report(error: unknown): Promise<number> {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : USAGE;
  if (error instanceof CommandMisused) {
    process.stderr.write(`palomar: ${error.message}\n`);
    return USAGE;
  }
  const text = await explainError(error);
  process.stderr.write(`palomar: ${text ?? (error as Error).stack ?? error}\n`);
  return REFUSED;
}
