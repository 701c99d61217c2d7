import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { dnskeyOf } from "../../services/core/dns/dnssec/apex-records.ts";
import { dsRdata } from "../../services/core/dns/dnssec/dnskey.ts";
import { formatRdata } from "../../services/core/dns/rdata/rdata.ts";
import { RCODE, TYPE } from "../../services/core/dns/rr-types.ts";
import { formatZoneFile } from "../../services/core/dns/zone-file/zone-file.ts";
import { start } from "../../services/dns-server/main.ts";
import { confirmDsSeen } from "../../services/operations/dns/dnssec-parent.ts";
import { enableSigning, startRollover } from "../../services/operations/dns/zone-signing-switch.ts";
import { maintainZone } from "../../services/operations/dns/zone-signing-upkeep.ts";
import type { RunningService, ServiceContext } from "../../services/platform/service.ts";
import { readSigning, type StoredKey } from "../../services/store/dns/dnssec-keys.ts";
import { notifyZones } from "../../services/store/dns/zone-notices.ts";
import { findAnyZone } from "../../services/store/dns/zones.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { addZoneOwner, dnsServerContext, eventually, nameOf, putZone, SCOPE, SIGNER } from "../support/dns-server.ts";
import { complaintsAbout } from "../support/dnssec.ts";
import { askSections } from "../support/dnssec-questions.ts";
import { PARENT_ZONE, RESOLVABLE_NAMES } from "../support/dnssec-zone-text.ts";
import { operatorOf, printed } from "../support/operator.ts";
import { freePort, isInstalled, type Peer } from "../support/peers-processes.ts";
import { SECONDARY_PEERS, startSecondary } from "../support/peers-secondaries.ts";
import { applyDifference, askOverTcp, asSet, serialOf } from "../support/transfer-client.ts";
import { startValidator } from "../support/validating-resolver.ts";

const ZONE = "example.org";
const CONTENT = PARENT_ZONE.split("\n").slice(2);
/** Names that stay in the zone; the child below it is not signed. */
const NAMES = RESOLVABLE_NAMES.filter((name) => !/child|alias4/.test(name));
const TYPES = ["A", "TXT", "CAA"];
const PATIENCE_MS = 60_000;

const missing = isInstalled("unbound") ? "" : " (skipped: unbound is not installed)";
const target = { scope: SCOPE, apex: nameOf(ZONE), domain: ZONE, actor: "test", signer: SIGNER };

let database: TestDatabase;
let context: ServiceContext;
let service: RunningService;
let server: string;
let unbound: Peer | undefined;
let peer: Peer | undefined;

beforeEach(async () => {
  database = await createTestDatabase();
  await addZoneOwner(database);
  await putZone(database, ZONE, CONTENT);
  context = dnsServerContext(database, { env: { PALOMAR_DNS_UDP: "portable" } });
  service = await start(context);
  server = service.addresses.dns as string;
  await printed(operatorOf(context)("acl", "add", SCOPE.resellerId, "own", "--block", "127.0.0.1"));
});

afterEach(async () => {
  await unbound?.stop();
  await peer?.stop();
  await service?.stop();
  await database.drop();
  unbound = undefined;
  peer = undefined;
});

describe.each(["nsec", "nsec3"] as const)("a zone signed here with %s", (denial) => {
  it.skipIf(missing !== "")(
    `is believed by Unbound with our DS as trust anchor, before and after changes${missing}`,
    async () => {
      const { key } = await sign({ denial });
      unbound = await startUnbound([key]);
      expect(await doubtful(unbound)).toEqual([]);
      await putZone(database, ZONE, [...CONTENT, "missing A 192.0.2.200", "x.y.z.w TXT new", "*.dname2 A 192.0.2.3"]);
      await serialArrives();
      expect(await doubtful(unbound)).toEqual([]);
      await putZone(
        database,
        ZONE,
        CONTENT.filter((line) => !/^(\*\.wild|a\.b\.c|dname) /.test(line)),
      );
      await serialArrives();
      expect(await doubtful(unbound)).toEqual([]);
    },
    600_000,
  );

  it("is transferred with its signatures, whole and in part, and checked by others", async () => {
    const before = await transfer();
    await sign({ denial });
    const signed = await transfer();
    expect(complaintsAbout(ZONE, asText(signed.records))).toEqual({});
    await putZone(database, ZONE, [...CONTENT, "p.q.r A 192.0.2.200", "zz A 192.0.2.201"]);
    await serialArrives();
    const changed = await transfer();
    expect(complaintsAbout(ZONE, asText(changed.records))).toEqual({});
    const difference = await askOverTcp(server, { name: ZONE, type: "IXFR", serial: serialOf(signed.records[0]) });
    expect(difference.records.length).toBeLessThan(40);
    const updated = applyDifference(asSet(signed.records.slice(0, -1)), difference.records);
    expect(updated).toEqual(asSet(changed.records.slice(0, -1)));
    const sinceUnsigned = await askOverTcp(server, { name: ZONE, type: "IXFR", serial: serialOf(before.records[0]) });
    expect(serialOf(sinceUnsigned.records[0])).toBe(serialOf(changed.records[0]));
  });
});

