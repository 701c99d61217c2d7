import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { SECONDARIES, secondaryStanza } from "../../services/core/dns/acl-stanzas.ts";
import { nameSortKey } from "../../services/core/dns/name.ts";
import { start as startDnsApi } from "../../services/dns-api/main.ts";
import { addTrafficReport } from "../../services/store/dns/dns-traffic.ts";
import { removeLeftOut, reportLeftOut } from "../../services/store/dns/zones-left-out.ts";
import { callApi } from "../support/api-client.ts";
import { type SignedIn, startConsole, type TestConsole } from "../support/console.ts";
import { nameOf } from "../support/dns-server.ts";
import { eventually } from "../support/stack.ts";

let palomar: TestConsole;
let operator: SignedIn;
let one: SignedIn;
let two: SignedIn;
let acme: SignedIn;

beforeAll(async () => {
  palomar = await startConsole([startDnsApi]);
  ({ operator, one, two, acme } = palomar.users);
});
afterAll(async () => {
  await palomar.stop();
  expect(palomar.failures).toEqual([]);
});

const SOA = { mname: "ns1.example.net", rname: "hostmaster.example.net", serial_type: "numeric" };
const TIMES = { refresh: 7200, retry: 900, expire: 1_209_600, minimum: 300, ttl: 3600 };
const addZone = async (domain: string, crmId = "acme") => {
  const made = await one.call("POST", `/dns/one/master_zone/${domain}`, { crm_id: crmId, ...SOA, ...TIMES });
  expect(made.status).toBe(200);
};

describe("resellers", () => {
  test("the operator adds, changes and lists them, a reseller sees itself", async () => {
    const added = await operator.call("POST", "/resellers", { reseller_id: "three", name: "Three" });
    expect(added).toMatchObject({
      status: 200,
      body: { reseller_id: "three", key: expect.stringMatching(/^[\w-]{43}$/) },
    });
    const changed = await operator.call("PATCH", "/resellers/three", { name: "Third", rpz_licence: true });
    expect(changed.body).toEqual({ reseller_id: "three", name: "Third", rpz_licence: true });
    const ids = async (who: SignedIn) =>
      (await who.call("GET", "/resellers")).body.resellers.map(({ reseller_id: id }: { reseller_id: string }) => id);
    expect(await ids(operator)).toEqual(["one", "three", "two"]);
    expect(await ids(two)).toEqual(["two"]);
    expect((await acme.call("GET", "/resellers")).status).toBe(403);
  });

  test.each([
    [{ reseller_id: "one", name: "x" }, "reseller one already exists"],
    [{ reseller_id: "bad id", name: "x" }, "invalid field: reseller_id: must have 1 to 64 letters, digits and . _ -"],
    [{ reseller_id: "x" }, "missing field: name"],
    [{ reseller_id: "x", name: "x", key: "with space" }, "invalid field: key: must be visible ASCII, without spaces"],
  ])("%j is refused", async (fields, msg) => {
    expect(await operator.call("POST", "/resellers", fields)).toMatchObject({ status: 400, body: { msg } });
  });

  test.each([
    ["POST", "/resellers", { reseller_id: "x", name: "x" }],
    ["PATCH", "/resellers/one", { rpz_licence: true }],
    ["POST", "/resellers/one/key", {}],
  ])("%s %s is the operator's alone", async (method, path, body) => {
    expect((await one.call(method, path, body)).status).toBe(403);
  });

  test("a key is replaced, the old one good until its grace ends", async () => {
    const url = await palomar.context.addressOf("dns_api");
    const status = async (key: string) =>
      (await callApi("GET", `${url}/api/v1/domain_list`, { Authorization: key, Reseller: "two" })).status;
    const rotated = await operator.call("POST", "/resellers/two/key", { grace_hours: 24 });
    expect(rotated.body).toEqual({ reseller_id: "two", key: expect.any(String), old_key_until: expect.any(String) });
    expect(await status("key-of-reseller-two")).toBe(200);
    expect(await status(rotated.body.key)).toBe(200);
    const atOnce = await operator.call("POST", "/resellers/two/key");
    expect(atOnce.body.old_key_until).toBeNull();
    expect(await status(rotated.body.key)).toBe(403);
    expect(await status("key-of-reseller-two")).toBe(403);
    expect(await status(atOnce.body.key)).toBe(200);
    expect((await operator.call("POST", "/resellers/nobody/key")).status).toBe(404);
  });
});

