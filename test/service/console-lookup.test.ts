import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { start as startDnsApi } from "../../services/dns-api/main.ts";
import { start as startDnsServer } from "../../services/dns-server/main.ts";
import { addTrafficReport } from "../../services/store/dns/dns-traffic.ts";
import { type SignedIn, startConsole, type TestConsole } from "../support/console.ts";
import { askDns } from "../support/dns-client.ts";
import { operatorOf } from "../support/operator.ts";
import { eventually } from "../support/stack.ts";

let palomar: TestConsole;

const ZONE = {
  ...{ crm_id: "acme", mname: "ns1.example.net", rname: "hostmaster.example.net", serial_type: "numeric" },
  ...{ refresh: 7200, retry: 900, expire: 1_209_600, minimum: 300, ttl: 3600 },
};

beforeAll(async () => {
  palomar = await startConsole([startDnsApi, startDnsServer], { PALOMAR_DNS_UDP: "portable" });
  const { one } = palomar.users;
  await one.call("POST", "/dns/one/master_zone/example.org", ZONE);
  await one.call("POST", "/dns/one/rr/example.org", { name: "www", type: "A", value: "192.0.2.1" });
  const texts = Array.from({ length: 40 }, (_, index) => ({
    name: "long",
    type: "TXT",
    value: `${index} ${"x".repeat(200)}`,
  }));
  await one.call("POST", "/dns/one/rr/example.org/batch", { create: texts });
  await eventually(
    () => one.call("GET", "/lookup?name=www.example.org"),
    ({ body }) => body.answer?.length === 1,
  );
});
afterAll(async () => {
  await palomar.stop();
  expect(palomar.failures).toEqual([]);
});

/** A look-up; again where the server was too slow for the console's patience. */
const lookUp = (who: SignedIn, query: string) =>
  eventually(
    () => who.call("GET", `/lookup?${query}`),
    ({ body }) => body.code !== "dns-server-silent",
  );

describe("a look-up", () => {
  test("shows the answer over the wire, and what is stored beside it", async () => {
    const { body, status } = await lookUp(palomar.users.one, "name=WWW.example.org&type=a");
    expect(status).toBe(200);
    expect(body).toMatchObject({
      status: "NOERROR",
      flags: ["qr", "aa"],
      answer: [{ type: "A", ttl: 3600, value: "192.0.2.1" }],
      transport: "udp",
      server: await palomar.context.addressOf("dns"),
      milliseconds: expect.any(Number),
      stored: [{ name: "www.example.org.", type: "A", ttl: 3600, value: "192.0.2.1" }],
    });
  });

  test("of a suspended zone shows that only the store has it", async () => {
    const { one } = palomar.users;
    await one.call("PUT", "/dns/one/suspend_zone/example.org", { crm_id: "acme" });
    const asked = await eventually(
      () => one.call("GET", "/lookup?name=www.example.org"),
      ({ body }) => body.status === "REFUSED",
    );
    expect(asked.body).toMatchObject({ answer: [], stored: [{ value: "192.0.2.1" }] });
    await one.call("PUT", "/dns/one/resume_zone/example.org", { crm_id: "acme" });
    await eventually(
      () => one.call("GET", "/lookup?name=www.example.org"),
      ({ body }) => body.status === "NOERROR",
    );
  });

  test("goes on by TCP where the answer was cut off", async () => {
    const { body } = await lookUp(palomar.users.one, "name=long.example.org&type=TXT");
    expect(body).toMatchObject({ transport: "tcp", status: "NOERROR", answer: { length: 40 } });
  });

  test("shows what is stored to nobody else", async () => {
    const { two, acme, operator } = palomar.users;
    const stored = async (who: SignedIn) => (await lookUp(who, "name=example.org&type=SOA")).body.stored.length;
    expect(await stored(two)).toBe(0);
    expect(await stored(acme)).toBe(1);
    expect(await stored(operator)).toBe(1);
    expect((await palomar.users.north.call("GET", "/lookup?name=example.org")).status).toBe(403);
  });

  test.each([
    ["name=a..b", "name"],
    ["name=example.org&type=NONSENSE", "type"],
    ["type=A", "missing field: name"],
  ])("%s is refused", async (query, msg) => {
    const answer = await palomar.users.one.call("GET", `/lookup?${query}`);
    expect(answer.status).toBe(400);
    expect(answer.body.msg).toContain(msg);
  });

  test.each(["AXFR", "IXFR", "axfr", "TYPE252", "OPT", "TSIG", "TKEY", "MAILB"])(
    "of the type %s is refused",
    async (type) => {
      const answer = await palomar.users.one.call("GET", `/lookup?name=example.org&type=${type}`);
      expect(answer).toMatchObject({ status: 400, body: { code: "invalid-field", values: { field: "type" } } });
    },
  );

  test("of a name that is not there", async () => {
    const { body } = await lookUp(palomar.users.one, "name=missing.example.org&type=MX&dnssec=true");
    expect(body).toMatchObject({ status: "NXDOMAIN", answer: [], authority: [{ type: "SOA" }], stored: [] });
  });
});

