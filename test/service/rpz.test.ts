import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { nameSortKey } from "../../services/core/dns/name.ts";
import { TYPE } from "../../services/core/dns/rr-types.ts";
import type { TsigKey } from "../../services/core/dns/tsig.ts";
import { start } from "../../services/dns-server/main.ts";
import { removeExpiredRules } from "../../services/operations/dns/rpz-expiries.ts";
import type { RunningService } from "../../services/platform/service.ts";
import { listFeedsWithExpired } from "../../services/store/dns/rpz-feeds.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { addZoneOwner, dnsServerContext, eventually, nameOf, putZone, SCOPE } from "../support/dns-server.ts";
import { operatorOf } from "../support/operator.ts";
import { askOverTcp, askOverUdp, asSet, ownersOf, serialOf } from "../support/transfer-client.ts";

const FEED = "policy.example.net";

let database: TestDatabase;
let service: RunningService;
let server: string;
let palomar: ReturnType<typeof operatorOf>;
let folder: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "palomar-rpz-"));
  database = await createTestDatabase();
  await addZoneOwner(database);
  await putZone(database, "example.net", ["@ NS ns", "ns A 192.0.2.53", "alias CNAME bad.example.policy"]);
  const context = dnsServerContext(database, { env: { PALOMAR_DNS_UDP: "portable" } });
  palomar = operatorOf(context);
  await palomar("reseller", "add", "other", "--name", "Other");
  service = await start(context);
  server = service.addresses.dns as string;
});

afterAll(async () => {
  await service?.stop();
  await database?.drop();
  rmSync(folder, { recursive: true, force: true });
});

const add = (trigger: string, action: string, ...more: string[]) =>
  palomar("rpz", "rule", "add", FEED, trigger, action, ...more);
const soa = (key?: TsigKey) => askOverUdp(server, { name: FEED, type: "SOA", ...(key && { key }) });

describe("a feed", () => {
  it("is a zone of its own, that nobody else can make", async () => {
    expect((await palomar("rpz", "feed", "add", FEED)).json).toEqual({ zone: FEED, serial: 1, rules: 0 });
    expect((await palomar("rpz", "feed", "add", FEED)).refused).toBe(`duplicated zone: ${FEED}`);
    const long = `${"a".repeat(60)}.`.repeat(3);
    for (const name of ["not\\032a.zone.example", "a@b.example", "9.0.192.in-addr.arpa", `${long}policy.example`]) {
      expect((await palomar("rpz", "feed", "add", name)).refused, name).toMatch(/^zone: /);
    }
    expect((await palomar("rpz", "feed", "list")).json).toEqual([{ zone: FEED, serial: 1, rules: 0 }]);
    const text = "@ 60 SOA ns hostmaster 1 2 3 4 5\n@ 60 NS ns\n";
    writeFileSync(join(folder, "zone"), text);
    const { json } = await palomar("zone", "import", "reseller", "company", FEED, join(folder, "zone"));
    expect(json).toMatchObject([{ domain: FEED, error: `duplicated zone: ${FEED}` }]);
  });

  it("is activated by resellers with a licence only", async () => {
    expect((await palomar("rpz", "activate", FEED, "other")).refused).toContain("licence");
    expect((await palomar("rpz", "activate", FEED, "nobody")).refused).toContain("does not exist");
    expect((await palomar("rpz", "activate", "none.example", "other")).refused).toContain("does not exist");
  });

  it("answers and transfers only by the ACLs of resellers that have it active", async () => {
    const key = await addKeyedAcl("consumer", SCOPE.resellerId);
    const strangersKey = await addKeyedAcl("stranger", "other");
    const answers = async () => [
      (await soa()).rcode,
      (await soa(key)).rcode,
      (await soa(strangersKey)).rcode,
      (await askOverTcp(server, { name: FEED, type: "AXFR", key })).rcode,
      (await askOverTcp(server, { name: FEED, type: "AXFR" })).rcode,
    ];
    const nobody = ["REFUSED", "REFUSED", "REFUSED", "REFUSED", "REFUSED"];
    const holders = ["REFUSED", "NOERROR", "REFUSED", "NOERROR", "REFUSED"];
    await comesTo(answers, nobody);
    await palomar("reseller", "licence", SCOPE.resellerId, "--rpz", "on");
    await palomar("rpz", "activate", FEED, SCOPE.resellerId);
    await comesTo(answers, holders);
    await palomar("reseller", "licence", SCOPE.resellerId, "--rpz", "off");
    await comesTo(answers, nobody);
    await palomar("reseller", "licence", SCOPE.resellerId, "--rpz", "on");
    await comesTo(answers, holders);
    await palomar("rpz", "deactivate", FEED, SCOPE.resellerId);
    await comesTo(answers, nobody);
    await palomar("rpz", "activate", FEED, SCOPE.resellerId);
    await palomar("acl", "add", SCOPE.resellerId, "local", "--block", "127.0.0.1", "--zone", FEED);
    await comesTo(async () => [(await soa()).rcode], ["NOERROR"]);
  });
});

