import { Client } from "undici";
import type { Db } from "../../services/platform/postgres/db.ts";
import { percentile } from "./percentile.ts";
import {
  API_KEY,
  checkLayout,
  companyOf,
  LARGE_RESELLER,
  OTHER_RESELLER,
  PASSWORD,
  ZONE_FILE,
  zoneNameOf,
} from "./zones-data.ts";

const CHANGES = 300;
const ROUNDS = 25;
const PAGE = 50;

/** The DNS API as one reseller calls it. */
export function zoneApi(url: string, reseller: string) {
  const client = new Client(url);
  const headers = { Authorization: `${API_KEY}-${reseller}`, Reseller: reseller };
  const call = (method: Method, path: string, body?: object | string) =>
    send(client, { method, path: `/api/v1${path}`, headers, body });
  return {
    call,
    /** Gives its id. */
    createRecord: async (zone: string, name: string): Promise<string> => {
      const made = await call("POST", `/rr/${zone}`, { name, type: "A", value: "192.0.2.9" });
      return String(JSON.parse(made).rr_id);
    },
    createZone: (zone: string, crmId: string): Promise<string> => {
      const times = { refresh: 7200, retry: 3600, expire: 1209600, minimum: 300, ttl: 3600 };
      const names = { mname: "ns1.example.net", rname: "host.example.net" };
      return call("POST", `/master_zone/${zone}`, { crm_id: crmId, ...names, ...times, serial_type: "numeric" });
    },
    search: (query: string): Promise<string> =>
      send(client, {
        method: "GET",
        path: `/api/v1/servers/localhost/search-data?object_type=zone&max=50&q=${encodeURIComponent(query)}`,
        headers: { "X-API-Key": `${API_KEY}-${reseller}` },
      }),
    close: () => client.close(),
  };
}

type Method = "GET" | "POST" | "PUT" | "DELETE";

interface Call {
  readonly method: Method;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: object | string | undefined;
}

/** @returns the answer's body; an answer that is no success ends the benchmark */
async function send(client: Client, call: Call): Promise<string> {
  const { body } = await respond(client, call);
  return body;
}

async function respond(
  client: Client,
  { method, path, headers, body }: Call,
): Promise<{ readonly body: string; readonly cookie: string }> {
  const isText = typeof body === "string";
  const type = isText ? "text/dns" : "application/json";
  const response = await client.request({
    ...{ method, path, headers: { ...headers, ...(body !== undefined && { "Content-Type": type }) } },
    body: body === undefined ? null : isText ? body : JSON.stringify(body),
  });
  const text = await response.body.text();
  if (response.statusCode >= 300) throw new Error(`${method} ${path}: ${response.statusCode} ${text}`);
  return { body: text, cookie: String(response.headers["set-cookie"]).split(";")[0]! };
}

/** What callers of the DNS API and users of the console wait for. */
export async function measureApis(
  { db, zones }: { readonly db: Db; readonly zones: number },
  apiUrl: string,
  consoleUrl: string,
): Promise<Record<string, number>> {
  const large = zoneApi(apiUrl, LARGE_RESELLER);
  const other = zoneApi(apiUrl, OTHER_RESELLER);
  const page = await openConsole(consoleUrl);
  try {
    await checkLayoutByApi(db, large);
    return {
      ...(await measureChanges(zones, large)),
      ...(await measureApiLists(zones, large, other)),
      ...(await measureConsole(zones, page)),
    };
  } finally {
    await Promise.all([large.close(), other.close(), page.close()]);
  }
}

type ZoneApi = ReturnType<typeof zoneApi>;

/** Makes a zone by the API, that must be as those that are laid out. */
async function checkLayoutByApi(db: Db, api: ZoneApi): Promise<void> {
  const name = zoneNameOf(99_999_999);
  await api.createZone(name, `${LARGE_RESELLER}-0`);
  await api.call("PUT", `/zone_file/${name}`, ZONE_FILE);
  await checkLayout(db, zoneNameOf(0), name);
}

