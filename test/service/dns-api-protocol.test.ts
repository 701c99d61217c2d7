import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { makeDnsEndpoints, makePowerdnsEndpoints } from "../../services/dns-api/app.ts";
import { CallerQuotas } from "../../services/dns-api/caller-quotas.ts";
import { LargeWork } from "../../services/dns-api/large-work.ts";
import { TokenCallers } from "../../services/dns-api/token-callers.ts";
import { ZoneAnnouncer } from "../../services/dns-api/zone-announcer.ts";
import { TogetherChanges } from "../../services/operations/dns/together-changes.ts";
import { FairTurns } from "../../services/platform/fair-turns.ts";
import { openListenConnection } from "../../services/platform/postgres/db.ts";
import { addAcl } from "../../services/store/dns/acls.ts";
import { putResolverBlock } from "../../services/store/dns/resolver-blocks.ts";
import { ZONES_CHANNEL } from "../../services/store/dns/zone-notices.ts";
import { callApi } from "../support/api-client.ts";
import {
  KEY_RING,
  RESELLER_ONE,
  RESELLER_TWO,
  type RunningApi,
  startApi,
  startApiWithCompany,
  zoneFields,
} from "../support/dns-api.ts";
import { expectNoFailure, sendOctets } from "../support/hostile-http.ts";

let api: RunningApi;
beforeAll(async () => {
  api = await startApiWithCompany();
});
afterAll(() => api.stop());

