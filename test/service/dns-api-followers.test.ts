import { once } from "node:events";
import { createServer, type Server } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { registerPoolCommand } from "../../services/cli/commands/pool.ts";
import { type DomainName, formatDomainName, nameSortKey, parseDomainName } from "../../services/core/dns/name.ts";
import { importZone } from "../../services/operations/dns/zone-files.ts";
import type { ServiceContext } from "../../services/platform/service.ts";
import { addTargets, claimDueTargets } from "../../services/store/dns/follow-targets.ts";
import { findQuotaOwner, setLimits } from "../../services/store/dns/quota-settings.ts";
import { addReseller } from "../../services/store/dns/resellers.ts";
import { type AnsweringResolver, startAnsweringResolver } from "../support/answering-resolver.ts";
import { runCommand } from "../support/command.ts";
import { KEY_RING, makeZone, type RunningApi, startApiWithCompany, zoneFields } from "../support/dns-api.ts";

let api: RunningApi;
let resolver: AnsweringResolver;

beforeAll(async () => {
  resolver = await startAnsweringResolver();
  api = await startApiWithCompany({
    PALOMAR_RESOLVER: resolver.address,
    PALOMAR_FOLLOW_ALLOW: "127.0.0.0/8",
  });
  await api.call("POST", "/api/v1/company", { crm_id: "beta", name: "Beta", apikey: "beta-api-key-0001" });
});
afterAll(async () => {
  await api.stop();
  await resolver.stop();
});

const BETA = { reseller: "one", key: "beta-api-key-0001" };
const ACME = { reseller: "one", key: "acme-api-key-0001" };
let named = 0;

function readName(text: string): DomainName {
  const name = parseDomainName(`${text}.`);
  if (!name.ok) throw new Error(text);
  return name.value;
}

/** A name that the resolver tells of. */
function target(...addresses: string[]): string {
  named += 1;
  const name = `t${named}.example.net`;
  say(name, ...addresses);
  return name;
}

function say(name: string, ...addresses: string[]): void {
  resolver.says.set(
    name,
    addresses.map((address) => `${name} 5 ${address.includes(":") ? "AAAA" : "A"} ${address}`),
  );
}

interface Shown {
  readonly name: string;
  readonly type: string;
  readonly value: string;
  readonly ttl: number;
  readonly rr_id: number;
  readonly derived?: true;
}

/** All but the NS that each zone has. */
async function records(zone: string): Promise<Shown[]> {
  const { body } = await api.call("GET", `/api/v1/rr/${zone}`);
  return body.rr.filter(({ type }: Shown) => type !== "NS");
}

async function addresses(zone: string, name = "@"): Promise<string[]> {
  const at = (await records(zone)).filter((record) => record.name === name && /^A/.test(record.type));
  return at.map(({ value }) => value).sort();
}

const serial = async (zone: string): Promise<number> => (await api.call("GET", `/api/v1/rr/${zone}`)).body.serial;

async function alias(zone: string, name: string, to: string): Promise<number> {
  const made = await api.call("POST", `/api/v1/alias/${zone}`, { name, target: `${to}.` });
  expect(made).toMatchObject({ status: 200 });
  return made.body.alias_id;
}

const becomes = (zone: string, name: string, wanted: readonly string[]) =>
  expect.poll(() => addresses(zone, name), { interval: 200 }).toEqual(wanted);

