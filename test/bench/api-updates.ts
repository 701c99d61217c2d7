import { type ChildProcess, spawn } from "node:child_process";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { mkdirSync, openSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { encodeMessage } from "../../services/core/dns/message.ts";
import { type DomainName, parseDomainName } from "../../services/core/dns/name.ts";
import { CLASS, OPCODE, RCODE, TYPE } from "../../services/core/dns/rr-types.ts";
import { type TsigKey, TsigSigner } from "../../services/core/dns/tsig.ts";
import { freePort, isInstalled } from "../support/peers-processes.ts";
import { stopChild, untilAnswering } from "./dns-peers.ts";

export interface UpdateBenchOptions {
  readonly folder: string;
  readonly databaseUrl: string;
  readonly secret: string;
  /** Zones that take updates with the key; they are in the database. */
  readonly zones: readonly string[];
  readonly key: { readonly name: string; readonly secret: string };
  readonly seconds: number;
  readonly clients: number;
}

/** Updates a second that were answered, in one zone and over all zones. */
export interface UpdateFigures {
  readonly oneZone: number;
  readonly allZones: number;
}

/** Signed updates by UDP, each adding a record: here, and by the name servers that are installed. */
export async function measureUpdates(options: UpdateBenchOptions): Promise<Record<string, UpdateFigures | undefined>> {
  const figures: Record<string, UpdateFigures | undefined> = {};
  for (const [name, start] of [
    ["palomar", startOurs],
    ["bind", startBind],
    ["knot", startKnot],
  ] as const) {
    const server = await start(options);
    figures[name] = server && (await measure(server.port, options));
    await server?.stop();
  }
  return figures;
}

interface Server {
  readonly port: number;
  stop(): Promise<void>;
}

async function startOurs(options: UpdateBenchOptions): Promise<Server> {
  const port = await freePort();
  const env = {
    DATABASE_URL: options.databaseUrl,
    PALOMAR_SECRET: options.secret,
    PALOMAR_DNS_LISTEN: `127.0.0.1:${port}`,
    PALOMAR_DATA_DIR: options.folder,
  };
  return startServer(port, [process.execPath, fileURLToPath(new URL("./dns-palomar-process.js", import.meta.url))], {
    ...options,
    env,
  });
}

async function startBind(options: UpdateBenchOptions): Promise<Server | undefined> {
  if (!isInstalled("named")) return undefined;
  const port = await freePort();
  const folder = zoneFolder(options, "bind");
  const { key, zones } = options;
  writeFileSync(
    join(folder, "named.conf"),
    `options { directory "${folder}"; listen-on port ${port} { 127.0.0.1; }; listen-on-v6 { none; }; pid-file none;
      recursion no; session-keyfile none; dnssec-validation no; notify no; };
    controls { };
    key "${key.name}" { algorithm hmac-sha256; secret "${key.secret}"; };
    ${zones.map((zone) => `zone "${zone}" { type primary; file "${zone}.zone"; allow-update { key "${key.name}"; }; };`).join("\n")}`,
  );
  return startServer(port, ["named", "-f", "-c", join(folder, "named.conf")], options);
}

async function startKnot(options: UpdateBenchOptions): Promise<Server | undefined> {
  if (!isInstalled("knotd")) return undefined;
  const port = await freePort();
  const folder = zoneFolder(options, "knot");
  const { key, zones } = options;
  writeFileSync(
    join(folder, "knot.conf"),
    `server:\n  listen: 127.0.0.1@${port}\n  rundir: "${folder}"\ndatabase:\n  storage: "${folder}"
key:\n  - id: ${key.name}\n    algorithm: hmac-sha256\n    secret: ${key.secret}
acl:\n  - id: update\n    key: ${key.name}\n    action: update
template:\n  - id: default\n    storage: "${folder}"\n    acl: update\n    file: "%s.zone"
zone:\n${zones.map((zone) => `  - domain: ${zone}\n`).join("")}`,
  );
  return startServer(port, ["knotd", "-c", join(folder, "knot.conf")], options);
}

function zoneFolder({ folder, zones }: UpdateBenchOptions, name: string): string {
  const own = join(folder, name);
  mkdirSync(own);
  const text = "@ 300 SOA ns1.example.net. h.example.net. 1 3600 600 86400 300\n@ 300 NS ns1.example.net.\n";
  for (const zone of zones) writeFileSync(join(own, `${zone}.zone`), `$ORIGIN ${zone}.\n${text}`);
  return own;
}

async function startServer(
  port: number,
  [program, ...args]: readonly string[],
  { folder, zones, env }: Pick<UpdateBenchOptions, "folder" | "zones"> & { readonly env?: Record<string, string> },
): Promise<Server> {
  const log = openSync(join(folder, "output.log"), "a");
  const path = `${process.env.PATH}:/usr/sbin`;
  const child: ChildProcess = spawn(program!, args, {
    stdio: ["ignore", log, log, "ipc"],
    env: { ...process.env, ...env, PATH: path },
  });
  await untilAnswering(port, zones.at(-1)!, child, folder);
  return { port, stop: () => stopChild(child) };
}

async function measure(port: number, options: UpdateBenchOptions): Promise<UpdateFigures> {
  const [first] = options.zones;
  return {
    oneZone: await updatesASecond(port, { ...options, zones: [first!] }),
    allZones: await updatesASecond(port, options),
  };
}

/** Each client sends one update after the other, after a second to warm up. */
async function updatesASecond(port: number, options: UpdateBenchOptions): Promise<number> {
  const { clients, seconds, key } = options;
  const apexes = options.zones.map((zone) => nameOf(zone));
  const tsig = { name: nameOf(key.name), algorithm: "hmac-sha256", secret: Buffer.from(key.secret, "base64") } as const;
  const run = `${options.zones.length}-${Date.now()}`;
  const warmUntil = performance.now() + 1_000;
  const end = warmUntil + seconds * 1_000;
  let sent = 0;
  let counted = 0;
  const client = async () => {
    const socket = createSocket("udp4");
    socket.connect(port, "127.0.0.1");
    await once(socket, "connect");
    while (performance.now() < end) {
      const number = sent++;
      const apex = apexes[number % apexes.length]!;
      socket.send(signedUpdate(apex, nameOf(`h${number}-${run}`, apex), tsig));
      const [answer] = (await once(socket, "message", { signal: AbortSignal.timeout(20_000) })) as [Buffer];
      const rcode = answer[3]! & 0xf;
      if (rcode !== RCODE.NOERROR) throw new Error(`an update was answered with rcode ${rcode}`);
      if (performance.now() >= warmUntil) counted += 1;
    }
    socket.close();
  };
  await Promise.all(Array.from({ length: clients }, client));
  return counted / seconds;
}

const FLAGS = { qr: false, aa: false, tc: false, rd: false, ra: false, ad: false, cd: false };

function signedUpdate(apex: DomainName, owner: DomainName, key: TsigKey): Uint8Array {
  const message = encodeMessage({
    ...{ id: Math.floor(Math.random() * 65_536), opcode: OPCODE.UPDATE, flags: FLAGS, rcode: 0 },
    questions: [{ name: apex, type: TYPE.SOA, class: CLASS.IN }],
    answers: [],
    authorities: [{ owner, type: TYPE.A, class: CLASS.IN, ttl: 300, rdata: Uint8Array.of(192, 0, 2, 1) }],
    additionals: [],
  });
  return new TsigSigner(key).sign(message, Math.floor(Date.now() / 1000));
}

function nameOf(text: string, origin?: DomainName): DomainName {
  const name = parseDomainName(text, origin);
  if (!name.ok) throw new Error(name.error.message);
  return name.value;
}