describe("checks come in order", () => {
  const stranger = { reseller: "one", key: "wrong" };

  test("path, method, credentials, JSON and fields", async () => {
    expect((await api.call("GET", "/api/v1/nothing", undefined, stranger)).status).toBe(404);
    expect((await api.call("GET", "/api/v1/nothing")).body).toEqual({ msg: expect.any(String) });
    expect((await api.call("GET", "/api/v1/Domain_List")).status).toBe(404);
    const wrongMethod = await api.call("PATCH", "/api/v1/domain_list", undefined, stranger);
    expect(wrongMethod.status).toBe(405);
    expect(wrongMethod.body).toEqual({ msg: expect.any(String) });
    expect((await api.call("POST", "/api/v1/company", "{not json", stranger)).status).toBe(403);
    expect((await api.call("POST", "/api/v1/company", "{not json")).status).toBe(400);
    expect((await api.call("POST", "/api/v1/company", "[]")).status).toBe(400);
    expect((await api.call("POST", "/api/v1/company", '"text"')).status).toBe(400);
  });

  test("takes no part of a path for what it is not", async () => {
    const path = "/api/v1/update_soa/acme/escaped.example.org/ns1.example.net/%FF/9/7200/900/1209600/300/3600";
    expect(await api.call("POST", path)).toMatchObject({
      status: 400,
      body: { msg: "invalid field: rname: must be percent-encoded UTF-8" },
    });
    expect((await api.call("POST", path, undefined, {})).status).toBe(403);
  });

  test.each([
    {},
    { reseller: "one" },
    { key: RESELLER_ONE.key },
    { reseller: "two", key: RESELLER_ONE.key },
    { reseller: "one", key: "" },
    { reseller: "nobody", key: "acme-api-key-0001" },
    { reseller: "two", key: "acme-api-key-0001" },
  ])("refuses the credentials %j", async (as) => {
    const { status, body } = await api.call("GET", "/api/v1/domain_list", undefined, as);
    expect([status, Object.keys(body)]).toEqual([403, ["msg"]]);
  });

  test("takes the key bare and after Bearer, and a trailing slash", async () => {
    const bearer = { reseller: "one", key: `Bearer ${RESELLER_ONE.key}` };
    expect((await api.call("GET", "/api/v1/domain_list/", undefined, bearer)).status).toBe(200);
  });

  test("bounds bodies", async () => {
    const small = await startApi({ PALOMAR_API_BODY_LIMIT: "1KiB" });
    const { status, body } = await small.call("POST", "/api/v1/company", { crm_id: "x".repeat(2000) });
    expect([status, Object.keys(body)]).toEqual([413, ["msg"]]);
    expect((await small.call("PUT", "/api/v1/zone_file/a.example.org", "x".repeat(2000))).status).toBe(413);
    await small.stop();
  });

  test("says in which codings a body may come", async () => {
    const headers = { Authorization: RESELLER_ONE.key, Reseller: "one", "Content-Encoding": "zstd" };
    const answer = await callApi("POST", `${api.url}/api/v1/company`, headers, "{}");
    expect(answer).toMatchObject({
      status: 415,
      headers: { "accept-encoding": "identity, gzip, deflate, br" },
      body: { msg: "unknown Content-Encoding, use identity, gzip, deflate, br" },
    });
  });

  const TOO_LARGE = "the header fields are too large";
  const EXPECTATION = "the expectation cannot be met";

  test("answers what is no request in its own words", async () => {
    const cases: [string, number, string][] = [
      ["GARBAGE\r\n\r\n", 400, "malformed HTTP request"],
      ["GET /api/v1/companies HTTP/1.1\r\n\r\n", 400, "malformed HTTP request"],
      [`GET / HTTP/1.1\r\nHost: a\r\nX: ${"x".repeat(20_000)}\r\n\r\n`, 431, TOO_LARGE],
      ["GET / HTTP/1.1\r\nHost: a\r\nExpect: a-miracle\r\n\r\n", 417, EXPECTATION],
      [
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        400,
        "malformed HTTP request",
      ],
    ];
    for (const [octets, status, msg] of cases) {
      const answer = await sendOctets(api.url, octets);
      expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
      expect(JSON.parse(answer.slice(answer.indexOf("\r\n\r\n") + 4))).toEqual({ msg });
    }
  });

  test("answers it in the words of PowerDNS's API where its path is one of that API and is known", async () => {
    const zones = "/api/v1/servers/localhost/zones";
    const cases: [string, number, object][] = [
      [`GET ${zones} HTTP/1.1\r\n\r\n`, 400, { error: "malformed HTTP request" }],
      [`GET ${zones}?a=b HTTP/1.1\r\nHost: a\r\n${"W: b\r\n".repeat(100)}\r\n`, 431, { error: TOO_LARGE }],
      [`GET http://a${zones} HTTP/1.1\r\nHost: a\r\nExpect: a-miracle\r\n\r\n`, 417, { error: EXPECTATION }],
      [`GET ${zones} HTTP/1.1\r\nHost: a\r\nX: ${"x".repeat(20_000)}\r\n\r\n`, 431, { msg: TOO_LARGE }],
    ];
    for (const [octets, status, body] of cases) {
      const answer = await sendOctets(api.url, octets);
      expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
      expect(JSON.parse(answer.slice(answer.indexOf("\r\n\r\n") + 4))).toEqual(body);
      if ("error" in body) expect(answer).toMatch(/^content-type: application\/json\r$/im);
    }
  });

  test("answers what tries to confuse it, or who stands before it, as nothing worse than a refusal", async () => {
    const key = `Authorization: ${RESELLER_ONE.key}\r\nReseller: one\r\n`;
    await expectNoFailure(api.url, ["/api/v1/soa/example.org", "/api/v1/company", "/api/v1/domain_list", "/docs"], key);
    const powerdns = `X-API-Key: ${RESELLER_ONE.key}\r\n`;
    await expectNoFailure(api.url, ["/api/v1/servers/localhost/zones"], powerdns);
  });

  test("bounds requests of a key and wrong keys of a source", async () => {
    const limited = await startApi({ PALOMAR_API_REQUESTS_PER_SECOND: "5", PALOMAR_LIMIT_LOOPBACK: "true" });
    const ask = (as?: object) => limited.call("GET", "/api/v1/companies", undefined, as);
    const askedAt = performance.now();
    const answers = await Promise.all(Array.from({ length: 100 }, () => ask()));
    const seconds = Math.ceil((performance.now() - askedAt) / 1_000);
    const refused = answers.filter(({ status }) => status === 429);
    // Five for each second that has begun, however long the machine took for all of them.
    expect(answers.length - refused.length).toBeLessThanOrEqual(5 * (seconds + 1));
    expect(refused.length).toBeGreaterThan(0);
    expect(Number(refused[0]?.headers["retry-after"])).toBeGreaterThanOrEqual(1);
    expect((await ask(RESELLER_TWO)).status).toBe(200);
    for (let attempt = 0; attempt < 30; attempt += 1)
      expect((await ask({ ...RESELLER_TWO, key: "x" })).status).toBe(403);
    const { status, headers, body } = await ask({ ...RESELLER_TWO, key: "x" });
    expect([status, body]).toEqual([429, { msg: "too many requests" }]);
    expect(Number(headers["retry-after"])).toBeGreaterThanOrEqual(1);
    // Whoever had the right key there before is not shut out by a neighbour behind the same address.
    expect((await ask(RESELLER_TWO)).status).toBe(200);
    await limited.stop();
  });

  test("counts those behind a trusted proxy one by one, though the proxy is on this machine", async () => {
    const limited = await startApi({ PALOMAR_TRUSTED_PROXIES: "127.0.0.1" });
    const fail = (forwarded: string) =>
      callApi("GET", `${limited.url}/api/v1/companies`, { Authorization: "x", "X-Forwarded-For": forwarded });
    for (let attempt = 0; attempt < 30; attempt += 1) expect((await fail("192.0.2.1")).status).toBe(403);
    expect((await fail("192.0.2.1")).status).toBe(429);
    expect((await fail("192.0.2.2")).status).toBe(403);
    await limited.stop();
  });
});

