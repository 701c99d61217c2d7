import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { SECONDARIES, type Secondary } from "../../services/core/dns/acl-stanzas.ts";
import { start } from "../../services/dns-server/main.ts";
import type { Observation } from "../../services/platform/observability/observation.ts";
import type { RunningService, ServiceContext } from "../../services/platform/service.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { askDns, dataOf, rcodeOf } from "../support/dns-client.ts";
import { addZoneOwner, dnsServerContext, eventually, putZone, SCOPE } from "../support/dns-server.ts";
import { operatorOf, printed } from "../support/operator.ts";
import { freePort, isInstalled, type Peer } from "../support/peers-processes.ts";
import { SECONDARY_PEERS, startSecondary } from "../support/peers-secondaries.ts";
import { askOverTcp, askOverUdp, asSet, serialOf } from "../support/transfer-client.ts";

const ZONE = "example.org";
const PATIENCE_MS = 60_000;
const CHANGES = 100;

let database: TestDatabase;
let context: ServiceContext;
let service: RunningService | undefined;
let server: string;
let peer: Peer | undefined;
let observations: Observation[];

beforeEach(async () => {
  database = await createTestDatabase();
  await addZoneOwner(database);
  await putZone(database, ZONE, contents(0));
  observations = [];
  const observe = (observation: Observation) => void observations.push(observation);
  context = dnsServerContext(database, { env: { PALOMAR_DNS_UDP: "portable" }, observe });
});

afterEach(async () => {
  await peer?.stop();
  await service?.stop();
  await database.drop();
  peer = undefined;
  service = undefined;
});

describe.each(SECONDARIES)("%s as a secondary, by the printed stanza", (secondary) => {
  const { program, keepsKeys } = SECONDARY_PEERS[secondary];
  const missing = isInstalled(program) ? "" : ` (skipped: ${program} is not installed)`;
  const withoutKeys = keepsKeys ? "" : ` (skipped: ${program} has no TSIG)`;

  it.skipIf(missing !== "")(
    `transfers by address, follows ${CHANGES} changes by NOTIFY, ends identical${missing}`,
    async () => followsChanges(secondary, ["--block", "127.0.0.0/8"]),
    5 * PATIENCE_MS,
  );

  it.skipIf(missing + withoutKeys !== "")(
    `transfers by key, follows ${CHANGES} changes by signed NOTIFY and IXFR, ends identical${missing || withoutKeys}`,
    async () => {
      await followsChanges(secondary, ["--tsig", "transfers.example:hmac-sha512"]);
      expect(kinds()).not.toContain("tsig-refused");
      // What was sent is told a moment after it has arrived.
      await expect
        .poll(() => observations.some((one) => one.kind === "transfer-sent" && one.asked.startsWith("IXFR")))
        .toBe(true);
    },
    5 * PATIENCE_MS,
  );

  it.skipIf(missing + withoutKeys !== "")(`gets nothing with a wrong key${missing || withoutKeys}`, async () => {
    const { stanza, port } = await prepare(secondary, ["--tsig", "transfers.example"]);
    const secret = /[A-Za-z0-9+/]{43}=/.exec(stanza)?.[0] as string;
    peer = await startSecondary(secondary, port, stanza.replace(secret, Buffer.alloc(32, 7).toString("base64")));
    await eventually(async () => kinds().includes("tsig-refused"), PATIENCE_MS);
    await sleep(500);
    await expect(serialAt(peer.address)).rejects.toThrow();
    expect(kinds()).not.toContain("transfer-sent");
  });
});