describe("an alias", () => {
  test("at the apex has the addresses of its target, and follows it", async () => {
    const zone = await makeZone(api);
    const to = target("192.0.2.1", "2001:db8::1");
    const id = await alias(zone, "@", to);
    await becomes(zone, "@", ["192.0.2.1", "2001:db8::1"]);
    const before = await serial(zone);
    say(to, "192.0.2.2");
    await becomes(zone, "@", ["192.0.2.2"]);
    expect(await serial(zone)).toBe(before + 1);
    const listed = await api.call("GET", `/api/v1/alias/${zone}`);
    expect(listed.body.alias).toEqual([
      {
        ...{ alias_id: id, name: "@", target: `${to}.`, a: ["192.0.2.2"], aaaa: [], ttl: 5, problem: null },
        answered: expect.stringMatching(/^\d{4}-/),
      },
    ]);
    expect((await records(zone)).map(({ type, derived }) => [type, derived])).toEqual([["A", true]]);
    const history = await api.call("GET", `/api/v1/zone_history/${zone}`);
    expect(history.body.history.map(({ actor }: { actor: string }) => actor).slice(0, 2)).toEqual(["follow", "follow"]);
    expect(history.body.history.at(-2).followers).toEqual({
      deleted: [],
      added: [{ name: "@", kind: "alias", target: `${to}.` }],
    });
  });

  test("follows aliases on the way, at the TTL that ends first", async () => {
    const zone = await makeZone(api);
    const [first, last] = [target(), target()];
    resolver.says.set(first, [`${first} 20 CNAME ${last}.`, `${last} 300 A 192.0.2.7`]);
    await alias(zone, "www", first);
    await becomes(zone, "www", ["192.0.2.7"]);
    expect((await records(zone))[0]).toMatchObject({ ttl: 20 });
  });

  test("is asked for once however many follow the target", async () => {
    const zone = await makeZone(api);
    const to = target();
    resolver.says.set(to, [`${to} 600 A 192.0.2.10`]);
    const create = Array.from({ length: 10_000 }, (_, index) => ({ name: `h${index}`, target: `${to}.` }));
    const made = await api.call("POST", `/api/v1/alias/${zone}/batch`, { create });
    expect(made.status).toBe(200);
    expect(made.body.created).toHaveLength(10_000);
    await expect.poll(async () => (await records(zone)).length, { timeout: 240_000, interval: 1_000 }).toBe(10_000);
    expect(resolver.questions.filter((question) => question === `${to} A`).length).toBe(1);
  });

  test("keeps the last answer while the target fails, and is withdrawn when it does not exist", async () => {
    const zone = await makeZone(api);
    const to = target("192.0.2.20");
    const other = target("192.0.2.21");
    await alias(zone, "fails", to);
    await alias(zone, "gone", other);
    await becomes(zone, "fails", ["192.0.2.20"]);
    await becomes(zone, "gone", ["192.0.2.21"]);
    resolver.says.set(to, "SERVFAIL").set(other, "NXDOMAIN");
    const problems = async () => {
      const { body } = await api.call("GET", `/api/v1/alias/${zone}`);
      return body.alias.map(({ problem }: { problem: string }) => problem);
    };
    await expect.poll(problems).toEqual(["the resolver answers SERVFAIL", "the name does not exist"]);
    expect([await addresses(zone, "fails"), await addresses(zone, "gone")]).toEqual([["192.0.2.20"], ["192.0.2.21"]]);
    // Two more answers, 20 seconds apart; a busy machine takes as long again.
    await expect.poll(() => addresses(zone, "gone"), { timeout: 120_000 }).toEqual([]);
    expect(await addresses(zone, "fails")).toEqual(["192.0.2.20"]);
  });

  test("keeps what a zone file brought with it as long", async () => {
    const zone = await makeZone(api);
    const to = target();
    resolver.says.set(to, "NXDOMAIN");
    const { text } = await api.call("GET", `/api/v1/zone_file/${zone}`);
    const file = `${text};palomar alias shop.${zone}. {"target":"${to}."}\nshop A 192.0.2.99\n`;
    expect(await api.call("PUT", `/api/v1/zone_file/${zone}`, file)).toMatchObject({ status: 200 });
    const problem = async () => (await api.call("GET", `/api/v1/alias/${zone}`)).body.alias[0].problem;
    await expect.poll(problem).toBe("the name does not exist");
    expect(await addresses(zone, "shop")).toEqual(["192.0.2.99"]);
    const from = performance.now();
    await expect.poll(() => addresses(zone, "shop")).toEqual([]);
    expect(performance.now() - from).toBeGreaterThan(15_000);
  });

  test("of a name of the same company follows within a second, without a question", async () => {
    const zone = await makeZone(api);
    const host = await makeZone(api);
    await api.call("POST", `/api/v1/rr/${host}`, { name: "lb", type: "A", value: "192.0.2.30", ttl: 600 });
    await api.call("POST", `/api/v1/rr/${host}`, { name: "*.wild", type: "CNAME", value: "lb" });
    await alias(zone, "@", `lb.${host}`);
    await alias(zone, "wild", `any.wild.${host}`);
    await becomes(zone, "@", ["192.0.2.30"]);
    await becomes(zone, "wild", ["192.0.2.30"]);
    const [{ rr_id }] = (await records(host)) as [Shown];
    const from = performance.now();
    await api.call("PUT", `/api/v1/rr/${host}/${rr_id}`, { value: "192.0.2.31" });
    await becomes(zone, "@", ["192.0.2.31"]);
    // A second on a quiet machine.
    expect(performance.now() - from).toBeLessThan(10_000);
    await becomes(zone, "wild", ["192.0.2.31"]);
    expect(resolver.questions.filter((question) => question.includes(host))).toEqual([]);
  });

  test("looks elsewhere when the zone that it followed a name of is deleted", async () => {
    const [zone, host] = [await makeZone(api), await makeZone(api)];
    await api.call("POST", `/api/v1/rr/${host}`, { name: "lb", type: "A", value: "192.0.2.35" });
    say(`lb.${host}`, "192.0.2.36");
    await alias(zone, "@", `lb.${host}`);
    await becomes(zone, "@", ["192.0.2.35"]);
    expect(await api.call("DELETE", `/api/v1/master_zone/${host}`)).toMatchObject({ status: 200 });
    await becomes(zone, "@", ["192.0.2.36"]);
  });

  test("does not believe the zone that another company made of the target's name", async () => {
    const zone = await makeZone(api);
    const to = target("192.0.2.40");
    await alias(zone, "@", `www.${to}`);
    say(`www.${to}`, "192.0.2.40");
    await becomes(zone, "@", ["192.0.2.40"]);
    expect(await api.call("POST", `/api/v1/master_zone/${to}`, zoneFields({ crm_id: "beta" }))).toMatchObject({
      status: 200,
    });
    await api.call("POST", `/api/v1/rr/${to}`, { name: "www", type: "A", value: "203.0.113.66" }, BETA);
    await new Promise((resolve) => setTimeout(resolve, 7_000));
    expect(await addresses(zone, "@")).toEqual(["192.0.2.40"]);
  });

  test("of inner addresses, of itself and beside others is refused, and so is a hand at what it derives", async () => {
    const zone = await makeZone(api);
    const inner = target("10.1.2.3");
    await alias(zone, "inner", inner);
    const problem = async () => (await api.call("GET", `/api/v1/alias/${zone}`)).body.alias[0].problem;
    await expect.poll(problem).toBe("its addresses are not public");
    expect(await addresses(zone, "inner")).toEqual([]);
    const post = (path: string, body: object) => api.call("POST", `/api/v1/${path}`, body);
    expect(await post(`alias/${zone}`, { name: "a", target: "a" })).toMatchObject({ status: 400 });
    const to = target("192.0.2.50");
    await alias(zone, "b", `c.${zone}`);
    const loop = await post(`alias/${zone}`, { name: "c", target: "b" });
    expect(loop).toMatchObject({ status: 400, body: { msg: "it would follow itself" } });
    await alias(zone, "x", to);
    await becomes(zone, "x", ["192.0.2.50"]);
    const hand = await post(`rr/${zone}`, { name: "x", type: "AAAA", value: "2001:db8::5" });
    expect(hand.body.msg).toBe(`x.${zone} is an alias or a pool: its AAAA record cannot be made or edited by hand`);
    const [derived] = (await records(zone)).filter(({ name }) => name === "x") as [Shown];
    expect(await api.call("DELETE", `/api/v1/rr/${zone}/${derived.rr_id}`)).toMatchObject({ status: 400 });
    expect(await api.call("PUT", `/api/v1/rr/${zone}/${derived.rr_id}`, { ttl: 9 })).toMatchObject({ status: 400 });
    expect(await post(`rr/${zone}`, { name: "x", type: "CNAME", value: "y" })).toMatchObject({ status: 400 });
    expect(await post(`rr/${zone}`, { name: "x", type: "TXT", value: "beside" })).toMatchObject({ status: 200 });
    await post(`rr/${zone}`, { name: "h", type: "A", value: "192.0.2.1" });
    const beside = await post(`alias/${zone}`, { name: "h", target: `${to}.` });
    expect(beside.body.msg).toBe(`h.${zone} has a record of type A, beside which it cannot be an alias or a pool`);
  });

  test("is changed with records in one batch, previewed, rolled back, and survives a zone file", async () => {
    const zone = await makeZone(api);
    const [one, two] = [target("192.0.2.60"), target("192.0.2.61")];
    await api.call("POST", `/api/v1/rr/${zone}`, { name: "was", type: "A", value: "192.0.2.62" });
    const [{ rr_id }] = (await records(zone)) as [Shown];
    const start = await serial(zone);
    const batch = {
      delete: [rr_id],
      create: [{ name: "txt", type: "TXT", value: "text" }],
      alias: { create: [{ name: "was", target: `${one}.` }] },
    };
    const preview = await api.call("POST", `/api/v1/zone_preview/${zone}`, batch);
    expect(preview.body).toMatchObject({ serial: start + 3, followers: { added: [{ name: "was", kind: "alias" }] } });
    expect(await serial(zone)).toBe(start);
    const made = await api.call("POST", `/api/v1/rr/${zone}/batch`, batch);
    expect(made.body).toMatchObject({ serial: start + 3, created: [expect.any(Number)] });
    const [id] = made.body.created_followers;
    await becomes(zone, "was", ["192.0.2.60"]);
    expect(await api.call("PUT", `/api/v1/alias/${zone}/${id}`, { target: `${two}.` })).toMatchObject({ status: 200 });
    await becomes(zone, "was", ["192.0.2.61"]);

    const file = await api.call("GET", `/api/v1/zone_file/${zone}`);
    expect(file.text).toContain(`;palomar alias was.${zone}. {"target":"${two}."}\n`);
    const again = await api.call("PUT", `/api/v1/zone_file/${zone}`, file.text);
    expect(again).toMatchObject({ status: 200 });
    expect((await api.call("GET", `/api/v1/alias/${zone}`)).body.alias[0]).toMatchObject({
      alias_id: id,
      a: ["192.0.2.61"],
    });
    const bare = await api.call("PUT", `/api/v1/zone_file/${zone}`, file.text.replace(/^;.*\n/m, ""));
    expect(bare.body.warnings).toEqual([
      `was.${zone} is no alias or pool any more: the file has no comment that says so`,
    ]);
    expect((await api.call("GET", `/api/v1/alias/${zone}`)).body.alias).toEqual([]);
    expect(await addresses(zone, "was")).toEqual(["192.0.2.61"]);

    expect(await api.call("POST", `/api/v1/zone_rollback/${zone}`, { serial: start + 3 })).toMatchObject({
      status: 200,
    });
    expect((await api.call("GET", `/api/v1/alias/${zone}`)).body.alias).toMatchObject([
      { name: "was", target: `${one}.` },
    ]);
    await becomes(zone, "was", ["192.0.2.60"]);
    expect(await api.call("POST", `/api/v1/zone_rollback/${zone}`, { serial: start })).toMatchObject({ status: 200 });
    expect((await api.call("GET", `/api/v1/alias/${zone}`)).body.alias).toEqual([]);
    expect(await addresses(zone, "was")).toEqual(["192.0.2.62"]);
  });

  test("gives its name to a pool, or to another alias: by a batch, by a zone file and by a rollback", async () => {
    const zone = await makeZone(api);
    const [one, two] = [target("192.0.2.63"), target("192.0.2.64")];
    const id = await alias(zone, "www", one);
    const start = await serial(zone);
    const aliasFile = (await api.call("GET", `/api/v1/zone_file/${zone}`)).text;
    const followers = async () => {
      const [aliases, pools] = [
        await api.call("GET", `/api/v1/alias/${zone}`),
        await api.call("GET", `/api/v1/pool/${zone}`),
      ];
      return [aliases.body.alias.map(({ target: to }: { target: string }) => to), pools.body.pool.length];
    };
    const batch = (body: object) => api.call("POST", `/api/v1/rr/${zone}/batch`, body);
    const again = await batch({ alias: { delete: [id], create: [{ name: "www", target: `${two}.` }] } });
    expect(again).toMatchObject({ status: 200, body: { created_followers: [expect.any(Number)] } });
    expect(await followers()).toEqual([[`${two}.`], 0]);
    const pool = { create: [{ name: "www", members: [{ value: "192.0.2.65" }] }] };
    expect(await batch({ alias: { delete: again.body.created_followers }, pool })).toMatchObject({ status: 200 });
    expect(await followers()).toEqual([[], 1]);
    expect(await api.call("PUT", `/api/v1/zone_file/${zone}`, aliasFile)).toMatchObject({ status: 200 });
    expect(await followers()).toEqual([[`${one}.`], 0]);
    const back = (to: number) => api.call("POST", `/api/v1/zone_rollback/${zone}`, { serial: to });
    expect(await back((await serial(zone)) - 1)).toMatchObject({ status: 200 });
    expect(await followers()).toEqual([[], 1]);
    expect(await back(start)).toMatchObject({ status: 200 });
    expect(await followers()).toEqual([[`${one}.`], 0]);
  });

  test("is another tenant's in no way, and a token's by its policy", async () => {
    const zone = await makeZone(api);
    const id = await alias(zone, "www", target("192.0.2.70"));
    const unknown = { status: 400, body: { msg: `domain ${zone} does not exist` } };
    for (const [method, path, body] of [
      ["GET", `alias/${zone}`, undefined],
      ["POST", `alias/${zone}`, { name: "a", target: "b." }],
      ["PUT", `alias/${zone}/${id}`, { target: "b." }],
      ["DELETE", `alias/${zone}/${id}`, undefined],
      ["POST", `pool/${zone}`, { name: "p", members: [{ value: "192.0.2.1" }] }],
    ] as const) {
      const answer = await api.call(method, `/api/v1/${path}`, body, BETA);
      expect(answer.status).toBe(unknown.status);
    }
    const own = await makeZone(api, { crm_id: "beta" });
    expect(await api.call("DELETE", `/api/v1/alias/${own}/${id}`, undefined, BETA)).toMatchObject({
      body: { msg: `alias ${id} does not exist` },
    });
    const { body } = await api.call(
      ...([
        "POST",
        "/api/v1/token",
        { name: "t", access: "write", names: ["allowed.**"], types: ["A", "AAAA"] },
        ACME,
      ] as const),
    );
    const token = { key: body.token };
    const make = (name: string) => api.call("POST", `/api/v1/alias/${zone}`, { name, target: "x.example.net." }, token);
    expect((await make("other")).status).toBe(403);
    expect((await api.call("GET", `/api/v1/alias/${zone}`, undefined, token)).body.alias).toEqual([]);
  });
});