describe("rules", () => {
  it("are records of the feed, TTL 60, one serial a change", async () => {
    expect((await add("qname:*.Bad.example", "nxdomain")).json).toEqual({
      zone: FEED,
      serial: 2,
      trigger: "qname:*.bad.example",
      action: "nxdomain",
    });
    expect((await add("ip:192.0.2.0/24", "tcp-only")).json).toMatchObject({ serial: 3 });
    expect((await add("client-ip:2001:db8::/32", "drop")).json).toMatchObject({ serial: 4 });
    expect((await add("nsdname:ns.bad.example", "nodata")).json).toMatchObject({ serial: 5 });
    expect((await add("nsip:192.0.2.1/32", "passthru")).json).toMatchObject({ serial: 6 });
    await comesTo(async () => [String(serialOf((await soa()).records[0]))], ["6"]);
    const { records } = await askOverTcp(server, { name: FEED, type: "AXFR" });
    const owners = ownersOf(asSet(records.slice(1))).map((key) => key.replaceAll(/[\0-\x1f]/g, "."));
    expect(owners).toContain(".24.0.2.0.192.rpz-ip.policy.example.net.");
    expect(owners).toContain(".32.zz.db8.2001.rpz-client-ip.policy.example.net.");
    expect(owners).toContain(".ns.bad.example.rpz-nsdname.policy.example.net.");
    expect(records.every(({ ttl }) => ttl === 60)).toBe(true);
    expect(await rules()).toBe(5);
  });

  it("the identical one again changes nothing, another action is refused", async () => {
    const again = await add("qname:*.bad.example", "NXDOMAIN");
    expect(again).toMatchObject({ status: 0, json: { serial: 6 } });
    expect((await add("qname:*.bad.example", "passthru")).refused).toContain("already has the action nxdomain");
  });

  it("local data may be several records, but not beside a CNAME", async () => {
    expect((await add("qname:walled.example", "A 192.0.2.80")).refused).toBeUndefined();
    expect((await add("qname:walled.example", "A 192.0.2.81")).json).toMatchObject({ serial: 8 });
    expect((await add("qname:walled.example", "TXT blocked")).refused).toBeUndefined();
    expect((await add("qname:walled.example", "CNAME garden.example")).refused).toContain("already has");
    expect((await add("qname:garden.example", "CNAME Garden.example.net")).refused).toBeUndefined();
    expect((await add("qname:garden.example", "CNAME garden.example.net")).json).toMatchObject({ serial: 10 });
    expect(await rules()).toBe(7);
  });

  it("refuses what is no rule", async () => {
    for (const [trigger, action] of [
      ["qname:bad..example", "nxdomain"],
      ["ip:192.0.2.1/24", "nxdomain"],
      ["ip:192.0.2.0/33", "nxdomain"],
      ["client-ip:::ffff:198.51.100.0/120", "nxdomain"],
      ["name:bad.example", "nxdomain"],
      ["qname:localhost", "nxdomain"],
      ["qname:*.LocalHost.", "A 192.0.2.1"],
      ["nsdname:ns.localhost", "nxdomain"],
      ["qname:bad.example", "explode"],
      [`qname:${"a".repeat(60)}.${"b".repeat(60)}.${"c".repeat(60)}.${"d".repeat(60)}`, "nxdomain"],
    ] as const) {
      expect((await add(trigger, action)).refused, trigger).toBeDefined();
    }
    expect((await add("qname:past.example", "nxdomain", "--expires", "2020-01-01T00:00:00Z")).refused).toContain(
      "past",
    );
    const february = ["--expires", "2199-02-30T00:00:00Z"];
    expect((await add("qname:february.example", "nxdomain", ...february)).refused).toContain("is not a time");
  });

  it("go when they are removed, all of a trigger at once", async () => {
    expect((await palomar("rpz", "rule", "remove", FEED, "qname:walled.example")).json).toMatchObject({ serial: 11 });
    expect((await palomar("rpz", "rule", "remove", FEED, "qname:walled.example")).refused).toContain("has no rule");
    expect(await rules()).toBe(6);
  });

  it("go when their time has come", async () => {
    const expires = new Date(Date.now() + 3_600_000).toISOString();
    expect((await add("qname:passing.example", "drop", "--expires", expires)).json).toMatchObject({ expires });
    const later = new Date(Date.now() + 7_200_000).toISOString();
    const before = await feed();
    for (const again of [later, undefined, expires, expires]) {
      const { json, text } = await add("qname:passing.example", "drop", ...(again ? ["--expires", again] : []));
      const { json: listed } = await palomar("rpz", "rule", "list", FEED, "--match", "passing");
      expect([json, ...listed].map((rule) => rule.expires)).toEqual([again, again]);
      expect(text).toBe(`${FEED} ${before.serial}: qname:passing.example drop${again ? ` until ${again}` : ""}`);
    }
    expect(await feed()).toEqual(before);
    const in61Minutes = new Date(Date.now() + 3_700_000);
    expect(await listFeedsWithExpired(database.db, new Date())).toEqual([]);
    for (const { apex } of await listFeedsWithExpired(database.db, in61Minutes)) {
      await removeExpiredRules(database.db, apex, in61Minutes, "test");
    }
    expect(await listFeedsWithExpired(database.db, in61Minutes)).toEqual([]);
    expect(await rules()).toBe(6);
    expect((await add("qname:passing.example", "drop", "--expires", expires)).refused).toBeUndefined();
    expect(await rules()).toBe(7);
    await database.db("rpz_expiries").update({ expires_at: new Date() });
    await comesTo(async () => [String(await rules())], ["6"]);
  });
});

