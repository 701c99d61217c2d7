import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestCertificate } from "./certificates.ts";
import { freePort, isInstalled, startPeer } from "./peers-processes.ts";
import { eventually } from "./stack.ts";

/** Another mail system that relays what it takes. */
export interface MailRelay {
  readonly port: number;
  readonly log: () => string;
  stop(): Promise<void>;
}

/** Where it relays to, on this machine. */
export interface RelayPlan {
  /** For all domains that `ports` does not name. */
  readonly port: number;
  readonly ports?: Readonly<Record<string, number>>;
  /** It logs in there, within TLS. */
  readonly login?: { readonly user: string; readonly password: string };
  readonly offersDsn: boolean;
  /** Programs that look at each message, in their order: ports of milters, on this machine. */
  readonly milters?: readonly number[];
  /** It offers STARTTLS. */
  readonly certificate?: TestCertificate;
}

export interface PostfixRelay extends MailRelay {
  /** How many messages wait or are on their way. */
  queued(): number;
}

const SBIN = `${process.env.PATH}:/usr/sbin`;
/** Debian's Exim and Postfix cannot be installed together: .ci/run unpacks the one beside the other. */
/** Debian's Exim; undefined where it is not installed. */
export const EXIM = ["/opt/exim4/usr/sbin/exim4", "/usr/sbin/exim4"].find((path) => existsSync(path));
const isRoot = process.getuid?.() === 0;

/** Why there can be no such relay here; undefined when there can. */
export const postfixMissing =
  !isInstalled("postfix") || !existsSync("/usr/lib/x86_64-linux-gnu/sasl2/libplain.so")
    ? "needs the Debian packages postfix and libsasl2-modules"
    : isRoot
      ? undefined
      : "needs root, as Postfix does";
export const eximMissing =
  EXIM === undefined
    ? "needs Debian's exim4-daemon-light in /opt/exim4"
    : isRoot
      ? undefined
      : "needs root, as Exim does";

/** A Postfix of our own: configuration, queue and data lie below a temporary folder. */
export async function startPostfixRelay({
  port: relayPort,
  ports = {},
  login,
  offersDsn,
  milters = [],
  certificate,
}: RelayPlan): Promise<PostfixRelay> {
  const folder = mkdtempSync(join(tmpdir(), "palomar-relay-postfix-"));
  const port = await freePort();
  const config = join(folder, "config");
  for (const name of ["config", "queue", "data"]) mkdirSync(join(folder, name));
  run("chmod", ["755", folder]);
  run("chown", ["postfix", join(folder, "data")]);
  const to = (one: number) => `[127.0.0.1]:${one}`;
  writeFileSync(join(config, "login"), login ? `${to(relayPort)} ${login.user}:${login.password}\n` : "");
  if (certificate) writeFileSync(join(config, "tls"), `${certificate.key}\n${certificate.cert}`, { mode: 0o600 });
  writeFileSync(
    join(config, "transports"),
    Object.entries(ports)
      .map(([domain, one]) => `${domain} smtp:${to(one)}\n`)
      .join(""),
  );
  const settings = {
    ...{ compatibility_level: "3.6", queue_directory: join(folder, "queue"), data_directory: join(folder, "data") },
    ...{ maillog_file: join(folder, "postfix.log"), maillog_file_prefixes: folder },
    ...{ command_directory: "/usr/sbin", daemon_directory: "/usr/lib/postfix/sbin" },
    ...{ myhostname: "postfix.example.net", mydestination: "", alias_maps: "", local_recipient_maps: "" },
    ...{ inet_interfaces: "127.0.0.1", inet_protocols: "ipv4", mynetworks: "127.0.0.0/8" },
    smtpd_peername_lookup: "no",
    smtpd_recipient_restrictions: "permit_mynetworks,reject",
    smtpd_milters: milters.map((one) => `inet:127.0.0.1:${one}`).join(" "),
    ...(certificate ? { smtpd_tls_security_level: "may", smtpd_tls_chain_files: join(config, "tls") } : {}),
    ...(offersDsn ? {} : { smtpd_discard_ehlo_keywords: "dsn" }),
    ...{ relayhost: to(relayPort), transport_maps: `texthash:${join(config, "transports")}` },
    ...(login
      ? {
          ...{ smtp_sasl_auth_enable: "yes", smtp_sasl_password_maps: `texthash:${join(config, "login")}` },
          ...{ smtp_sasl_security_options: "noanonymous", smtp_tls_security_level: "encrypt" },
        }
      : {}),
  };
  writeFileSync(
    join(config, "main.cf"),
    Object.entries(settings)
      .map(([name, value]) => `${name} = ${value}\n`)
      .join(""),
  );
  writeFileSync(join(config, "master.cf"), masterFile(port));
  run("postfix", ["-c", config, "start"]);
  await untilListening(port);
  return {
    port,
    log: () => readFileSync(join(folder, "postfix.log"), "utf8"),
    queued: () => QUEUES.reduce((sum, name) => sum + countFiles(join(folder, "queue", name)), 0),
    stop: async () => {
      run("postfix", ["-c", config, "stop"]);
      rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
    },
  };
}