/** Something that listens, until it is taken away. */
async function backend(address: string, port = 0): Promise<{ port: number; stop(): Promise<void> }> {
  const server: Server = createServer((socket) => socket.on("error", () => {}).end("hello\r\n"));
  server.listen(port, address);
  await once(server, "listening");
  const stop = () => new Promise<void>((resolve) => server.close(() => resolve()));
  return { port: (server.address() as { port: number }).port, stop };
}

describe("a hostile company", () => {
  test("gets no more records than it may have, and keeps what it follows up to date", async () => {
    await api.call("POST", "/api/v1/company", { crm_id: "small", name: "Small", apikey: "small-api-key-0001" });
    const zone = await makeZone(api, { crm_id: "small" });
    const to = target("192.0.2.1", "192.0.2.2");
    await alias(zone, "first", to);
    await becomes(zone, "first", ["192.0.2.1", "192.0.2.2"]);
    const owner = (await findQuotaOwner(api.database.db, "one", "small"))!;
    await setLimits(api.database.db, owner, { records: 4 });
    say(to, "192.0.2.1", "192.0.2.3", "192.0.2.4", "192.0.2.5", "2001:db8::1");
    const create = Array.from({ length: 50 }, (_, index) => ({ name: `h${index}`, target: `${to}.` }));
    expect(await api.call("POST", `/api/v1/alias/${zone}/batch`, { create })).toMatchObject({ status: 200 });
    const listed = async () => (await api.call("GET", `/api/v1/alias/${zone}`)).body.alias;
    await expect
      .poll(async () => (await listed()).every(({ problem }: { problem: string }) => /^quota exceeded: /.test(problem)))
      .toBe(true);
    await becomes(zone, "first", ["192.0.2.1", "192.0.2.3"]);
    expect(await records(zone)).toHaveLength(2);
  });

  test("with thousands of aliases that change all the time has others wait no longer", async () => {
    const [evil, zone] = [await makeZone(api, { crm_id: "beta" }), await makeZone(api)];
    for (const one of [evil, zone])
      await api.call("POST", `/api/v1/rr/${one}`, { name: "lb", type: "A", value: "192.0.2.1" });
    const create = Array.from({ length: 5_000 }, (_, index) => ({ name: `h${index}`, target: "lb" }));
    expect(await api.call("POST", `/api/v1/alias/${evil}/batch`, { create })).toMatchObject({ status: 200 });
    await alias(zone, "x", `lb.${zone}`);
    await becomes(zone, "x", ["192.0.2.1"]);
    const idIn = async (one: string) => (await records(one)).find(({ name }) => name === "lb")!.rr_id;
    const [ofEvil, own] = [await idIn(evil), await idIn(zone)];
    let changes = 0;
    let isOver = false;
    const noise = (async () => {
      for (; !isOver; changes += 1) {
        await api.call("PUT", `/api/v1/rr/${evil}/${ofEvil}`, { value: `192.0.2.${1 + (changes % 200)}` });
        await new Promise((resolve) => setTimeout(resolve, 200));
      }
    })();
    await expect.poll(() => changes).toBeGreaterThan(5);
    await api.call("PUT", `/api/v1/rr/${zone}/${own}`, { value: "192.0.2.250" });
    await becomes(zone, "x", ["192.0.2.250"]);
    isOver = true;
    await noise;
    expect(await api.call("DELETE", `/api/v1/master_zone/${evil}`)).toMatchObject({ status: 200 });
  });

  test("with names that never answer, or with nonsense, has others wait no longer", async () => {
    const [evil, zone] = [await makeZone(api, { crm_id: "beta" }), await makeZone(api)];
    const names = Array.from({ length: 600 }, () => target());
    const create = names.map((to, index) => {
      resolver.says.set(to, index % 2 === 0 ? "silence" : "nonsense");
      return { name: `h${index}`, target: `${to}.` };
    });
    expect(await api.call("POST", `/api/v1/alias/${evil}/batch`, { create })).toMatchObject({ status: 200 });
    const own = target("192.0.2.44");
    await alias(zone, "x", own);
    await becomes(zone, "x", ["192.0.2.44"]);
    // 600 names that are silent for 2.5 seconds each take 15, and are all asked for before one that waits behind them.
    const askedFor = (name: string) => resolver.questions.indexOf(`${name} A`);
    await expect.poll(() => Math.min(...names.map(askedFor))).toBeGreaterThanOrEqual(0);
    expect(Math.max(...names.map(askedFor))).toBeGreaterThan(askedFor(own));
    const problemOf = async (index: number) =>
      (await api.call("GET", `/api/v1/alias/${evil}`)).body.alias.find(
        ({ name }: { name: string }) => name === `h${index}`,
      ).problem;
    await expect.poll(() => problemOf(0)).toBe("the resolver does not answer");
    await expect.poll(() => problemOf(1)).toBe("the answer is malformed");
    expect(await api.call("DELETE", `/api/v1/master_zone/${evil}`)).toMatchObject({ status: 200 });
  });
});

