import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { RESELLER_TWO, type RunningApi, startApi, zoneFields } from "../support/dns-api.ts";

let api: RunningApi;
const ACME = { reseller: "one", key: "acme-api-key-0001" };
const OTHER = { reseller: "one", key: "other-api-key-0001" };

beforeAll(async () => {
  api = await startApi();
  for (const crm_id of ["acme", "other"]) {
    await api.call("POST", "/api/v1/company", { crm_id, name: crm_id, apikey: `${crm_id}-api-key-0001` });
  }
  await api.call(
    "POST",
    "/api/v1/company",
    { crm_id: "theirs", name: "Theirs", apikey: "their-api-key-0001" },
    RESELLER_TWO,
  );
});
afterAll(() => api.stop());

const create = (fqdn: string, overrides: Record<string, unknown> = {}, as?: object) =>
  api.call("POST", `/api/v1/master_zone/${fqdn}`, zoneFields(overrides), as);

async function domainList(as?: object): Promise<string[]> {
  const { body } = await api.call("GET", "/api/v1/domain_list", undefined, as);
  return body.domain_list.map(({ domain }: { domain: string }) => domain);
}

describe("creating a zone", () => {
  test("answers as Read SOA does, and enters mname as NS", async () => {
    const created = await create("made.example.org");
    expect(created.status).toBe(200);
    expect(created.body).toEqual({
      domain: "made.example.org",
      crm_id: "acme",
      mname: "ns1.example.net",
      rname: "hostmaster.example.net",
      serial: 1,
      serial_type: "numeric",
      refresh: 7200,
      retry: 900,
      expire: 1_209_600,
      minimum: 300,
      ttl: 3600,
      suspended: false,
    });
    expect((await api.call("GET", "/api/v1/soa/made.example.org")).body).toEqual(created.body);
    const { body } = await api.call("GET", "/api/v1/rr/made.example.org");
    expect(body).toEqual({
      domain: "made.example.org",
      serial: 1,
      rr: [{ rr_id: expect.any(Number), name: "@", type: "NS", ttl: 3600, rr_prio: null, value: "ns1.example.net." }],
    });
  });

  test("takes names in any case, with a final dot, and as U-labels", async () => {
    expect((await create("CASE.Example.ORG.", { crm_id: "ACME" })).body).toMatchObject({
      domain: "case.example.org",
      crm_id: "acme",
    });
    expect((await create(encodeURIComponent("señal.example.org"))).body.domain).toBe("xn--seal-hqa.example.org");
    expect((await api.call("GET", "/api/v1/soa/Case.example.org.")).status).toBe(200);
  });

  test.each(["crm_id", "mname", "rname", "refresh", "retry", "expire", "minimum", "ttl", "serial_type"])(
    "names the missing field %s, null included",
    async (field) => {
      for (const absent of [undefined, null]) {
        const { status, body } = await create("missing.example.org", { [field]: absent });
        expect([status, body]).toEqual([400, { msg: `missing field: ${field}` }]);
      }
    },
  );

  test.each([
    [{ mname: "-bad-.example.net" }, "mname"],
    [{ mname: "under_score.example.net" }, "mname"],
    [{ mname: "192.0.2.1" }, "mname"],
    [{ mname: "" }, "mname"],
    [{ rname: "hostmaster@example.net" }, "rname"],
    [{ refresh: -1 }, "refresh"],
    [{ retry: 1.5 }, "retry"],
    [{ expire: 2 ** 31 }, "expire"],
    [{ minimum: "300" }, "minimum"],
    [{ ttl: true }, "ttl"],
    [{ serial_type: "random" }, "serial_type"],
    [{ serial: 2 ** 32 }, "serial"],
    [{ serial_type: "calendar", serial: 12 }, "serial"],
    [{ serial_type: "calendar", serial: 2999010100 }, "serial"],
  ])("refuses %j and names the field", async (overrides, field) => {
    const { status, body } = await create("wrong.example.org", overrides);
    expect(status).toBe(400);
    expect(body.msg).toContain(field);
    expect((await api.call("GET", "/api/v1/soa/wrong.example.org")).status).toBe(400);
  });

  test.each([
    "bad..example.org",
    `${"a".repeat(64)}.example.org`,
    "exa%20mple.org",
    "a%40b.example.org",
    "%00.example.org",
    "1.2.0.192.in-addr.arpa",
    "2.0.192.0.in-addr.arpa",
    "192.in-addr.arpa",
    "in-addr.arpa",
    "ip6.arpa",
  ])("refuses the name %s", async (fqdn) => {
    expect((await create(fqdn)).status).toBe(400);
  });

  test.each(["2.0.192.in-addr.arpa.", "_msdcs.example.org", "xn--seal-hqa.example.net"])(
    "takes the name %s",
    async (fqdn) => {
      expect((await create(fqdn)).status).toBe(200);
    },
  );

  test("knows reverse zones, which take NS and PTR only", async () => {
    expect((await create("100.51.198.in-addr.arpa")).status).toBe(200);
    expect((await create("8.b.d.0.1.0.0.2.ip6.arpa")).status).toBe(200);
    expect((await create("300.51.198.in-addr.arpa")).status).toBe(400);
    expect((await create("x.8.b.d.0.1.0.0.2.ip6.arpa")).status).toBe(400);
    const add = (record: object) => api.call("POST", "/api/v1/rr/100.51.198.in-addr.arpa", record);
    expect((await add({ name: "7", type: "PTR", value: "host.example.org." })).status).toBe(200);
    expect((await add({ name: "7", type: "A", value: "192.0.2.1" })).status).toBe(400);
    const { body } = await api.call("GET", "/api/v1/domain_list");
    const listed = (domain: string) => body.domain_list.find((zone: { domain: string }) => zone.domain === domain);
    expect(listed("100.51.198.in-addr.arpa").reverse).toBe(true);
    expect(listed("8.b.d.0.1.0.0.2.ip6.arpa").reverse).toBe(true);
    expect(listed("made.example.org")).toEqual({ domain: "made.example.org", crm_id: "acme", reverse: false });
  });

  test("refuses a duplicate, whoever has the zone", async () => {
    const duplicated = [400, { msg: "duplicated zone: made.example.org" }];
    for (const [as, crm_id] of [
      [undefined, "acme"],
      [undefined, "other"],
      [RESELLER_TWO, "theirs"],
      [OTHER, "other"],
    ] as const) {
      const { status, body } = await create("made.example.org", { crm_id }, as);
      expect([status, body]).toEqual(duplicated);
    }
  });

  test("refuses a name below another reseller's zone, but for what the operator allows", async () => {
    const { status, body } = await create("below.made.example.org", { crm_id: "theirs" }, RESELLER_TWO);
    expect([status, body]).toEqual([400, { msg: "duplicated zone: below.made.example.org" }]);
    await api.database.db("zone_permissions").insert({ name: "allowed.made.example.org", reseller_id: "two" });
    expect((await create("allowed.made.example.org", { crm_id: "theirs" }, RESELLER_TWO)).status).toBe(200);
    expect((await create("x.allowed.made.example.org", { crm_id: "theirs" }, RESELLER_TWO)).status).toBe(200);
    expect((await create("y.allowed.made.example.org")).status).toBe(400);
    expect((await create("below.made.example.org", { crm_id: "other" })).status).toBe(200);
  });

  test("allows a name above another reseller's zone", async () => {
    expect((await create("deep.above.example.net", { crm_id: "theirs" }, RESELLER_TWO)).status).toBe(200);
    expect((await create("above.example.net")).status).toBe(200);
  });

  test("refuses a company that is not there, and to a company key every other company", async () => {
    expect((await create("nobody.example.org", { crm_id: "nobody" })).body).toEqual({
      msg: "Company nobody does not exist",
    });
    expect((await create("nobody.example.org", { crm_id: "other" }, ACME)).status).toBe(400);
    expect((await create("own.example.org", { crm_id: "acme" }, ACME)).status).toBe(200);
  });

  test("warns of an mname without an address in the zone", async () => {
    const { body } = await create("warned.example.org", { mname: "ns1.warned.example.org" });
    expect(body.warnings.some((warning: string) => warning.startsWith("mname "))).toBe(true);
  });

  test("warns of a name that BIND refuses the NS records of", async () => {
    const { body } = await create("*.warned.example.org");
    expect(body.warnings).toEqual([expect.stringMatching(/^\*\.warned\.example\.org\. is a wildcard with NS records/)]);
  });

  test("gives calendar zones today's first serial, or the one asked for", async () => {
    api.clock.set("2026-11-20T23:30:00Z");
    expect((await create("calendar.example.org", { serial_type: "calendar" })).body.serial).toBe(2026112000);
    const given = await create("given.example.org", { serial_type: "calendar", serial: 2026112042 });
    expect(given.body.serial).toBe(2026112042);
    expect((await create("numeric.example.org", { serial: 4294967295 })).body.serial).toBe(4294967295);
    const { body } = await api.call("POST", "/api/v1/rr/numeric.example.org", {
      name: "a",
      type: "A",
      value: "192.0.2.1",
    });
    expect(body.serial).toBe(0);
  });
});