describe("what the operator sets", () => {
  test("ACLs are shown without secrets", async () => {
    const tsig = { name: "transfer.example", algorithm: "hmac-sha256", secret: Buffer.from("a secret") } as const;
    const acl = { resellerId: "one", blocks: ["192.0.2.1/32", "2001:db8::/32"], notify: ["192.0.2.1:53"] };
    expect((await addAcl(api.database.db, KEY_RING, { ...acl, name: "b", tsig, zones: ["a.example.org"] })).ok).toBe(
      true,
    );
    expect((await addAcl(api.database.db, KEY_RING, { ...acl, name: "a", tsig: null, zones: null })).ok).toBe(true);
    expect((await addAcl(api.database.db, KEY_RING, { ...acl, name: "a", tsig: null, zones: null })).ok).toBe(false);
    expect((await addAcl(api.database.db, KEY_RING, { ...acl, name: "c", tsig, zones: null })).ok).toBe(false);
    const { body } = await api.call("GET", "/api/v1/acls");
    const blocks = ["192.0.2.1/32", "2001:db8::/32"];
    expect(body).toEqual({
      acls: [
        { name: "a", blocks, tsig: null, zones: null },
        { name: "b", blocks, tsig: { name: "transfer.example", algorithm: "hmac-sha256" }, zones: ["a.example.org"] },
      ],
    });
    expect((await api.call("GET", "/api/v1/acls", undefined, RESELLER_TWO)).body).toEqual({ acls: [] });
  });

  test("resolver blocks", async () => {
    await putResolverBlock(api.database.db, "one", { block: "192.0.2.0/24", description: "" });
    await putResolverBlock(api.database.db, "one", { block: "2001:db8::/32", description: "v6" });
    await putResolverBlock(api.database.db, "one", { block: "2001:db8::/32", description: "IPv6" });
    expect((await api.call("GET", "/api/v1/resolver_blocks")).body).toEqual({
      resolver_blocks: [
        { block: "192.0.2.0/24", description: "" },
        { block: "2001:db8::/32", description: "IPv6" },
      ],
    });
  });

  test("active policy zones, with the licence", async () => {
    const { db } = api.database;
    const name = Buffer.from("\x03rpz\x07example\0");
    const times = { refresh: 60, retry: 60, expire: 60, minimum: 60, ttl: 60 };
    const names = {
      name: "rpz.example",
      name_key: Buffer.from("example\0rpz\0"),
      apex: name,
      mname: name,
      rname: name,
    };
    const [{ id }] = await db("zones")
      .insert({ kind: "feed", serial_type: "numeric", serial: 12, ...names, ...times })
      .returning("id");
    await db("rpz_feeds").insert({ zone_id: id, rules: 3400 });
    await db("rpz_activations").insert({ zone_id: id, reseller_id: "two" });
    expect((await api.call("GET", "/api/v1/soa/rpz.example", undefined, RESELLER_TWO)).status).toBe(400);
    expect((await api.call("DELETE", "/api/v1/master_zone/rpz.example", undefined, RESELLER_TWO)).status).toBe(400);
    expect((await api.call("GET", "/api/v1/active_rpz")).status).toBe(403);
    expect((await api.call("GET", "/api/v1/active_rpz", undefined, RESELLER_TWO)).body).toEqual({
      active_rpz: [{ zone: "rpz.example", serial: 12, rules: 3400 }],
    });
  });
});

