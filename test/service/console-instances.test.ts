import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { start as startDnsApi } from "../../services/dns-api/main.ts";
import { start as startDnsServer } from "../../services/dns-server/main.ts";
import { start as startMailApi } from "../../services/mail-api/main.ts";
import { callApi } from "../support/api-client.ts";
import { type SignedIn, startConsole, type TestConsole } from "../support/console.ts";
import { askDns } from "../support/dns-client.ts";
import { freePort } from "../support/peers-processes.ts";
import { eventually } from "../support/stack.ts";

let palomar: TestConsole;
let operator: SignedIn;
let north: SignedIn;
let south: SignedIn;

beforeAll(async () => {
  // Look-ups go to the very server that hosts the zones.
  const dns = `127.0.0.1:${await freePort()}`;
  palomar = await startConsole([startDnsApi, startDnsServer, startMailApi], {
    PALOMAR_DNS_UDP: "portable",
    PALOMAR_DNS_LISTEN: dns,
    PALOMAR_RESOLVER: dns,
    PALOMAR_BOUNCE_DOMAIN: "bounces.example.net",
    PALOMAR_HOSTNAME: "mx.example.net",
  });
  ({ operator, north, south } = palomar.users);
});
afterAll(async () => {
  await palomar.stop();
  expect(palomar.failures).toEqual([]);
});

describe("instances", () => {
  test("the operator adds, lists and changes them, an instance sees its own", async () => {
    const fields = { name: "west", host: "West.Test:8025", domains: ["Bücher.example"], time_zone: "europe/madrid" };
    const added = await operator.call("POST", "/instances", fields);
    expect(added).toMatchObject({
      status: 200,
      body: { name: "west", host: "west.test", key: expect.any(String), domains: ["xn--bcher-kva.example"] },
    });
    const names = async (who: SignedIn) =>
      (await who.call("GET", "/instances")).body.instances.map(({ name }: { name: string }) => name);
    expect(await names(operator)).toEqual(["north", "south", "west"]);
    expect(await names(north)).toEqual(["north"]);
    const days = { event_days: 90, archive_days: 30, message_days: 60 };
    const reports = { failure_reports: true, language: "es" };
    const changes = { archive: true, conversions: true, ...days, records: true, ...reports };
    expect((await operator.call("PATCH", "/instances/west", changes)).body).toEqual({
      ...{ name: "west", host: "west.test", domains: ["xn--bcher-kva.example"], time_zone: "Europe/Madrid" },
      ...changes,
    });
    const forEver = { event_days: null, message_days: null };
    expect((await operator.call("PATCH", "/instances/west", forEver)).body).toMatchObject({
      ...forEver,
      archive_days: 30,
    });
    const tooFew = await operator.call("PATCH", "/instances/west", { message_days: 29 });
    expect(tooFew).toMatchObject({ status: 400, body: { msg: expect.stringContaining("at least 30") } });
  });

  test("an instance's users change what is theirs", async () => {
    const changed = await north.call("PATCH", "/instances/north", { conversions: true, time_zone: "America/Lima" });
    expect(changed.body).toMatchObject({ conversions: true, time_zone: "America/Lima" });
    const operators = [
      { archive: true },
      { records: true },
      { event_days: 1 },
      { archive_days: null },
      { message_days: null },
    ];
    for (const field of operators) {
      expect((await north.call("PATCH", "/instances/north", field)).status).toBe(403);
    }
    expect((await south.call("PATCH", "/instances/north", { conversions: false })).status).toBe(404);
    expect((await palomar.users.one.call("GET", "/instances")).status).toBe(403);
  });

  test.each([
    [{ name: "north", host: "x.test" }, "an instance of this name already exists"],
    [{ name: "x", host: "north.test" }, "another instance has this host"],
    [{ name: "x", host: "x.test", key: "api-key-of-north" }, "another instance has this key"],
    [{ name: "x", host: "x.test", key: "short" }, "invalid field: key"],
    [{ name: "-", host: "x.test" }, "invalid field: name"],
    [{ name: "x", host: "a b" }, "invalid field: host"],
    [{ name: "x", host: "x.test", domains: ["nodot"] }, "invalid field: domains"],
    [{ name: "x", host: "x.test", time_zone: "Mars" }, "invalid field: time_zone"],
    [{ name: "x" }, "missing field: host"],
  ])("%j is refused", async (fields, msg) => {
    const answer = await operator.call("POST", "/instances", fields);
    expect(answer.status).toBe(400);
    expect(answer.body.msg).toContain(msg);
    expect((await north.call("POST", "/instances", fields)).status).toBe(403);
  });

  test("a key is replaced, the old one good until its grace ends", async () => {
    const url = await palomar.context.addressOf("mail_api");
    const status = async (Authorization: string) =>
      (await callApi("GET", `${url}/v1/filtros`, { Authorization })).status;
    const rotated = await operator.call("POST", "/instances/south/key", { grace_hours: 0.5 });
    expect(rotated.body).toEqual({ name: "south", key: expect.any(String), old_key_until: expect.any(String) });
    expect(await status("api-key-of-south")).toBe(200);
    expect(await status(rotated.body.key)).toBe(200);
    const { key } = (await operator.call("POST", "/instances/south/key")).body;
    expect([await status("api-key-of-south"), await status(rotated.body.key), await status(key)]).toEqual([
      403, 403, 200,
    ]);
    expect((await south.call("POST", "/instances/south/key")).status).toBe(403);
    expect((await operator.call("POST", "/instances/nobody/key")).status).toBe(404);
  });
});

