import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ImapFlow } from "imapflow";
import { generate } from "selfsigned";
import { freePort } from "./peers-processes.ts";
import { eventually } from "./stack.ts";

/** A real IMAP server with one account. */
export interface TestDovecot {
  readonly port: number;
  /** The port of implicit TLS; the certificate is nobody's. */
  readonly tlsPort: number;
  readonly user: string;
  readonly password: string;
  /** Puts a message into a folder. */
  append(folder: string, octets: Buffer): Promise<void>;
  /** How many messages a folder has, and how many of them nobody has seen. */
  count(folder: string): Promise<{ readonly messages: number; readonly unseen: number }>;
  stop(): Promise<void>;
}

/** Why there can be no such server here; undefined when there can. */
export const dovecotMissing: string | undefined =
  spawnSync("dovecot", ["--version"]).status !== 0
    ? "needs the Debian package dovecot-imapd"
    : process.getuid?.() !== 0
      ? "needs root, as Dovecot does"
      : undefined;

const USER = "bounces@provider.example.net";
const PASSWORD = "the-mailbox-password";
const NOBODY = 65_534;

export async function startDovecot(): Promise<TestDovecot> {
  const folder = mkdtempSync(join(tmpdir(), "palomar-dovecot-"));
  chmodSync(folder, 0o755);
  mkdirSync(join(folder, "mail"));
  chmodSync(join(folder, "mail"), 0o777);
  const [port, tlsPort] = [await freePort(), await freePort()];
  const pair = await generate([{ name: "commonName", value: "localhost" }], { algorithm: "sha256" });
  writeFileSync(join(folder, "cert.pem"), pair.cert);
  writeFileSync(join(folder, "key.pem"), pair.private);
  writeFileSync(join(folder, "dovecot.conf"), configurationOf(folder, port, tlsPort));
  const server = spawn("dovecot", ["-F", "-c", join(folder, "dovecot.conf")], { stdio: "ignore" });
  const withClient = makeWithClient(port);
  try {
    await eventually(
      () => withClient(async () => true).catch(() => false),
      (answers) => answers,
    );
  } catch (error) {
    throw new Error(`dovecot does not answer: ${readFileSync(join(folder, "log"), "utf8")}`, { cause: error });
  }
  return {
    ...{ port, tlsPort, user: USER, password: PASSWORD },
    append: (name, octets) =>
      withClient(async (client) => {
        if (name !== "INBOX") await client.mailboxCreate(name);
        await client.append(name, octets);
      }),
    count: (name) =>
      withClient(async (client) => {
        const status = await client.status(name, { messages: true, unseen: true });
        if (!status) throw new Error(`no folder ${name}`);
        return { messages: status.messages ?? 0, unseen: status.unseen ?? 0 };
      }),
    stop: async () => {
      await end(server);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function configurationOf(folder: string, port: number, tlsPort: number): string {
  return `
base_dir = ${folder}/run
log_path = ${folder}/log
protocols = imap
listen = 127.0.0.1
ssl = yes
ssl_cert = <${folder}/cert.pem
ssl_key = <${folder}/key.pem
disable_plaintext_auth = no
mail_location = maildir:${folder}/mail/%u
first_valid_uid = 1
passdb {
  driver = static
  args = password=${PASSWORD}
}
userdb {
  driver = static
  args = uid=${NOBODY} gid=${NOBODY} home=${folder}/mail/%u
}
service imap-login {
  inet_listener imap {
    port = ${port}
  }
  inet_listener imaps {
    port = ${tlsPort}
  }
}
`;
}

function makeWithClient(port: number) {
  return async <T>(act: (client: ImapFlow) => Promise<T>): Promise<T> => {
    const client = new ImapFlow({
      ...{ host: "127.0.0.1", port, secure: false, doSTARTTLS: false, logger: false },
      auth: { user: USER, pass: PASSWORD },
    });
    client.on("error", () => {});
    try {
      await client.connect();
      return await act(client);
    } finally {
      client.close();
    }
  };
}

async function end(server: ChildProcess): Promise<void> {
  const ended = new Promise((resolve) => server.once("exit", resolve));
  server.kill("SIGTERM");
  await ended;
}