describe.each(["bind", "nsd", "knot"] as const)("%s as a secondary of a signed zone", (secondary) => {
  const { program } = SECONDARY_PEERS[secondary];
  const absent = isInstalled(program) ? "" : ` (skipped: ${program} is not installed)`;
  it.skipIf(absent !== "")(
    `has the signatures, and follows changes${absent}`,
    async () => {
      const palomar = operatorOf(context);
      const port = await freePort();
      const acl = ["acl", "add", SCOPE.resellerId, "second", "--block", "127.0.0.0/8"];
      await printed(palomar(...acl, "--notify", `127.0.0.1:${port}`));
      await sign({ denial: "nsec3" });
      // Who is refused at first asks again only after its own good time.
      await transfer();
      const show = ["acl", "show", SCOPE.resellerId, "second", "--primary", server, "--for", secondary];
      peer = await startSecondary(secondary, port, await printed(palomar(...show)));
      for (const extra of [[], ["p.q.r A 192.0.2.200"], ["zz2 A 192.0.2.201"]]) {
        // Some keep no upper case.
        await putZone(database, ZONE, [...CONTENT.filter((line) => !line.startsWith("UPPER ")), ...extra]);
        await serialArrives();
        const ours = await transfer();
        // Asked once more NSD may answer as it did: while it reloads, its processes of before answer too.
        let theirs: typeof ours | undefined;
        await eventually(async () => {
          theirs = await askOverTcp(peer!.address, { name: ZONE, type: "AXFR" }).catch(() => undefined);
          return theirs?.rcode === "NOERROR" && serialOf(theirs.records[0]) === serialOf(ours.records[0]);
        }, 120_000);
        const { records } = theirs!;
        expect(asSet(records)).toEqual(asSet(ours.records));
        expect(records.some(({ type }) => type === TYPE.NSEC3)).toBe(true);
      }
    },
    400_000,
  );
});

describe("rollovers, as Unbound sees them with each DS that its parent may have", () => {
  it.skipIf(missing !== "")(`of a combined key${missing}`, () => rollOver({}, ["csk"], 13), 600_000);
  it.skipIf(missing !== "")(
    `of a key-signing key${missing}`,
    () => rollOver({ layout: "ksk-zsk" }, ["ksk"], 13),
    600_000,
  );
  it.skipIf(missing !== "")(`of the algorithm${missing}`, () => rollOver({}, ["ksk", "zsk"], 15), 600_000);
  it.skipIf(missing !== "")(
    `of a zone-signing key${missing}`,
    async () => {
      const { key } = await sign({ layout: "ksk-zsk" });
      await become("ready");
      await confirmDsSeen(database.db, target, key.keyTag);
      await startRollover(database.db, target, { roles: ["zsk"], algorithm: 13 });
      for (const states of ["active,active,published", "active,retired,active", "active,active"]) {
        expect((await keys()).map(({ state }) => state).join()).toBe(states);
        await expectBelief([key]);
        await letTimePass();
      }
    },
    600_000,
  );
});

