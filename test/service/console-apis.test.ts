import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { makeDelegationToken } from "../../services/core/delegation-token.ts";
import { KeyRing } from "../../services/core/key-ring.ts";
import { start as startDnsApi } from "../../services/dns-api/main.ts";
import { start as startMailApi } from "../../services/mail-api/main.ts";
import { callApi } from "../support/api-client.ts";
import { startConsole, type TestConsole } from "../support/console.ts";

let palomar: TestConsole;

beforeAll(async () => {
  palomar = await startConsole([startDnsApi, startMailApi]);
});
afterAll(async () => {
  await palomar.stop();
  expect(palomar.failures).toEqual([]);
});

const ZONE = {
  ...{ crm_id: "acme", mname: "ns1.example.net", rname: "hostmaster.example.net", serial_type: "numeric" },
  ...{ refresh: 7200, retry: 900, expire: 1_209_600, minimum: 300, ttl: 3600 },
};

describe("the DNS API through a session", () => {
  test("a visitor who leaves in the middle of an answer disturbs nobody", async () => {
    const { one } = palomar.users;
    await one.call("POST", "/dns/one/master_zone/large.example.org", ZONE);
    const create = Array.from({ length: 8_000 }, (_, index) => ({
      name: `h${index}`,
      type: "TXT",
      value: "x".repeat(200),
    }));
    expect((await one.call("POST", "/dns/one/rr/large.example.org/batch", { create })).status).toBe(200);
    // Left at once, before the answer begins, while it comes, and after that.
    for (let visit = 0; visit < 20; visit += 1) {
      const leaving = new AbortController();
      const answer = fetch(`${palomar.url}/admin/v1/dns/one/rr/large.example.org`, {
        headers: { Cookie: one.cookie },
        signal: leaving.signal,
      });
      await Promise.all([answer.catch(() => {}), sleep(2 * visit).then(() => leaving.abort())]);
    }
    expect((await one.call("GET", "/dns/one/soa/large.example.org")).status).toBe(200);
    expect((await one.call("DELETE", "/dns/one/master_zone/large.example.org")).status).toBe(200);
  });

  test("as the reseller: the history names who was signed in, and the audit log has the change", async () => {
    const { one } = palomar.users;
    expect((await one.call("POST", "/dns/one/master_zone/example.org", ZONE)).status).toBe(200);
    const record = await one.call("POST", "/dns/one/rr/example.org", { name: "www", type: "A", value: "192.0.2.1" });
    expect(record).toMatchObject({ status: 200, body: { rr_id: expect.any(Number), serial: 2 } });
    const changed = await one.call("PUT", `/dns/one/rr/example.org/${record.body.rr_id}`, { ttl: 60 });
    expect(changed.status).toBe(200);
    const { history } = (await one.call("GET", "/dns/one/zone_history/example.org?limit=2")).body;
    expect(history.map(({ actor }: { actor: string }) => actor)).toEqual(["one", "one"]);
    const { audit } = (await one.call("GET", "/audit?limit=2")).body;
    expect(audit).toMatchObject([
      { actor: "one", action: "dns.put", object: `one/rr/example.org/${record.body.rr_id}` },
      { actor: "one", action: "dns.post", object: "one/rr/example.org" },
    ]);
  });

  test("shows a reseller's quotas, those of its companies, and to a company's user that company's alone", async () => {
    const { one, acme } = palomar.users;
    const namesOf = ({ body }: { body: { quotas: readonly { name: string }[] } }) =>
      body.quotas.map(({ name }) => name);
    expect(namesOf(await one.call("GET", "/dns/one/quota"))).toContain("acls");
    const ofCompany = await one.call("GET", "/dns/one/company/acme/quota");
    expect(namesOf(ofCompany)).not.toContain("acls");
    expect((await acme.call("GET", "/dns/one/quota")).body).toEqual(ofCompany.body);
    expect((await acme.call("GET", "/dns/one/company/acme/quota")).status).toBe(403);
  });

  test("as the operator for a reseller; the reseller reads of it", async () => {
    const { operator, one, two } = palomar.users;
    const made = await operator.call("POST", "/dns/one/company", {
      crm_id: "third",
      name: "Third",
      apikey: "third-api-key-0001",
    });
    expect(made).toMatchObject({ status: 200, body: { crm_id: "third" } });
    expect((await one.call("GET", "/audit?limit=1")).body.audit[0]).toMatchObject({
      actor: "operator",
      object: "one/company",
    });
    expect(JSON.stringify((await two.call("GET", "/audit")).body)).not.toContain("one/company");
  });

  test("as a company: its own zones, in company mode", async () => {
    const { acme, one } = palomar.users;
    await one.call("POST", "/dns/one/master_zone/other.example.org", { ...ZONE, crm_id: "other" });
    const list = (await acme.call("GET", "/dns/one/domain_list")).body.domain_list;
    expect(list.map(({ domain }: { domain: string }) => domain)).toEqual(["example.org"]);
    expect((await acme.call("GET", "/dns/one/companies")).status).toBe(403);
    expect((await acme.call("GET", "/dns/two/domain_list")).status).toBe(404);
    expect((await acme.call("GET", "/dns/one/rr/other.example.org")).status).toBe(400);
    await acme.call("POST", "/dns/one/rr/example.org", { name: "mail", type: "A", value: "192.0.2.2" });
    const { history } = (await acme.call("GET", "/dns/one/zone_history/example.org?limit=1")).body;
    expect(history[0].actor).toBe("acme");
  });

  test.each([
    ["two", 404],
    ["north", 403],
  ] as const)("%s gets nothing of reseller one", async (who, status) => {
    expect((await palomar.users[who].call("GET", "/dns/one/domain_list")).status).toBe(status);
  });

  test("refusals, methods, text bodies and types come and go as they are", async () => {
    const { one } = palomar.users;
    expect(await one.call("GET", "/dns/one/rr/missing.example.org")).toMatchObject({
      status: 400,
      body: { msg: "missing.example.org does not exist" },
    });
    expect((await one.call("DELETE", "/dns/one/company/acme", { apikey: "wrong" })).status).toBe(400);
    expect((await one.call("POST", "/dns/one/domain_list")).headers.allow).toContain("GET");
    const exported = await one.call("GET", "/dns/one/zone_file/example.org");
    expect(exported.headers["content-type"]).toContain("text/dns");
    expect(exported.body).toContain("www");
    const put = await one.call("PUT", "/dns/one/zone_file/example.org", exported.body, { "Content-Type": "text/dns" });
    expect(put).toMatchObject({ status: 200, body: { records: expect.any(Number) } });
    const refusals = (await one.call("GET", "/audit?limit=3")).body.audit;
    expect(refusals.map(({ action }: { action: string }) => action)).not.toContain("dns.delete");
    expect((await one.call("GET", "/dns/one/no/such/path")).status).toBe(404);
  });

  test("a change without the CSRF token is not passed on", async () => {
    const { cookie } = palomar.users.one;
    const answer = await palomar.call("DELETE", "/dns/one/master_zone/example.org", undefined, { Cookie: cookie });
    expect(answer).toMatchObject({ status: 403, body: { msg: "csrf token missing or wrong" } });
    expect((await palomar.users.one.call("GET", "/dns/one/soa/example.org")).status).toBe(200);
  });
});