describe("ACLs", () => {
  test("are added with a key that is shown once, listed, shown as a stanza, and removed", async () => {
    const added = await one.call("POST", "/resellers/one/acls", {
      name: "secondary",
      blocks: ["192.0.2.1", "2001:db8::/32"],
      notify: ["192.0.2.1"],
      tsig: { name: "Key.Example" },
    });
    const secret = added.body.tsig.secret;
    expect(added.body).toEqual({ name: "secondary", tsig: { name: "key.example", algorithm: "hmac-sha256", secret } });
    const list = await one.call("GET", "/resellers/one/acls");
    expect(list.body.acls).toEqual([
      {
        name: "secondary",
        blocks: ["192.0.2.1/32", "2001:db8::/32"],
        tsig: { name: "key.example", algorithm: "hmac-sha256" },
        zones: null,
        notify: ["192.0.2.1:53"],
      },
    ]);
    const stanza = await one.call("GET", "/resellers/one/acls/secondary/stanza?for=knot&primary=192.0.2.53:53");
    expect(stanza.body).toEqual({ name: "secondary", for: "knot", stanza: expect.stringContaining(secret) });
    for (const program of ["bind", "nsd", "pdns", "unbound"]) {
      const shown = await one.call("GET", `/resellers/one/acls/secondary/stanza?for=${program}&primary=192.0.2.53:53`);
      expect(shown.status).toBe(200);
    }
    expect((await palomar.database.db("console_audit").where({ action: "acl.add" }).first()).detail).not.toHaveProperty(
      "secret",
    );
    expect((await one.call("DELETE", "/resellers/one/acls/secondary")).status).toBe(200);
    expect((await one.call("DELETE", "/resellers/one/acls/secondary")).status).toBe(404);
    expect(await palomar.database.db("tsig_keys").select()).toEqual([]);
  });

  test.each(SECONDARIES)("of many zones the stanza for %s is whole, to the octet", async (program) => {
    const name = `many for ${program}`;
    const zones = Array.from({ length: 1_000 }, (_, index) => `zone-${String(index).padStart(4, "0")}.example.org`);
    await one.call("POST", "/resellers/one/acls", { name, zones });
    const facts = {
      ...{ resellerId: "one", aclName: name, key: null, primary: { host: "192.0.2.53", port: 53 } },
      zones: zones.map((zone) => ({ name: zone, isCatalog: false })),
    };
    const path = `/admin/v1/resellers/one/acls/${encodeURIComponent(name)}/stanza?for=${program}&primary=192.0.2.53:53`;
    const answer = await fetch(palomar.url + path, { headers: { Cookie: one.cookie } });
    expect(answer.headers.get("content-type")).toBe("application/json; charset=utf-8");
    expect(await answer.text()).toBe(JSON.stringify({ name, for: program, stanza: secondaryStanza(program, facts) }));
  });

  test.each([
    [{ name: "x", blocks: ["192.0.2.1/24"] }, "blocks"],
    [{ name: "x", zones: ["a..b"] }, "zones"],
    [{ name: "x", notify: ["[1"] }, "notify"],
    [{ name: "x", tsig: { name: "k", algorithm: "hmac-md5" } }, "tsig"],
    [{ name: "x", tsig: { name: "k", secret: "?" } }, "tsig"],
    [{ name: "\n" }, "name"],
    [{}, "missing field: name"],
  ])("%j is refused", async (fields, named) => {
    const answer = await one.call("POST", "/resellers/one/acls", fields);
    expect(answer.status).toBe(400);
    expect(answer.body.msg).toContain(named);
  });

  test("all ACLs of a reseller together have bounds, and each its own", async () => {
    const servers = (count: number, net: number) => Array.from({ length: count }, (_, host) => `192.0.${net}.${host}`);
    for (let net = 1; net <= 5; net += 1) {
      const fields = { name: `net-${net}`, notify: servers(20, net) };
      expect((await two.call("POST", "/resellers/two/acls", fields)).status).toBe(200);
    }
    expect(await two.call("POST", "/resellers/two/acls", { name: "one-more", notify: ["192.0.2.99"] })).toMatchObject({
      status: 400,
      body: { msg: "invalid field: notify: must have at most 100 entries in all ACLs of a reseller together" },
    });
    expect((await two.call("POST", "/resellers/two/acls", { name: "none", blocks: ["192.0.2.0/24"] })).status).toBe(
      200,
    );
    expect((await one.call("POST", "/resellers/one/acls", { name: "large", notify: servers(21, 2) })).body.msg).toBe(
      "invalid field: notify: must have at most 20 entries",
    );
    for (const name of ["net-1", "net-2", "net-3", "net-4", "net-5", "none"]) {
      await two.call("DELETE", `/resellers/two/acls/${name}`);
    }
  });

  test("a stanza is refused for what is no secondary, and what is no feed", async () => {
    await one.call("POST", "/resellers/one/acls", { name: "plain" });
    const ask = (query: string) => one.call("GET", `/resellers/one/acls/plain/stanza?primary=192.0.2.53:53&${query}`);
    expect((await ask("for=recursor")).status).toBe(400);
    expect((await ask("for=tinydns")).status).toBe(400);
    expect((await ask("for=nsd&rpz=rpz.example")).status).toBe(400);
    expect((await ask("for=bind&rpz=missing.example")).status).toBe(404);
    expect((await one.call("GET", "/resellers/one/acls/none/stanza?for=bind")).status).toBe(404);
    // A name is what no program takes for the address of its primary.
    for (const primary of ["host.test:53", "host.test", "192.0.2.53:0", "192.0.2.53"]) {
      const refused = await one.call("GET", `/resellers/one/acls/plain/stanza?for=bind&primary=${primary}`);
      expect(refused).toMatchObject({ status: 400, body: { values: { field: "primary" } } });
    }
  });
});

