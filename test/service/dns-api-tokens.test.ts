import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { makeDelegationToken } from "../../services/core/delegation-token.ts";
import { TokenCallers } from "../../services/dns-api/token-callers.ts";
import type { ServiceContext } from "../../services/platform/service.ts";
import { addUser, deleteUser } from "../../services/store/console/users.ts";
import { addAcl } from "../../services/store/dns/acls.ts";
import { withAnswers } from "../support/answered-octets.ts";
import {
  type Answer,
  KEY_RING,
  makeZone,
  RESELLER_ONE,
  RESELLER_TWO,
  type RunningApi,
  startApiWithCompany,
  zoneFields,
} from "../support/dns-api.ts";
import { operatorOf } from "../support/operator.ts";

let api: RunningApi;
let zone: string;
let other: string;
let made = 0;

beforeAll(async () => {
  api = await startApiWithCompany();
  await api.call("POST", "/api/v1/company", { crm_id: "beta", name: "Beta", apikey: "beta-api-key-0001" });
  zone = await makeZone(api);
  other = await makeZone(api, { crm_id: "beta" });
});
afterAll(() => api.stop());

const ACME = { reseller: "one", key: "acme-api-key-0001" };

async function token(fields: object, as: { reseller?: string; key: string } = ACME): Promise<{ key: string }> {
  made += 1;
  const answer = await api.call("POST", "/api/v1/token", { name: `t${made}`, access: "write", ...fields }, as);
  expect(answer).toMatchObject({ status: 200 });
  return { key: answer.body.token };
}

const refused = (msg: string) => ({ status: 403, body: { msg } });
const last = () => `token t${made}: `;
const create = (as: { key: string }, name: string, type = "A", value = "192.0.2.1", domain = zone): Promise<Answer> =>
  api.call("POST", `/api/v1/rr/${domain}`, { name, type, value }, as);