test("a coding that the API does not read is refused with those that it does", async () => {
  const refused = await palomar.users.one.call("POST", "/dns/one/company", "{}", { "Content-Encoding": "zstd" });
  expect(refused).toMatchObject({ status: 415, headers: { "accept-encoding": "identity, gzip, deflate, br" } });
});

describe("what the API does not wait for", () => {
  const LARGE = JSON.stringify({ crm_id: "x".repeat(8 * 1024 * 1024) });

  test.each([
    ["an unknown path", "POST", "/dns/one/no/such/path", 404],
    ["a wrong method", "POST", "/dns/one/domain_list", 405],
    ["fields that are too long", "POST", "/dns/one/company", 400],
    ["the mail API", "POST", "/mail/north/no/such/path", 404],
  ])("a large body ends in the refusal, not in a broken connection: %s", async (_, method, path, status) => {
    expect(await palomar.users.operator.call(method, path, LARGE)).toMatchObject({ status });
  });

  test("a body above the limit is refused in the words of the API", async () => {
    const tooLarge = "x".repeat(33 * 1024 * 1024);
    expect(await palomar.users.operator.call("POST", "/dns/one/company", tooLarge)).toMatchObject({
      status: 413,
      body: { msg: "the request is too large" },
    });
    expect((await palomar.users.operator.call("POST", "/mail/north/grupo", tooLarge)).status).toBe(413);
  });
});

