import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ServiceContext } from "../../services/platform/service.ts";
import { type Credentials, KEY_RING, RESELLER_TWO, type RunningApi, startApi, zoneFields } from "../support/dns-api.ts";
import { operatorOf } from "../support/operator.ts";
import { eventually } from "../support/stack.ts";

let api: RunningApi;
let folder: string;
const BANK = { reseller: "one", key: "bank-key-of-16-characters" };
const ROGUE = { reseller: "one", key: "rogue-key-of-16-characters" };
const THEIRS = { reseller: "two", key: "theirs-key-of-16-characters" };
const RESELLER_ONE = undefined;

beforeAll(async () => {
  api = await startApi();
  folder = mkdtempSync(join(tmpdir(), "palomar-test-"));
  const add = (crm_id: string, as?: Credentials) =>
    api.call("POST", "/api/v1/company", { crm_id, name: crm_id, apikey: `${crm_id}-key-of-16-characters` }, as);
  for (const crmId of ["bank", "rogue"]) await add(crmId);
  await add("theirs", RESELLER_TWO);
});
afterAll(async () => {
  rmSync(folder, { recursive: true });
  await api.stop();
});

const palomar = (...words: string[]) =>
  operatorOf({ db: api.database.db, keyRing: KEY_RING, config: {} as ServiceContext["config"] })(...words);

const create = (fqdn: string, crm_id: string, as?: Credentials) =>
  api.call("POST", `/api/v1/master_zone/${encodeURIComponent(fqdn)}`, zoneFields({ crm_id }), as);
const remove = (fqdn: string, as?: Credentials) => api.call("DELETE", `/api/v1/master_zone/${fqdn}`, undefined, as);

async function made(fqdn: string, crmId: string, as?: Credentials): Promise<string[]> {
  const { status, body, text } = await create(fqdn, crmId, as);
  expect(status, text).toBe(200);
  return body.warnings ?? [];
}

const duplicated = (fqdn: string) => ({ status: 400, body: { msg: `duplicated zone: ${fqdn}` } });

