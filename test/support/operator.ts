import { Command } from "commander";
import { CommandRefused } from "../../services/cli/command-errors.ts";
import { registerAclCommand } from "../../services/cli/commands/acl.ts";
import { registerAclShowCommand } from "../../services/cli/commands/acl-show.ts";
import { registerCatalogCommand } from "../../services/cli/commands/catalog.ts";
import { registerDnssecCommand } from "../../services/cli/commands/dnssec.ts";
import { registerInstanceCommand } from "../../services/cli/commands/instance.ts";
import { registerMailCommand } from "../../services/cli/commands/mail.ts";
import { registerPoolCommand } from "../../services/cli/commands/pool.ts";
import { registerCompanyCommand } from "../../services/cli/commands/quota.ts";
import { registerResellerCommand } from "../../services/cli/commands/reseller.ts";
import { registerResolverBlockCommand } from "../../services/cli/commands/resolver-block.ts";
import { registerRpzCommand } from "../../services/cli/commands/rpz.ts";
import { registerTokenCommand } from "../../services/cli/commands/token.ts";
import { registerUserCommand } from "../../services/cli/commands/user.ts";
import { registerZoneCommand } from "../../services/cli/commands/zone.ts";
import type { CommandRuntime } from "../../services/cli/runtime.ts";
import type { ServiceContext } from "../../services/platform/service.ts";

/** What a command came to. */
export interface CommandOutcome {
  /** What it prints with `--json`. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look at results of every shape
  readonly json?: any;
  /** What it prints without. */
  readonly text?: string;
  readonly notes: readonly string[];
  readonly refused?: string;
  readonly status: number;
}

/** Runs the operator's commands on the database of a service's context. */
export function operatorOf({ db, keyRing, config }: Pick<ServiceContext, "db" | "keyRing" | "config">) {
  return async function palomar(...args: string[]): Promise<CommandOutcome> {
    const outcome: { json?: unknown; text?: string; status: number } = { status: 0 };
    const notes: string[] = [];
    const runtime: CommandRuntime = {
      config,
      withDatabase: (use) => use({ db, keyRing, config }),
      print: (json, text) => {
        Object.assign(outcome, { json, text });
      },
      printEach: async (results, textOf) => {
        const json: unknown[] = [];
        const lines: string[] = [];
        for await (const result of results) {
          json.push(result);
          lines.push(textOf(result));
        }
        Object.assign(outcome, { json, text: lines.join("\n") });
        return json.length;
      },
      note: (text) => {
        notes.push(text);
      },
      refuse: (text) => {
        throw new CommandRefused(text);
      },
      misused: (text) => {
        throw new CommandRefused(text);
      },
      exitWith: (status) => {
        outcome.status = status;
      },
    };
    const program = new Command("palomar").exitOverride().configureOutput({ writeErr: () => {} });
    registerAclCommand(program, runtime);
    for (const register of [
      registerAclShowCommand,
      registerCatalogCommand,
      registerCompanyCommand,
      registerDnssecCommand,
      registerInstanceCommand,
      registerMailCommand,
      registerResellerCommand,
      registerResolverBlockCommand,
      registerRpzCommand,
      registerPoolCommand,
      registerTokenCommand,
      registerUserCommand,
      registerZoneCommand,
    ]) {
      register(program, runtime);
    }
    for (const command of program.commands) exitByException(command);
    try {
      await program.parseAsync(args, { from: "user" });
      return { ...outcome, notes };
    } catch (error) {
      if (error instanceof CommandRefused) return { notes, refused: error.message, status: 1 };
      throw error;
    }
  };
}

function exitByException(command: Command): void {
  command.exitOverride().configureOutput({ writeErr: () => {} });
  for (const child of command.commands) exitByException(child);
}

/** The text of a command that must succeed. */
export async function printed(outcome: Promise<CommandOutcome>): Promise<string> {
  const { text, refused } = await outcome;
  if (text === undefined) throw new Error(refused ?? "nothing was printed");
  return text;
}