describe("a token", () => {
  test("opens nothing where its end is neither a time to come nor none", async () => {
    const callers = new TokenCallers({ ...api, keyRing: KEY_RING, db: api.database.db, observe: () => {} });
    const caller = { token: { id: 1, name: "t", policy: {} } } as Parameters<TokenCallers["admit"]>[0]["caller"];
    for (const unread of [undefined, "03.02.2026 04:05:06 UTC", Number.POSITIVE_INFINITY, new Date(Number.NaN)]) {
      expect(() => callers.admit({ caller, expiresAt: unread as Date }, "192.0.2.1")).toThrow();
    }
    const past = new Date(api.clock.nowMs());
    expect(callers.admit({ caller, expiresAt: past }, "192.0.2.1")).toMatchObject({ ok: false });
    expect(callers.admit({ caller, expiresAt: null }, "192.0.2.1")).toMatchObject({ ok: true });
  });

  test("is listed among hundreds with long policies, a few at a time, each once", async () => {
    const names = Array.from(
      { length: 100 },
      (_, index) => `${"a".repeat(60)}.${"b".repeat(60)}.n${index}.example.org`,
    );
    const policy = JSON.stringify({ access: "read", networks: null, zones: null, names, types: null, verbs: [] });
    await api.database.db.raw(
      `insert into dns_tokens (reseller_id, company_id, name, policy, made_by, created_at)
       select 'one', c.id, 'many' || n, ?::jsonb, 'test', now() from companies c, generate_series(1, 120) n
        where c.crm_id in ('acme', 'beta')`,
      [policy],
    );
    const { value, largest } = await withAnswers(() => api.call("GET", "/api/v1/tokens", undefined, RESELLER_ONE));
    expect(largest).toBeLessThan(2 ** 20);
    const of = (crmId: string) => Array.from({ length: 120 }, (_, index) => `${crmId} many${index + 1}`);
    const listed: { name: string; crm_id: string; names: string[] }[] = value.body.tokens;
    const many = listed.filter(({ name }) => name.startsWith("many"));
    expect(new Set(many.map(({ name, crm_id }) => `${crm_id} ${name}`))).toEqual(
      new Set([...of("acme"), ...of("beta")]),
    );
    expect(many).toHaveLength(240);
    expect(many[0]!.names).toEqual(names);
    expect((await api.call("GET", "/api/v1/tokens", undefined, ACME)).body.tokens).toHaveLength(listed.length - 120);
    await api.database.db.raw("delete from dns_tokens where name like 'many%'");
  });

  test("is shown once, listed without its secret, and named in the history", async () => {
    const own = await token({ zones: [zone], names: ["_acme-challenge.**"], types: ["TXT"] });
    expect(own.key).toMatch(/^palomar_[\w-]{43}$/);
    expect(await create(own, "_acme-challenge", "TXT", "abc")).toMatchObject({ status: 200 });
    const listed = await api.call("GET", "/api/v1/tokens", undefined, ACME);
    expect(listed.text).not.toContain(own.key);
    expect(listed.body.tokens.at(-1)).toMatchObject({
      name: `t${made}`,
      crm_id: "acme",
      names: ["_acme-challenge.**"],
      verbs: ["create", "modify", "delete"],
      made_by: "company:acme",
      last_used_from: "127.0.0.1",
    });
    const history = await api.call("GET", `/api/v1/zone_history/${zone}`, undefined, ACME);
    expect(history.body.history[0].actor).toBe(`company:acme token:t${made}`);
    const { rows } = await api.database.db.raw("select * from dns_tokens");
    expect(JSON.stringify(rows)).not.toContain(own.key);
  });

  test("says which part of its policy refuses", async () => {
    const own = await token({ zones: [zone], names: ["_acme-challenge.**"], types: ["TXT"], verbs: ["create"] });
    expect(await create(own, "www", "TXT", "x")).toMatchObject(refused(`${last()}names: not for www.${zone}`));
    expect(await create(own, "_acme-challenge.x")).toMatchObject(refused(`${last()}types: not for A records`));
    expect(await create(own, "www", "A", "192.0.2.1", other)).toMatchObject(
      refused(`${last()}zones: not for ${other}`),
    );
    const added = await create(own, "_acme-challenge.del", "TXT", "x");
    expect(await api.call("DELETE", `/api/v1/rr/${zone}/${added.body.rr_id}`, undefined, own)).toMatchObject(
      refused(`${last()}verbs: it has no delete`),
    );
    expect(await api.call("PUT", `/api/v1/rr/${zone}/${added.body.rr_id}`, { value: "y" }, own)).toMatchObject(
      refused(`${last()}verbs: it has no modify`),
    );
    // By a whole file, and by a batch, nothing more is to be had.
    const file = await api.call("GET", `/api/v1/zone_file/${zone}`, undefined, ACME);
    expect(
      await api.call("PUT", `/api/v1/zone_file/${zone}`, `${file.text}www 60 IN A 192.0.2.9\n`, own),
    ).toMatchObject(refused(`${last()}names and types: this needs a token for all records of the zone`));
    const batch = { create: [{ name: "_acme-challenge.b", type: "TXT", value: "b" }], delete: [added.body.rr_id] };
    expect(await api.call("POST", `/api/v1/rr/${zone}/batch`, batch, own)).toMatchObject({ status: 403 });
    expect(
      await api.call("POST", `/api/v1/zone_preview/${zone}`, `${file.text}www 60 IN A 192.0.2.9\n`, own),
    ).toMatchObject({ status: 403 });
    expect(await api.call("GET", `/api/v1/zone_file/${zone}`, undefined, own)).toMatchObject(
      refused(`${last()}names and types: this needs a token for all records of the zone`),
    );
    expect(await api.call("PUT", `/api/v1/dnssec/${zone}`, { enabled: true }, own)).toMatchObject(
      refused(`${last()}verbs: it has no sign`),
    );
    expect(await api.call("DELETE", `/api/v1/master_zone/${zone}`, undefined, own)).toMatchObject(
      refused(`${last()}verbs: it has no zone_delete`),
    );
    const soa = await api.call("GET", `/api/v1/soa/${zone}`, undefined, own);
    expect(soa.status).toBe(200);
    const path = `acme/${zone}/ns1.example.net/hostmaster.example.net/${soa.body.serial + 1}/7200/900/1209600/300/3600`;
    expect(await api.call("POST", `/api/v1/update_soa/${path}`, undefined, own)).toMatchObject({ status: 403 });
  });

  test("is not told by what speaks against a change what is at a name that it is not for", async () => {
    const own = await token({ zones: [zone], names: ["_acme-challenge.**"], types: ["TXT"] });
    const mine = await create(own, "_acme-challenge.mine", "TXT", "x");
    await create(ACME, "secret", "TXT", "there");
    const foreign = refused(`${last()}names: not for secret.${zone}`);
    for (const [type, value] of [
      ["TXT", "there"],
      ["TXT", "other"],
      ["CNAME", "a.example.net."],
    ] as const) {
      const fields = { name: "secret", type, value };
      expect(await create(own, "secret", type, value)).toMatchObject(foreign);
      for (const path of [`rr/${zone}/batch`, `zone_preview/${zone}`]) {
        expect(await api.call("POST", `/api/v1/${path}`, { create: [fields] }, own)).toMatchObject({ status: 403 });
      }
    }
    const moved = { name: "secret", value: "there" };
    expect(await api.call("PUT", `/api/v1/rr/${zone}/${mine.body.rr_id}`, moved, own)).toMatchObject(foreign);
  });

  test("is not told of what it may not read, whatever it asks for by an id, a file or a serial", async () => {
    const own = await token({ zones: [zone], names: ["_acme-challenge.**"], types: ["TXT"] });
    const hidden = await create(ACME, "unseen", "A", "192.0.2.77");
    const unseen: number = hidden.body.rr_id;
    const alias = { name: "followed", target: "target.example.net" };
    const follower = await api.call("POST", `/api/v1/alias/${zone}`, alias, ACME);
    expect(follower.status).toBe(200);
    const absent = 2 ** 40;
    const said = async (method: string, path: string, fields?: unknown) => {
      const { status, body } = await api.call(method, `/api/v1/${path}`, fields, own);
      return `${status} ${body.msg}`;
    };
    for (const value of ["192.0.2.77", "192.0.2.78"]) {
      expect(await said("PUT", `rr/${zone}/${unseen}`, { value })).toBe(`400 record ${unseen} does not exist`);
      const batch = { modify: [{ rr_id: unseen, value }] };
      expect(await said("POST", `rr/${zone}/batch`, batch)).toMatch(`400 record ${unseen} does not exist`);
    }
    expect(await said("DELETE", `rr/${zone}/${unseen}`)).toBe(`400 record ${unseen} does not exist`);
    expect(await said("DELETE", `rr/${zone}/${absent}`)).toBe(`400 record ${absent} does not exist`);
    const { alias_id } = follower.body;
    for (const id of [alias_id, absent]) {
      expect(await said("DELETE", `alias/${zone}/${id}`)).toBe(`400 alias ${id} does not exist`);
    }
    const needsAll = `403 ${last()}names and types: this needs a token for all records of the zone`;
    expect(await said("POST", `zone_rollback/${zone}`, { serial: 1 })).toBe(needsAll);
    const file = await api.call("GET", `/api/v1/zone_file/${zone}`, undefined, ACME);
    for (const text of [file.text, "$TTL 60\n"]) {
      expect(await said("POST", `zone_preview/${zone}`, text)).toBe(needsAll);
    }
    // Its neighbours at a name that it is for are seen to all the same.
    const twice = await create(own, "_acme-challenge.unseen", "TXT", "x");
    expect(await said("PUT", `rr/${zone}/${twice.body.rr_id}`, { value: "y" })).toMatch(/^200 /);
  });

  test("reads what its policy is for, and nothing else", async () => {
    const own = await token({ zones: [zone], names: [`ns-only.${zone}`], access: "read" });
    await create(ACME, "ns-only", "TXT", "seen");
    await create(ACME, "hidden", "TXT", "not seen");
    const list = await api.call("GET", `/api/v1/rr/${zone}`, undefined, own);
    expect(list.body.rr.map(({ name }: { name: string }) => name)).toEqual(["ns-only"]);
    await makeZone(api);
    const domains = await api.call("GET", "/api/v1/domain_list", undefined, own);
    expect(domains.body.domain_list.map(({ domain }: { domain: string }) => domain)).toEqual([zone]);
    expect(await create(own, "ns-only", "TXT", "more")).toMatchObject(
      refused(`${last()}verbs: it has no create, modify, delete`),
    );
    const nothing = await token({ zones: [zone], names: [`none.${zone}`], access: "read" });
    expect((await api.call("GET", `/api/v1/rr/${zone}`, undefined, nothing)).body.rr).toEqual([]);
  });

  test.each<[string, object, string]>([
    ["zones", { zones: ["*.tokens.example"] }, "zones: this needs a token for all zones"],
    ["names", { names: ["_acme-challenge.**"] }, "names and types: this needs a token for all records of the zone"],
    ["types", { types: ["TXT"] }, "names and types: this needs a token for all records of the zone"],
  ])("held to some %s does not read what all zones together take", async (_, held, msg) => {
    for (const owner of [ACME, { reseller: "one", key: "key-of-reseller-one" }]) {
      const own = await token({ ...held, access: "read" }, owner);
      for (const path of owner === ACME ? ["quota"] : ["quota", "quota?crm_id=acme"]) {
        const as = { ...owner, key: own.key };
        expect(await api.call("GET", `/api/v1/${path}`, undefined, as)).toMatchObject(refused(`${last()}${msg}`));
      }
    }
    const all = await token({ access: "read" });
    expect((await api.call("GET", "/api/v1/quota", undefined, all)).body.quotas).not.toEqual([]);
  });

  test("that is held to some zones reads of the ACLs what is about them", async () => {
    const reseller = { reseller: "one", key: "key-of-reseller-one" };
    const acl = { resellerId: "one", blocks: ["198.51.100.0/24"], notify: [], tsig: null };
    for (const [name, zones] of Object.entries({ all: null, both: [zone, other], others: [other] })) {
      expect((await addAcl(api.database.db, KEY_RING, { ...acl, name, zones })).ok).toBe(true);
    }
    const held = await token({ zones: [zone], verbs: ["transfer"] }, reseller);
    const { acls } = (await api.call("GET", "/api/v1/acls", undefined, held)).body;
    expect(acls).toMatchObject([
      { name: "all", zones: null },
      { name: "both", zones: [zone] },
    ]);
    expect((await api.call("GET", "/api/v1/acls", undefined, reseller)).body.acls).toHaveLength(3);
  });

  test("does never more than its owner, nor what takes a key", async () => {
    const all = { verbs: ["create", "modify", "delete", "zone_create", "zone_delete", "sign", "transfer"] };
    const own = await token(all);
    expect(await create(own, "www", "A", "192.0.2.1", other)).toMatchObject({
      status: 400,
      body: { msg: `${other} does not exist` },
    });
    expect(
      await api.call("POST", `/api/v1/master_zone/new.example.net`, zoneFields({ crm_id: "beta" }), own),
    ).toMatchObject({ status: 400 });
    expect(await api.call("POST", `/api/v1/master_zone/new.example.net`, zoneFields(), own)).toMatchObject({
      status: 200,
    });
    expect(await api.call("GET", "/api/v1/acls", undefined, own)).toMatchObject(
      refused("this needs the reseller's key"),
    );
    const reseller = await token(all, { reseller: "one", key: "key-of-reseller-one" });
    for (const [method, path, body] of [
      ["GET", "companies"],
      ["GET", "company/acme"],
      ["POST", "company", { crm_id: "x", name: "x", apikey: "a-key-of-somebody-else-1" }],
      ["PUT", "company/acme", { suspended: true }],
      ["DELETE", "company/acme", { apikey: ACME.key }],
      ["GET", "tokens"],
      ["POST", "token", { name: "more", access: "write" }],
      ["GET", "company/acme/quota"],
    ] as const) {
      const answer = await api.call(method, `/api/v1/${path}`, body, reseller);
      expect([path, answer.status, answer.body.msg]).toEqual([
        path,
        403,
        `${last()}this needs a key, no token may do it`,
      ]);
    }
    expect(await api.call("GET", "/api/v1/acls", undefined, reseller)).toMatchObject({ status: 200 });
  });

  test("is for its networks and its time", async () => {
    const away = await token({ networks: ["192.0.2.0/24"] });
    expect(await api.call("GET", "/api/v1/domain_list", undefined, away)).toMatchObject(
      refused(`${last()}networks: not for requests from 127.0.0.1`),
    );
    const here = await token({
      networks: ["127.0.0.0/8"],
      expires: new Date(api.clock.nowMs() + 60_000).toISOString(),
    });
    expect(await api.call("GET", "/api/v1/domain_list", undefined, here)).toMatchObject({ status: 200 });
    expect(await api.call("GET", "/api/v1/domain_list", undefined, { ...here, reseller: "one" })).toMatchObject({
      status: 200,
    });
    expect(await api.call("GET", "/api/v1/domain_list", undefined, { ...here, reseller: "two" })).toMatchObject({
      status: 403,
    });
    api.clock.set(new Date(Date.now() + 120_000).toISOString());
    expect((await api.call("GET", "/api/v1/domain_list", undefined, here)).body.msg).toMatch(/^token t\d+ expired on /);
    api.clock.set(new Date().toISOString());
    expect(await api.call("GET", "/api/v1/domain_list", undefined, { key: `${here.key}x` })).toMatchObject(
      refused("invalid credentials"),
    );
    expect(
      await api.call("POST", "/api/v1/token", { name: "past", access: "read", expires: "2001-01-01T00:00:00Z" }, ACME),
    ).toMatchObject({
      status: 400,
    });
  });

  test("is rotated with grace, and taken away", async () => {
    const first = await token({});
    const name = `t${made}`;
    const works = async (as: { key: string }) => (await api.call("GET", "/api/v1/domain_list", undefined, as)).status;
    const second = await api.call("POST", `/api/v1/token/${name}/rotate`, { grace: 3600 }, ACME);
    expect([await works(first), await works({ key: second.body.token })]).toEqual([200, 200]);
    const third = await api.call("POST", `/api/v1/token/${name}/rotate`, {}, ACME);
    expect([
      await works(first),
      await works({ key: second.body.token }),
      await works({ key: third.body.token }),
    ]).toEqual([403, 403, 200]);
    const another = { reseller: "one", key: "beta-api-key-0001" };
    expect(await api.call("DELETE", `/api/v1/token/${name}`, undefined, another)).toMatchObject({ status: 404 });
    expect(await api.call("GET", `/api/v1/token/${name}`, undefined, RESELLER_TWO)).toMatchObject({ status: 404 });
    expect(await api.call("DELETE", `/api/v1/token/${name}?crm_id=acme`, undefined, RESELLER_TWO)).toMatchObject({
      status: 400,
    });
    expect(await api.call("DELETE", `/api/v1/token/${name}?crm_id=acme`)).toMatchObject({ status: 200 });
    expect(await works({ key: third.body.token })).toBe(403);
  });

  test("goes with its company, and with the console's user who made it", async () => {
    await api.call("POST", "/api/v1/company", { crm_id: "gone", name: "Gone", apikey: "gone-api-key-0001" });
    const own = await token({}, { reseller: "one", key: "gone-api-key-0001" });
    await api.call("DELETE", "/api/v1/company/gone", { apikey: "gone-api-key-0001" });
    expect(await api.call("GET", "/api/v1/domain_list", undefined, own)).toMatchObject({ status: 403 });

    const { db } = api.database;
    await addUser(db, { login: "maker", role: "company", scope: "one/acme", passwordHash: "scrypt$1$1$1$a$b" });
    const delegation = { audience: "dns", login: "maker", resellerId: "one", crmId: "acme" } as const;
    const console = { key: `Console ${makeDelegationToken(KEY_RING, delegation, api.clock.nowMs())}` };
    const theirs = await token({}, console);
    expect(await api.call("GET", "/api/v1/domain_list", undefined, theirs)).toMatchObject({ status: 200 });
    await deleteUser(db, "maker");
    expect(await api.call("GET", "/api/v1/domain_list", undefined, theirs)).toMatchObject({ status: 403 });
  });

  test("counts in the quota, and refuses what is no token", async () => {
    const palomar = operatorOf({ db: api.database.db, keyRing: KEY_RING, config: {} as ServiceContext["config"] });
    await palomar("company", "quota", "one", "beta", "--set", "tokens=1");
    const beta = { reseller: "one", key: "beta-api-key-0001" };
    await token({ tsig: "hmac-sha256" }, beta);
    expect(await api.call("POST", "/api/v1/token", { name: "second", access: "read" }, beta)).toMatchObject({
      status: 400,
      body: { msg: "quota exceeded: tokens of company beta: 1 allowed, 1 in use, 1 more wanted" },
    });
    const post = async (fields: object) =>
      (await api.call("POST", "/api/v1/token", { name: "x", access: "write", ...fields }, ACME)).body.msg;
    expect(await post({ name: "a b" })).toMatch(/name: 1 to 64/);
    expect(await post({ name: `t${made - 1}`, names: ["_acme-challenge"] })).toMatch(/can match nothing/);
    expect(await post({ zones: ["example.org"], names: ["www.example.net"] })).toMatch(/can match nothing/);
    expect(await post({ verbs: ["fly"] })).toMatch(/verbs/);
    expect(await post({ tsig: "hmac-md5" })).toMatch(/hmac-md5/);
    expect(await post({ api: false })).toBe("missing field: tsig");
  });

  test("can be tried before it is made", async () => {
    const check = async (fields: object) => {
      const { status, body } = await api.call("POST", "/api/v1/token_check", { access: "write", ...fields }, ACME);
      return status === 200 ? body : body.msg;
    };
    const policy = {
      zones: ["example.org"],
      names: ["_acme-challenge.**"],
      types: ["TXT"],
      verbs: ["create", "delete"],
    };
    const all = { read: true, verbs: ["create", "modify", "delete"], refused_by: null };
    const none = { read: false, verbs: [] };
    expect(await check({ ...policy, name: "_acme-challenge.www.example.org", type: "txt" })).toEqual(all);
    expect(await check({ ...policy, name: "_acme-challenge.www.example.org" })).toEqual(all);
    expect(await check({ ...policy, name: "_acme-challenge.example.org", type: "A" })).toEqual({
      ...none,
      refused_by: "types",
    });
    expect(await check({ ...policy, name: "www.example.org" })).toEqual({ ...none, refused_by: "names" });
    expect(await check({ ...policy, name: "_acme-challenge.example.net" })).toEqual({ ...none, refused_by: "zones" });
    expect(await check({ access: "read", name: "www.example.org" })).toEqual({
      read: true,
      verbs: [],
      refused_by: null,
    });
    expect(await check({ ...policy, zones: ["example.net"], names: ["www.example.org"], name: "x.test" })).toMatch(
      /can match nothing/,
    );
  });

  test("is made, listed, rotated and removed by command", async () => {
    const palomar = operatorOf({ db: api.database.db, keyRing: KEY_RING, config: {} as ServiceContext["config"] });
    const words = [
      "--company",
      "acme",
      "--zone",
      zone,
      "--owner",
      "_acme-challenge.**",
      "--type",
      "TXT",
      "--tsig",
      "hmac-sha512",
    ];
    const added = await palomar("token", "add", "one", "certbot", ...words);
    expect(added.json).toMatchObject({
      name: "certbot",
      crm_id: "acme",
      tsig: { algorithm: "hmac-sha512", name: expect.stringMatching(/^certbot-/) },
    });
    expect(await create({ key: added.json.token }, "_acme-challenge", "TXT", "by command")).toMatchObject({
      status: 200,
    });
    expect((await palomar("token", "list", "one", "--company", "acme")).text).toContain("certbot\tacme\t");
    const rotated = await palomar("token", "rotate", "one", "certbot", "--company", "acme");
    expect(rotated.json.tsig.name).toBe(added.json.tsig.name);
    expect(rotated.json.tsig.secret).not.toBe(added.json.tsig.secret);
    const rotate = () => palomar("token", "rotate", "one", "certbot", "--company", "acme", "--grace", "1h");
    const notes = [...rotated.notes, ...(await rotate()).notes];
    expect([notes, (await rotate()).notes]).toEqual([[], [expect.stringContaining("an older key")]]);
    expect((await palomar("token", "remove", "one", "certbot", "--company", "acme")).json).toEqual({
      name: "certbot",
      removed: true,
    });
    expect(await palomar("token", "remove", "one", "certbot", "--company", "acme")).toMatchObject({ status: 1 });
    expect((await palomar("token", "add", "one", "x", "--verb", "fly")).refused).toContain("verbs are create, modify");
    expect((await palomar("token", "add", "one", "x", "--owner", "_acme-challenge")).status).toBe(1);
    expect((await palomar("token", "add", "nobody", "x")).status).toBe(1);
    const february = await palomar("token", "add", "one", "x", "--expires", "2199-02-30T00:00:00Z");
    expect(february).toMatchObject({ status: 1, refused: expect.stringContaining("expires: a time to come") });
    const mapped = await palomar("token", "add", "one", "x", "--network", "::ffff:192.0.2.1");
    expect(mapped).toMatchObject({ status: 1, refused: expect.stringContaining("an IPv4 block, 192.0.2.1/32") });
    const { rows } = await api.database.db.raw("select count(*)::int as keys from tsig_keys");
    expect(rows[0].keys).toBe(1);
  });
});