describe("a company's key", () => {
  const ATTACKS = ["www", "_domainkey", "_acme-challenge", "_dmarc", "mail", "a.b.c"];

  test("gets no name below or above another company's zone, whoever's that is, and learns nothing by the refusal", async () => {
    await made("bank.example", "bank", BANK);
    for (const label of ATTACKS) {
      const name = `${label}.bank.example`;
      for (const [crmId, as] of [
        ["rogue", ROGUE],
        ["theirs", THEIRS],
      ] as const) {
        expect(await create(name, crmId, as)).toMatchObject(duplicated(name));
      }
    }
    await made("shop.upper.example", "bank", BANK);
    for (const [crmId, as] of [
      ["rogue", ROGUE],
      ["theirs", THEIRS],
    ] as const) {
      expect(await create("upper.example", crmId, as)).toMatchObject(duplicated("upper.example"));
      expect(await create("bank.example", crmId, as)).toMatchObject(duplicated("bank.example"));
    }
    expect(await made("more.bank.example", "bank", BANK)).toEqual([]);
    expect(await made("upper.example", "bank", BANK)).toEqual([]);
    expect(await made("bank2.example", "rogue", ROGUE)).toEqual([]);
  });

  test("meets zones that are suspended, and those of a suspended company, but none that are gone", async () => {
    const suspend = (path: string, body: object) => api.call("PUT", `/api/v1/${path}`, body);
    await suspend("suspend_zone/bank.example", { crm_id: "bank" });
    expect(await create("x.bank.example", "rogue", ROGUE)).toMatchObject(duplicated("x.bank.example"));
    await suspend("company/bank", { suspended: true });
    expect(await create("x.bank.example", "rogue", ROGUE)).toMatchObject(duplicated("x.bank.example"));
    await suspend("company/bank", { suspended: false });
    const apikey = "short-lived-key-of-16";
    await api.call("POST", "/api/v1/company", { crm_id: "brief", name: "Brief", apikey });
    await made("brief.example", "brief");
    expect(await create("x.brief.example", "rogue", ROGUE)).toMatchObject(duplicated("x.brief.example"));
    await api.call("DELETE", "/api/v1/company/brief", { apikey });
    expect(await made("x.brief.example", "rogue", ROGUE)).toEqual([]);
  });

  test("of names above and below each other that race, one company wins", async () => {
    for (let round = 0; round < 15; round += 1) {
      const apex = `race${round}.example`;
      const answers = await Promise.all([
        create(`www.${apex}`, "rogue", ROGUE),
        create(apex, "bank", BANK),
        create(`a.b.c.d.e.f.g.h.i.j.k.${apex}`, "theirs", THEIRS),
        create(`x.a.b.c.d.e.f.g.h.i.j.k.${apex}`, "bank", BANK),
      ]);
      const names = await api.database.db("zones").whereLike("name", `%${apex}`).select("name", "company_id");
      const isPair = (one: string, other: string) => one.endsWith(`.${other}`);
      for (const zone of names) {
        const related = names.filter(({ name }) => isPair(name, zone.name));
        expect(related.every(({ company_id: company }) => company === zone.company_id)).toBe(true);
      }
      expect(answers.some(({ status }) => status === 200)).toBe(true);
      expect(answers.every(({ status }) => status === 200)).toBe(false);
    }
  });

  test("waits for no name but those above and below its own", async () => {
    const { db } = api.database;
    const trx = await db.transaction();
    // As a zone of a million records that is being imported holds it.
    await trx.raw("select pg_advisory_xact_lock_shared(hashtextextended('zone ' || n, 0)) from unnest(?::text[]) n", [
      ["example", "held.example"],
    ]);
    await trx.raw("select pg_advisory_xact_lock(hashtextextended('zone big.held.example', 0))");
    try {
      expect(await made("other.held.example", "bank", BANK)).toEqual([]);
      expect(await made("beside.example", "bank", BANK)).toEqual([]);
      const below = create("x.big.held.example", "bank", BANK);
      const waiting = () => db("pg_locks").where({ locktype: "advisory", granted: false }).select("pid");
      await eventually(waiting, (locks) => locks.length > 0);
      expect((await create("unrelated.example", "bank", BANK)).status).toBe(200);
      await trx.rollback();
      expect((await below).status).toBe(200);
    } finally {
      if (!trx.isCompleted()) await trx.rollback();
    }
  });
});

describe("a reseller's key", () => {
  test("may put zones of its companies below and above each other, and is told of both", async () => {
    expect(await made("www.bank.example", "rogue", RESELLER_ONE)).toEqual([
      "www.bank.example lies below bank.example of company bank and answers in its place",
    ]);
    await made("low.high.example", "rogue");
    expect(await made("high.example", "bank")).toEqual([
      "high.example lies above low.high.example of company rogue, which answers for its own names",
    ]);
    expect(await made("own.high.example", "bank")).toEqual([]);
    const { components, paths } = (await api.call("GET", "/openapi.json")).body;
    const creation = JSON.stringify([components, paths["/api/v1/master_zone/{fqdn}"].post]);
    expect(creation).toContain("each zone of another company above or below");
  });

  test("is warned of so many zones and no more", async () => {
    for (let zone = 0; zone < 22; zone += 1) await made(`z${zone}.many.example`, "rogue");
    const warnings = await made("many.example", "bank");
    expect(warnings).toHaveLength(21);
    expect(warnings.at(-1)).toBe("further warnings are left out");
  });
});