describe("visibility", () => {
  test.each([
    ["GET", "soa/%"],
    ["GET", "rr/%"],
    ["POST", "rr/%", { name: "a", type: "A", value: "192.0.2.1" }],
    ["POST", "rr/%/batch", {}],
    ["PUT", "rr/%/1", {}],
    ["DELETE", "rr/%/1"],
    ["DELETE", "master_zone/%"],
    ["PUT", "suspend_zone/%", { crm_id: "acme" }],
    ["PUT", "resume_zone/%", { crm_id: "acme" }],
    ["GET", "zone_file/%"],
    ["PUT", "zone_file/%", ""],
    ["GET", "zone_history/%"],
    ["POST", "update_soa/acme/%/ns1.example.net/hostmaster.example.net/9/1/1/1/1/1"],
  ])("%s %s answers alike for a stranger's zone, an absent one and no name", async (method, path, body?: unknown) => {
    const ask = (domain: string, as: object) => api.call(method, `/api/v1/${path.replace("%", domain)}`, body, as);
    for (const as of [RESELLER_TWO, OTHER]) {
      for (const domain of ["made.example.org", "never.example.org", "no\0name", "no..name"]) {
        const answer = await ask(encodeURIComponent(domain), as);
        expect([answer.status, answer.body]).toEqual([400, { msg: `${domain} does not exist` }]);
      }
    }
  });
});