test("names that a reseller's companies follow have a turn after another's, however many companies it has", async () => {
  const { db } = api.database;
  for (const id of ["r1", "r2"]) await addReseller(db, { id, name: id, rpzLicence: false, keyHash: Buffer.from(id) });
  const ids = new Map<string, number>();
  for (const [company, reseller] of Object.entries({ a: "r1", b: "r1", c: "r1", d: "r2" })) {
    const row = {
      reseller_id: reseller,
      crm_id: company,
      name: company,
      apikey_sealed: "",
      apikey_hash: Buffer.from(company),
    };
    const [made] = await db("companies").insert(row).returning("id");
    ids.set(company, made.id);
  }
  // Before all that the services here would take on, and not for them to be late for.
  const longAgo = new Date(Date.UTC(2000, 0));
  const claimed = await db.transaction(async (transaction) => {
    for (const [company, id] of ids) {
      const names = [1, 2, 3].map((index) => readName(`${company}${index}.example.net`));
      await addTargets(transaction, names, id, longAgo);
    }
    return claimDueTargets(transaction, new Date(longAgo.getTime() + 1), { limit: 4, leaseMs: 60_000 });
  });
  const byCompany = claimed.map(({ name }) => formatDomainName(name!)[0]);
  expect(byCompany.filter((company) => company === "d")).toHaveLength(2);
  expect(new Set(byCompany).size).toBe(3);
});