describe("two resellers", () => {
  test("one above the other is told so without names, and blocks none of the names that the other had", async () => {
    await made("www.tree.example", "theirs", RESELLER_TWO);
    expect(await made("tree.example", "bank")).toEqual([
      "tree.example lies above a zone of another reseller, which answers for its own names",
    ]);
    expect((await create("_dmarc.www.tree.example", "theirs", RESELLER_TWO)).status).toBe(200);
    // Gone and made again, it was there first nonetheless, and so is what lies below it.
    await remove("www.tree.example", RESELLER_TWO);
    expect((await create("deep.www.tree.example", "theirs", RESELLER_TWO)).status).toBe(200);
    for (const name of ["mail.tree.example", "xwww.tree.example", "_acme-challenge.tree.example"]) {
      expect(await create(name, "theirs", RESELLER_TWO)).toMatchObject(duplicated(name));
    }
    expect(await made("www.tree.example", "theirs", RESELLER_TWO)).toEqual([
      "www.tree.example lies below a zone of another reseller and answers in its place",
    ]);
    // The upper one gets nothing below what the other has, and a company's key nothing at all.
    expect(await create("x.www.tree.example", "bank")).toMatchObject(duplicated("x.www.tree.example"));
    expect(await create("x.tree.example", "theirs", THEIRS)).toMatchObject(duplicated("x.tree.example"));
  });

  test("a name taken in advance gives no other name below the zone above", async () => {
    await made("zzz.victim.example", "theirs", RESELLER_TWO);
    await made("victim.example", "bank");
    const others = ["_acme-challenge", "_domainkey", "_dmarc", "www", "x.y", "_dmarc.www"];
    const refused = async () => {
      for (const name of others.map((label) => `${label}.victim.example`)) {
        expect(await create(name, "theirs", RESELLER_TWO)).toMatchObject(duplicated(name));
      }
    };
    await refused();
    await remove("zzz.victim.example", RESELLER_TWO);
    await refused();
    const record = { name: "*", type: "A", value: "192.0.2.1" };
    expect((await api.call("POST", "/api/v1/rr/victim.example", record)).status).toBe(200);
    await refused();
    for (const name of ["zzz.victim.example", "_acme-challenge.zzz.victim.example"]) {
      expect(await create(name, "theirs", RESELLER_TWO)).toMatchObject(duplicated(name));
    }
  });

  test("who was first takes no name that the zone above answers for, but one that it delegates", async () => {
    const labels = ["held", "empty", "sel._domainkey", "a.wild", "a.named", "handed", "_dmarc.free", "free"];
    for (const label of labels) await made(`${label}.answers.example`, "theirs", RESELLER_TWO);
    await made("answers.example", "bank");
    for (const label of labels) await remove(`${label}.answers.example`, RESELLER_TWO);
    for (const [name, type, value] of [
      ["held", "TXT", "proof"],
      ["below.empty", "TXT", "text"],
      ["sel._domainkey", "TXT", "v=DKIM1"],
      ["*.wild", "A", "192.0.2.1"],
      ["named", "DNAME", "example.net."],
      ["handed", "NS", "ns1.handed"],
      ["ns1.handed", "A", "192.0.2.1"],
    ]) {
      expect((await api.call("POST", "/api/v1/rr/answers.example", { name, type, value })).status).toBe(200);
    }
    for (const label of ["held", "empty", "_domainkey", "sel._domainkey", "a.wild", "x.a.wild", "a.named"]) {
      const taken = `${label}.answers.example`;
      expect(await create(taken, "theirs", RESELLER_TWO)).toMatchObject(duplicated(taken));
    }
    for (const label of ["handed", "_dmarc.free", "free"]) {
      expect((await create(`${label}.answers.example`, "theirs", RESELLER_TWO)).status, label).toBe(200);
    }
  });

  test("who comes later has no name below, nor by what the operator allowed when the zone above is made anew", async () => {
    await made("later.example", "bank");
    expect(await create("www.later.example", "theirs", RESELLER_TWO)).toMatchObject(duplicated("www.later.example"));
    await palomar("zone", "allow", "www.later.example", "two");
    expect(await create("www.later.example", "theirs", THEIRS)).toMatchObject(duplicated("www.later.example"));
    expect((await create("www.later.example", "theirs", RESELLER_TWO)).status).toBe(200);
    expect((await create("x.www.later.example", "theirs", RESELLER_TWO)).status).toBe(200);
    await remove("later.example");
    await made("later.example", "bank");
    expect(await create("mail.later.example", "theirs", RESELLER_TWO)).toMatchObject(duplicated("mail.later.example"));
  });

  test("the operator ends it that one may have further names below", async () => {
    const listed = async () =>
      (await palomar("zone", "allow", "--list")).json.filter(({ domain }: { domain: string }) =>
        /^tree|later/.test(domain),
      );
    expect(await listed()).toEqual([
      { domain: "tree.example", reseller_id: "two", covers: "below" },
      { domain: "www.later.example", reseller_id: "two", covers: "name" },
    ]);
    expect((await palomar("zone", "allow", "--list")).text).toContain(
      "two keeps the names that it had below tree.example\n",
    );
    for (const name of ["tree.example", "www.later.example"]) {
      expect((await palomar("zone", "disallow", name, "two")).json).toEqual({ domain: name, reseller_id: "two" });
      expect((await palomar("zone", "disallow", name, "two")).refused).toBe(`two is not allowed ${name}`);
    }
    expect(await listed()).toEqual([]);
    await remove("www.tree.example", RESELLER_TWO);
    expect(await create("www.tree.example", "theirs", RESELLER_TWO)).toMatchObject(duplicated("www.tree.example"));
    expect((await palomar("zone", "allow", "--list", "x.example", "two")).refused).toContain("give either");
    expect((await palomar("zone", "allow", "x.example")).refused).toContain("reseller_id");
    expect((await palomar("zone", "allow")).refused).toContain("give either");
  });
});

