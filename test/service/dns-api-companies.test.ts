import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { RESELLER_ONE, RESELLER_TWO, type RunningApi, startApi, zoneFields } from "../support/dns-api.ts";

let api: RunningApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

const company = (method: string, crmId: string, body?: unknown, as?: object) =>
  api.call(method, `/api/v1/company/${crmId}`, body, as);
const create = (body: unknown, as?: object) => api.call("POST", "/api/v1/company", body, as);

describe("creating a company", () => {
  test("cleans the key and stores crm_id in lower case", async () => {
    const { status, body } = await create({
      crm_id: "Acme-1_x",
      name: "Acme Inc.",
      apikey: " k e,y;1-of-the-company ",
    });
    expect(status).toBe(200);
    expect(body).toEqual({ crm_id: "acme-1_x", name: "Acme Inc.", apikey: "key1-of-the-company", suspended: false });
    expect((await company("GET", "ACME-1_X")).body).toEqual({ ...body, domains: 0 });
    expect((await company("GET", "acme-1_x", { crm_id: "acme-1_x" })).status).toBe(200);
  });

  test("keeps no key in clear", async () => {
    const row = await api.database.db("companies").where({ crm_id: "acme-1_x" }).first();
    expect(JSON.stringify(row)).not.toContain("key1-of-the-company");
  });

  test.each(["crm_id", "name", "apikey"])("names the missing field %s", async (field) => {
    const { status, body } = await create({ crm_id: "c", name: "n", apikey: "key-of-nobody-yet", [field]: undefined });
    expect([status, body]).toEqual([400, { msg: `missing field: ${field}` }]);
  });

  test.each([
    { crm_id: "a b" },
    { crm_id: "ñ" },
    { crm_id: "" },
    { crm_id: 7 },
    { crm_id: "x".repeat(1000) },
    { name: "" },
    { name: [] },
    { name: "x".repeat(10_000) },
    { apikey: " ,;" },
    { apikey: "clé-de-la-compañía-1" },
    { apikey: {} },
    { name: "a\0b" },
  ])("refuses %j", async (wrong) => {
    expect((await create({ crm_id: "c", name: "n", apikey: "key-of-nobody-yet", ...wrong })).status).toBe(400);
  });

  test.each([
    ["acme-key;-0,0 1", "must have at least 16 characters"],
    ["0123456789012345", "is too easy to guess: an estimated 36 of the 64 bits that it needs"],
    ["keykeykeykeykeykey", "is too easy to guess: an estimated 18 of the 64 bits that it needs"],
  ])("refuses the key %j, which somebody could guess", async (apikey, reason) => {
    const { status, body } = await create({ crm_id: "c", name: "n", apikey });
    expect([status, body]).toEqual([400, { msg: `invalid field: apikey: ${reason}` }]);
  });

  test("refuses one that exists, in any case", async () => {
    const { status, body } = await create({ crm_id: "acme-1_x", name: "n", apikey: "another-api-key-0001" });
    expect([status, body]).toEqual([400, { msg: "Company acme-1_x already exists" }]);
    expect((await create({ crm_id: "ACME-1_X", name: "n", apikey: "another-api-key-0001" })).status).toBe(400);
    const taken = await create({ crm_id: "acme-1_x", name: "n", apikey: RESELLER_ONE.key });
    expect(taken.body).toEqual({ msg: "Company acme-1_x already exists" });
    expect((await create({ crm_id: "acme-1_x", name: "n", apikey: "key1-of-the-company" }, RESELLER_TWO)).status).toBe(
      200,
    );
  });

  test("refuses the reseller's key and another company's", async () => {
    expect((await create({ crm_id: "c", name: "n", apikey: RESELLER_ONE.key })).status).toBe(400);
    expect((await create({ crm_id: "c", name: "n", apikey: "k;ey1-of-the-company" })).status).toBe(400);
  });
});

test("lists companies with their zones counted", async () => {
  await create({ crm_id: "beta", name: "Beta", apikey: "beta-api-key-0001" });
  for (const fqdn of ["one.example.org", "two.example.org"]) {
    await api.call("POST", `/api/v1/master_zone/${fqdn}`, zoneFields({ crm_id: "beta" }));
  }
  await api.call("PUT", "/api/v1/suspend_zone/two.example.org", { crm_id: "beta" });
  const { body } = await api.call("GET", "/api/v1/companies");
  expect(body).toEqual({
    companies: [
      { crm_id: "acme-1_x", name: "Acme Inc.", suspended: false, domains: 0 },
      { crm_id: "beta", name: "Beta", suspended: false, domains: 2 },
    ],
  });
});

