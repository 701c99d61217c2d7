import { request } from "node:http";
import { hashApiKey } from "../../services/core/api-key.ts";
import { KeyRing } from "../../services/core/key-ring.ts";
import { start } from "../../services/dns-api/main.ts";
import { loadConfig } from "../../services/platform/config/config.ts";
import { makeLogger } from "../../services/platform/observability/logger.ts";
import type { Observation } from "../../services/platform/observability/observation.ts";
import { openListenConnection } from "../../services/platform/postgres/db.ts";
import { addReseller } from "../../services/store/dns/resellers.ts";
import { createTestDatabase, type TestDatabase } from "./database.ts";

export const KEY_RING = KeyRing.ofSecret("a secret of the tests, long enough");

/** Who calls: the two credentials of every request. */
export interface Credentials {
  readonly reseller?: string | undefined;
  readonly key?: string | undefined;
  readonly accept?: string;
}

export interface Answer {
  readonly status: number;
  readonly headers: Record<string, string | string[] | undefined>;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look at answers of every shape
  readonly body: any;
}

/** The API on a database of its own, with two resellers, and a clock that the test sets. */
export interface RunningApi {
  readonly url: string;
  /** Where it listens for HTTPS, host:port, if it does. */
  readonly tls: string | undefined;
  readonly database: TestDatabase;
  readonly clock: { nowMs(): number; set(at: string): void };
  readonly observations: Observation[];
  /** Calls as the reseller `one` unless told. `body` is sent as JSON, a string as it is. */
  call(method: string, path: string, body?: unknown, as?: Credentials): Promise<Answer>;
  stop(): Promise<void>;
}

export const RESELLER_ONE = { reseller: "one", key: "key-of-reseller-one" };
export const RESELLER_TWO = { reseller: "two", key: "key-of-reseller-two" };

export async function startApi(environment: Record<string, string> = {}): Promise<RunningApi> {
  const database = await createTestDatabase(20);
  const config = loadConfig({ PALOMAR_DNS_API_LISTEN: "127.0.0.1:0", ...environment });
  if (!config.ok) throw new Error(config.error.join("\n"));
  for (const { reseller, key } of [RESELLER_ONE, RESELLER_TWO]) {
    const keyHash = hashApiKey(KEY_RING, "dns", key);
    await addReseller(database.db, { id: reseller, name: reseller, rpzLicence: reseller === "two", keyHash });
  }
  const clock = settableClock();
  const observations: Observation[] = [];
  const service = await start({
    config: config.value,
    keyRing: KEY_RING,
    db: database.db,
    clock,
    logger: makeLogger("test", "silent"),
    observe: (observation) => observations.push(observation),
    openListenConnection: () => openListenConnection(database.url, "test"),
    addressOf: () => Promise.reject(new Error("not used")),
  });
  const url = service.addresses.dns_api as string;
  return {
    url,
    tls: service.addresses.dns_api_tls,
    database,
    clock,
    observations,
    call: (method, path, body, as = RESELLER_ONE) => call(`${url}${path}`, method, body, as),
    stop: async () => {
      await service.stop();
      await database.drop();
    },
  };
}

/** As {@link startApi}, with the company `acme` of the reseller `one`. */
export async function startApiWithCompany(environment: Record<string, string> = {}): Promise<RunningApi> {
  const api = await startApi(environment);
  await api.call("POST", "/api/v1/company", { crm_id: "acme", name: "Acme", apikey: "acme-api-key-0001" });
  return api;
}

/** A new zone of that company. @returns its name */
export async function makeZone(api: RunningApi, overrides: Record<string, unknown> = {}): Promise<string> {
  zonesMade += 1;
  const name = `zone${zonesMade}.example.org`;
  const { status, text } = await api.call("POST", `/api/v1/master_zone/${name}`, zoneFields(overrides));
  if (status !== 200) throw new Error(`${name}: ${text}`);
  return name;
}

let zonesMade = 0;

/** A clock that stands where it is put, and runs with the system's until then. */
function settableClock() {
  let offsetMs = 0;
  return {
    nowMs: () => Date.now() + offsetMs,
    set: (at: string) => {
      offsetMs = Date.parse(at) - Date.now();
    },
  };
}

/** One request by node:http, which sends bodies with GET as well. */
function call(url: string, method: string, body: unknown, { reseller, key, accept }: Credentials): Promise<Answer> {
  const payload = body === undefined || typeof body === "string" || Buffer.isBuffer(body) ? body : JSON.stringify(body);
  const headers = {
    ...(key === undefined ? {} : { Authorization: key }),
    ...(reseller === undefined ? {} : { Reseller: reseller }),
    ...(accept === undefined ? {} : { Accept: accept }),
    ...(payload === undefined ? {} : { "Content-Length": Buffer.byteLength(payload) }),
    ...(typeof body === "object" && !Buffer.isBuffer(body) ? { "Content-Type": "application/json" } : {}),
  };
  return new Promise((resolve, reject) => {
    const sent = request(url, { method, headers }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("error", reject);
      response.on("end", () => {
        const text = Buffer.concat(chunks).toString("utf8");
        const isJson = response.headers["content-type"]?.match(/^application\/(problem\+)?json/);
        resolve({
          status: response.statusCode as number,
          headers: response.headers,
          text,
          body: isJson ? JSON.parse(text) : undefined,
        });
      });
    });
    sent.on("error", reject);
    sent.end(payload);
  });
}

/** The body of a zone's creation. */
export function zoneFields(overrides: Record<string, unknown> = {}) {
  return {
    crm_id: "acme",
    mname: "ns1.example.net",
    rname: "hostmaster.example.net",
    refresh: 7200,
    retry: 900,
    expire: 1_209_600,
    minimum: 300,
    ttl: 3600,
    serial_type: "numeric",
    ...overrides,
  };
}
