import { execFile, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import type { JudgedMail } from "../../services/platform/judges/judge.ts";
import { freePort, isInstalled, type Peer, startPeer, withOwnResolver } from "./peers-processes.ts";
import { eventually } from "./stack.ts";

/** Foreign programs that receive mail, and report what they saw of it. Each has a folder of its own, and a resolver of the test. */

const run = promisify(execFile);
const PATH = `${process.env.PATH}:/usr/sbin:/sbin`;
/** Nothing comes from there: nobody is a friend to these programs. */
const NOBODY = "192.0.2.255";
const AUTHORITY = "receiver.example.net";

/** Where things are. */
export interface ReporterSurroundings {
  readonly folder: string;
  /** The resolver, and a resolv.conf that names it. */
  readonly resolver: string;
  readonly resolverFile: string;
  /** Where reports go by SMTP, on this machine. */
  readonly reportPort: number;
}

/** What has to be installed for a reporter, and is not. */
export const missingFor = (...programs: readonly string[]): string =>
  programs
    .filter((program) => !isInstalled(program))
    .map((program) => `${program} is not installed`)
    .join(", ");

/** The same of Perl's modules. */
export const missingOfPerl = (...modules: readonly string[]): string =>
  modules
    .filter((module) => spawnSync("perl", [`-M${module}`, "-e", "1"]).status !== 0)
    .map((module) => `Perl's ${module} is not installed`)
    .join(", ");

export function makeReporterFolder(resolver: string): Omit<ReporterSurroundings, "reportPort"> {
  const folder = mkdtempSync(join(tmpdir(), "palomar-reporters-"));
  const resolverFile = join(folder, "resolv.conf");
  writeFileSync(resolverFile, `nameserver ${resolver}\n`);
  return { folder, resolver, resolverFile };
}

async function command(
  { folder, resolverFile }: Pick<ReporterSurroundings, "folder" | "resolverFile">,
  words: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<string> {
  const [program, ...args] = withOwnResolver(resolverFile, words);
  const env = { PATH, HOME: folder, TZ: "UTC", ...environment };
  const { stdout, stderr } = await run(program!, args, { cwd: folder, env, timeout: 120_000 });
  return `${stdout}${stderr}`;
}

async function untilListening(port: number): Promise<void> {
  await eventually(
    () =>
      new Promise<boolean>((resolve) => {
        const socket = connect(port, "127.0.0.1", () => {
          socket.destroy();
          resolve(true);
        }).on("error", () => resolve(false));
      }),
    Boolean,
  );
}

/** Mail::DMARC: a receiver of some lines, which stores what its verifiers say, and its program that reports. */
export async function reportByMailDmarc(
  surroundings: ReporterSurroundings,
  mails: readonly JudgedMail[],
  fromDomain: string,
): Promise<string> {
  const folder = join(surroundings.folder, "mail-dmarc");
  mkdirSync(folder);
  const config = join(folder, "mail-dmarc.ini");
  writeFileSync(
    config,
    `[organization]\ndomain = perl.example.net\norg_name = Mail-DMARC\nemail = dmarc@perl.example.net
[report_store]\nbackend = SQL\ndsn = dbi:SQLite:dbname=${folder}/reports.sqlite\nuser =\npass =
[dmarc]\nbackend = perl
[dns]\ntimeout = 5\npublic_suffix_list = ${folder}/suffixes
[smtp]\nhostname = perl.example.net\ntransports = ToTest\n`,
  );
  writeFileSync(join(folder, "suffixes"), "org\nnet\nexample.org\nexample.net\n");
  writeFileSync(
    join(folder, "ToTest.pm"),
    `package ToTest; use Email::Sender::Transport::SMTP;
sub new { bless {}, shift }
sub get_transports_for { Email::Sender::Transport::SMTP->new({ host => "127.0.0.1", port => ${surroundings.reportPort} }) }
1;\n`,
  );
  writeFileSync(join(folder, "receive.pl"), MAIL_DMARC_RECEIVER);
  const environment = { PERL5LIB: folder, MAIL_DMARC_CONFIG_FILE: config };
  const own = { ...surroundings, folder };
  let said = "";
  for (const [number, { octets, clientAddress, helo, mailFrom, rcptTo }] of mails.entries()) {
    const file = join(folder, `m${number}`);
    writeFileSync(file, octets);
    said += await command(
      own,
      ["perl", "receive.pl", file, clientAddress, helo, mailFrom, rcptTo, fromDomain],
      environment,
    );
  }
  return said + (await command(own, ["dmarc_send_reports", "--delay=0", "--verbose"], environment));
}

/** It received the day before yesterday: what a day is over of is reported. */
const MAIL_DMARC_RECEIVER = `use strict; use warnings;
use Mail::DKIM::Verifier; use Mail::SPF; use Mail::DMARC::PurePerl; use Mail::DMARC::Base;
my ($file, $ip, $helo, $mail_from, $rcpt, $from) = @ARGV;
open(my $in, "<", $file) or die; binmode $in; my $text = do { local $/; <$in> };
my $dkim = Mail::DKIM::Verifier->new; $dkim->PRINT($text); $dkim->CLOSE;
my $request = Mail::SPF::Request->new(scope => "mfrom", identity => $mail_from, ip_address => $ip, helo_identity => $helo);
my $spf = Mail::SPF::Server->new->process($request);
$Mail::DMARC::Base::_fake_time = time - 2 * 86400;
my $dmarc = Mail::DMARC::PurePerl->new;
my ($envelope_from) = $mail_from =~ /@(.*)/; my ($envelope_to) = $rcpt =~ /@(.*)/;
$dmarc->source_ip($ip); $dmarc->header_from($from); $dmarc->envelope_from($envelope_from); $dmarc->envelope_to($envelope_to);
$dmarc->dkim($dkim); $dmarc->spf(scope => "mfrom", domain => $envelope_from, result => $spf->code);
$dmarc->validate; $dmarc->save_aggregate or die "nothing was stored\\n";
print "dmarc=", $dmarc->result->result, "\\n";
`;

/** A Redis of rspamd's. */
export async function startRedis(): Promise<Peer> {
  const redis = await startPeer("redis", await freePort(), (folder, port) => ({
    files: {},
    command: ["redis-server", "--port", String(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder],
  }));
  await untilListening(redis.port);
  return redis;
}

/** Has an rspamd that starts in this folder remember in Redis what it reports. */
export function configureRspamdReports(folder: string, redis: Peer, reportPort: number): void {
  mkdirSync(join(folder, "local.d"), { recursive: true });
  writeFileSync(join(folder, "local.d", "redis.conf"), `servers = "${redis.address}";\n`);
  writeFileSync(
    join(folder, "local.d", "dmarc.conf"),
    `reporting { enabled = true; email = "dmarc@rspamd.example.net"; domain = "rspamd.example.net"; org_name = "rspamd";
  helo = "rspamd.example.net"; smtp = "127.0.0.1"; smtp_port = ${reportPort}; }\n`,
  );
}

/** Reports what an rspamd of this folder saw today, once Redis has as many messages. */
export async function reportByRspamd(
  { resolverFile }: ReporterSurroundings,
  folder: string,
  { redis, messages }: { readonly redis: Peer; readonly messages: number },
): Promise<string> {
  await eventually(
    async () => Number((await run("redis-cli", ["-p", String(redis.port), "eval", COUNT, "0"])).stdout),
    (found) => found === messages,
  );
  const folders = ["DBDIR", "RUNDIR", "LOGDIR", "LOCAL_CONFDIR"].map((name) => `--var=${name}=${folder}`);
  const today = new Date();
  const day = [today.getFullYear(), today.getMonth() + 1, today.getDate()].map((one) => String(one).padStart(2, "0"));
  const words = ["rspamadm", ...folders, "dmarc_report", "-v", "-c", join(folder, "rspamd.conf"), day.join("")];
  return command({ folder, resolverFile }, words, process.env.TZ ? { TZ: process.env.TZ } : {});
}

const COUNT = `local n = 0 for _, key in ipairs(redis.call("keys", "dmarc*")) do
  if redis.call("type", key).ok == "zset" then
    for i, value in ipairs(redis.call("zrange", key, 0, -1, "withscores")) do if i % 2 == 0 then n = n + value end end
  end
end return n`;

/** What stands before a mail system: OpenDKIM, which verifies, and OpenDMARC, which judges and keeps a history. */
export async function startOpenDmarc(
  { folder, resolverFile, resolver }: Omit<ReporterSurroundings, "reportPort">,
  ports: { readonly opendkim: number; readonly opendmarc: number },
): Promise<{ readonly history: string; stop(): Promise<void> }> {
  const history = join(folder, "opendmarc.history");
  writeFileSync(join(folder, "nobody"), `${NOBODY}\n`);
  writeFileSync(join(folder, "suffixes"), "org\nnet\nexample.org\nexample.net\n");
  const opendkim = await startPeer("opendkim", ports.opendkim, (own, port) => ({
    files: {
      "opendkim.conf": `Mode v\nSocket inet:${port}@127.0.0.1\nAuthservID ${AUTHORITY}\nInternalHosts ${folder}/nobody
ExternalIgnoreList ${folder}/nobody\nSyslog no\nPidFile ${own}/pid\nResolverConfiguration ${own}/unbound.conf\n`,
      // Its resolver is a library that asks the root servers, and nobody on this machine, unless it is told otherwise.
      "unbound.conf": `server:\n  do-not-query-localhost: no\nforward-zone:\n  name: "."\n  forward-addr: ${resolver}\n`,
    },
    command: withOwnResolver(resolverFile, ["opendkim", "-f", "-x", join(own, "opendkim.conf")]),
  }));
  const opendmarc = await startPeer("opendmarc", ports.opendmarc, (own, port) => ({
    files: {
      "opendmarc.conf": `Socket inet:${port}@127.0.0.1\nAuthservID ${AUTHORITY}\nTrustedAuthservIDs ${AUTHORITY}
IgnoreHosts ${folder}/nobody\nHistoryFile ${history}\nPublicSuffixList ${folder}/suffixes\nRejectFailures false
SPFIgnoreResults true\nSPFSelfValidate true\nBackground false\nPidFile ${own}/pid\n`,
    },
    command: withOwnResolver(resolverFile, ["opendmarc", "-f", "-c", join(own, "opendmarc.conf")]),
  }));
  await untilListening(ports.opendkim);
  await untilListening(ports.opendmarc);
  return {
    history,
    stop: async () => {
      await opendmarc.stop();
      await opendkim.stop();
    },
  };
}

/** Has `opendmarc-reports` report what stands in a history, by a MariaDB of its own. */
export async function reportByOpenDmarc(surroundings: ReporterSurroundings, history: string): Promise<string> {
  const database = await startMariadb();
  const own = { ...surroundings, folder: join(surroundings.folder, "opendmarc") };
  mkdirSync(own.folder);
  const login = ["--dbhost=127.0.0.1", `--dbport=${database.port}`, "--dbuser=root"];
  const password = { OPENDMARC_PASSWORD: "" };
  try {
    const client = ["mariadb", "--no-defaults", "-h127.0.0.1", `-P${database.port}`, "-uroot"];
    await command(own, ["sh", "-c", `${client.join(" ")} </usr/share/dbconfig-common/data/opendmarc/install/mysql`]);
    const imported = await command(own, ["opendmarc-import", ...login, `--input=${history}`, "--verbose"], password);
    const report = ["--report-org=opendmarc.example.net", "--report-email=dmarc@opendmarc.example.net", "--utc"];
    const smtp = ["--smtp-server=127.0.0.1", `--smtp-port=${surroundings.reportPort}`];
    return imported + (await command(own, ["opendmarc-reports", ...login, ...report, ...smtp, "--verbose"], password));
  } finally {
    await database.stop();
  }
}

async function startMariadb(): Promise<Peer> {
  const mariadb = await startPeer("mariadb", await freePort(), (folder, port) => ({
    files: {},
    before: [
      [
        ...["mariadb-install-db", "--no-defaults", `--datadir=${folder}/data`, "--user=root", "--skip-test-db"],
        ...["--auth-root-authentication-method=normal", "--skip-name-resolve"],
      ],
    ],
    command: [
      ...["mariadbd", "--no-defaults", `--datadir=${folder}/data`, "--user=root", `--port=${port}`],
      ...["--bind-address=127.0.0.1", `--socket=${folder}/socket`, `--pid-file=${folder}/pid`, "--skip-name-resolve"],
    ],
  }));
  await untilListening(mariadb.port);
  return mariadb;
}

export function removeReporterFolder(folder: string): void {
  rmSync(folder, { recursive: true, force: true });
}