describe("suspending and resuming", () => {
  test("takes the zone out of the list and puts it back, and leaves it readable and editable", async () => {
    await create("switch.example.org");
    const put = (action: string, crm_id: unknown, as?: object) =>
      api.call("PUT", `/api/v1/${action}_zone/switch.example.org`, { crm_id }, as);
    expect((await put("suspend", "ACME")).body).toEqual({ domain: "switch.example.org", suspended: true });
    expect((await put("suspend", "acme", ACME)).body).toEqual({ domain: "switch.example.org", suspended: true });
    expect(await domainList()).not.toContain("switch.example.org");
    expect((await api.call("GET", "/api/v1/soa/switch.example.org")).body.suspended).toBe(true);
    const record = { name: "www", type: "A", value: "192.0.2.1" };
    expect((await api.call("POST", "/api/v1/rr/switch.example.org", record)).body.serial).toBe(2);
    expect((await put("resume", "acme")).body).toEqual({ domain: "switch.example.org", suspended: false });
    expect(await domainList()).toContain("switch.example.org");
  });

  test("refuses a crm_id that does not own the zone, is missing, or is no string", async () => {
    const suspend = (body: object) => api.call("PUT", "/api/v1/suspend_zone/switch.example.org", body);
    expect((await suspend({ crm_id: "other" })).status).toBe(400);
    expect((await suspend({ crm_id: "nobody" })).status).toBe(400);
    expect((await suspend({})).body).toEqual({ msg: "missing field: crm_id" });
    expect((await suspend({ crm_id: 7 })).status).toBe(400);
  });
});

test("the list is in canonical order, and each key's own", async () => {
  const names = [
    "z.order.example.com",
    "a.order.example.com",
    "order.example.com",
    "Y.order.example.com",
    "example.co",
  ];
  for (const name of names) await create(name, { crm_id: "other" });
  const sorted = [
    "example.co",
    "order.example.com",
    "a.order.example.com",
    "y.order.example.com",
    "z.order.example.com",
  ];
  const mine = (await domainList(OTHER)).filter((name) => !name.endsWith("made.example.org"));
  expect(mine).toEqual(sorted);
  expect(await domainList(RESELLER_TWO)).toEqual([
    "deep.above.example.net",
    "allowed.made.example.org",
    "x.allowed.made.example.org",
  ]);
  expect(await domainList()).toEqual(expect.arrayContaining(sorted));
});