describe("resolver blocks and catalogs", () => {
  test("blocks are put, listed and removed", async () => {
    const put = await one.call("POST", "/resellers/one/resolver_blocks", { block: "192.0.2.7", description: "office" });
    expect(put.body).toEqual({ block: "192.0.2.7/32", description: "office" });
    await one.call("POST", "/resellers/one/resolver_blocks", { block: "192.0.2.7/32", description: "home" });
    expect((await one.call("GET", "/resellers/one/resolver_blocks")).body).toEqual({
      resolver_blocks: [{ block: "192.0.2.7/32", description: "home" }],
    });
    expect((await one.call("POST", "/resellers/one/resolver_blocks", { block: "192.0.2.7/24" })).status).toBe(400);
    const path = "/resellers/one/resolver_blocks?block=192.0.2.7";
    expect((await one.call("DELETE", path)).status).toBe(200);
    expect((await one.call("DELETE", path)).status).toBe(404);
  });

  test("a zone's and a catalog's name is judged as the caller's key would be, and what is doubtful is told", async () => {
    await one.call("POST", "/dns/one/company", {
      crm_id: "rival",
      name: "Rival",
      apikey: "rival-key-of-16-characters",
    });
    await addZone("judged.example", "rival");
    const create = (who: SignedIn, domain: string, crm_id = "acme") =>
      who.call("POST", `/dns/one/master_zone/${domain}`, { crm_id, ...SOA, ...TIMES });
    expect(await create(acme, "www.judged.example")).toMatchObject({
      status: 400,
      body: { msg: "duplicated zone: www.judged.example" },
    });
    const warning = "www.judged.example lies below judged.example of company rival and answers in its place";
    expect((await create(one, "www.judged.example")).body.warnings).toEqual([warning]);
    // At the console the operator works as the reseller: names of one label are the command's.
    for (const who of [acme, one, operator]) {
      expect((await create(who, "corp")).body.msg).toContain("is a public suffix or has one label");
    }
    const catalog = (who: SignedIn, zone: string) => who.call("POST", "/resellers/one/catalogs", { zone });
    expect(await catalog(one, "catalog")).toMatchObject({
      status: 400,
      body: { code: "public-suffix", values: { domain: "catalog" } },
    });
    expect(await catalog(operator, "catalog")).toMatchObject({ status: 200, body: { zone: "catalog" } });
    expect(await catalog(operator, "catalog")).toMatchObject({ status: 400, body: { code: "zone-exists" } });
    expect((await catalog(one, "catalog.judged.example")).body).toEqual({
      zone: "catalog.judged.example",
      warnings: ["catalog.judged.example lies below judged.example of company rival and answers in its place"],
    });
    expect((await operator.call("POST", "/rpz", { zone: "rpz.judged.example" })).body).toMatchObject({
      warnings: [expect.stringContaining("of company rival of reseller one")],
    });
    for (const zone of ["catalog", "catalog.judged.example"]) {
      await operator.call("DELETE", `/resellers/one/catalogs?zone=${zone}`);
    }
    await operator.call("DELETE", "/rpz/rpz.judged.example");
    for (const domain of ["www.judged.example", "judged.example"]) {
      await one.call("DELETE", `/dns/one/master_zone/${domain}`);
    }
  });

  test("a reseller has ten catalogs at most", async () => {
    const zones = Array.from({ length: 11 }, (_, index) => `catalog-${index}.example`);
    const statuses = await Promise.all(
      zones.map(async (zone) => (await two.call("POST", "/resellers/two/catalogs", { zone })).status),
    );
    expect(statuses.sort()).toEqual([...Array(10).fill(200), 400]);
    for (const zone of zones) await two.call("DELETE", `/resellers/two/catalogs?zone=${zone}`);
  });

  test("catalogs are published and taken back", async () => {
    expect((await one.call("POST", "/resellers/one/catalogs", { zone: "catalog.example" })).status).toBe(200);
    expect((await one.call("POST", "/resellers/one/catalogs", { zone: "catalog.example" })).status).toBe(400);
    const { catalogs } = (await one.call("GET", "/resellers/one/catalogs")).body;
    expect(catalogs).toEqual([{ zone: "catalog.example", serial: expect.any(Number), members: expect.any(Number) }]);
    expect((await two.call("DELETE", "/resellers/two/catalogs?zone=catalog.example")).status).toBe(404);
    expect((await one.call("DELETE", "/resellers/one/catalogs?zone=catalog.example")).status).toBe(200);
  });
});