describe("safe names", () => {
  it("cannot be covered, nor what is below them", async () => {
    expect((await palomar("rpz", "safe", "add", "www.Bank.example")).json).toEqual({
      name: "www.bank.example",
      removed: [],
    });
    for (const name of [
      "www.bank.example",
      "a.www.bank.example",
      "*.bank.example",
      "*.example",
      "*.www.bank.example",
    ]) {
      expect((await add(`qname:${name}`, "nxdomain")).refused, name).toContain("safe name www.bank.example");
      expect((await add(`nsdname:${name}`, "nxdomain")).refused, name).toContain("safe name");
    }
    expect((await add("qname:bank.example", "nxdomain")).refused).toBeUndefined();
    expect((await palomar("rpz", "safe", "list")).json).toEqual(["www.bank.example"]);
  });

  it("free themselves of rules that were there before", async () => {
    for (const trigger of ["qname:shop.example", "qname:*.shop.example", "nsdname:a.shop.example"]) {
      await add(trigger, "nxdomain");
    }
    const { json } = await palomar("rpz", "safe", "add", "shop.example");
    const removed = (json as { removed: { zone: string; trigger: string }[] }).removed;
    expect(removed.map(({ trigger }) => trigger).sort()).toEqual([
      "nsdname:a.shop.example",
      "qname:*.shop.example",
      "qname:shop.example",
    ]);
    expect((await palomar("rpz", "safe", "remove", "shop.example")).status).toBe(0);
    expect((await palomar("rpz", "safe", "remove", "shop.example")).refused).toContain("is not safe");
    expect((await add("qname:shop.example", "nxdomain")).refused).toBeUndefined();
  });
});