test("a company has so many addresses checked and no more", async () => {
  await api.call("POST", "/api/v1/company", { crm_id: "many", name: "Many", apikey: "many-api-key-0001" });
  const zone = await makeZone(api, { crm_id: "many" });
  // 4,990 that the company has already, of addresses that nobody looks at.
  const other = await alias(await makeZone(api), "other", target("192.0.2.1"));
  await api.database.db.raw(
    `insert into pool_probes (follower_id, member, address, name, health, tenant)
     select ?, n::text, '192.0.2.1', 'x', '{"type": "tcp", "port": 9, "interval": 3600}', c.id::text
       from generate_series(1, 4990) n, companies c where c.crm_id = 'many'`,
    [other],
  );
  const members = Array.from({ length: 20 }, (_, member) => ({ value: `127.2.0.${member + 1}` }));
  const check = { type: "tcp", port: 9, interval: 3_600 };
  expect(await api.call("POST", `/api/v1/pool/${zone}`, { name: "p", members, check })).toMatchObject({ status: 200 });
  const shown = async () => (await api.call("GET", `/api/v1/pool/${zone}`)).body.pool[0];
  await expect
    .poll(async () => (await shown()).problem)
    .toBe("the company has 5000 addresses checked already: others are taken for healthy");
  const { pool_id: id } = await shown();
  expect((await api.call("GET", `/api/v1/pool/${zone}/${id}`)).body.states).toHaveLength(10);
});

