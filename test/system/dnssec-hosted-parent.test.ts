import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { dnskeyOf } from "../../services/core/dns/dnssec/apex-records.ts";
import { dsRdata } from "../../services/core/dns/dnssec/dnskey.ts";
import { formatRdata } from "../../services/core/dns/rdata/rdata.ts";
import { RCODE, TYPE } from "../../services/core/dns/rr-types.ts";
import { start } from "../../services/dns-server/main.ts";
import { enableSigning } from "../../services/operations/dns/zone-signing-switch.ts";
import { maintainZone } from "../../services/operations/dns/zone-signing-upkeep.ts";
import { makeDsLookup, type ParentDs } from "../../services/platform/lookups/ds-lookup.ts";
import type { RunningService, ServiceContext } from "../../services/platform/service.ts";
import { readSigning, type StoredKey } from "../../services/store/dns/dnssec-keys.ts";
import { notifyZones } from "../../services/store/dns/zone-notices.ts";
import { findAnyZone } from "../../services/store/dns/zones.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { delv } from "../support/delv.ts";
import { addZoneOwner, dnsServerContext, eventually, nameOf, putZone, SCOPE, SIGNER } from "../support/dns-server.ts";
import { askSections } from "../support/dnssec-questions.ts";
import { type CommandOutcome, operatorOf, printed } from "../support/operator.ts";
import { isInstalled, type Peer } from "../support/peers-processes.ts";
import { askOverTcp, serialOf } from "../support/transfer-client.ts";
import { startValidator } from "../support/validating-resolver.ts";

const PARENT = "example.org";
const CHILD = "sub.example.org";
const NAMES = [CHILD, `www.${CHILD}`, `missing.${CHILD}`, `any.wild.${CHILD}`];
const ALL_SECURE = Object.fromEntries(NAMES.map((name) => [name, "secure"]));
const ALL_INSECURE = Object.fromEntries(NAMES.map((name) => [name, "insecure"]));
const PATIENCE_MS = 60_000;
const missing = ["unbound", "delv"].filter((program) => !isInstalled(program));
const skipped = missing.length === 0 ? "" : ` (skipped: ${missing.join(" and ")} not installed)`;

let database: TestDatabase;
let context: ServiceContext;
let service: RunningService;
let server: string;
let palomar: (...args: string[]) => Promise<CommandOutcome>;

beforeAll(async () => {
  database = await createTestDatabase();
  await addZoneOwner(database);
  await putZone(database, PARENT, ["@ NS ns1", "ns1 A 192.0.2.53", "sub NS ns1.sub", "ns1.sub A 192.0.2.54"]);
  await putZone(database, CHILD, ["@ NS ns1", "ns1 A 192.0.2.54", "www A 192.0.2.1", "*.wild TXT any"]);
  // The resolver that would be asked is not there: what the parent has is read from the parent.
  context = dnsServerContext(database, { env: { PALOMAR_DNS_UDP: "portable", PALOMAR_RESOLVER: "127.0.0.1:1" } });
  service = await start(context);
  server = service.addresses.dns as string;
  palomar = operatorOf(context);
});

afterAll(async () => {
  await service?.stop();
  await database.drop();
});

describe("a signed zone whose parent is hosted here", () => {
  it.skipIf(skipped !== "")(
    `is believed from the parent's trust anchor alone, through rollovers, until its DS is withdrawn${skipped}`,
    async () => {
      await sign(PARENT);
      const [anchor] = await keysOf(PARENT);
      await sign(CHILD);
      await arrive();
      const believed = () => beliefs(anchor!);
      // Signed, but its parent proves that it has no DS yet.
      expect(await believed()).toEqual(ALL_INSECURE);
      await letTimePass();
      expect(await believed()).toEqual(ALL_SECURE);
      expect(await askDelv(anchor!, `www.${CHILD}`)).toContain("; fully validated");

      // The TTL is the parent's, although the resolver has none left of it.
      expect(await lookUpDs(anchor!)).toMatchObject({ authenticated: true, ttlSeconds: 300 });

      for (const change of [["csk"], ["--algorithm", "15"]]) {
        await printed(palomar("dnssec", "rollover", CHILD, ...change));
        expect(await keysOf(CHILD)).toHaveLength(2);
        while ((await keysOf(CHILD)).length > 1) {
          await letTimePass();
          const states = (await keysOf(CHILD)).map(({ keyTag, state }) => `${keyTag} ${state}`).join();
          expect(await believed(), states).toEqual(ALL_SECURE);
        }
      }
      expect((await keysOf(CHILD))[0]!.algorithm).toBe(15);
      expect(await askDelv(anchor!, `www.${CHILD}`)).toContain("; fully validated");

      await printed(palomar("dnssec", "ds-withdraw", CHILD));
      await arrive();
      expect(await believed()).toEqual(ALL_INSECURE);
      expect((await palomar("dnssec", "disable", CHILD)).refused).toMatch(/^caches may have the DS/);
    },
    300_000,
  );
});