describe.each([
  ["GET", "/resellers/one/acls"],
  ["POST", "/resellers/one/acls"],
  ["DELETE", "/resellers/one/acls/x"],
  ["GET", "/resellers/one/acls/x/stanza?for=bind"],
  ["GET", "/resellers/one/resolver_blocks"],
  ["POST", "/resellers/one/resolver_blocks"],
  ["DELETE", "/resellers/one/resolver_blocks?block=192.0.2.0/24"],
  ["GET", "/resellers/one/catalogs"],
  ["POST", "/resellers/one/catalogs"],
  ["DELETE", "/resellers/one/catalogs?zone=x.example"],
  ["GET", "/resellers/one/rpz"],
  ["PUT", "/resellers/one/rpz/x.example"],
  ["GET", "/resellers/one/zones"],
  ["POST", "/resellers/one/zones/example.org/rollback"],
])("%s %s", (method, path) => {
  test("is not there for another reseller, and no area of an instance", async () => {
    const body = method === "POST" ? { name: "x", block: "192.0.2.0/24", zone: "x.example", serial: 1 } : undefined;
    expect((await two.call(method, path, body)).status).toBe(404);
    expect((await palomar.users.north.call(method, path, body)).status).toBe(403);
  });
});

describe("zones", () => {
  beforeAll(async () => {
    for (const domain of ["example.org", "shop.example.org", "example.com"]) await addZone(domain);
    await addZone("other.example.net", "other");
  });

  test("say where they, or their latest version, have no room; strangers are told nothing", async () => {
    const domain = "shop.example.org";
    const { db } = palomar.database;
    const zone = await db("zones").where({ name: domain }).first("id");
    const path = `/resellers/one/zones/${domain}/publication`;
    const listed = async () => (await one.call("GET", "/resellers/one/zones?search=shop")).body.zones[0].left_out;
    expect([(await acme.call("GET", path)).body, await listed()]).toEqual([{ withheld: 0, outdated: 0 }, null]);
    const report = { zoneId: Number(zone.id), since: new Date(), takenOctets: 1 };
    await reportLeftOut(db, "n1", [{ ...report, servedVersion: 1 }]);
    expect([(await acme.call("GET", path)).body, await listed()]).toEqual([{ withheld: 0, outdated: 1 }, "outdated"]);
    await reportLeftOut(db, "n2", [{ ...report, servedVersion: null }]);
    expect([(await one.call("GET", path)).body, await listed()]).toEqual([{ withheld: 1, outdated: 1 }, "withheld"]);
    expect((await two.call("GET", path)).status).toBe(404);
    expect((await acme.call("GET", "/resellers/one/zones/other.example.net/publication")).status).toBe(404);
    // As in the answer to a change of it.
    const change = { name: "left-out", type: "A", value: "192.0.2.7" };
    const changed = await acme.call("POST", `/dns/one/rr/${domain}`, change);
    expect(changed.body.warnings).toEqual([
      "the zone is not published on 1 name server: it does not fit into their memory",
      "the zone is published as it was on 1 name server: its latest version does not fit into their memory",
    ]);
    expect((await acme.call("DELETE", `/dns/one/rr/${domain}/${changed.body.rr_id}`)).status).toBe(200);
    for (const node of ["n1", "n2"]) await removeLeftOut(db, node);
    expect([(await one.call("GET", path)).body, await listed()]).toEqual([{ withheld: 0, outdated: 0 }, null]);
  });

  test("are found by any part of their name, page by page, in canonical order", async () => {
    const search = async (query: string, who = one) => (await who.call("GET", `/resellers/one/zones?${query}`)).body;
    const all = await search("");
    expect(all.next).toBeNull();
    expect(all.zones.map(({ domain }: { domain: string }) => domain)).toEqual([
      ...["example.com", "other.example.net", "example.org", "shop.example.org"],
    ]);
    expect(all.zones[0]).toEqual({
      ...{
        domain: "example.com",
        crm_id: "acme",
        serial: 1,
        suspended: false,
        records: 1,
        dnssec: false,
        left_out: null,
      },
    });
    expect((await search("search=SHOP")).zones).toHaveLength(1);
    expect((await search("search=xample.o")).zones).toHaveLength(2);
    expect((await search("search=%25")).zones).toEqual([]);
    expect((await search("crm_id=other")).zones).toHaveLength(1);
    const page = await search("limit=3");
    expect(page.next).toBe("example.org");
    expect((await search(`limit=3&after=${page.next}`)).zones).toMatchObject([{ domain: "shop.example.org" }]);
    expect((await search("", acme)).zones).toHaveLength(3);
    expect((await one.call("GET", "/resellers/one/zones?after=a..b")).status).toBe(400);
  });

  test("a master file is previewed as it would be applied, and nothing is", async () => {
    await one.call("POST", "/dns/one/rr/example.org", { name: "old", type: "A", value: "192.0.2.1" });
    const file =
      "$TTL 300\n@ SOA ns1.example.net. h.example.net. 9 7200 900 1209600 300\n@ NS ns1.example.net.\nwww A 192.0.2.2\n";
    const preview = await acme.call("POST", "/resellers/one/zones/example.org/preview", file, {
      "Content-Type": "text/dns",
    });
    expect(preview.status).toBe(200);
    expect(preview.body.serial).toBe(9);
    expect(preview.body.added).toContainEqual({ name: "www", type: "A", ttl: 300, rr_prio: null, value: "192.0.2.2" });
    expect(preview.body.deleted).toContainEqual({
      name: "old",
      type: "A",
      ttl: 3600,
      rr_prio: null,
      value: "192.0.2.1",
    });
    expect((await one.call("GET", "/dns/one/rr/example.org")).body).toMatchObject({ serial: 2, rr: { length: 2 } });
    const bad = await one.call("POST", "/resellers/one/zones/example.org/preview", "www A nonsense\n", {
      "Content-Type": "text/dns",
    });
    expect(bad).toMatchObject({ status: 400, body: { msg: expect.stringMatching(/^line 1, column /) } });
    const applied = await one.call("PUT", "/dns/one/zone_file/example.org", file, { "Content-Type": "text/dns" });
    expect(applied.body.serial).toBe(preview.body.serial);
  });

  test("a preview tells of aliases that a master file would delete, as it is declared", async () => {
    await addZone("aliases.example");
    expect(
      (await one.call("POST", "/dns/one/alias/aliases.example", { name: "www", target: "example.net." })).status,
    ).toBe(200);
    const file = "$TTL 300\n@ SOA ns1.example.net. h.example.net. 9 7200 900 1209600 300\n@ NS ns1.example.net.\n";
    const preview = "/resellers/one/zones/aliases.example/preview";
    const { body } = await one.call("POST", preview, file, { "Content-Type": "text/dns" });
    expect(body.followers).toMatchObject({ deleted: [{ name: "www", kind: "alias" }], added: [] });
    const { paths } = (await callApi("GET", `${palomar.url}/openapi.json`, {})).body;
    const { schema } =
      paths["/admin/v1/resellers/{id}/zones/{domain}/preview"].post.responses["200"].content["application/json"];
    expect(Object.keys(schema.properties)).toEqual(expect.arrayContaining(Object.keys(body)));
    expect((await one.call("GET", "/dns/one/alias/aliases.example")).body.alias).toHaveLength(1);
  });

  test("a batch is previewed, with its warnings and its refusals", async () => {
    const preview = (batch: object) => one.call("POST", "/resellers/one/zones/example.com/preview", batch);
    const mx = { name: "@", type: "MX", rr_prio: 10, value: "mail" };
    const alias = { name: "mail", type: "CNAME", value: "example.net." };
    expect((await preview({ create: [mx, alias] })).body).toMatchObject({
      serial: 3,
      added: [{ type: "MX" }, { type: "CNAME" }],
      deleted: [],
      warnings: [expect.any(String)],
    });
    expect(await preview({})).toMatchObject({ status: 200, body: { serial: 1, added: [], deleted: [], warnings: [] } });
    expect((await preview({ create: [{ name: "@", type: "CNAME", value: "x" }] })).status).toBe(400);
    expect((await preview({ create: [{ name: "@" }] })).body.msg).toBe("missing field: type");
    expect((await one.call("GET", "/dns/one/soa/example.com")).body.serial).toBe(1);
    expect((await one.call("POST", "/resellers/one/zones/missing.example/preview", {})).status).toBe(400);
  });

  test("go back to what they were at a serial", async () => {
    const export_ = async () => (await one.call("GET", "/dns/one/zone_file/shop.example.org")).body as string;
    const rr = (name: string, ip: string) => ({ name, type: "A", value: ip });
    await one.call("POST", "/dns/one/rr/shop.example.org", rr("a", "192.0.2.1"));
    const then = await export_();
    const { serial } = (await one.call("GET", "/dns/one/soa/shop.example.org")).body;
    await one.call("POST", "/dns/one/rr/shop.example.org", rr("b", "192.0.2.2"));
    await one.call("POST", "/dns/one/update_soa/acme/shop.example.org/ns9.example.net/h.example.net/9/1/2/3/4/5");
    const rollback = (to: number, who = one) =>
      who.call("POST", "/resellers/one/zones/shop.example.org/rollback", { serial: to });
    const back = await rollback(serial, acme);
    expect(back).toMatchObject({ status: 200, body: { serial: 10 } });
    expect(await export_()).toBe(then.replace(` ${serial} 7200`, " 10 7200"));
    const { history } = (await one.call("GET", "/dns/one/zone_history/shop.example.org?limit=1")).body;
    expect(history[0]).toMatchObject({ actor: "acme", serial: 10 });
    expect(await rollback(7)).toMatchObject({
      status: 400,
      body: { msg: "the history does not reach back to serial 7" },
    });
    expect((await rollback(10)).body).toEqual({ serial: 10 });
    const { paths } = (await callApi("GET", `${palomar.url}/openapi.json`, {})).body;
    const { responses } = paths["/admin/v1/resellers/{id}/zones/{domain}/rollback"].post;
    expect(Object.keys(responses["200"].content["application/json"].schema.properties)).toEqual(["serial", "warnings"]);
    expect((await one.call("GET", "/audit?limit=9")).body.audit).toContainEqual(
      expect.objectContaining({
        actor: "acme",
        action: "zone.rollback",
        object: "shop.example.org",
        detail: { serial },
      }),
    );
  });
});

