import { Command, CommanderError } from "commander";
import { type Config, loadConfig, unknownVariables } from "../platform/config.ts";
import { EmbeddedPostgresError } from "../platform/embedded-postgres-error.ts";
import { packageVersion } from "../platform/package-folder.ts";
import { registerAclCommand } from "./commands/acl.ts";
import { registerAclShowCommand } from "./commands/acl-show.ts";
import { registerBounceCommand } from "./commands/bounce.ts";
import { registerCatalogCommand } from "./commands/catalog.ts";
import { registerContactCommand } from "./commands/contact.ts";
import { registerInstanceCommand } from "./commands/instance.ts";
import { registerMigrateCommand } from "./commands/migrate.ts";
import { registerResellerCommand } from "./commands/reseller.ts";
import { registerResolverBlockCommand } from "./commands/resolver-block.ts";
import { registerRpzCommand } from "./commands/rpz.ts";
import { registerStartCommand } from "./commands/start.ts";
import { registerStatusCommand } from "./commands/status.ts";
import { registerUserCommand } from "./commands/user.ts";
import { registerWebhookCommand } from "./commands/webhook.ts";
import { registerZoneCommand } from "./commands/zone.ts";
import { CommandMisused, CommandRefused, makeRuntime } from "./runtime.ts";

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
for (const register of [
  registerStartCommand,
  registerMigrateCommand,
  registerResellerCommand,
  registerAclCommand,
  registerAclShowCommand,
  registerCatalogCommand,
  registerRpzCommand,
  registerResolverBlockCommand,
  registerZoneCommand,
  registerInstanceCommand,
  registerContactCommand,
  registerUserCommand,
  registerWebhookCommand,
  registerBounceCommand,
  registerStatusCommand,
]) {
  register(program, runtime);
}
inheritExit(program);

try {
  await program.parseAsync();
} catch (error) {
  process.exitCode = report(error);
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
