import { spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import type { MessageRecord } from "../../services/core/dns/message.ts";
import { CLASS, RCODE, TYPE } from "../../services/core/dns/rr-types.ts";
import { type TsigAlgorithm, type TsigKey, TsigSigner } from "../../services/core/dns/tsig.ts";
import { start } from "../../services/dns-server/main.ts";
import type { Observation } from "../../services/platform/observability/observation.ts";
import { openDb, openListenConnection } from "../../services/platform/postgres/db.ts";
import { recordOf } from "../unit/core/dns/support.ts";
import { updateMessage } from "../unit/core/dns/update/support.ts";
import { exchangeDatagram } from "./datagrams.ts";
import { KEY_RING, makeZone, type RunningApi, startApiWithCompany } from "./dns-api.ts";
import { dnsServerContext, eventually, nameOf } from "./dns-server.ts";
import { openTcpGate, type TcpGate } from "./tcp-gate.ts";

/** A TSIG key as the tools take it. */
export interface UpdateKey {
  readonly name: string;
  readonly secret: string;
  /** hmac-sha256 unless it is given. */
  readonly algorithm?: TsigAlgorithm;
}

/** The API, and a name server on the same database. */
export interface UpdateStack {
  readonly api: RunningApi;
  readonly host: string;
  readonly port: number;
  /** The name server's way to the database. */
  readonly gate: TcpGate;
  /** What the name server observed. */
  readonly observations: Observation[];
  /** A token of the reseller `one` that is its TSIG key alone. */
  makeKey(policy?: object): Promise<UpdateKey>;
  /** A zone that takes updates. @returns its name */
  makeZone(overrides?: Record<string, unknown>): Promise<string>;
  stop(): Promise<void>;
}

export async function startUpdateStack(env: Readonly<Record<string, string>> = {}): Promise<UpdateStack> {
  const api = await startApiWithCompany();
  // The name server's own way to the database, which tests may shut.
  const { hostname, port: databasePort } = new URL(api.database.url);
  const gate = await openTcpGate({ host: hostname, port: Number(databasePort || 5432) });
  const url = new URL(api.database.url);
  url.hostname = "127.0.0.1";
  url.port = `${gate.port}`;
  const db = openDb(url.href, { connections: 5, name: "name server", patienceMs: 2_000 });
  const observations: Observation[] = [];
  const context = dnsServerContext(api.database, {
    env: { PALOMAR_DNS_UDP: "portable", ...env },
    observe: (observation: Observation) => void observations.push(observation),
    openConnection: () => openListenConnection(url.href, "name server"),
  });
  const server = await start({ ...context, db, keyRing: KEY_RING });
  const [host, port] = server.addresses.dns!.split(":") as [string, string];
  let made = 0;
  return {
    api,
    host,
    port: Number(port),
    observations,
    makeKey: async (policy = {}) => {
      made += 1;
      const fields = { name: `key${made}`, access: "write", tsig: "hmac-sha256", ...policy };
      const { status, text, body } = await api.call("POST", "/api/v1/token", fields);
      if (status !== 200) throw new Error(text);
      return { name: body.tsig.name, secret: body.tsig.secret };
    },
    makeZone: async (overrides) => {
      const name = await makeZone(api, overrides);
      const { status, text } = await api.call("PUT", `/api/v1/updates/${name}`, { enabled: true });
      if (status !== 200) throw new Error(text);
      return name;
    },
    gate,
    stop: async () => {
      await server.stop();
      await db.destroy();
      await gate.shut();
      await api.stop();
    },
  };
}

/** What a program printed, and how it ended. */
export interface ProgramResult {
  readonly status: number | null;
  readonly output: string;
}

/** Runs a program with an input. */
export async function runProgram(program: string, args: readonly string[], input: string): Promise<ProgramResult> {
  const child = spawn(program, args, { stdio: ["pipe", "pipe", "pipe"] });
  let output = "";
  child.stdout.on("data", (chunk) => (output += chunk));
  child.stderr.on("data", (chunk) => (output += chunk));
  child.stdin.end(input);
  const status = await new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", resolve);
  });
  return { status, output };
}

/** One update by `nsupdate`. @returns the response code: what the program prints of it, NOERROR where it says nothing */
export async function nsupdate(
  server: { readonly host: string; readonly port: number },
  key: UpdateKey | undefined,
  lines: readonly string[],
  args: readonly string[] = [],
): Promise<string> {
  const head = [`server ${server.host} ${server.port}`, ...(key ? [`key hmac-sha256:${key.name} ${key.secret}`] : [])];
  const { status, output } = await runProgram("nsupdate", args, [...head, ...lines, "send", ""].join("\n"));
  const failed = /update failed: (\w+)/.exec(output) ?? /TSIG error with server: (.*)/.exec(output);
  if (failed) return failed[1]!;
  if (status !== 0 || output !== "") throw new Error(`nsupdate: ${status}: ${output}`);
  return "NOERROR";
}

/** An UPDATE of a zone, signed now. */
export function signUpdate(
  zone: string,
  { name, secret, algorithm = "hmac-sha256" }: UpdateKey,
  { updates, prerequisites = [], id = randomInt(65_536), behindSeconds = 0 }: UpdateSections,
): { readonly octets: Uint8Array; readonly key: TsigKey; readonly mac: Uint8Array } {
  const question = { name: nameOf(zone), type: TYPE.SOA as number, class: CLASS.IN as number };
  const message = updateMessage(updates, prerequisites, [question]);
  new DataView(message.buffer).setUint16(0, id);
  const key: TsigKey = { name: nameOf(name), algorithm, secret: Buffer.from(secret, "base64") };
  const signer = new TsigSigner(key);
  const octets = signer.sign(message, Math.floor(Date.now() / 1000) - behindSeconds);
  return { octets, key, mac: signer.lastMac! };
}

interface UpdateSections {
  readonly updates: readonly MessageRecord[];
  readonly prerequisites?: readonly MessageRecord[];
  readonly id?: number;
  /** How late the clock of the client is. */
  readonly behindSeconds?: number;
}

/** Waits until the name server knows a key, and the zone, by updates of nothing: it reads both a moment after they are made. */
export async function untilKeyIsKnown(
  server: { readonly host: string; readonly port: number },
  zone: string,
  key: UpdateKey,
): Promise<void> {
  await eventually(async () => {
    const answer = await exchangeDatagram(signUpdate(zone, key, { updates: [] }).octets, server);
    const rcode = answer[3]! & 0xf;
    return rcode !== RCODE.NOTAUTH && rcode !== RCODE.SERVFAIL;
  }, 60_000);
}

/** A record to be added. @param owner absolute */
export function addition(owner: string, type: string, value: string): MessageRecord {
  return { ...recordOf(`${owner}.`, type, value, 60), class: CLASS.IN };
}
