import { type Command, Option } from "commander";
import {
  listMailboxes,
  MAILBOX_SECURITY,
  type MailboxSecurity,
  removeMailbox,
  saveMailbox,
} from "../../store/mail/inbound/mailboxes.ts";
import { readText } from "../input.ts";
import type { CommandRuntime } from "../runtime.ts";

const PORTS: Readonly<Record<MailboxSecurity, number>> = { tls: 993, starttls: 143, none: 143 };
const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|::1)$/;

interface AddOptions {
  readonly host: string;
  readonly port?: string;
  readonly security: MailboxSecurity;
  readonly user: string;
  readonly password?: string;
  readonly passwordFile?: string;
  readonly folder: string;
  readonly processed?: string;
}

/** `palomar mailbox …`: mailboxes at providers that the bounce service polls by IMAP. */
export function registerMailboxCommand(program: Command, runtime: CommandRuntime): void {
  const mailbox = program.command("mailbox").description("mailboxes at providers that bounces and complaints come to");
  mailbox
    .command("add")
    .argument("<name>", "what it is called here")
    .requiredOption("--host <host>", "its IMAP server")
    .option("--port <port>", "993, or 143 without --security tls")
    .addOption(
      new Option("--security <kind>", "how the connection is secured").choices(MAILBOX_SECURITY).default("tls"),
    )
    .requiredOption("--user <login>", "whose mailbox it is there")
    .option("--password <password>", "seen by whoever may list processes: prefer --password-file")
    .option("--password-file <file>", "its first line; - reads standard input")
    .option("--folder <folder>", "where messages arrive", "INBOX")
    .option("--processed <folder>", "where taken messages move to; without it they stay, flagged as seen")
    .description("poll a mailbox; the password is kept sealed")
    .action((name: string, options: AddOptions) => addMailbox(runtime, name, options));
  mailbox
    .command("list")
    .description("mailboxes, and how polling them went")
    .action(async () => {
      const mailboxes = await runtime.withDatabase(({ db }) => listMailboxes(db));
      const shown = mailboxes.map(({ polledAt, ...rest }) => ({ ...rest, polled: polledAt?.toISOString() ?? null }));
      const lines = shown.map(({ name, username, host, polled, problem }) =>
        [name, `${username} at ${host}`, polled ?? "never polled", problem ?? ""].join("\t"),
      );
      runtime.print(shown, lines.join("\n"));
    });
  mailbox
    .command("remove")
    .argument("<name>")
    .description("poll a mailbox no longer")
    .action(async (name: string) => {
      const removed = await runtime.withDatabase(({ db }) => removeMailbox(db, name));
      if (!removed) runtime.refuse(`there is no mailbox ${name}`);
      runtime.print({ name, removed }, "removed");
    });
}

async function addMailbox(runtime: CommandRuntime, name: string, options: AddOptions): Promise<void> {
  const { host, security, user, folder } = options;
  const port = options.port === undefined ? PORTS[security] : Number(options.port);
  if (!Number.isInteger(port) || port < 1 || port > 65_535) runtime.misused(`${options.port} is no port`);
  if (security === "none" && !LOOPBACK.test(host)) runtime.refuse("--security none is for servers on this machine");
  const mailbox = {
    ...{ name, host, port, security, username: user, folder },
    processed: options.processed ?? null,
    feedback: user.includes("@") ? user : `${user}@${host}`,
  };
  const password = readPassword(runtime, options);
  await runtime.withDatabase(({ db, keyRing }) => saveMailbox(db, keyRing, { ...mailbox, password }));
  runtime.print(mailbox, `${name}: ${user} at ${host}`);
}

function readPassword(runtime: CommandRuntime, { password, passwordFile }: AddOptions): string {
  if (password !== undefined) return password;
  if (passwordFile === undefined) return runtime.misused("--password or --password-file is needed");
  const [line] = readText(runtime, passwordFile === "-" ? 0 : passwordFile).split(/\r?\n/, 1) as [string];
  return line === "" ? runtime.refuse(`${passwordFile}: there is no password in its first line`) : line;
}