describe("public suffixes and single labels", () => {
  const NAMES = [
    "com",
    "co.uk",
    "corp",
    "localhost",
    "home.arpa",
    "github.io",
    "公司.cn",
    "xn--55qx5d.cn",
    "some.ck",
    "arpa",
    "2.ip6.arpa",
    "b.d.0.1.0.0.2.ip6.arpa",
  ];

  test.each(NAMES)("%s is nobody's without the operator's leave", async (name) => {
    for (const [crmId, as] of [
      ["rogue", ROGUE],
      ["bank", RESELLER_ONE],
      ["theirs", THEIRS],
    ] as const) {
      expect(await create(name, crmId, as)).toMatchObject({
        status: 400,
        body: { msg: `${name} is a public suffix or has one label: the operator has to allow it first` },
      });
    }
    const path = join(folder, "suffix.zone");
    writeFileSync(path, "$TTL 300\n@ SOA ns1.example.net. h.example.net. 7 1 2 3 4\n@ NS ns1.example.net.\n");
    expect(await palomar("zone", "import", "one", "bank", name, path)).toMatchObject({
      status: 1,
      json: [{ error: expect.stringContaining("is a public suffix") }],
    });
  });

  test("are made for the reseller that it is given to, and for no other", async () => {
    await made("desk.corp", "theirs", RESELLER_TWO);
    expect((await palomar("zone", "allow", "corp", "one")).json).toEqual({ domain: "corp", reseller_id: "one" });
    expect((await create("corp", "theirs", RESELLER_TWO)).status).toBe(400);
    expect(await create("corp", "rogue", ROGUE)).toMatchObject(duplicated("corp"));
    expect(await made("corp", "bank")).toEqual([
      "corp lies above a zone of another reseller, which answers for its own names",
    ]);
    expect((await create("x.desk.corp", "theirs", RESELLER_TWO)).status).toBe(200);
    expect(await create("chair.corp", "theirs", RESELLER_TWO)).toMatchObject(duplicated("chair.corp"));
    await palomar("zone", "disallow", "corp", "one");
    expect((await api.call("GET", "/api/v1/soa/corp")).status).toBe(200);
    await palomar("zone", "allow", "xn--55qx5d.cn", "one");
    expect(await made("公司.cn", "bank", BANK)).toEqual([]);
  });

  test("names below them are as any others", async () => {
    for (const name of [
      "shop.co.uk",
      "host.internal",
      "mine.github.io",
      "lan.home.arpa",
      "www.ck",
      "2.0.192.in-addr.arpa",
    ]) {
      expect(await made(name, "rogue", ROGUE)).toEqual([]);
    }
    expect((await create("8.b.d.0.1.0.0.2.ip6.arpa", "rogue", ROGUE)).status).toBe(200);
  });
});