test("the texts for companies that do not exist", async () => {
  expect((await company("GET", "nobody")).body).toEqual({ msg: "nobody does not exist" });
  expect((await company("PUT", "nobody", { name: "x" })).body).toEqual({ msg: "Company nobody does not exist" });
  expect((await company("DELETE", "nobody", { apikey: "x" })).body).toEqual({ msg: "Company nobody does not exist" });
  expect((await company("GET", "beta", undefined, RESELLER_TWO)).body).toEqual({ msg: "beta does not exist" });
});

describe("modifying a company", () => {
  test("changes only what is given, crm_id itself included", async () => {
    await create({ crm_id: "gamma", name: "Gamma", apikey: "gamma-api-key-0001" });
    expect((await company("PUT", "gamma", { name: "Gamma Ltd" })).body).toMatchObject({ name: "Gamma Ltd" });
    expect((await company("PUT", "gamma", {})).body).toMatchObject({ name: "Gamma Ltd", apikey: "gamma-api-key-0001" });
    const renamed = await company("PUT", "GAMMA", { crm_id: "Delta", apikey: "delta api-key-0001" });
    expect(renamed.body).toEqual({
      crm_id: "delta",
      name: "Gamma Ltd",
      apikey: "deltaapi-key-0001",
      suspended: false,
      domains: 0,
    });
    expect((await company("GET", "gamma")).status).toBe(400);
    const as = (key: string) => api.call("GET", "/api/v1/domain_list", undefined, { reseller: "one", key });
    expect((await as("deltaapi-key-0001")).status).toBe(200);
    expect((await as("gamma-api-key-0001")).status).toBe(403);
  });

  test("refuses what is taken and what is wrong", async () => {
    expect((await company("PUT", "delta", { crm_id: "BETA" })).body).toEqual({ msg: "Company BETA already exists" });
    expect((await company("PUT", "delta", { apikey: "beta-api-key-0001" })).status).toBe(400);
    expect((await company("PUT", "delta", { apikey: RESELLER_ONE.key })).status).toBe(400);
    expect((await company("PUT", "delta", { suspended: "yes" })).status).toBe(400);
    expect((await company("PUT", "delta", { name: "same", apikey: "deltaapi-key-0001", crm_id: "delta" })).status).toBe(
      200,
    );
  });

  test("writes suspended to every zone, and the key keeps working", async () => {
    const beta = { reseller: "one", key: "beta-api-key-0001" };
    const list = async () => (await api.call("GET", "/api/v1/domain_list", undefined, beta)).body.domain_list.length;
    expect(await list()).toBe(1);
    expect((await company("PUT", "beta", { suspended: true })).body.suspended).toBe(true);
    expect(await list()).toBe(0);
    const created = await api.call(
      "POST",
      "/api/v1/master_zone/three.example.org",
      zoneFields({ crm_id: "beta" }),
      beta,
    );
    expect(created.body.suspended).toBe(false);
    expect(await list()).toBe(0);
    expect((await api.call("GET", "/api/v1/soa/one.example.org", undefined, beta)).body.suspended).toBe(true);
    await api.call("PUT", "/api/v1/resume_zone/one.example.org", { crm_id: "beta" }, beta);
    expect(await list()).toBe(0);
    await company("PUT", "beta", { suspended: false });
    expect(await list()).toBe(3);
  });
});

describe("deleting a company", () => {
  test("needs its key as confirmation", async () => {
    expect((await company("DELETE", "beta", {})).body).toEqual({ msg: "missing field: apikey" });
    expect((await company("DELETE", "beta", { apikey: "wrong" })).status).toBe(400);
    expect((await company("DELETE", "beta", { apikey: RESELLER_ONE.key })).status).toBe(400);
    expect((await company("GET", "beta")).body.domains).toBe(3);
  });

  test("deletes its zones as well", async () => {
    const { status, body } = await company("DELETE", "Beta", { apikey: "beta -api-key-0001" });
    expect([status, body]).toEqual([200, { msg: "deleted", domains: 3 }]);
    expect((await company("GET", "beta")).status).toBe(400);
    expect((await api.call("GET", "/api/v1/soa/one.example.org")).status).toBe(400);
    expect(await api.database.db("zone_deletions")).toHaveLength(3);
    expect(await api.database.db("records")).toEqual([]);
  });
});

test.each([
  ["GET", "companies"],
  ["GET", "company/delta"],
  ["POST", "company", { crm_id: "e", name: "E", apikey: "e-company-api-key" }],
  ["PUT", "company/delta", { name: "x" }],
  ["DELETE", "company/delta", { apikey: "deltaapi-key-0001" }],
  ["GET", "acls"],
  ["GET", "resolver_blocks"],
  ["GET", "active_rpz"],
])("%s %s is not for company keys", async (method, path, body?: unknown) => {
  const answer = await api.call(method, `/api/v1/${path}`, body, { reseller: "one", key: "deltaapi-key-0001" });
  expect(answer.status).toBe(403);
  expect(Object.keys(answer.body)).toEqual(["msg"]);
});
