import { Resolver } from "node:dns/promises";
import { once } from "node:events";
import { createServer } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { SECONDARIES, type Secondary } from "../../services/core/dns/acl-stanzas.ts";
import { start } from "../../services/dns-server/main.ts";
import type { Observation } from "../../services/platform/observability/observation.ts";
import type { RunningService, ServiceContext } from "../../services/platform/service.ts";
import { delv } from "../support/delv.ts";
import { makeZone, type RunningApi, startApiWithCompany } from "../support/dns-api.ts";
import { dnsServerContext } from "../support/dns-server.ts";
import { operatorOf, printed } from "../support/operator.ts";
import { AUTHORITATIVE_PEERS } from "../support/peers-authoritative.ts";
import { freePort, isInstalled, type Peer, startPeer } from "../support/peers-processes.ts";
import { SECONDARY_PEERS, startSecondary } from "../support/peers-secondaries.ts";

/** Unbound gives no zones away, and has no part in this. */
const PROGRAMS = SECONDARIES.filter((program) => program !== "unbound");
const installed = PROGRAMS.filter((program) => isInstalled(SECONDARY_PEERS[program].program));
const absent = [
  ...PROGRAMS.filter((program) => !installed.includes(program)),
  ...["nsd", "delv"].filter((p) => !isInstalled(p)),
];
const skipped = absent.length > 0 ? ` (without what is not installed: ${absent})` : "";
const isPossible = isInstalled("nsd") && isInstalled("delv") && installed.length > 0;

/** What the target's name server says its answers hold. */
const TTL_SECONDS = 5;
const INTERVAL_SECONDS = 5;
/** Two seconds on a quiet machine, which this need not be. */
const GRACE_MS = 10_000;

/** The name of the key that the secondary signs with, by which its transfers are told from the others'. */
const keyOf = (program: Secondary) => `${program}.secondaries.example`;

let api: RunningApi;
let target: Peer;
let context: ServiceContext;
let service: RunningService;
let zone: string;
let anchor: string;
const observations: Observation[] = [];
const secondaries = new Map<Secondary, Peer>();

const targetZone = (address: string, serial: number) => `$ORIGIN target.test.
@ ${TTL_SECONDS} SOA ns hostmaster ${serial} 3600 600 86400 ${TTL_SECONDS}
@ 3600 NS ns
ns 3600 A 192.0.2.53
lb ${TTL_SECONDS} A ${address}
`;

beforeAll(async () => {
  if (!isPossible) return;
  const port = await freePort();
  const zones = [{ name: "target.test", text: targetZone("192.0.2.1", 1) }];
  target = await startPeer("nsd", port, (folder) => AUTHORITATIVE_PEERS.nsd!.plan(zones, folder, port));
  const allowed = "127.0.0.0/8,192.0.2.0/24,198.51.100.0/24";
  api = await startApiWithCompany({ PALOMAR_RESOLVER: target.address, PALOMAR_FOLLOW_ALLOW: allowed });
  zone = await makeZone(api, { minimum: 5 });
  // The difference of a small zone is no smaller than the zone.
  const create = Array.from({ length: 300 }, (_, index) => ({ name: `t${index}`, type: "TXT", value: "filling" }));
  await api.call("POST", `/api/v1/rr/${zone}/batch`, { create });
  const signed = await api.call("PUT", `/api/v1/dnssec/${zone}`, { enabled: true });
  expect(signed.status).toBe(200);
  const observe = (observation: Observation) => void observations.push(observation);
  context = dnsServerContext(api.database, { env: { PALOMAR_DNS_UDP: "portable" }, observe });
  const palomar = operatorOf(context);
  const ports = new Map<Secondary, number>();
  for (const program of installed) {
    ports.set(program, await freePort());
    const notify = ["--notify", `127.0.0.1:${ports.get(program)}`];
    await printed(palomar("acl", "add", "one", program, ...notify, "--tsig", keyOf(program)));
  }
  service = await start(context);
  for (const program of installed) {
    const show = ["acl", "show", "one", program, "--primary", service.addresses.dns as string];
    const stanza = await printed(palomar(...show, "--for", program));
    secondaries.set(program, await startSecondary(program, ports.get(program)!, stanza));
  }
  const { body } = await api.call("GET", `/api/v1/dnssec/${zone}`);
  const [tag, algorithm, digestType, digest] = body.keys[0].ds[0].split(" ");
  anchor = `static-ds ${tag} ${algorithm} ${digestType} "${digest}"`;
});

afterAll(async () => {
  await Promise.all([...secondaries.values()].map((peer) => peer.stop()));
  await service?.stop();
  await api?.stop();
  await target?.stop();
});

async function addressesAt(server: string, name: string): Promise<string[]> {
  const resolver = new Resolver({ timeout: 500, tries: 1 });
  resolver.setServers([server]);
  return (await resolver.resolve4(name).catch(() => [])).sort();
}