describe("sender domains", () => {
  const zone = {
    ...{ crm_id: "acme", mname: "ns1.example.net", rname: "h.example.net", serial_type: "numeric" },
    ...{ refresh: 7200, retry: 900, expire: 1_209_600, minimum: 1, ttl: 60 },
  };
  const okOf = (checks: { name: string; ok: boolean }[]) =>
    Object.fromEntries(checks.map(({ name, ok }) => [name, ok]));

  test("are added and removed by the operator, and listed with their DKIM record", async () => {
    const added = await operator.call("POST", "/instances/north/domains", { domain: "News.example.org" });
    expect(added.body).toEqual({
      domain: "news.example.org",
      dkim: {
        selector: "palomar",
        name: "palomar._domainkey.news.example.org",
        value: expect.stringMatching(/^v=DKIM1; ?k=rsa; ?p=/),
      },
    });
    expect((await operator.call("POST", "/instances/north/domains", { domain: "news.example.org" })).status).toBe(400);
    expect((await north.call("GET", "/instances/north/domains")).body.domains).toHaveLength(2);
    expect((await north.call("POST", "/instances/north/domains", { domain: "x.example" })).status).toBe(403);
    expect((await operator.call("DELETE", "/instances/north/domains/news.example.org")).status).toBe(200);
    expect((await operator.call("DELETE", "/instances/north/domains/news.example.org")).status).toBe(404);
    expect((await south.call("GET", "/instances/north/domains")).status).toBe(404);
  });

  test("the check-list says what is missing, and creates it where the zone is hosted", async () => {
    const check = async (who = operator, domain = "north.example.org") =>
      (await who.call("GET", `/instances/north/domains/${domain}/check`)).body;
    const before = await check();
    expect(before).toMatchObject({ hosted: false, may_create: false });
    expect(okOf(before.checks)).toEqual({ spf: false, dkim: false, dmarc: false, bounce: false });
    const records = "/instances/north/domains/north.example.org/records";
    expect((await operator.call("POST", records)).body.msg).toContain("is not hosted here");

    for (const domain of ["example.org", "example.net"]) {
      await palomar.users.one.call("POST", `/dns/one/master_zone/${domain}`, zone);
    }
    expect(await check(north)).toMatchObject({ hosted: true, may_create: false });
    expect((await north.call("POST", records)).status).toBe(403);
    await operator.call("PATCH", "/instances/north", { records: true });
    expect(await check(north)).toMatchObject({ hosted: true, may_create: true });
    const byUser = await north.call("POST", records);
    expect(byUser.body.conflicts).toEqual([]);
    expect(byUser.body.created.map(({ name }: { name: string }) => name)).toEqual([
      ...["north.example.org", "palomar._domainkey.north.example.org", "_dmarc.north.example.org"],
    ]);
    const byOperator = await operator.call("POST", records);
    const bounce = byOperator.body.created.filter(({ name }: { name: string }) => name === "bounces.example.net");
    expect(bounce).toEqual([
      { name: "bounces.example.net", type: "MX", value: "mx.example.net", preference: 10 },
      { name: "bounces.example.net", type: "TXT", value: "v=spf1 a:mx.example.net ~all" },
    ]);
    const after = await eventually(check, ({ checks }) => checks.every(({ ok }: { ok: boolean }) => ok));
    expect(okOf(after.checks)).toEqual({ spf: true, dkim: true, dmarc: true, bounce: true });
    const { history } = (await palomar.users.one.call("GET", "/dns/one/zone_history/example.org?limit=1")).body;
    expect(history[0].actor).toBe("north");
    expect((await operator.call("POST", records)).body).toEqual({ created: [], conflicts: [] });
  });

  test("what is there with another content is left alone, and reported with what it should be", async () => {
    await operator.call("POST", "/instances/north/domains", { domain: "taken.example.org" });
    const create = [
      { name: "taken", type: "TXT", value: "v=spf1 mx -all" },
      { name: "palomar._domainkey.taken", type: "TXT", value: "v=DKIM1; p=AAAA" },
      { name: "_dmarc", type: "TXT", value: "v=DMARC1; p=reject" },
    ];
    await palomar.users.one.call("POST", "/dns/one/rr/example.org/batch", { create });
    const server = await palomar.context.addressOf("dns");
    await eventually(
      () => askDns(server, "_dmarc.example.org", "TXT"),
      ({ answers = [] }) => answers.length > 0,
    );
    const { checks } = await eventually(
      async () => (await north.call("GET", "/instances/north/domains/taken.example.org/check")).body,
      (body) => okOf(body.checks).dmarc === true,
    );
    expect(okOf(checks)).toMatchObject({ spf: false, dkim: false });
    expect(checks[0].expected[0].value).toBe("v=spf1 mx include:bounces.example.net -all");
    const { created, conflicts } = (await north.call("POST", "/instances/north/domains/taken.example.org/records"))
      .body;
    expect(created).toEqual([]);
    expect(conflicts).toEqual([
      "taken.example.org TXT is v=spf1 mx -all, wanted v=spf1 mx include:bounces.example.net -all",
      expect.stringContaining("palomar._domainkey.taken.example.org TXT is v=DKIM1; p=AAAA"),
    ]);
  });

  test("a domain that its zone delegates to others is not hosted here", async () => {
    const delegated = { name: "away", type: "NS", value: "ns1.elsewhere.example." };
    await palomar.users.one.call("POST", "/dns/one/rr/example.org", delegated);
    await operator.call("POST", "/instances/north/domains", { domain: "away.example.org" });
    const path = "/instances/north/domains/away.example.org";
    expect((await operator.call("GET", `${path}/check`)).body).toMatchObject({ hosted: false, may_create: false });
    expect((await operator.call("POST", `${path}/records`)).body.msg).toContain("is not hosted here");
  });

  test("a name that somebody else answers for is left to them, unless the reseller put their zone there", async () => {
    const { one } = palomar.users;
    for (const [domain, crm_id] of [
      ["split.example.org", "acme"],
      ["_domainkey.split.example.org", "neighbour"],
    ] as const) {
      await one.call("POST", "/dns/one/company", { crm_id, name: crm_id, apikey: `${crm_id}-key-of-16-characters` });
      expect((await one.call("POST", `/dns/one/master_zone/${domain}`, { ...zone, crm_id })).status).toBe(200);
    }
    const below = () => palomar.context.db("zones").where({ name: "_domainkey.split.example.org" });
    await below().update({ made_by: "company" });
    await operator.call("POST", "/instances/north/domains", { domain: "split.example.org" });
    const records = "/instances/north/domains/split.example.org/records";
    const refused = (await north.call("POST", records)).body;
    expect(refused.created.map(({ name }: { name: string }) => name)).not.toContain(
      "palomar._domainkey.split.example.org",
    );
    expect(refused.conflicts).toEqual(["palomar._domainkey.split.example.org lies in a zone of somebody else"]);
    await below().update({ made_by: "reseller" });
    const { created } = (await north.call("POST", records)).body;
    expect(created.map(({ name }: { name: string }) => name)).toContain("palomar._domainkey.split.example.org");
  });

  test("of another instance are not there", async () => {
    for (const path of ["/check", "/records"]) {
      const method = path === "/check" ? "GET" : "POST";
      expect((await south.call(method, `/instances/north/domains/north.example.org${path}`)).status).toBe(404);
      expect((await south.call(method, `/instances/south/domains/north.example.org${path}`)).status).toBe(
        method === "GET" ? 404 : 403,
      );
    }
  });
});