describe("the OpenAPI document", () => {
  test("describes every route, and nothing else", async () => {
    const { status, body } = await api.call("GET", "/openapi.json", undefined, {});
    expect(status).toBe(200);
    expect(body.openapi).toBe("3.1.0");
    const described = Object.entries(body.paths).flatMap(([path, item]) =>
      Object.keys(item as object).map((method) => `${method.toUpperCase()} ${path}`),
    );
    const { db } = api.database;
    const announcer = new ZoneAnnouncer(db, () => {});
    const context = {
      db,
      keyRing: KEY_RING,
      clock: api.clock,
      announcer,
      lookUpDs: async () => undefined,
      tokens: new TokenCallers({ db, keyRing: KEY_RING, clock: api.clock, observe: () => {} }),
      quotas: new CallerQuotas({ db, clock: api.clock, limitLoopback: false }),
      largeWork: new LargeWork(),
      followAllow: [],
      zoneTurns: new FairTurns({ atOnce: 1, perClient: 1 }),
      together: new TogetherChanges(db),
    };
    const doors = [
      ["/api/v1", makeDnsEndpoints(context)],
      ["/api/v1/servers", makePowerdnsEndpoints(context)],
    ] as const;
    const routes = doors.flatMap(([base, endpoints]) =>
      endpoints.map(({ method, path }) => `${method} ${base}${path.replaceAll(/:(\w+)/g, "{$1}")}`),
    );
    expect(described.sort()).toEqual(routes.sort());
    const bare = routes.map((route) => route.replace("/api/v1", "").replaceAll(/\{\w+\}/g, "*"));
    // OpenAPI 3.1 §4.8.8.2: templates that differ in the names of their parameters alone are the same path twice.
    const templates = Object.keys(body.paths).map((path) => path.replaceAll(/\{\w+\}/g, "*"));
    expect(new Set(templates).size).toBe(templates.length);
    const names = Object.values(body.paths).flatMap((item) =>
      Object.values(item as object).map(({ operationId }) => operationId),
    );
    expect(new Set(names).size).toBe(routes.length);
    expect(bare).toEqual(expect.arrayContaining(SPECIFIED));
    expect(body.paths["/api/v1/rr/{domain}"].post.requestBody.content["application/json"].schema.required).toEqual([
      "name",
      "type",
      "value",
    ]);
    const rollover = body.paths["/api/v1/dnssec/{domain}/rollover"].post.requestBody;
    expect(rollover).toMatchObject({
      required: true,
      content: { "application/json": { schema: { anyOf: [{ required: ["role"] }, { required: ["algorithm"] }] } } },
    });
    const rollOver = (fields?: object) => api.call("POST", "/api/v1/dnssec/example.org/rollover", fields);
    for (const none of [undefined, {}, { role: null }]) {
      expect(await rollOver(none)).toMatchObject({ status: 400, body: { msg: "missing field: role" } });
    }
    expect(body.paths["/api/v1/zone_file/{domain}"].get.responses["200"].content).toHaveProperty("text/dns");
  });

  test("every described operation is routed and guarded", async () => {
    const { body } = await api.call("GET", "/openapi.json", undefined, {});
    for (const [path, item] of Object.entries(body.paths)) {
      for (const method of Object.keys(item as object)) {
        const url = path.replaceAll(/\{\w+\}/g, "1");
        expect((await api.call(method.toUpperCase(), url, undefined, {})).status, `${method} ${path}`).toBe(
          path.startsWith("/api/v1/servers") ? 401 : 403,
        );
      }
    }
  });

  test("has a page that loads nothing from elsewhere", async () => {
    const { status, text } = await api.call("GET", "/docs", undefined, {});
    expect(status).toBe(200);
    expect(text).not.toMatch(/<script|src=|https?:\/\//);
  });
});

test("changes of publication are announced after they are committed", async () => {
  const listener = await openListenConnection(api.database.url, "test");
  const announced: string[] = [];
  listener.on("notification", ({ payload }) => announced.push(payload as string));
  await listener.query(`listen ${ZONES_CHANNEL}`);
  const zone = "announced.example.org";
  for (const [method, path, body] of [
    ["POST", `master_zone/${zone}`, zoneFields()],
    ["POST", `rr/${zone}`, { name: "www", type: "A", value: "192.0.2.1" }],
    ["PUT", `suspend_zone/${zone}`, { crm_id: "acme" }],
    ["PUT", "company/acme", { suspended: false }],
    ["DELETE", `master_zone/${zone}`, undefined],
  ] as const) {
    announced.length = 0;
    expect((await api.call(method, `/api/v1/${path}`, body)).status).toBe(200);
    await expect.poll(() => announced, { interval: 5, message: path }).toHaveLength(1);
  }
  await listener.end();
});

/** The operations of the specification. */
const SPECIFIED = [
  ...["GET /resolver_blocks", "GET /active_rpz", "GET /domain_list", "GET /acls", "GET /companies"],
  ...["GET /company/*", "POST /company", "PUT /company/*", "DELETE /company/*"],
  ...["POST /master_zone/*", "DELETE /master_zone/*", "PUT /suspend_zone/*", "PUT /resume_zone/*"],
  ...["GET /soa/*", "POST /update_soa/*/*/*/*/*/*/*/*/*/*"],
  ...["GET /rr/*", "POST /rr/*", "PUT /rr/*/*", "DELETE /rr/*/*", "POST /rr/*/batch"],
  ...["GET /zone_file/*", "PUT /zone_file/*", "GET /zone_history/*"],
];