describe("a signed zone", () => {
  test("is previewed and goes back like any other, without what signing adds", async () => {
    await addZone("signed.example.org");
    const signed = await one.call("PUT", "/dns/one/dnssec/signed.example.org", { enabled: true });
    expect(signed.status).toBe(200);
    const { serial } = (await one.call("GET", "/dns/one/soa/signed.example.org")).body;
    const create = [{ name: "www", type: "A", value: "192.0.2.1" }];
    const preview = await one.call("POST", "/resellers/one/zones/signed.example.org/preview", { create });
    expect(preview.body).toMatchObject({ added: [{ name: "www", type: "A" }], deleted: [] });
    await one.call("POST", "/dns/one/rr/signed.example.org/batch", { create });
    const back = await one.call("POST", "/resellers/one/zones/signed.example.org/rollback", { serial });
    expect(back.status).toBe(200);
    expect((await one.call("GET", "/dns/one/rr/signed.example.org")).body.rr).toMatchObject([{ type: "NS" }]);
    const { zones } = (await one.call("GET", "/resellers/one/zones?search=signed")).body;
    expect(zones).toMatchObject([{ domain: "signed.example.org", dnssec: true, records: 1 }]);
  });
});

describe("policy zones", () => {
  test("are the operator's to keep", async () => {
    expect((await operator.call("POST", "/rpz", { zone: "rpz.example" })).body).toEqual({
      zone: "rpz.example",
      serial: 1,
      rules: 0,
    });
    expect((await operator.call("POST", "/rpz", { zone: "rpz.example" })).status).toBe(400);
    const add = (trigger: string, action: string, more = {}) =>
      operator.call("POST", "/rpz/rpz.example/rules", { trigger, action, ...more });
    expect((await add("qname:bad.example", "nxdomain")).body).toMatchObject({
      serial: 2,
      action: "nxdomain",
      expires: null,
    });
    for (const expires of ["2098-01-01T00:00:00.000Z", "2099-01-01T00:00:00.000Z"]) {
      expect((await add("ip:192.0.2.0/24", "drop", { expires })).body).toMatchObject({ serial: 3, expires });
    }
    expect((await add("qname:bad.example", "nodata")).status).toBe(400);
    expect((await add("qname:x.example", "drop", { expires: "2001-01-01T00:00:00Z" })).status).toBe(400);
    expect((await add("nonsense", "drop")).body.msg).toContain("trigger");
    const rules = async (query = "") => (await operator.call("GET", `/rpz/rpz.example/rules?${query}`)).body;
    expect((await rules()).rules).toMatchObject([
      { trigger: "qname:bad.example", action: "nxdomain", expires: null },
      { trigger: "ip:192.0.2.0/24", action: "drop", expires: "2099-01-01T00:00:00.000Z" },
    ]);
    expect((await rules("search=ad.exam")).rules).toHaveLength(1);
    expect((await rules("search=192.0.2")).rules).toHaveLength(1);
    const page = await rules("limit=1");
    expect((await rules(`limit=1&after=${page.next}`)).rules).toMatchObject([{ trigger: "ip:192.0.2.0/24" }]);
    await add("qname:local.example", "A 192.0.2.80");
    await add("qname:local.example", "AAAA 2001:db8::80");
    await add("qname:local.example.net", "drop");
    expect((await rules("trigger=qname:LOCAL.example")).rules).toMatchObject([
      { trigger: "qname:local.example", action: "A 192.0.2.80" },
      { trigger: "qname:local.example", action: "AAAA 2001:db8::80" },
    ]);
    expect((await operator.call("GET", "/rpz/rpz.example/rules?trigger=nonsense")).status).toBe(400);
    const gone = await operator.call("DELETE", "/rpz/rpz.example/rules?trigger=qname:bad.example");
    expect(gone).toMatchObject({ status: 200, body: { trigger: "qname:bad.example" } });
    const owner = nameOf("x.rpz-ip.rpz.example.").wire;
    await palomar.context
      .db("records")
      .where({ owner_key: nameSortKey(nameOf("local.example.net.rpz.example.").wire) })
      .update({ owner, owner_key: nameSortKey(owner) });
    expect((await rules()).rules.at(-1)).toMatchObject({
      trigger: "owner:x.rpz-ip",
      action: "CNAME rpz-drop.",
      fault: { code: "no-address-or-block", values: { text: "/x" } },
    });
    const left = "/rpz/rpz.example/rules?trigger=owner:x.rpz-ip";
    expect((await operator.call("GET", left)).body.rules).toHaveLength(1);
    expect((await operator.call("DELETE", left)).body).toMatchObject({ trigger: "owner:x.rpz-ip" });
    expect((await operator.call("DELETE", left)).status).toBe(400);
    for (const who of [one, acme]) expect((await who.call("GET", "/rpz")).status).toBe(403);
    expect((await operator.call("GET", "/rpz/missing.example/rules")).status).toBe(404);
  });

  test("take lists in by a job", async () => {
    const list = `${Array.from({ length: 500 }, (_, index) => `bad${index}.example`).join("\n")}\nnot a name\n`;
    const begun = await operator.call("POST", "/rpz/rpz.example/import?format=domains", list, {
      "Content-Type": "text/plain",
    });
    expect(begun.status).toBe(200);
    const job = await eventually(
      async () => (await operator.call("GET", `/jobs/${begun.body.job}`)).body,
      ({ state }) => state !== "running",
    );
    expect(job).toMatchObject({
      kind: "rpz-import",
      object: "rpz.example",
      state: "done",
      done: 501,
      total: 501,
      result: { zone: "rpz.example", added: 1000, rejected: 1 },
      errors: [{ line: 501, msg: expect.any(String) }],
    });
  });

  test("are used by resellers with the licence", async () => {
    expect((await two.call("PUT", "/resellers/two/rpz/rpz.example")).status).toBe(403);
    expect((await two.call("GET", "/resellers/two/rpz")).body).toEqual({ licence: false, rpz: [] });
    expect((await one.call("PUT", "/resellers/one/rpz/missing.example")).status).toBe(404);
    expect((await one.call("PUT", "/resellers/one/rpz/rpz.example")).body).toEqual({
      zone: "rpz.example",
      active: true,
    });
    expect((await one.call("GET", "/resellers/one/rpz")).body.rpz).toMatchObject([
      { zone: "rpz.example", active: true },
    ]);
    expect((await one.call("GET", "/dns/one/active_rpz")).body.active_rpz).toMatchObject([{ zone: "rpz.example" }]);
    await one.call("DELETE", "/resellers/one/rpz/rpz.example");
    expect((await one.call("GET", "/resellers/one/rpz")).body.rpz).toMatchObject([{ active: false }]);
    expect((await operator.call("DELETE", "/rpz/rpz.example")).status).toBe(200);
    expect((await operator.call("DELETE", "/rpz/rpz.example")).status).toBe(404);
  });
});