describe("the operator's commands", () => {
  const ZONE = "$TTL 300\n@ SOA ns1.example.net. h.example.net. 7 1 2 3 4\n@ NS ns1.example.net.\nwww A 192.0.2.1\n";
  const file = (name: string, text = ZONE) => {
    const path = join(folder, name);
    writeFileSync(path, text);
    return path;
  };

  test("import as a reseller's key creates, from every kind of source, and print what is warned of", async () => {
    const path = file("one.zone");
    const warning =
      "imported.bank.example lies below bank.example of company bank of reseller one and answers in its place";
    const imported = await palomar("zone", "import", "one", "rogue", "imported.bank.example", path);
    expect(imported).toMatchObject({ status: 0, json: [{ warnings: [warning] }] });
    expect(imported.text).toContain(`warning: ${warning}`);
    const manifest = file("manifest", "x.bank.example\tone.zone\ncom\tone.zone\n");
    const conf = file("named.conf", `zone "y.bank.example" { type primary; file "${path}"; };\n`);
    for (const [option, source] of [
      ["--manifest", manifest],
      ["--named-conf", conf],
    ] as const) {
      const { json } = await palomar("zone", "import", "two", "theirs", option, source);
      expect(json.map(({ error }: { error: string }) => error)).toEqual(
        option === "--manifest"
          ? ["duplicated zone: x.bank.example", expect.stringContaining("com is a public suffix")]
          : ["duplicated zone: y.bank.example"],
      );
    }
    // A file in the place of records makes no zone anew.
    const replaced = await palomar("zone", "import", "one", "rogue", "imported.bank.example", path);
    expect(replaced.json[0].warnings).toBeUndefined();
  });

  test("make feeds and catalogs of one label, and warn of what lies around", async () => {
    expect((await palomar("rpz", "feed", "add", "rpz")).status).toBe(0);
    expect(await create("x.rpz", "bank")).toMatchObject(duplicated("x.rpz"));
    expect((await palomar("catalog", "add", "one", "catalog")).status).toBe(0);
    const feed = await palomar("rpz", "feed", "add", "rpz.bank.example");
    expect(feed.notes).toEqual([
      "warning: rpz.bank.example lies below bank.example of company bank of reseller one and answers in its place",
    ]);
    expect((await palomar("catalog", "add", "one", "catalog.bank.example")).notes).toHaveLength(1);
    expect((await palomar("catalog", "add", "two", "catalog2.bank.example")).refused).toContain("duplicated zone");
    expect(await create("x.catalog.bank.example", "bank", BANK)).toMatchObject(duplicated("x.catalog.bank.example"));
  });

  test("a feed above somebody's zones leaves them their names", async () => {
    await made("a.fed.example", "bank", BANK);
    await palomar("rpz", "feed", "add", "fed.example");
    expect((await create("x.a.fed.example", "bank")).status).toBe(200);
    await remove("a.fed.example");
    expect((await create("a.fed.example", "bank")).status).toBe(200);
    expect(await create("b.fed.example", "bank")).toMatchObject(duplicated("b.fed.example"));
    expect(await create("b2.fed.example", "theirs", RESELLER_TWO)).toMatchObject(duplicated("b2.fed.example"));
  });

  test("the audit finds what is there in spite of the rule, and what was somebody's wish", async () => {
    const { db } = api.database;
    await db("zones").where({ kind: "primary" }).delete();
    await db("zone_permissions").delete();
    expect(await palomar("zone", "audit")).toMatchObject({ status: 0, json: [], text: "" });
    await made("bank.example", "bank", BANK);
    await made("www.bank.example", "rogue");
    await made("fine.bank.example", "bank", BANK);
    await made("theirs.example", "theirs", THEIRS);
    await palomar("zone", "allow", "corp", "one");
    await made("corp", "bank");
    // As one release before made them: by a company's key, and at a suffix.
    await db("zones").where({ name: "www.bank.example" }).update({ made_by: "company" });
    await db("zones")
      .where({ name: "corp" })
      .update({ name: "lan", name_key: Buffer.from("lan\0"), apex: Buffer.from("\x03lan\0") });
    const audit = await palomar("zone", "audit");
    const zone = (domain: string, crm_id: string, made_by: string, actor: string) => ({
      ...{ domain, reseller_id: "one", crm_id, created: expect.stringMatching(/^\d{4}-.*Z$/), made_by, actor },
    });
    const above = zone("bank.example", "bank", "company", "company:bank");
    const below = zone("www.bank.example", "rogue", "company", "reseller:one");
    expect(audit).toMatchObject({ status: 1 });
    expect(audit.json).toEqual([
      { finding: "pair", verdict: "refused", above, below },
      { finding: "public-suffix", verdict: "refused", zone: zone("lan", "bank", "reseller", "reseller:one") },
    ]);
    expect(audit.text).toMatch(
      /^www\.bank\.example \(rogue of one, made \S+ by reseller:one\) lies below bank\.example \(bank of one, .*\): would be refused today\nlan \(.*\) is a public suffix or has one label$/,
    );
    await db("zones").where({ name: "www.bank.example" }).update({ made_by: "reseller" });
    expect((await palomar("zone", "audit")).json[0]).toMatchObject({ verdict: "warned" });
    // What the operator has looked at and allows is no finding any more.
    for (const name of ["www.bank.example", "lan"]) await palomar("zone", "allow", name, "one");
    expect(await palomar("zone", "audit")).toMatchObject({ status: 0, json: [] });
  });
});