describe("the mail API through a session", () => {
  test("as the instance, and as the operator", async () => {
    const { north, operator } = palomar.users;
    expect(
      (await north.call("POST", "/mail/north/contacto/ann@example.org", { email: "ann@example.org" })).status,
    ).toBeLessThan(500);
    const made = await operator.call("POST", "/mail/north/grupo", { nombre: "friends" });
    expect(made).toMatchObject({ status: 200, body: { status: "ok" } });
    expect((await north.call("GET", "/audit?limit=1")).body.audit[0]).toMatchObject({
      actor: "operator",
      action: "mail.post",
      object: "north/grupo",
    });
  });

  test.each([
    ["south", 404],
    ["one", 403],
    ["acme", 403],
  ] as const)("%s gets nothing of instance north", async (who, status) => {
    expect((await palomar.users[who].call("GET", "/mail/north/filtros")).status).toBe(status);
  });
});

describe("GETs of the mail API that change something", () => {
  test("take the CSRF token, and are in the audit log", async () => {
    const { north } = palomar.users;
    await north.call("POST", "/mail/north/contacto/", { email: "bob@example.org" });
    const path = "/mail/north/invalidar/bob@example.org";
    expect((await north.call("GET", path)).body.msg).toBe("csrf token missing or wrong");
    const done = await north.call("GET", path, undefined, { "X-CSRF-Token": north.csrf });
    expect(done).toMatchObject({ status: 200, body: { msg: "bob@example.org invalidado" } });
    expect((await north.call("GET", "/audit?limit=1")).body.audit[0]).toMatchObject({
      action: "mail.invalidar",
      object: "north/bob@example.org",
    });
  });

  test.each(["/x/../invalidar/bob@example.org", "/x/%2e%2E/invalidar/bob@example.org"])(
    "%s leads nowhere",
    async (path) => {
      const { north } = palomar.users;
      const raw = await rawGet(`/admin/v1/mail/north${path}`, north.cookie);
      expect(raw).toMatch(/^HTTP\/1.1 404 /);
    },
  );
});

/** A request whose path no client tidies up. */
function rawGet(path: string, cookie: string): Promise<string> {
  const { hostname, port } = new URL(palomar.url);
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname);
    let text = "";
    socket.on("data", (chunk) => {
      text += chunk;
    });
    socket.on("error", reject);
    socket.on("end", () => resolve(text));
    socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\nCookie: ${cookie}\r\nConnection: close\r\n\r\n`);
  });
}

describe("a delegation token", () => {
  const KEY_RING = KeyRing.ofSecret("a secret for tests only");
  const dns = (token: string, path = "/domain_list") =>
    palomar.context
      .addressOf("dns_api")
      .then((url) => callApi("GET", `${url}/api/v1${path}`, { Authorization: `Console ${token}` }));
  const mail = (token: string) =>
    palomar.context
      .addressOf("mail_api")
      .then((url) => callApi("GET", `${url}/v1/filtros`, { Authorization: `Console ${token}` }));
  const forOne = { audience: "dns", login: "one", resellerId: "one" } as const;
  const forNorth = { audience: "mail", login: "north", instance: "north" } as const;

  test("opens the one API for a minute", async () => {
    const token = makeDelegationToken(KEY_RING, forOne, Date.now());
    expect((await dns(token)).status).toBe(200);
    expect((await mail(token)).status).toBe(403);
    expect((await mail(makeDelegationToken(KEY_RING, forNorth, Date.now()))).status).toBe(200);
    expect((await dns(makeDelegationToken(KEY_RING, forNorth, Date.now()))).status).toBe(403);
  });

  test.each([
    ["expired", makeDelegationToken(KEY_RING, forOne, Date.now() - 60_001)],
    ["of another deployment", makeDelegationToken(KeyRing.ofSecret("another secret of tests"), forOne, Date.now())],
    ["altered", `${makeDelegationToken(KEY_RING, forOne, Date.now())}A`],
    ["nonsense", "nonsense"],
    ["of a reseller that is gone", makeDelegationToken(KEY_RING, { ...forOne, resellerId: "gone" }, Date.now())],
    ["of a company that is gone", makeDelegationToken(KEY_RING, { ...forOne, crmId: "gone" }, Date.now())],
  ])("%s opens nothing", async (_, token) => {
    expect(await dns(token)).toMatchObject({ status: 403, body: { msg: "invalid credentials" } });
  });
});