test("deleting a zone leaves no trace", async () => {
  await create("gone.example.org");
  await api.call("POST", "/api/v1/rr/gone.example.org", { name: "www", type: "A", value: "192.0.2.1" });
  const { id } = await api.database.db("zones").where({ name: "gone.example.org" }).first("id");
  const gone = await api.call("DELETE", "/api/v1/master_zone/gone.example.org");
  expect([gone.status, gone.body]).toEqual([200, { msg: "deleted" }]);
  for (const table of ["records", "zone_journal"]) {
    expect(await api.database.db(table).where({ zone_id: id })).toEqual([]);
  }
  expect(await api.database.db("zone_deletions").where({ zone_id: id })).toHaveLength(1);
  expect((await api.call("GET", "/api/v1/soa/gone.example.org")).status).toBe(400);
  expect((await create("gone.example.org")).body.serial).toBe(1);
  expect((await api.call("GET", "/api/v1/zone_history/gone.example.org")).body.history).toHaveLength(1);
});

describe("update_soa", () => {
  const update = (path: string, as?: object) => api.call("POST", `/api/v1/update_soa/${path}`, undefined, as);

  test("sets every field", async () => {
    await create("soa.example.org");
    const { status, body } = await update("ACME/soa.example.org/ns2.example.net./admin.example.net/7/1/2/3/4/5/");
    expect(status).toBe(200);
    expect(body).toEqual({
      domain: "soa.example.org",
      crm_id: "acme",
      mname: "ns2.example.net",
      rname: "admin.example.net",
      serial: 7,
      serial_type: "numeric",
      refresh: 1,
      retry: 2,
      expire: 3,
      minimum: 4,
      ttl: 5,
      suspended: false,
    });
    expect((await api.call("GET", "/api/v1/soa/soa.example.org")).body).toEqual(body);
  });

  test("refuses a serial that is behind, and adds one to an equal one", async () => {
    const at = (serial: number) => update(`acme/soa.example.org/ns1.example.net/h.example.net/${serial}/1/2/3/4/5`);
    expect((await at(6)).status).toBe(400);
    expect((await at(7)).body.serial).toBe(8);
    const leap = await at(2147483655);
    expect(leap.body.serial).toBe(2147483655);
    expect(leap.body.warnings).toEqual([
      expect.stringMatching(/^the serial goes from 8 to 2147483655, 2147483647 ahead: /),
    ]);
    expect((await at(8)).status).toBe(400);
    expect((await at(4294967295)).body.serial).toBe(4294967295);
    const around = await at(3);
    expect(around.body.serial).toBe(3);
    expect(around.body).not.toHaveProperty("warnings");
  });

  test.each([
    "other/soa.example.org/ns1.example.net/h.example.net/9/1/2/3/4/5",
    "nobody/soa.example.org/ns1.example.net/h.example.net/9/1/2/3/4/5",
    "acme/soa.example.org/ns1.example.net/h.example.net/x/1/2/3/4/5",
    "acme/soa.example.org/ns1.example.net/h.example.net/9/-1/2/3/4/5",
    "acme/soa.example.org/ns1.example.net/h.example.net/9/1/2/3/4/2147483648",
    "acme/soa.example.org/bad_name.example.net/h.example.net/9/1/2/3/4/5",
    "acme/soa.example.org/ns1.example.net/h%40example.net/9/1/2/3/4/5",
  ])("refuses %s", async (path) => {
    expect((await update(path)).status).toBe(400);
    expect((await api.call("GET", "/api/v1/soa/soa.example.org")).body.serial).toBe(3);
  });

  test("to a company key, only its own company", async () => {
    const path = "acme/soa.example.org/ns1.example.net/h.example.net/9/1/2/3/4/5";
    expect((await update(path, OTHER)).body).toEqual({ msg: "soa.example.org does not exist" });
    expect((await update(path, ACME)).body.serial).toBe(9);
  });
});