/** Goes through a rollover; in each of its states the zone is asked for with the DS that caches may have then. */
async function rollOver(
  wish: Parameters<typeof enableSigning>[2],
  roles: readonly ("csk" | "ksk" | "zsk")[],
  algorithm: number,
): Promise<void> {
  const { key: old } = await sign(wish);
  await become("ready");
  await confirmDsSeen(database.db, target, old.keyTag);
  expect(await startRollover(database.db, target, { roles, algorithm })).toMatchObject({ ok: true });
  const successor = (await keys()).find(({ role, state }) => role !== "zsk" && state !== "active")!;
  while ((await stateOf(successor)) !== "ready") {
    await expectBelief([old]);
    await letTimePass();
  }
  await expectBelief([old], [old, successor]);
  expect(await confirmDsSeen(database.db, target, successor.keyTag)).toMatchObject({ ok: true });
  while ((await stateOf(old)) === "retired") {
    await expectBelief([old], [successor]);
    await letTimePass();
  }
  await expectBelief([successor]);
  while ((await keys()).some(({ state }) => state === "removed")) await letTimePass();
  await expectBelief([successor]);
}

async function sign(wish: Parameters<typeof enableSigning>[2]): Promise<{ key: StoredKey }> {
  const enabled = await enableSigning(database.db, target, wish);
  if (!enabled.ok) throw new Error(JSON.stringify(enabled.error));
  await serialArrives();
  return { key: (await keys()).find(({ role }) => role !== "zsk")! };
}

async function keys(): Promise<readonly StoredKey[]> {
  const zone = (await findAnyZone(database.db, target.apex))!;
  return (await readSigning(database.db, zone.id))!.keys;
}

async function stateOf({ keyTag }: StoredKey): Promise<string | undefined> {
  return (await keys()).find((key) => key.keyTag === keyTag)?.state;
}

async function become(state: string): Promise<void> {
  await letTimePass();
  expect((await keys()).filter(({ role }) => role !== "zsk").map((key) => key.state)).toEqual([state]);
}

/** What is waited for is due now: signatures hold at the present alone, so the clock cannot be put forward. */
async function letTimePass(): Promise<void> {
  await database.db("zone_keys").whereNotNull("due_at").update({ due_at: new Date() });
  await maintainZone(database.db, target.apex, { signer: SIGNER, lookUpDs: async () => undefined });
  await serialArrives();
}

/** The server has the zone as it is in the database. */
async function serialArrives(): Promise<void> {
  const zone = (await findAnyZone(database.db, target.apex))!;
  await notifyZones(database.db, [zone.id]);
  await eventually(
    async () => serialOf((await askOverTcp(server, { name: ZONE, type: "SOA" })).records[0]) === zone.soa.serial,
    PATIENCE_MS,
  );
}

async function transfer() {
  // An ACL is in force within a second.
  await eventually(async () => (await askOverTcp(server, { name: ZONE, type: "AXFR" })).rcode === "NOERROR", 60_000);
  return askOverTcp(server, { name: ZONE, type: "AXFR" });
}

function asText(records: Awaited<ReturnType<typeof transfer>>["records"]): string {
  const [soa, ...rest] = records.slice(0, -1);
  return formatZoneFile({ apex: target.apex, soa: soa!, ttl: 300, records: rest });
}

/** A validator without a memory believes the zone, by each of these sets of DS records. */
async function expectBelief(...anchors: readonly (readonly StoredKey[])[]): Promise<void> {
  for (const anchor of anchors) {
    unbound = await startUnbound(anchor);
    const states = (await keys()).map(({ keyTag, state }) => `${keyTag} ${state}`).join(", ");
    expect(await doubtful(unbound, SOME_NAMES), `${states}; anchor ${anchor.map(({ keyTag }) => keyTag)}`).toEqual([]);
    await unbound.stop();
  }
}

const SOME_NAMES = ["web", "www", "missing", "c", "x.wild", "under.dname"];

/** The questions whose answers the validator does not vouch for. */
async function doubtful({ address }: Peer, names: readonly string[] = NAMES): Promise<string[]> {
  const problems: string[] = [];
  for (const name of names) {
    for (const type of TYPES) {
      const answer = await askSections(address, { name: name === "" ? ZONE : `${name}.${ZONE}`, type });
      const isAnswer = answer.rcode === RCODE.NOERROR || answer.rcode === RCODE.NXDOMAIN;
      if (!isAnswer || !answer.authenticData) problems.push(`${name} ${type}: rcode ${answer.rcode}`);
    }
  }
  return problems;
}

function startUnbound(anchors: readonly StoredKey[]): Promise<Peer> {
  const dsOf = (key: StoredKey) => formatRdata(TYPE.DS, dsRdata(target.apex, dnskeyOf(key)));
  return startValidator(
    anchors.map((key) => `${ZONE}. IN DS ${dsOf(key)}`),
    [ZONE],
    server,
  );
}
