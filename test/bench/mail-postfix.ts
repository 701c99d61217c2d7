import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { isInstalled } from "../support/peers-processes.ts";
import type { SubmissionResult } from "./mail-load.ts";

export interface PostfixLoad {
  readonly messages: number;
  readonly sizeOctets: number;
  /** One after another. */
  readonly connections: readonly number[];
  readonly sinkPort: number;
  readonly domain: string;
  freePort(): Promise<number>;
}

const SBIN = `${process.env.PATH}:/usr/sbin`;
const READY_MS = 10_000;

/** Why Postfix cannot be measured here; undefined when it can. */
export function whyNoPostfix(): string | undefined {
  const missing = ["postfix", "opendkim", "smtp-source"].find((program) => !isInstalled(program));
  if (missing !== undefined) return `${missing} is not installed`;
  return process.getuid?.() === 0 ? undefined : "Postfix needs root";
}

/**
 * Runs a Postfix of our own (its configuration, queue and data below a temporary folder) that signs through OpenDKIM
 * with RSA-2048 and relays to the sink, and loads it with `smtp-source`, once before it counts.
 */
export async function measurePostfix(load: PostfixLoad): Promise<SubmissionResult[]> {
  const folder = mkdtempSync(join(tmpdir(), "palomar-bench-postfix-"));
  spawnSync("chmod", ["755", folder]);
  const milter = await startOpendkim(folder, load);
  const port = await load.freePort();
  const config = await startPostfix(folder, { ...load, port, milterPort: milter.port });
  try {
    const measureLoad = async (connections: number): Promise<SubmissionResult> => {
      const startedAt = performance.now();
      runLoad({ ...load, connections }, port);
      const acceptedAt = performance.now();
      while (queuedIn(join(folder, "queue")) > 0) await sleep(20);
      const perSecond = (until: number) => (load.messages * 1000) / (until - startedAt);
      const deliveredPerSecond = perSecond(performance.now());
      return { connections, acceptedPerSecond: perSecond(acceptedAt), deliveredPerSecond };
    };
    await measureLoad(load.connections[0]!);
    const results: SubmissionResult[] = [];
    for (const connections of load.connections) results.push(await measureLoad(connections));
    return results;
  } finally {
    run("postfix", ["-c", config, "stop"]);
    milter.child.kill();
    await sleep(500);
    rmSync(folder, { recursive: true, force: true });
  }
}

function runLoad(
  { messages, sizeOctets, connections, domain }: Omit<PostfixLoad, "connections"> & { readonly connections: number },
  port: number,
): void {
  run("smtp-source", [
    ...["-s", String(connections), "-m", String(messages), "-l", String(sizeOctets)],
    ...["-d", "-N", "-f", `info@${domain}`, "-t", "r@d.example.net", `127.0.0.1:${port}`],
  ]);
}

async function startOpendkim(
  folder: string,
  { domain, freePort }: PostfixLoad,
): Promise<{ child: ChildProcess; port: number }> {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  writeFileSync(join(folder, "dkim.pem"), privateKey.export({ type: "pkcs1", format: "pem" }), { mode: 0o600 });
  const port = await freePort();
  const settings = {
    Mode: "s",
    Domain: domain,
    Selector: "bench",
    KeyFile: join(folder, "dkim.pem"),
    Socket: `inet:${port}@127.0.0.1`,
    Canonicalization: "relaxed/relaxed",
    InternalHosts: "127.0.0.1",
    Background: "no",
    RequireSafeKeys: "no",
    Syslog: "no",
  };
  writeFileSync(
    join(folder, "opendkim.conf"),
    Object.entries(settings)
      .map(([name, value]) => `${name} ${value}\n`)
      .join(""),
  );
  const child = spawn("opendkim", ["-f", "-x", join(folder, "opendkim.conf")], {
    env: { PATH: SBIN },
    stdio: ["ignore", "ignore", "inherit"],
  });
  await untilListening(port, "opendkim");
  return { child, port };
}