async function sign(zone: string): Promise<void> {
  const target = { scope: SCOPE, apex: nameOf(zone), domain: zone, actor: "test", signer: SIGNER };
  expect(await enableSigning(database.db, target, {})).toMatchObject({ ok: true });
}

async function keysOf(name: string): Promise<readonly StoredKey[]> {
  const zone = (await findAnyZone(database.db, nameOf(name)))!;
  return (await readSigning(database.db, zone.id))!.keys;
}

/** What is waited for is due now: signatures hold at the present alone, so the clock cannot be put forward. */
async function letTimePass(): Promise<void> {
  const { id } = (await findAnyZone(database.db, nameOf(CHILD)))!;
  await database.db("zone_keys").where({ zone_id: id }).whereNotNull("due_at").update({ due_at: new Date() });
  await maintainZone(database.db, nameOf(CHILD), { signer: SIGNER, lookUpDs: async () => undefined });
  await arrive();
}

/** The server has both zones as they are in the database. */
async function arrive(): Promise<void> {
  for (const name of [PARENT, CHILD]) {
    const zone = (await findAnyZone(database.db, nameOf(name)))!;
    await notifyZones(database.db, [zone.id]);
    await eventually(
      async () => serialOf((await askOverTcp(server, { name, type: "SOA" })).records[0]) === zone.soa.serial,
      PATIENCE_MS,
    );
  }
}

/** What a validator without a memory thinks of names of the child: `secure`, `insecure`, or what went wrong. */
async function beliefs(anchor: StoredKey): Promise<Record<string, string>> {
  const validator = await startValidatorWith(anchor);
  const found: Record<string, string> = {};
  for (const name of NAMES) {
    const answer = await askSections(validator.address, { name, type: "A" });
    const isAnswer = answer.rcode === RCODE.NOERROR || answer.rcode === RCODE.NXDOMAIN;
    found[name] = isAnswer ? (answer.authenticData ? "secure" : "insecure") : `rcode ${answer.rcode}`;
  }
  await validator.stop();
  return found;
}

/** What upkeep would be told of the child's DS where the parent is not hosted here. */
async function lookUpDs(anchor: StoredKey): Promise<ParentDs | undefined> {
  const validator = await startValidatorWith(anchor);
  const [host, port] = validator.address.split(":") as [string, string];
  const found = await (await makeDsLookup({ host, port: Number(port) }))(nameOf(CHILD));
  await validator.stop();
  return found;
}

function startValidatorWith(anchor: StoredKey): Promise<Peer> {
  return startValidator([`${PARENT}. IN DS ${dsText(PARENT, anchor)}`], [PARENT, CHILD], server);
}

function dsText(zone: string, key: StoredKey): string {
  return formatRdata(TYPE.DS, dsRdata(nameOf(zone), dnskeyOf(key)));
}

/** What BIND's validator says, which asks our server alone. */
function askDelv(anchor: StoredKey, name: string): Promise<string> {
  const [tag, algorithm, digestType, digest] = dsText(PARENT, anchor).split(" ");
  return delv(
    { zone: `${PARENT}.`, anchor: `static-ds ${tag} ${algorithm} ${digestType} "${digest}"` },
    server,
    name,
    "A",
  );
}