test("who made a zone, and whose names below it were first, is noted when it is made", async () => {
  const { db } = api.database;
  await db("zones").delete();
  await db("zone_permissions").delete();
  await made("www.old.example", "theirs", THEIRS);
  await made("below.www.old.example", "theirs", RESELLER_TWO);
  await made("old.example", "bank", RESELLER_ONE);
  await made("new.www.old.example", "theirs", RESELLER_TWO);
  await made("upper.example", "bank", BANK);
  await palomar("zone", "allow", "low.upper.example", "two");
  await made("low.upper.example", "theirs", RESELLER_TWO);
  await made("x.low.upper.example", "theirs", RESELLER_TWO);
  await remove("upper.example");
  await made("upper.example", "bank");
  const path = join(folder, "by-command.zone");
  writeFileSync(path, "$TTL 300\n@ SOA ns1.example.net. h.example.net. 7 1 2 3 4\n@ NS ns1.example.net.\n");
  await palomar("zone", "import", "one", "bank", "by-command.example", path);

  const noted = {
    makers: await db("zones").where({ kind: "primary" }).select("name", "made_by").orderBy("name"),
    first: await db("zone_predecessors")
      .join("zones", "zones.id", "zone_id")
      .select("zones.name", "zone_predecessors.reseller_id", "zone_predecessors.name as had")
      .orderBy(["zones.name", "zone_predecessors.reseller_id", "zone_predecessors.name"]),
  };
  expect(noted.first.filter(({ name }) => name === "old.example" || name === "upper.example")).toEqual([
    { name: "old.example", reseller_id: "two", had: "below.www.old.example" },
    { name: "old.example", reseller_id: "two", had: "www.old.example" },
  ]);
  expect(Object.fromEntries(noted.makers.map(({ name, made_by }) => [name, made_by]))).toMatchObject({
    "upper.example": "reseller",
    "low.upper.example": "reseller",
    "www.old.example": "company",
    "by-command.example": "operator",
  });
});