describe("palomar rpz rule list", () => {
  it("shows what a feed blocks, oldest first, and what it is searched for", async () => {
    await add("qname:listed.example", "nodata");
    await add("ip:198.51.100.128/25", "drop", "--expires", "2199-01-01T00:00:00Z");
    const all = (await palomar("rpz", "rule", "list", FEED)).json as { trigger: string }[];
    expect(all.slice(-2)).toEqual([
      { trigger: "qname:listed.example", action: "nodata" },
      { trigger: "ip:198.51.100.128/25", action: "drop", expires: "2199-01-01T00:00:00.000Z" },
    ]);
    expect((await palomar("rpz", "rule", "list", FEED, "--match", "listed")).json).toEqual([all.at(-2)]);
    expect((await palomar("rpz", "rule", "list", "no.feed.test")).refused).toContain("does not exist");
  });

  it("shows what an earlier release took for a rule as it stands, and under what it can be removed", async () => {
    const before = await rules();
    for (const name of ["x", "*.x"]) {
      await add(`qname:${name}.taken.example`, "nxdomain");
      const [taken, kept] = [`${name}.taken.example.${FEED}`, `${name}.rpz-ip.${FEED}`].map(nameOf);
      const moved = await database
        .db("records")
        .where({ owner_key: nameSortKey(taken!.wire) })
        .update({ owner: kept!.wire, owner_key: nameSortKey(kept!.wire) });
      expect(moved).toBe(1);
    }
    await add("qname:after.example", "nodata");
    const all = (await palomar("rpz", "rule", "list", FEED)).json as { trigger: string }[];
    const fault = "/x is not an address or a block of addresses";
    expect(all.slice(-3)).toEqual([
      { trigger: "owner:x.rpz-ip", action: "CNAME .", fault },
      { trigger: "owner:*.x.rpz-ip", action: "CNAME .", fault: expect.stringContaining(" is not an address") },
      { trigger: "qname:after.example", action: "nodata" },
    ]);
    const { text } = await palomar("rpz", "rule", "list", FEED, "--match", "x.rpz-ip");
    expect(text).toContain(`owner:x.rpz-ip\tCNAME .\tno rule: ${fault}`);
    const remove = (trigger: string) => palomar("rpz", "rule", "remove", FEED, trigger);
    expect((await remove("owner:x.rpz-ip")).json).toMatchObject({ trigger: "owner:x.rpz-ip" });
    expect((await remove("owner:X.rpz-ip")).refused).toContain("has no rule");
    expect((await remove("owner:*.x.rpz-ip")).status).toBe(0);
    for (const none of ["owner:", "owner:.", "owner:a..b", `owner:${"a.".repeat(120)}b`]) {
      expect((await remove(none)).refused, none).toBeDefined();
    }
    expect((await remove("qname:after.example")).status).toBe(0);
    expect(await rules()).toBe(before);
  });

  it("what is no rule stands in the way of none, and goes with it", async () => {
    const before = await rules();
    await add("qname:mixed.example", "A 192.0.2.80");
    const { wire } = nameOf(`mixed.example.${FEED}`);
    await database
      .db("records")
      .where({ owner_key: nameSortKey(wire) })
      .update({ type: TYPE.DNAME, rdata: nameOf("x.example").wire });
    expect((await add("qname:mixed.example", "nxdomain")).refused).toContain("has the action DNAME x.example.");
    const { json } = await importFile(["mixed.example"], "domains");
    expect(json).toMatchObject({ conflicts: [{ line: 1, has: "DNAME x.example.", wanted: "nxdomain" }] });
    const safe = (await palomar("rpz", "safe", "add", "mixed.example")).json as { removed: { trigger: string }[] };
    expect(safe.removed.map(({ trigger }) => trigger)).toEqual(["qname:*.mixed.example", "owner:mixed.example"]);
    await palomar("rpz", "safe", "remove", "mixed.example");
    expect(await rules()).toBe(before);
  });
});