describe("a pool", () => {
  /** What `palomar pool` prints. */
  const run = async (...words: string[]) => {
    const database = { db: api.database.db, keyRing: KEY_RING, config: {} as ServiceContext["config"] };
    const { json } = await runCommand(registerPoolCommand, database, ["pool", ...words]);
    // biome-ignore lint/suspicious/noExplicitAny: what a command prints.
    return json[0] as any;
  };
  const HEALTH = { type: "tcp", interval: 5, timeout: 4, tries: 2, recovery: 0 } as const;

  test("gives the members that are well, leaves out one that is not, and takes it back", async () => {
    const zone = await makeZone(api);
    const first = await backend("127.0.0.2");
    const second = await backend("127.0.0.3", first.port);
    const check = { ...HEALTH, port: first.port };
    const members = [
      { name: "one", value: "127.0.0.2" },
      { name: "two", value: "127.0.0.3" },
    ];
    const made = await api.call("POST", `/api/v1/pool/${zone}`, { name: "@", members, check, ttl: 10 });
    expect(made).toMatchObject({ status: 200 });
    const { pool_id: id } = made.body;
    await becomes(zone, "@", ["127.0.0.2", "127.0.0.3"]);
    const state = async () => (await api.call("GET", `/api/v1/pool/${zone}/${id}`)).body;
    await expect
      .poll(async () => (await state()).states.flatMap(({ verdicts }: { verdicts: [] }) => verdicts).length)
      .toBe(2);
    await second.stop();
    await becomes(zone, "@", ["127.0.0.2"]);
    expect(await state()).toMatchObject({
      ...{ name: "@", a: ["127.0.0.2"], nodes: ["main"] },
      states: [
        { member: "one", up: true, verdicts: [{ node: "main", up: true }] },
        { member: "two", up: false, flaps: 1, verdicts: [{ up: false, reason: "no connection: ECONNREFUSED" }] },
      ],
      history: [{ member: "two", address: "127.0.0.3", up: false }],
    });
    // That which went last is the first.
    expect((await run("down"))[0]).toEqual({
      ...{ zone, pool: zone, member: "two", address: "127.0.0.3", since: expect.any(Date) },
      reasons: [{ node: "main", reason: "no connection: ECONNREFUSED" }],
    });
    // By the name that lists have.
    expect(await run("show", zone, zone)).toMatchObject({ pool_id: id });
    const back = await backend("127.0.0.3", first.port);
    await becomes(zone, "@", ["127.0.0.2", "127.0.0.3"]);

    const drain = (verb: string, member: string) => api.call("POST", `/api/v1/pool/${zone}/${id}/${verb}`, { member });
    expect(await drain("drain", "one")).toMatchObject({ status: 200 });
    await becomes(zone, "@", ["127.0.0.3"]);
    expect(await drain("undrain", "one")).toMatchObject({ status: 200 });
    await becomes(zone, "@", ["127.0.0.2", "127.0.0.3"]);
    expect((await drain("drain", "nobody")).body.msg).toBe("the pool has no member nobody");

    // With fewer than the minimum, all are given.
    await Promise.all([first.stop(), back.stop()]);
    await expect.poll(async () => (await state()).states.every(({ up }: { up: boolean }) => !up)).toBe(true);
    await becomes(zone, "@", ["127.0.0.2", "127.0.0.3"]);
    expect(await api.call("PUT", `/api/v1/pool/${zone}/${id}`, { minimum: 0 })).toMatchObject({ status: 200 });
    await becomes(zone, "@", []);
    expect(await api.call("DELETE", `/api/v1/pool/${zone}/${id}`)).toMatchObject({ body: { msg: "deleted" } });
  });

  test("is not checked where its check is null, nor is a member", async () => {
    const zone = await makeZone(api);
    const members = [{ value: "127.0.0.2" }, { value: "127.0.0.3", check: null }];
    const check = { type: "tcp", port: 9 };
    const checks = async () => {
      const [pool] = (await api.call("GET", `/api/v1/pool/${zone}`)).body.pool;
      return [pool.check?.port ?? pool.check, ...pool.members.map((one: { check?: object | null }) => one.check)];
    };
    const made = await api.call("POST", `/api/v1/pool/${zone}`, { name: "p", members, check });
    expect(made.status).toBe(200);
    expect(await checks()).toEqual([9, undefined, null]);
    const { pool_id: id } = made.body;
    expect(await api.call("PUT", `/api/v1/pool/${zone}/${id}`, { check: null })).toMatchObject({ status: 200 });
    expect(await checks()).toEqual([null, undefined, null]);
  });

  test("takes the first of a priority, and members by name", async () => {
    const zone = await makeZone(api);
    const to = target("192.0.2.80", "192.0.2.81");
    const members = [
      { name: "near", value: `${to}.`, priority: 1 },
      { name: "far", value: "192.0.2.90", priority: 2 },
    ];
    await api.call("POST", `/api/v1/pool/${zone}`, { name: "p", rule: "priority", members });
    await becomes(zone, "p", ["192.0.2.80", "192.0.2.81"]);
    const [{ pool_id: id }] = (await api.call("GET", `/api/v1/pool/${zone}`)).body.pool;
    await api.call("POST", `/api/v1/pool/${zone}/${id}/drain`, { member: "near" });
    await becomes(zone, "p", ["192.0.2.90"]);
  });

  test.each([
    [{ members: [] }, "invalid field: members: must not be empty"],
    [{ members: [{ value: "10.0.0.1" }] }, "invalid field: members[0].value: address not allowed"],
    [{ members: [{ value: "169.254.169.254" }] }, "invalid field: members[0].value: address not allowed"],
    [
      { members: [{ value: "a..b" }] },
      "invalid field: members[0].value: must be an IPv4 or IPv6 address or a domain name",
    ],
    [
      { members: [{ value: "192.0.2.1" }, { value: "192.0.2.1" }] },
      "invalid field: members[1].name: two members are called 192.0.2.1",
    ],
    [{ members: [{ value: "192.0.2.1" }], rule: "best" }, "invalid field: rule: must be all, priority or weighted"],
    [{ members: [{ value: "192.0.2.1" }], check: { type: "tcp" } }, "missing field: port"],
    [
      { members: [{ value: "192.0.2.1" }], check: { type: "http", path: "x" } },
      "invalid field: path: must begin with /, and be printable ASCII without spaces",
    ],
    [
      { members: [{ value: "192.0.2.1" }], check: { type: "tcp", port: 80, interval: 1 } },
      "invalid field: interval: must be at least 5",
    ],
    [
      { members: [{ value: "192.0.2.1" }], check: { type: "dns", question: ".." } },
      "invalid field: question: must be a domain name",
    ],
  ])("is refused: %j", async (fields, msg) => {
    const zone = await makeZone(api);
    const { status, body } = await api.call("POST", `/api/v1/pool/${zone}`, { name: "p", ...fields });
    expect({ status, msg: body.msg }).toEqual({ status: 400, msg });
  });
});