const QUEUES = ["maildrop", "incoming", "active", "deferred"];

function countFiles(folder: string): number {
  const entries = readdirSync(folder, { withFileTypes: true, recursive: true });
  return entries.filter((entry) => entry.isFile()).length;
}

/** The services that relaying takes, none of them in a chroot. */
function masterFile(port: number): string {
  const rows = [
    [`127.0.0.1:${port}`, "inet", "n", "-", "n", "-", "-", "smtpd"],
    ["pickup", "unix", "n", "-", "n", "60", "1", "pickup"],
    ["cleanup", "unix", "n", "-", "n", "-", "0", "cleanup"],
    ["qmgr", "unix", "n", "-", "n", "300", "1", "qmgr"],
    ["tlsmgr", "unix", "-", "-", "n", "1000?", "1", "tlsmgr"],
    ["rewrite", "unix", "-", "-", "n", "-", "-", "trivial-rewrite"],
    ...["bounce", "defer", "trace"].map((name) => [name, "unix", "-", "-", "n", "-", "0", "bounce"]),
    ["proxymap", "unix", "-", "-", "n", "-", "-", "proxymap"],
    ["smtp", "unix", "-", "-", "n", "-", "-", "smtp"],
    ...["error", "retry"].map((name) => [name, "unix", "-", "-", "n", "-", "-", "error"]),
    ["anvil", "unix", "-", "-", "n", "-", "1", "anvil"],
    ["scache", "unix", "-", "-", "n", "-", "1", "scache"],
    ["postlog", "unix-dgram", "n", "-", "n", "-", "1", "postlogd"],
  ];
  return rows.map((row) => `${row.join(" ")}\n`).join("");
}

/** An Exim in the foreground, with all that it writes in a folder of its own. */
export async function startEximRelay(plan: RelayPlan): Promise<MailRelay> {
  const exim = await startPeer("exim", await freePort(), (folder, port) => ({
    files: { "exim.conf": eximConfig(folder, port, plan) },
    command: [EXIM!, "-C", join(folder, "exim.conf"), "-bdf", "-q1s"],
  }));
  await untilListening(exim.port);
  return exim;
}

function eximConfig(
  folder: string,
  port: number,
  { port: relayPort, ports = {}, login, offersDsn }: RelayPlan,
): string {
  const routes = [...Object.entries(ports), ["*", relayPort] as const].map(
    ([domain, one]) => `${domain} 127.0.0.1::${one} byname`,
  );
  return `
primary_hostname = exim.example.net
exim_path = ${EXIM}
exim_user = nobody
exim_group = nogroup
never_users =
keep_environment =
spool_directory = ${folder}/spool
log_file_path = ${folder}/%slog
pid_file_path = ${folder}/exim.pid
local_interfaces = 127.0.0.1
daemon_smtp_ports = ${port}
tls_advertise_hosts =
${offersDsn ? "dsn_advertise_hosts = *" : ""}
acl_smtp_rcpt = accept
acl_smtp_data = accept
begin routers
all:
  driver = manualroute
  route_list = ${routes.join(" ; ")}
  self = send
  transport = out
begin transports
out:
  driver = smtp
${login ? "  hosts_require_auth = *\n  hosts_require_tls = *\n  tls_verify_certificates =\n  tls_try_verify_hosts =" : ""}
begin retry
* * F,1h,1s
begin authenticators
${login ? `plain:\n  driver = plaintext\n  public_name = PLAIN\n  client_send = ^${login.user}^${login.password}` : ""}
`;
}

function untilListening(port: number): Promise<boolean> {
  const isListening = () =>
    new Promise<boolean>((resolve) => {
      const socket = connect(port, "127.0.0.1", () => {
        socket.destroy();
        resolve(true);
      });
      socket.once("error", () => resolve(false));
    });
  return eventually(isListening, (listens) => listens);
}

function run(program: string, args: readonly string[]): void {
  const { status, stderr } = spawnSync(program, args, { env: { PATH: SBIN }, encoding: "utf8" });
  if (status !== 0) throw new Error(`${program} ${args.join(" ")}: status ${status}: ${stderr}`);
}
