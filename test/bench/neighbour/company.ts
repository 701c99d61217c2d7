import { call, outcomeOf } from "./http-call.ts";
import { repeat, sourceAddress, type Tally, type Target } from "./target.ts";

const NETWORK = 11;
/** A few octets that stand for as many records as a file may make. */
const BOMB = `$TTL 60\n@ NS ns.attack.test.\n${Array.from({ length: 2 }, (_, line) => `$GENERATE 1-32500 h${line}-$ A 192.0.2.1`).join("\n")}\n`;
const ZONES = 17;

/** What a company does with its own key to everybody else. */
export function attackAsCompany(
  target: Target,
  run: { readonly tally: Tally; readonly until: number },
): Promise<void>[] {
  const { resellerId, crmId, key } = target.company;
  const api = (client: number, method: string, path: string, body?: unknown) =>
    call({
      method,
      url: `${target.dnsApi}/api/v1${path}`,
      headers: {
        ...{ Authorization: key, Reseller: resellerId },
        "Content-Type": typeof body === "string" ? "text/dns" : "application/json",
      },
      from: sourceAddress(NETWORK, client),
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
  const makeZone = (client: number, name: string) =>
    api(client, "POST", `/master_zone/${name}`, { ...soa(name), crm_id: crmId });
  const zoneOf = (index: number) => `bomb${index}.attack.test`;
  const made = Promise.all(Array.from({ length: ZONES }, (_, index) => makeZone(1, zoneOf(index))));
  const at = (attack: string, step: (turn: number) => ReturnType<typeof api>) =>
    made.then(
      () => repeat(run, attack, async (turn) => outcomeOf(await step(turn))),
      () => {},
    );
  return [
    ...range(6).map((client) =>
      at("preview of a bomb", () => api(client, "POST", `/zone_preview/${zoneOf(client)}`, BOMB)),
    ),
    ...range(3).map((client) =>
      at("zone file that is a bomb", (turn) =>
        api(10 + client, "PUT", `/zone_file/${zoneOf((turn * 3 + client) % ZONES)}`, BOMB),
      ),
    ),
    at("zone file of 30 MB", (turn) => api(20, "PUT", `/zone_file/${zoneOf(turn % ZONES)}`, largeFile())),
    at("batch of 100,000 records", (turn) => api(21, "POST", `/rr/${zoneOf(turn % ZONES)}/batch`, largeBatch(turn))),
    ...range(8).map((client) =>
      at("change", (turn) =>
        api(30 + client, "POST", `/rr/${zoneOf(client)}`, { name: `c${turn}`, type: "TXT", value: "x".repeat(200) }),
      ),
    ),
    ...range(2).map((client) =>
      at("deepest name", (turn) =>
        api(40 + client, "POST", `/rr/${zoneOf(client)}`, {
          name: `${"a.".repeat(80)}d${turn}`,
          type: "TXT",
          value: "deep",
        }),
      ),
    ),
    ...range(2).map((client) => at("zone", (turn) => makeZone(50 + client, `z${client}-${turn}.attack.test`))),
    ...range(2).map((client) =>
      at("signing on and off", (turn) =>
        api(60 + client, "PUT", `/dnssec/${zoneOf(client)}`, { enabled: turn % 2 === 0, denial: "nsec3" }),
      ),
    ),
    at("history", (turn) => api(70, "GET", `/zone_history/${zoneOf(turn % ZONES)}?limit=1000`)),
    at("export", (turn) => api(71, "GET", `/zone_file/${zoneOf(turn % ZONES)}`)),
    at("list", (turn) => api(72, "GET", `/rr/${zoneOf(turn % ZONES)}`)),
    at("rollback", (turn) => api(73, "POST", `/zone_rollback/${zoneOf(turn % 2)}`, { serial: 1 })),
  ];
}

function soa(name: string) {
  const times = { refresh: 7200, retry: 900, expire: 1_209_600, minimum: 300, ttl: 3600 };
  return { mname: `ns.${name}`, rname: `root.${name}`, ...times, serial_type: "numeric" };
}

function largeFile(): string {
  const text = `"${"t".repeat(250)}"`;
  return `$TTL 60\n${range(100_000)
    .map((index) => `l${index} TXT ${text}`)
    .join("\n")}\n`;
}

function largeBatch(turn: number): unknown {
  return { create: range(100_000).map((index) => ({ name: `b${turn}-${index}`, type: "A", value: "192.0.2.9" })) };
}

function range(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index);
}