async function measureChanges(zones: number, api: ZoneApi): Promise<Record<string, number>> {
  const made: number[] = [];
  const removed: number[] = [];
  const created: number[] = [];
  for (let count = 0; count < CHANGES; count += 1) {
    const zone = zoneNameOf((count * 7919) % zones);
    const id = await timed(made, () => api.createRecord(zone, `h${count}`));
    await timed(removed, () => api.call("DELETE", `/rr/${zone}/${id}`));
    if (count % 10 === 0) await timed(created, () => api.createZone(`made-${count}.example.org`, companyOf(0)));
  }
  return {
    "record created, median ms": percentile(made, 50),
    "record created, p95 ms": percentile(made, 95),
    "record deleted, median ms": percentile(removed, 50),
    "record deleted, p95 ms": percentile(removed, 95),
    "zone created, p95 ms": percentile(created, 95),
  };
}

async function measureApiLists(zones: number, large: ZoneApi, other: ZoneApi): Promise<Record<string, number>> {
  const whole: number[] = [];
  const small: number[] = [];
  const companies: number[] = [];
  await timed(whole, () => large.call("GET", "/domain_list"));
  for (let round = 0; round < ROUNDS; round += 1) {
    await timed(small, () => other.call("GET", "/domain_list"));
    await timed(companies, () => large.call("GET", `/company/${companyOf((round * 7919) % zones)}`));
  }
  const searches: Record<string, number> = {};
  for (const [what, text] of SEARCHES) {
    const taken: number[] = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      await timed(taken, () => large.search(`*${text(round, zones)}*`));
    }
    searches[`API search, ${what}, p95 ms`] = percentile(taken, 95);
  }
  const ofOther: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) await timed(ofOther, () => other.search("*nowhere*"));
  return {
    "domain list of all zones, s": whole[0]! / 1_000,
    "domain list of 100 zones, p95 ms": percentile(small, 95),
    "company, p95 ms": percentile(companies, 95),
    ...searches,
    "API search of 100 zones, what no zone has, p95 ms": percentile(ofOther, 95),
  };
}

/** What is looked for, round after round. */
const SEARCHES: readonly (readonly [what: string, text: (round: number, zones: number) => string])[] = [
  ["one zone", (round, zones) => zoneNameOf((round * 7919) % zones).slice(0, -5)],
  ["its number", (round, zones) => String((round * 7919) % zones).padStart(8, "0")],
  ["a word", (round) => ["garden", "bakery", "museum"][round % 3]!],
  ["two letters", (round) => ["ga", "us", "ew"][round % 3]!],
  ["what no zone has", (round) => `nowhere-${round}`],
  ["two letters that no zone has", (round) => ["xq", "zz", "qj"][round % 3]!],
  ["common parts that no zone has together", (round) => `garden-${String(round).padStart(8, "9")}`],
];

type Page = Awaited<ReturnType<typeof openConsole>>;

async function openConsole(url: string) {
  const client = new Client(url);
  const json = { "Content-Type": "application/json" };
  const credentials = { login: "operator", password: PASSWORD };
  const path = "/admin/v1/session";
  const { cookie } = await respond(client, { method: "POST", path, headers: json, body: credentials });
  return {
    zones: async (query: Readonly<Record<string, string>>): Promise<readonly { readonly domain: string }[]> => {
      const fields = new URLSearchParams({ limit: String(PAGE), ...query });
      const path = `/admin/v1/resellers/${LARGE_RESELLER}/zones?${fields}`;
      return JSON.parse(await send(client, { method: "GET", path, headers: { Cookie: cookie } })).zones;
    },
    close: () => client.close(),
  };
}

async function measureConsole(zones: number, page: Page): Promise<Record<string, number>> {
  const figures: Record<string, number> = {};
  const measure = async (what: string, query: (round: number) => Record<string, string>) => {
    const taken: number[] = [];
    for (let round = 0; round < ROUNDS; round += 1) await timed(taken, () => page.zones(query(round)));
    figures[`console, ${what}, p95 ms`] = percentile(taken, 95);
  };
  await measure("first page", () => ({}));
  await measure("page in the middle", (round) => ({ after: zoneNameOf(Math.floor(zones / 2) + round) }));
  await measure("last page", (round) => ({ after: zoneNameOf(zones - 1 - (round % 8)) }));
  await measure("page of a company", (round) => ({ crm_id: companyOf((round * 7919) % zones) }));
  for (const [what, text] of SEARCHES) await measure(what, (round) => ({ search: text(round, zones) }));
  return figures;
}

async function timed<T>(taken: number[], work: () => Promise<T>): Promise<T> {
  const at = performance.now();
  const result = await work();
  taken.push(performance.now() - at);
  return result;
}