describe("imports", () => {
  it("report duplicates, conflicts and rejected lines, and keep the rest", async () => {
    await add("qname:held.example", "passthru");
    const lines = [
      "# a list",
      "one.example",
      "two.example",
      "one.example",
      "held.example",
      "localhost",
      "www.bank.example",
      "not a name",
    ];
    const { json, status, notes } = await importFile(lines, "domains");
    expect(json).toMatchObject({
      zone: FEED,
      added: 5,
      duplicates: 1,
      conflicts: [{ line: 5, trigger: "qname:held.example", has: "passthru", wanted: "nxdomain" }],
    });
    const { rejected } = json as { rejected: { line: number; msg: string }[] };
    expect(rejected.map(({ line }) => line)).toEqual([6, 7, 8]);
    expect(status).toBe(1);
    expect(notes.length).toBeGreaterThan(0);
  });

  it("one rule a line of a hosts file; again changes nothing", async () => {
    const lines = [
      "127.0.0.1 localhost.localdomain",
      "::1 ip6-localhost",
      "0.0.0.0 first.ads.example",
      "127.0.0.1\tsecond.ads.example # seen",
      "",
    ];
    expect(await importFile(lines, "hosts")).toMatchObject({ status: 0, json: { added: 2, duplicates: 0 } });
    const before = await feed();
    expect(await importFile(lines, "hosts")).toMatchObject({ status: 0, json: { added: 0, duplicates: 2 } });
    expect(await feed()).toEqual(before);
  });

  it("reject localhost in every format, and keep the rest", async () => {
    const lines = [
      "127.0.0.1 localhost",
      "::1 localhost ip6-localhost",
      "0.0.0.0 third.ads.example",
      "0.0.0.0 a.localhost",
    ];
    const { json, status } = await importFile(lines, "hosts");
    expect(json).toMatchObject({ added: 1, rejected: [{ line: 1 }, { line: 2 }, { line: 4 }] });
    expect(status).toBe(1);
    for (const [line, format] of [
      ["a.localhost", "domains"],
      ["localhost CNAME .", "rpz"],
    ] as const) {
      const { json } = await importFile([line], format);
      expect(json).toMatchObject({
        added: 0,
        rejected: [{ line: 1, msg: expect.stringMatching(/^qname:(a\.)?localhost must not be blocked$/) }],
      });
    }
  });

  it("reject what BIND passes over", async () => {
    const lines = ["120.0.c633.ffff.zz.rpz-ip CNAME ."];
    const { json } = await importFile(lines, "rpz");
    expect(json).toMatchObject({
      added: 0,
      rejected: [{ line: 1, msg: expect.stringContaining("write it as an IPv4 block") }],
    });
  });

  it("reads what it exports", async () => {
    const { text } = await palomar("zone", "export", FEED);
    await palomar("rpz", "feed", "add", "copy.example");
    writeFileSync(join(folder, "feed"), text as string);
    const { json } = await palomar("rpz", "rule", "import", "copy.example", join(folder, "feed"));
    expect(json).toMatchObject({ conflicts: [], rejected: [], duplicates: 0 });
    const [copy] = ((await palomar("rpz", "feed", "list")).json as { zone: string; rules: number }[]).filter(
      ({ zone }) => zone === "copy.example",
    );
    expect(copy?.rules).toBe(await rules());
    expect((await palomar("rpz", "feed", "remove", "copy.example")).status).toBe(0);
  });

  it("that PostgreSQL gives up are read anew, from the first line", async () => {
    await database.db.raw("create sequence given_up");
    await database.db.raw(
      `create function give_up() returns trigger language plpgsql as $$ begin
         if nextval('given_up') = 1 then raise exception 'again' using errcode = '40001'; end if;
         return null;
       end $$`,
    );
    await database.db.raw(
      `create constraint trigger give_up after update on zones deferrable initially deferred
         for each row execute function give_up()`,
    );
    expect(await importFile(["again1.example", "again2.example"], "domains")).toMatchObject({
      ...{ status: 0, json: { added: 4, duplicates: 0 } },
    });
    await database.db.raw("drop trigger give_up on zones");
  });

  it("of many rules are one change, loaded as a whole", async () => {
    const lines = Array.from({ length: 60_000 }, (_, index) => `0.0.0.0 host${index}.many.example`);
    const before = await feed();
    const { json } = await importFile(lines, "hosts");
    expect(json).toMatchObject({ added: 60_000, serial: before.serial + 1 });
    expect(await rules()).toBe(before.rules + 60_000);
    await eventually(async () => serialOf((await soa()).records[0]) === before.serial + 1, 60_000);
    const { records } = await askOverTcp(server, { name: FEED, type: "IXFR", serial: before.serial });
    expect(records.length).toBeGreaterThan(60_000);
  });
});

async function importFile(lines: readonly string[], format: string) {
  writeFileSync(join(folder, "list"), lines.join("\n"));
  return palomar("rpz", "rule", "import", FEED, join(folder, "list"), "--format", format);
}

async function feed(): Promise<{ zone: string; serial: number; rules: number }> {
  const feeds = (await palomar("rpz", "feed", "list")).json as { zone: string; serial: number; rules: number }[];
  return feeds.find(({ zone }) => zone === FEED)!;
}

async function rules(): Promise<number> {
  return (await feed()).rules;
}

async function addKeyedAcl(name: string, resellerId: string): Promise<TsigKey> {
  const { json } = await palomar("acl", "add", resellerId, name, "--tsig", `${name}.key.example`);
  const { tsig } = json as { tsig: { name: string; secret: string } };
  return { name: nameOf(tsig.name), algorithm: "hmac-sha256", secret: Buffer.from(tsig.secret, "base64") };
}

/** Asks until the answers are these; fails with the last ones. */
async function comesTo(ask: () => Promise<string[]>, wanted: readonly string[]): Promise<void> {
  const deadline = Date.now() + 60_000;
  for (;;) {
    const answers = await ask();
    if (String(answers) === String(wanted)) return;
    if (Date.now() > deadline) expect(answers).toEqual(wanted);
    await sleep(20);
  }
}