test("a time of which no server told is a gap in the statistics, up to the present", async () => {
  await addZone("asked.example.org");
  palomar.clock.stand();
  palomar.clock.advance(60_000 - (palomar.context.clock.nowMs() % 60_000) + 30_000);
  const tell = (queries: number) =>
    addTrafficReport(palomar.database.db, {
      ...{ source: randomUUID(), at: new Date(palomar.context.clock.nowMs()), seconds: 5, queries },
      ...{ rcodes: {}, zones: { "asked.example.org": queries } },
    });
  await tell(60);
  palomar.clock.advance(180_000);
  await tell(120);
  for (const [minutes, gap] of [
    [0, []],
    [1, []],
    [3, [null, null]],
  ] as const) {
    palomar.clock.advance(minutes * 60_000);
    for (const who of [operator, one]) {
      const { series } = (await who.call("GET", "/dns_statistics")).body as {
        series: { timestamp: string; queries_per_second: number | null }[];
      };
      expect(series.map((point) => point.queries_per_second)).toEqual([1, null, null, 2, ...gap]);
      const times = series.map(({ timestamp }) => Date.parse(timestamp));
      expect(times.slice(1).map((time, index) => time - times[index]!)).toEqual(times.slice(1).map(() => 60_000));
    }
    palomar.clock.advance(-minutes * 60_000);
  }
});
