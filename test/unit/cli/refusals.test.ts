import { tmpdir } from "node:os";
import { join } from "node:path";
import { Command } from "commander";
import { expect, test } from "vitest";
import { CommandMisused, CommandRefused } from "../../../services/cli/command-errors.ts";
import { registerAclShowCommand } from "../../../services/cli/commands/acl-show.ts";
import { registerRestoreCommand } from "../../../services/cli/commands/backup.ts";
import { registerInstanceCommand } from "../../../services/cli/commands/instance.ts";
import { registerMailboxCommand } from "../../../services/cli/commands/mailbox.ts";
import { registerPaceCommand } from "../../../services/cli/commands/pace.ts";
import { registerResellerCommand } from "../../../services/cli/commands/reseller.ts";
import { registerRpzCommand } from "../../../services/cli/commands/rpz.ts";
import { registerTokenCommand } from "../../../services/cli/commands/token.ts";
import { registerUserCommand } from "../../../services/cli/commands/user.ts";
import { registerWebhookCommand } from "../../../services/cli/commands/webhook.ts";
import { refusalText } from "../../../services/cli/input.ts";
import type { CommandRuntime } from "../../../services/cli/runtime.ts";
import { invalidField, missingField } from "../../../services/core/refusal.ts";

/** Runs a command that must not come as far as the database. */
async function palomar(words: readonly string[]): Promise<void> {
  const runtime: Pick<CommandRuntime, "refuse" | "misused"> = {
    refuse: (text) => {
      throw new CommandRefused(text);
    },
    misused: (text) => {
      throw new CommandMisused(text);
    },
  };
  const program = new Command("palomar").exitOverride().configureOutput({ writeErr: () => {} });
  for (const register of [
    registerAclShowCommand,
    registerInstanceCommand,
    registerMailboxCommand,
    registerPaceCommand,
    registerResellerCommand,
    registerRestoreCommand,
    registerRpzCommand,
    registerTokenCommand,
    registerUserCommand,
    registerWebhookCommand,
  ]) {
    register(program, runtime as CommandRuntime);
  }
  await program.parseAsync(words, { from: "user" });
}

test.each([
  [["acl", "show", "acme", "main", "--for", "bind", "--primary", "a:b:c"], "a:b:c is not ADDRESS:PORT"],
  [["acl", "show", "acme", "main", "--for", "bind", "--primary", "host.test:53"], "host.test:53 is not ADDRESS:PORT"],
  [["acl", "show", "acme", "main", "--for", "bind", "--primary", "host.test"], "host.test is not ADDRESS:PORT"],
  [["acl", "show", "acme", "main", "--for", "bind", "--primary", "192.0.2.1:0"], "192.0.2.1:0 is not ADDRESS:PORT"],
  [["instance", "key", "rotate", "demo", "--grace", "0"], "0 is no time like 24h, up to a year"],
  [["instance", "conversions", "demo", "yes"], "yes is neither on nor off"],
  [["instance", "set", "demo", "--event-days", "x"], "x is no number of days"],
  [["mailbox", "add", "x", "--host", "h", "--user", "u", "--port", "0"], "0 is no port"],
  [["mailbox", "add", "x", "--host", "h", "--user", "u"], "--password or --password-file is needed"],
  [["pace", "pin", "nonsense", "gmail", "--rate", "1"], "nonsense is no address"],
  [
    ["pace", "pin", "system", "not a domain", "--rate", "1"],
    "not a domain is neither a group of config/domain-groups.json nor a domain",
  ],
  [["reseller", "key", "rotate", "acme", "--grace", "soon"], "soon is no time like 24h, up to a year"],
  [
    ["rpz", "rule", "add", "rpz.example", "qname:a.example", "drop", "--expires", "soon"],
    "soon is not a time like 2026-12-01T00:00:00Z",
  ],
  [["token", "add", "acme", "x", "--no-api"], "--no-api needs --tsig <algorithm>"],
  [["user", "add", "x", "--role", "reseller"], "operators have no --scope, all others need one"],
  [["user", "add", "x", "--role", "operator", "--scope", "a"], "operators have no --scope, all others need one"],
  [["webhook", "set", "demo", "ftp://example.org/"], "url: must be an http or https URL"],
  [["webhook", "replay", "demo", "x"], "x is no number of a batch"],
])("%j is wrong usage", async (words, text) => {
  const called = palomar(words);
  await expect(called).rejects.toBeInstanceOf(CommandMisused);
  await expect(called).rejects.toThrow(text);
});

const missing = join(tmpdir(), "palomar-no-such-file");

test.each([
  [["restore", missing], `${missing} cannot be read: ENOENT`],
  [["restore", tmpdir()], `${tmpdir()} is a folder`],
  [["rpz", "rule", "add", "rpz.example", "ip:192.0.2.1/24", "drop"], "192.0.2.1/24"],
  [["rpz", "rule", "add", "rpz.example", "qname:a.example", "drop", "--expires", "2001-01-01T00:00:00Z"], "is past"],
])("%j is refused", async (words, text) => {
  const called = palomar(words);
  await expect(called).rejects.toBeInstanceOf(CommandRefused);
  await expect(called).rejects.toThrow(text);
});

test.each([
  [missingField("tsig"), "missing field: tsig"],
  [invalidField("name", "not-empty"), "name: must not be empty"],
  [{ kind: "too-large" } as const, "the request is too large"],
  [{ kind: "rate-limited", retryAfterSeconds: 1 } as const, "too many requests"],
  [{ kind: "unavailable" } as const, "not available at present, try again"],
])("every refusal is said in words: %j", (refusal, text) => {
  expect(refusalText(refusal)).toBe(text);
});