describe("a zone that a signed one above does not delegate", () => {
  const notDelegated = (domain: string, above: string) =>
    `${domain} has no NS records in ${above}, which is signed: validating resolvers take its answers for forged until they are there`;
  /** What signing a zone warns of, or asking for its parent. */
  async function warnedBy(method: "PUT" | "POST", path: string, as?: Credentials): Promise<string[]> {
    const body = method === "PUT" ? { enabled: true } : {};
    const { status, body: answer, text } = await api.call(method, `/api/v1/dnssec/${path}`, body, as);
    expect(status, text).toBe(200);
    return answer.warnings ?? [];
  }
  const sign = (fqdn: string, as?: Credentials) => warnedBy("PUT", fqdn, as);
  const delegate = (name: string, zone: string) =>
    api.call("POST", `/api/v1/rr/${zone}`, { name, type: "NS", value: "ns1.example.net." });

  test("is warned of when it is made, and when either is signed, until the NS records are there", async () => {
    const [up, low] = ["up.example", "low.up.example"];
    await made(up, "bank", BANK);
    expect(await sign(up, BANK)).toEqual([]);
    expect(await made(low, "bank", BANK)).toEqual([notDelegated(low, up)]);
    expect(await sign(low, BANK)).toEqual([notDelegated(low, up)]);
    expect(await warnedBy("POST", `${low}/check`, BANK)).toEqual([notDelegated(low, up)]);
    expect(await sign(up, BANK)).toEqual([notDelegated(low, up)]);
    expect(await palomar("dnssec", "enable", up)).toMatchObject({ notes: [`warning: ${notDelegated(low, up)}`] });
    expect((await delegate("low", up)).status).toBe(200);
    for (const fqdn of [up, low]) expect(await sign(fqdn, BANK)).toEqual([]);
    expect(await warnedBy("POST", `${low}/check`, BANK)).toEqual([]);
    // What lies below it is its own to delegate; what lies below a cut without a zone is delegated with that.
    expect(await made("a.low.up.example", "bank", BANK)).toEqual([notDelegated("a.low.up.example", low)]);
    expect((await delegate("away", up)).status).toBe(200);
    expect(await made("a.away.up.example", "bank", BANK)).toEqual([]);
    expect(await sign(up, BANK)).toEqual([]);
  });

  test("is none where the zone above is not signed", async () => {
    await made("plain.example", "bank", BANK);
    expect(await made("a.plain.example", "bank", BANK)).toEqual([]);
    expect(await sign("a.plain.example", BANK)).toEqual([]);
  });

  test("is one where the zone above is signed elsewhere", async () => {
    await made("brought.example", "bank", BANK);
    const key = {
      name: "@",
      type: "DNSKEY",
      value: "257 3 13 aGVsbG8gd29ybGQgMTIzNDU2Nzg5MGhlbGxvIHdvcmxkIDEyMzQ1Njc4OTBhYmNkZWZnaGlqa2xtbm9wcQ==",
    };
    expect((await api.call("POST", "/api/v1/rr/brought.example", key)).status).toBe(200);
    const name = "a.brought.example";
    expect(await made(name, "bank", BANK)).toEqual([notDelegated(name, "brought.example")]);
  });

  test("is told to nobody who has but one of the two", async () => {
    const [up, low] = ["both.example", "low.both.example"];
    await made(up, "bank");
    await sign(up);
    // The reseller's key has both, and puts one into the other company.
    expect(await made(low, "rogue")).toContain(notDelegated(low, up));
    expect(await sign(low, ROGUE)).toEqual([]);
    expect(await warnedBy("POST", `${low}/check`, ROGUE)).toEqual([]);
    expect(await sign(up, BANK)).toEqual([]);
    expect(await sign(up)).toEqual([notDelegated(low, up)]);
    await palomar("zone", "allow", "foreign.both.example", "two");
    expect(await made("foreign.both.example", "theirs", RESELLER_TWO)).not.toContain(
      notDelegated("foreign.both.example", up),
    );
    expect(await sign("foreign.both.example", RESELLER_TWO)).toEqual([]);
    expect(await sign(up)).toEqual([notDelegated(low, up)]);
  });

  test("is not told to a token that is for the zone above alone", async () => {
    const [up, low] = ["token.example", "low.token.example"];
    await made(up, "bank", BANK);
    await made(low, "bank", BANK);
    const policy = { access: "write", zones: [up], verbs: ["sign"] };
    const added = await api.call("POST", "/api/v1/token", { name: "signer", ...policy }, BANK);
    expect(added.status, added.text).toBe(200);
    expect(await sign(up, { reseller: "one", key: added.body.token })).toEqual([]);
    expect(await sign(up, BANK)).toEqual([notDelegated(low, up)]);
  });

  test("is named up to twenty times, and where there are more it is said", async () => {
    await made("wide.example", "bank", BANK);
    for (let index = 0; index < 22; index += 1) await made(`z${index}.wide.example`, "bank", BANK);
    const warnings = await sign("wide.example", BANK);
    expect(warnings).toHaveLength(21);
    expect(warnings.at(-1)).toBe("further warnings are left out");
  });
});

test("signing warns of NS at wildcards", async () => {
  await made("wild.example", "bank", BANK);
  for (const name of ["*.sub", "*.Other", "x.*.not"]) {
    await api.call("POST", "/api/v1/rr/wild.example", { name, type: "NS", value: "ns1.example.net." });
  }
  const signed = await api.call("PUT", "/api/v1/dnssec/wild.example", { enabled: true });
  expect(signed.body.warnings).toEqual(
    ["*.Other", "*.sub"].map((name) =>
      expect.stringMatching(
        `^${name.replace("*", "\\*")}.wild.example. is a wildcard with NS records: .*where the zone is signed`,
      ),
    ),
  );
});