/** Resolves when all secondaries answer so. @returns after how many milliseconds each did */
async function allAnswer(name: string, wanted: readonly string[], patienceMs = 60_000): Promise<number> {
  const from = performance.now();
  const wait = async ([program, peer]: [Secondary, Peer]) => {
    await expect
      .poll(() => addressesAt(peer.address, name), {
        timeout: patienceMs,
        interval: 50,
        message: `${program}: ${peer.log().slice(-2_000)}`,
      })
      .toEqual([...wanted].sort());
  };
  await Promise.all([...secondaries].map(wait));
  return performance.now() - from;
}

function tell(what: string, tookMs: number, boundSeconds: number): void {
  const seconds = (tookMs / 1_000).toFixed(1);
  process.stdout.write(
    `${what} is at all secondaries after ${seconds} s, where ${boundSeconds + 2} s are to be enough\n`,
  );
}

/**
 * Every secondary took the zone as a whole once, and only differences after that. Not so PowerDNS, which asks for all of
 * a signed zone whatever it has.
 */
async function expectDifferences(): Promise<void> {
  const sent = () => observations.filter((one) => one.kind === "transfer-sent");
  for (const program of installed.filter((program) => program !== "pdns")) {
    const asked = () => sent().flatMap((one) => (one.keyName === `${keyOf(program)}.` ? [one.asked] : []));
    // What was sent is told a moment after it has arrived.
    await expect.poll(() => asked().length, { message: program }).toBeGreaterThan(1);
    expect(
      asked().filter((kind) => kind === "AXFR"),
      `${program}: ${asked()}`,
    ).toHaveLength(1);
  }
}

describe.skipIf(!isPossible)(`secondaries that know nothing of aliases and pools${skipped}`, () => {
  test("have a target's new address within its TTL and two seconds, by IXFR alone, and it validates", async () => {
    const made = await api.call("POST", `/api/v1/alias/${zone}`, { name: "@", target: "lb.target.test." });
    expect(made.status).toBe(200);
    await allAnswer(zone, ["192.0.2.1"]);
    target.reload({ "target.test.zone": targetZone("192.0.2.2", 2) });
    await expect.poll(() => addressesAt(target.address, "lb.target.test"), { interval: 20 }).toEqual(["192.0.2.2"]);
    const took = await allAnswer(zone, ["192.0.2.2"]);
    tell("a target's new address", took, TTL_SECONDS);
    expect(took).toBeLessThan(TTL_SECONDS * 1_000 + GRACE_MS);
    await expectDifferences();
    for (const [program, { address }] of secondaries) {
      expect(await delv({ zone: `${zone}.`, anchor }, address, zone, "A"), program).toMatch(
        /; fully validated[\s\S]*192\.0\.2\.2/,
      );
      // One family alone: that there is none of the other is proved.
      expect(await delv({ zone: `${zone}.`, anchor }, address, zone, "AAAA"), program).toMatch(
        /negative response, fully validated/,
      );
    }
  });

  test("leave a dead member within the interval and two seconds, and take it back", async () => {
    const first = createServer((socket) => socket.end());
    const second = createServer((socket) => socket.end());
    first.listen(0, "127.0.0.2");
    await once(first, "listening");
    const { port } = first.address() as { port: number };
    second.listen(port, "127.0.0.3");
    await once(second, "listening");
    const check = { type: "tcp", port, interval: INTERVAL_SECONDS, timeout: 1, tries: 2, recovery: 5 };
    const members = [{ value: "127.0.0.2" }, { value: "127.0.0.3" }];
    const made = await api.call("POST", `/api/v1/pool/${zone}`, { name: "www", members, check });
    expect(made.status).toBe(200);
    await allAnswer(`www.${zone}`, ["127.0.0.2", "127.0.0.3"]);
    const path = `/api/v1/pool/${zone}/${made.body.pool_id}`;
    const verdicts = async () =>
      (await api.call("GET", path)).body.states.flatMap((state: { verdicts: [] }) => state.verdicts);
    await expect.poll(async () => (await verdicts()).length).toBe(2);
    await new Promise((resolve) => second.close(resolve));
    const took = await allAnswer(`www.${zone}`, ["127.0.0.2"]);
    tell("a dead member's absence", took, INTERVAL_SECONDS);
    expect(took).toBeLessThan(INTERVAL_SECONDS * 1_000 + GRACE_MS);
    second.listen(port, "127.0.0.3");
    const back = await allAnswer(`www.${zone}`, ["127.0.0.2", "127.0.0.3"]);
    tell("its return", back, INTERVAL_SECONDS + 5);
    expect(back).toBeLessThan((INTERVAL_SECONDS + 5) * 1_000 + GRACE_MS);
    await expectDifferences();
    await Promise.all([first, second].map((server) => new Promise((resolve) => server.close(resolve))));
  });
});