it.skipIf(!isInstalled("unbound"))(
  "unbound (needs the Debian package unbound) as a secondary answers from zones below names that it answers itself",
  async () => {
    await putZone(database, "1.168.192.in-addr.arpa", ["@ NS ns1.example.org.", "7 PTR host.inside.test."]);
    await putZone(database, "inside.test", ["@ NS ns1.example.org.", "host A 192.168.1.7"]);
    await printed(operatorOf(context)("zone", "allow", "home.arpa", SCOPE.resellerId));
    await putZone(database, "home.arpa", ["@ NS ns1.example.org.", "host A 192.168.1.8"]);
    const { stanza, port } = await prepare("unbound", ["--block", "127.0.0.0/8"]);
    peer = await startSecondary("unbound", port, stanza);
    await arrivesAt(peer, 1);
    for (const [name, type] of [
      ["7.1.168.192.in-addr.arpa", "PTR"],
      ["host.inside.test", "A"],
      ["host.home.arpa", "A"],
    ] as const) {
      const ours = dataOf(await askDns(server, name, type));
      expect(ours).toHaveLength(1);
      await eventually(async () => {
        await sleep(50);
        return String(dataOf(await askDns(peer!.address, name, type))) === String(ours);
      }, PATIENCE_MS);
    }
    // What lies beside them stays with Unbound.
    expect(rcodeOf(await askDns(peer.address, "beside.test", "A"))).toBe("NXDOMAIN");
  },
  3 * PATIENCE_MS,
);

async function followsChanges(secondary: Secondary, permission: readonly string[]): Promise<void> {
  const { stanza, port } = await prepare(secondary, permission);
  peer = await startSecondary(secondary, port, stanza);
  try {
    await arrivesAt(peer, 1);
    for (let change = 1; change <= CHANGES; change += 1) await putZone(database, ZONE, contents(change));
    await arrivesAt(peer, CHANGES + 1);
  } catch (error) {
    throw new Error(`${(error as Error).message}\n${stanza}\n${peer.log()}`);
  }
  expect(kinds()).not.toContain("notify-given-up");
  // NSD's word for a difference after which it may ask for the whole zone.
  expect(peer.log()).not.toContain("restarting transfer");
  if (secondary === "unbound") {
    // It gives no zones away, but answers from them.
    const { records } = await askOverUdp(peer.address, { name: `www.${ZONE}`, type: "CNAME" });
    expect(asSet(records)).toEqual(asSet((await askOverUdp(server, { name: `www.${ZONE}`, type: "CNAME" })).records));
    return;
  }
  const own = await askOverTcp(peer.address, { name: ZONE, type: "AXFR" });
  await printed(operatorOf(context)("acl", "add", SCOPE.resellerId, "own", "--block", "127.0.0.1"));
  await eventually(async () => (await askOverTcp(server, { name: ZONE, type: "AXFR" })).rcode === "NOERROR", 60_000);
  const ours = await askOverTcp(server, { name: ZONE, type: "AXFR" });
  expect(asSet(own.records)).toEqual(asSet(ours.records));
}

/** Starts the server and prints the stanza of an ACL with the given permission that tells a secondary on a free port. */
async function prepare(secondary: Secondary, permission: readonly string[]): Promise<{ stanza: string; port: number }> {
  const palomar = operatorOf(context);
  const port = await freePort();
  const acl = ["acl", "add", SCOPE.resellerId, "secondary 1", "--notify", `127.0.0.1:${port}`];
  await printed(palomar(...acl, ...permission));
  service = await start(context);
  server = service.addresses.dns as string;
  const show = ["acl", "show", SCOPE.resellerId, "secondary 1", "--primary", server];
  return { stanza: await printed(palomar(...show, "--for", secondary)), port };
}

async function arrivesAt({ address }: Peer, serial: number): Promise<void> {
  await eventually(async () => {
    await sleep(50);
    return (await serialAt(address).catch(() => 0)) === serial;
  }, PATIENCE_MS);
}

async function serialAt(address: string): Promise<number> {
  return serialOf((await askOverUdp(address, { name: ZONE, type: "SOA" })).records[0]);
}

function kinds(): string[] {
  return observations.map(({ kind }) => kind);
}

/** The zone after so many changes: all kinds of data, some of it different each time. */
function contents(change: number): string[] {
  return [
    "@ NS ns1",
    "@ NS ns2.example.net.",
    "@ MX 10 mail",
    "ns1 A 192.0.2.53",
    "ns1 AAAA 2001:db8::53",
    "mail A 192.0.2.25",
    `www CNAME host${change}`,
    `changing TXT "change ${change}" "and \\"more\\""`,
    `_sip._tcp SRV 0 5 5060 host${change}`,
    '*.wild CAA 0 issue "ca.example.net"',
    "sub NS ns.sub",
    "ns.sub A 192.0.2.54",
    ...Array.from({ length: 40 }, (_, index) => `host${index + change} A 192.0.2.${(index + change) % 256}`),
  ];
}