async function startPostfix(
  folder: string,
  { port, milterPort, sinkPort }: PostfixLoad & { readonly port: number; readonly milterPort: number },
): Promise<string> {
  const config = join(folder, "config");
  for (const name of ["config", "queue", "data"]) mkdirSync(join(folder, name));
  run("chown", ["postfix", join(folder, "data")]);
  const settings = {
    compatibility_level: "3.6",
    queue_directory: join(folder, "queue"),
    data_directory: join(folder, "data"),
    maillog_file: join(folder, "postfix.log"),
    maillog_file_prefixes: folder,
    command_directory: "/usr/sbin",
    daemon_directory: "/usr/lib/postfix/sbin",
    myhostname: "bench.example.org",
    mydestination: "",
    alias_maps: "",
    inet_interfaces: "127.0.0.1",
    inet_protocols: "ipv4",
    mynetworks: "127.0.0.0/8",
    smtpd_peername_lookup: "no",
    smtpd_recipient_restrictions: "permit_mynetworks,reject",
    relayhost: `[127.0.0.1]:${sinkPort}`,
    smtpd_milters: `inet:127.0.0.1:${milterPort}`,
    milter_default_action: "tempfail",
  };
  writeFileSync(
    join(config, "main.cf"),
    Object.entries(settings)
      .map(([name, value]) => `${name} = ${value}\n`)
      .join(""),
  );
  writeFileSync(join(config, "master.cf"), masterFile(port));
  run("postfix", ["-c", config, "start"]);
  await untilListening(port, "postfix");
  return config;
}

/** Postfix's own services, none of them in a chroot. */
function masterFile(port: number): string {
  const rows = [
    [`127.0.0.1:${port}`, "inet", "n", "-", "n", "-", "-", "smtpd"],
    ["pickup", "unix", "n", "-", "n", "60", "1", "pickup"],
    ["cleanup", "unix", "n", "-", "n", "-", "0", "cleanup"],
    ["qmgr", "unix", "n", "-", "n", "300", "1", "qmgr"],
    ["tlsmgr", "unix", "-", "-", "n", "1000?", "1", "tlsmgr"],
    ["rewrite", "unix", "-", "-", "n", "-", "-", "trivial-rewrite"],
    ...["bounce", "defer", "trace"].map((name) => [name, "unix", "-", "-", "n", "-", "0", "bounce"]),
    ["verify", "unix", "-", "-", "n", "-", "1", "verify"],
    ["proxymap", "unix", "-", "-", "n", "-", "-", "proxymap"],
    ...["smtp", "relay"].map((name) => [name, "unix", "-", "-", "n", "-", "-", "smtp"]),
    ...["error", "retry"].map((name) => [name, "unix", "-", "-", "n", "-", "-", "error"]),
    ["anvil", "unix", "-", "-", "n", "-", "1", "anvil"],
    ["scache", "unix", "-", "-", "n", "-", "1", "scache"],
    ["postlog", "unix-dgram", "n", "-", "n", "-", "1", "postlogd"],
  ];
  return rows.map((row) => `${row.join(" ")}\n`).join("");
}

const QUEUES = ["maildrop", "incoming", "active", "deferred"];

function queuedIn(folder: string): number {
  return QUEUES.reduce((sum, name) => sum + countFiles(join(folder, name)), 0);
}

function countFiles(folder: string): number {
  const entries = readdirSync(folder, { withFileTypes: true, recursive: true });
  return entries.filter((entry) => entry.isFile()).length;
}

async function untilListening(port: number, name: string): Promise<void> {
  const deadline = performance.now() + READY_MS;
  while (!(await isListening(port))) {
    if (performance.now() > deadline) throw new Error(`${name} does not listen`);
    await sleep(50);
  }
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}

function run(program: string, args: readonly string[]): void {
  const { status, stderr } = spawnSync(program, args, { env: { PATH: SBIN }, encoding: "utf8" });
  if (status !== 0) throw new Error(`${program} ${args.join(" ")}: status ${status}: ${stderr}`);
}