test("a reverse zone has no aliases and no pools, as it has no addresses", async () => {
  const zone = "2.0.192.in-addr.arpa";
  expect(await api.call("POST", `/api/v1/master_zone/${zone}`, zoneFields())).toMatchObject({ status: 200 });
  const no = {
    status: 400,
    body: { msg: expect.stringMatching(/^invalid field: name: a reverse zone accepts only NS/) },
  };
  expect(await api.call("POST", `/api/v1/alias/${zone}`, { name: "1", target: "a.example.net" })).toMatchObject(no);
  const pool = { name: "1", members: [{ value: "192.0.2.1" }] };
  expect(await api.call("POST", `/api/v1/pool/${zone}`, pool)).toMatchObject(no);
});

describe("what would follow itself by way of another zone", () => {
  test("is refused to one of two changes that come at the same time", async () => {
    const [zone, other] = [await makeZone(api), await makeZone(api)];
    const pairs = Array.from({ length: 12 }, async (_, index) => {
      const name = `r${index}`;
      const members = [{ value: `${name}.${other}.` }, { value: "192.0.2.70" }];
      const made = await Promise.all([
        api.call("POST", `/api/v1/pool/${zone}`, { name, members }),
        api.call("POST", `/api/v1/alias/${other}`, { name, target: `${name}.${zone}.` }),
      ]);
      return made.map(({ status, body }) => (status === 200 ? 200 : body.msg)).sort();
    });
    expect(await Promise.all(pairs)).toEqual(pairs.map(() => [200, "it would follow itself"]));
  });

  test("is refused of a zone that comes with it", async () => {
    const zone = await makeZone(api);
    await alias(zone, "www", `www.imported.${zone}`);
    const text = [
      `;palomar alias www.imported.${zone}. {"target":"www.${zone}."}`,
      `imported.${zone}. 60 SOA ns1.example.net. hostmaster.example.net. 1 2 3 4 5`,
      `imported.${zone}. 60 NS ns1.example.net.`,
    ].join("\n");
    const owner = { resellerId: "one", crmId: "acme" };
    const target = { apex: readName(`imported.${zone}`), domain: `imported.${zone}`, scope: {}, actor: "test" };
    const imported = await importZone(api.database.db, owner, target, { text: `${text}\n`, now: new Date() });
    expect(imported).toMatchObject({ ok: false, error: { code: "alias-loop" } });
  });

  test("gives nothing where it is so all the same, says so, and can be edited and mended", async () => {
    const [zone, other] = [await makeZone(api), await makeZone(api)];
    await api.call("POST", `/api/v1/rr/${other}`, { name: "lb", type: "A", value: "192.0.2.75" });
    const aliasId = await alias(other, "p", `lb.${other}`);
    const members = [
      { name: "far", value: `p.${other}.` },
      { name: "own", value: "192.0.2.71" },
      { name: "dead", value: "192.0.2.72" },
    ];
    const { body } = await api.call("POST", `/api/v1/pool/${zone}`, { name: "p", members });
    await becomes(zone, "p", ["192.0.2.71", "192.0.2.72", "192.0.2.75"]);
    const back = readName(`p.${zone}`);
    await api.database.db.raw(
      `update followers set definition = ?, target_keys = array[?::bytea], due_at = 'epoch', stirred = stirred + 1 where id = ?`,
      [JSON.stringify({ target: `p.${zone}.` }), Buffer.from(nameSortKey(back.wire)), aliasId],
    );
    const pool = () => api.call("GET", `/api/v1/pool/${zone}/${body.pool_id}`);
    await expect.poll(async () => (await pool()).body.problem).toBe("it would follow itself");
    await becomes(zone, "p", ["192.0.2.71", "192.0.2.72"]);
    const [shown] = (await api.call("GET", `/api/v1/alias/${other}`)).body.alias;
    expect(shown.problem).toBe("it would follow itself");
    const drained = await api.call("POST", `/api/v1/pool/${zone}/${body.pool_id}/drain`, { member: "dead" });
    expect(drained).toMatchObject({ status: 200 });
    await becomes(zone, "p", ["192.0.2.71"]);
    const fewer = await api.call("PUT", `/api/v1/pool/${zone}/${body.pool_id}`, { members: members.slice(0, 2) });
    expect(fewer).toMatchObject({ status: 200 });
    const more = await api.call("PUT", `/api/v1/alias/${other}/${aliasId}`, { target: `p.${zone}.` });
    expect(more).toMatchObject({ status: 200 });
    await api.call("PUT", `/api/v1/alias/${other}/${aliasId}`, { target: "lb" });
    await becomes(zone, "p", ["192.0.2.71", "192.0.2.75"]);
    await expect.poll(async () => (await pool()).body.problem).toBeNull();
  });
});

test("an alias to a name that is not in a zone of the same company says that it does not exist", async () => {
  const zone = await makeZone(api);
  await api.call("POST", `/api/v1/rr/${zone}`, { name: "x.deep", type: "A", value: "192.0.2.76" });
  await alias(zone, "absent", `nobody.${zone}`);
  await alias(zone, "empty", `deep.${zone}`);
  await alias(zone, "bare", zone);
  const problems = async () => {
    const { body } = await api.call("GET", `/api/v1/alias/${zone}`);
    return body.alias.map(({ name, problem }: { name: string; problem: string | null }) => [name, problem]);
  };
  const wanted = [
    ["absent", "the name does not exist"],
    ["bare", null],
    ["empty", null],
  ];
  await expect.poll(problems).toEqual(wanted);
});