test("the statistics show the rate, the codes and the busiest zones", async () => {
  const server = await palomar.context.addressOf("dns");
  const asking = setInterval(() => {
    askDns(server, "www.example.org", "A").catch(() => {});
    askDns(server, "missing.example.org", "A").catch(() => {});
  }, 50);
  try {
    const { body } = await eventually(
      () => palomar.users.operator.call("GET", "/dns_statistics"),
      // The rate is that of the last seconds: a report that is late leaves it at nothing until it comes.
      ({ body: { top_zones, rcodes, queries_per_second } }) =>
        top_zones.length > 0 && rcodes.NXDOMAIN > 10 && rcodes.NOERROR > 10 && queries_per_second > 1,
    );
    expect(body.top_zones).toEqual([{ domain: "example.org", queries: expect.any(Number) }]);
    expect(body.series.at(-1)).toEqual({ timestamp: expect.any(String), queries_per_second: expect.any(Number) });
  } finally {
    clearInterval(asking);
  }
});

test("the statistics show a reseller and a company what their own zones are asked, and nothing of others", async () => {
  const { one, two, acme, north } = palomar.users;
  palomar.clock.stand();
  const now = new Date(palomar.context.clock.nowMs());
  const zones = { "example.org": 300, "two.example.net": 900, "gone.example": 50 };
  const report = { source: randomUUID(), at: now, seconds: 5, queries: 5_000, rcodes: { 0: 5_000 }, zones };
  await addTrafficReport(palomar.database.db, report);
  const made = { crm_id: "acme", mname: "ns1.example.net", rname: "h.example.net", serial_type: "numeric" };
  const times = { refresh: 7200, retry: 900, expire: 1_209_600, minimum: 300, ttl: 3600 };
  await two.call("POST", "/dns/two/master_zone/two.example.net", { ...made, ...times });
  const told = async (who: typeof one) => (await who.call("GET", "/dns_statistics")).body;
  for (const owner of [one, acme]) {
    const { queries_per_second, rcodes, top_zones, series } = await told(owner);
    expect(top_zones).toEqual([{ domain: "example.org", queries: expect.any(Number) }]);
    expect(top_zones[0].queries).toBeGreaterThanOrEqual(300);
    expect(queries_per_second).toBeGreaterThanOrEqual(60);
    expect(queries_per_second).toBeLessThan(1_000);
    expect(rcodes).toBeNull();
    expect(series.at(-1).queries_per_second).toBeGreaterThan(0);
  }
  expect(await told(two)).toMatchObject({
    queries_per_second: 180,
    top_zones: [{ domain: "two.example.net", queries: 900 }],
  });
  expect((await north.call("GET", "/dns_statistics")).status).toBe(403);
});

describe("a look-up in a zone that not everybody may ask", () => {
  const FEED = "rpz.example";
  const statusOf = async (who: SignedIn, name: string, type = "CNAME") =>
    (await lookUp(who, `name=${name}&type=${type}`)).body.status;

  beforeAll(async () => {
    const operator = operatorOf(palomar.context);
    await operator("rpz", "feed", "add", FEED);
    await operator("rpz", "rule", "add", FEED, "qname:bad.example", "nxdomain");
    // Reseller one has the feed, and trusts the whole machine that the console runs on.
    await operator("rpz", "activate", FEED, "one");
    await operator("acl", "add", "one", "resolvers", "--block", "127.0.0.0/8");
    await operator("catalog", "add", "one", "catalog.example");
    const server = await palomar.context.addressOf("dns");
    await eventually(
      () => askDns(server, `bad.example.${FEED}`, "CNAME"),
      ({ answers = [] }) => answers.length > 0,
    );
    await eventually(
      () => askDns(server, "catalog.example", "SOA"),
      ({ answers = [] }) => answers.length > 0,
    );
  });

  test("tells another reseller and a company what it tells a stranger", async () => {
    const { two, acme } = palomar.users;
    for (const who of [two, acme]) {
      for (const name of [FEED, `bad.example.${FEED}`, `nothing.${FEED}`, "catalog.example", "x.catalog.example"]) {
        for (const type of ["SOA", "CNAME", "ANY", "DS"]) {
          const { body } = await lookUp(who, `name=${name}&type=${type}`);
          const stranger = await lookUp(who, `name=nobody-has.example&type=${type}`);
          expect({ ...body, milliseconds: 0 }).toEqual({ ...stranger.body, milliseconds: 0 });
          expect(body).toMatchObject({ status: "REFUSED", answer: [], authority: [], stored: [] });
        }
      }
    }
  });

  test("shows it to those whose own ACLs are for it, and to the operator", async () => {
    const { one, operator } = palomar.users;
    for (const who of [one, operator]) {
      expect(await statusOf(who, `bad.example.${FEED}`)).toBe("NOERROR");
      expect(await statusOf(who, "catalog.example", "SOA")).toBe("NOERROR");
    }
  });

  test("shows nothing any more when the ACL is for other zones, or the feed is not active", async () => {
    const { db } = palomar.database;
    await db("acls")
      .where({ reseller_id: "one" })
      .update({ zones: ["catalog.example"] });
    expect(await statusOf(palomar.users.one, `bad.example.${FEED}`)).toBe("REFUSED");
    expect(await statusOf(palomar.users.one, "catalog.example", "SOA")).toBe("NOERROR");
    await db("acls").where({ reseller_id: "one" }).update({ zones: null });
    await eventually(
      () => statusOf(palomar.users.one, `bad.example.${FEED}`),
      (status) => status === "NOERROR",
    );
    await operatorOf(palomar.context)("rpz", "deactivate", FEED, "one");
    expect(await statusOf(palomar.users.one, `bad.example.${FEED}`)).toBe("REFUSED");
  });
});
