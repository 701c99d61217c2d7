import { type ChildProcess, spawn } from "node:child_process";
import { createSocket } from "node:dgram";
import { mkdirSync, openSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import * as dnsPacket from "dns-packet";
import type { BenchZone } from "./dns-data.ts";
import type { Contender } from "./dns-load.ts";

export interface PeerOptions {
  /** A folder of the peer's own. */
  readonly folder: string;
  readonly zones: readonly BenchZone[];
  readonly port: number;
  /** Those that it may use, as taskset takes them. */
  readonly cores: string;
}

/** How another server is set up with the same zones. */
export interface Peer {
  readonly name: string;
  readonly program: string;
  start(options: PeerOptions): Promise<Contender>;
}

/** Loading a million records takes the slowest of them a while. */
const START_DEADLINE_MS = 120_000;

export const FILE_PEERS: readonly Peer[] = [
  { name: "NSD", program: "nsd", start: startNsd },
  { name: "Knot", program: "knotd", start: startKnot },
  { name: "BIND", program: "named", start: startBind },
];

/** Debian keeps the servers where an ordinary user's PATH does not look. */
const PEER_ENVIRONMENT = { ...process.env, PATH: `${process.env.PATH}:/usr/sbin:/usr/local/sbin` };

async function startNsd({ folder, zones, port, cores }: PeerOptions): Promise<Contender> {
  writeZoneFiles(folder, zones);
  const configuration = join(folder, "nsd.conf");
  writeFileSync(
    configuration,
    `server:
  ip-address: 127.0.0.1@${port}
  server-count: 1
  username: ""
  chroot: ""
  database: ""
  zonesdir: "${folder}"
  pidfile: "${folder}/nsd.pid"
  xfrdfile: "${folder}/xfrd.state"
  zonelistfile: "${folder}/zone.list"
  logfile: "${folder}/nsd.log"
remote-control:
  control-enable: no
${zones.map(({ name }) => `zone:\n  name: ${name}\n  zonefile: ${name}.zone\n  provide-xfr: 127.0.0.1 NOKEY\n`).join("")}`,
  );
  return startPeer("NSD", ["nsd", "-d", "-c", configuration], { folder, port, cores, zones });
}

async function startKnot({ folder, zones, port, cores }: PeerOptions): Promise<Contender> {
  writeZoneFiles(folder, zones);
  const configuration = join(folder, "knot.conf");
  writeFileSync(
    configuration,
    `server:
    listen: 127.0.0.1@${port}
    rundir: "${folder}"
    udp-workers: 1
    tcp-workers: 1
    background-workers: 1
database:
    storage: "${folder}"
acl:
  - id: loopback
    address: 127.0.0.1
    action: transfer
template:
  - id: default
    storage: "${folder}"
    acl: loopback
    file: "%s.zone"
    zonefile-sync: -1
    journal-content: none
zone:
${zones.map(({ name }) => `  - domain: ${name}\n`).join("")}`,
  );
  return startPeer("Knot", ["knotd", "-c", configuration], { folder, port, cores, zones });
}

async function startBind({ folder, zones, port, cores }: PeerOptions): Promise<Contender> {
  writeZoneFiles(folder, zones);
  const configuration = join(folder, "named.conf");
  writeFileSync(
    configuration,
    `options {
  directory "${folder}";
  listen-on port ${port} { 127.0.0.1; };
  listen-on-v6 { none; };
  recursion no;
  minimal-responses yes;
  allow-transfer { 127.0.0.1; };
  pid-file "${folder}/named.pid";
  session-keyfile "${folder}/session.key";
  dnssec-validation no;
};
controls { };
${zones.map(({ name }) => `zone "${name}" { type primary; file "${name}.zone"; };\n`).join("")}`,
  );
  return startPeer("BIND", ["named", "-f", "-n", "1", "-c", configuration], { folder, port, cores, zones });
}

/** PowerDNS with PostgreSQL: the zones come from the database that `databaseUrl` names, in PowerDNS' own schema. */
export async function startPowerDns(
  { folder, zones, port, cores }: PeerOptions,
  databaseUrl: string,
  postgresPids: readonly number[],
): Promise<Contender> {
  mkdirSync(folder, { recursive: true });
  const url = new URL(databaseUrl);
  writeFileSync(
    join(folder, "pdns.conf"),
    `launch=gpgsql
gpgsql-host=${url.hostname}
gpgsql-port=${url.port}
gpgsql-dbname=${url.pathname.slice(1)}
gpgsql-user=${url.username}
gpgsql-password=${decodeURIComponent(url.password)}
local-address=127.0.0.1
local-port=${port}
receiver-threads=1
distributor-threads=1
socket-dir=${folder}
daemon=no
guardian=no
disable-syslog=yes
`,
  );
  const contender = await startPeer("PowerDNS", ["pdns_server", `--config-dir=${folder}`], {
    folder,
    port,
    cores,
    zones,
  });
  return { ...contender, pids: [...contender.pids, ...postgresPids] };
}

async function startPeer(
  name: string,
  command: readonly string[],
  { folder, port, cores, zones }: PeerOptions,
): Promise<Contender> {
  const log = openSync(join(folder, "output.log"), "a");
  const child = spawn("taskset", ["-c", cores, ...command], {
    stdio: ["ignore", log, log],
    env: PEER_ENVIRONMENT,
  });
  const startMs = await untilAnswering(port, zones.at(-1)!.name, child, folder);
  return { name, port, pids: [child.pid!], startMs, stop: () => stopChild(child) };
}

function writeZoneFiles(folder: string, zones: readonly BenchZone[]): void {
  mkdirSync(folder, { recursive: true });
  for (const { name, text } of zones) writeFileSync(join(folder, `${name}.zone`), `$ORIGIN ${name}.\n${text}`);
}

export async function stopChild(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGTERM");
  const late = setTimeout(() => child.kill("SIGKILL"), 10_000);
  await ended;
  clearTimeout(late);
}

/** Waits until a zone's SOA is answered with authority. @returns milliseconds it took */
export async function untilAnswering(port: number, zone: string, child: ChildProcess, folder: string): Promise<number> {
  const started = performance.now();
  while (performance.now() - started < START_DEADLINE_MS) {
    if (child.exitCode !== null) throw new Error(`it ended at once; see ${folder}/output.log`);
    if (await isAnswering(port, zone)) return performance.now() - started;
    await sleep(20);
  }
  throw new Error(`no answer within ${START_DEADLINE_MS} ms; see ${folder}/output.log`);
}

function isAnswering(port: number, zone: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createSocket("udp4");
    const finish = (answering: boolean) => {
      clearTimeout(late);
      socket.close();
      resolve(answering);
    };
    const late = setTimeout(() => finish(false), 500);
    socket.on("error", () => finish(false));
    socket.on("message", (octets) => finish((dnsPacket.decode(octets).answers ?? []).length > 0));
    socket.connect(port, "127.0.0.1", () => {
      socket.send(dnsPacket.encode({ type: "query", id: 1, questions: [{ name: zone, type: "SOA" }] }));
    });
  });
}
