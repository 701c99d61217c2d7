import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { KeyRing } from "../../services/core/key-ring.ts";
import { reportAddresses } from "../../services/core/mail/reports/report-addresses.ts";
import { start as startDnsApi } from "../../services/dns-api/main.ts";
import { start as startDnsServer } from "../../services/dns-server/main.ts";
import { findSenderKeys } from "../../services/store/mail/instances/dkim-keys.ts";
import { findServedStsPolicy } from "../../services/store/mail/instances/domain-upkeep.ts";
import { type SignedIn, startConsole, type TestConsole } from "../support/console.ts";
import { askDns } from "../support/dns-client.ts";
import { operatorOf } from "../support/operator.ts";
import { freePort } from "../support/peers-processes.ts";
import { eventually } from "../support/stack.ts";

const DAY_MS = 86_400_000;
const BOUNCES = "bounces.example.net";
const SETUP = "/instances/north/domains/north.example.org/setup";
const ZONE = {
  ...{ mname: "ns1.example.net", rname: "h.example.net", serial_type: "numeric" },
  ...{ refresh: 7200, retry: 900, expire: 1_209_600, minimum: 1, ttl: 60 },
};

interface Item {
  readonly part: string;
  readonly name: string;
  readonly action: string;
  readonly before: string | null;
  readonly after: string | null;
  readonly zone: string | null;
}

let palomar: TestConsole;
let operator: SignedIn;
let north: SignedIn;
let south: SignedIn;

beforeAll(async () => {
  // Look-ups go to the very server that hosts the zones.
  const dns = `127.0.0.1:${await freePort()}`;
  palomar = await startConsole([startDnsApi, startDnsServer], {
    PALOMAR_DNS_UDP: "portable",
    PALOMAR_DNS_LISTEN: dns,
    PALOMAR_RESOLVER: dns,
    PALOMAR_DOMAIN_CHECK: "resolver",
    PALOMAR_BOUNCE_DOMAIN: BOUNCES,
    PALOMAR_HOSTNAME: "mx.example.net",
    PALOMAR_TRACKING_URL: "https://track.example.net",
    // Time is moved on by weeks.
    ...{ PALOMAR_CONSOLE_IDLE_HOURS: "720", PALOMAR_CONSOLE_SESSION_DAYS: "365" },
  });
  ({ operator, north, south } = palomar.users);
  const { one, two } = palomar.users;
  for (const domain of ["example.org", "example.net"]) {
    await one.call("POST", `/dns/one/master_zone/${domain}`, { ...ZONE, crm_id: "acme" });
  }
  await two.call("POST", "/dns/two/master_zone/example.com", { ...ZONE, crm_id: "acme" });
  const create = [
    { name: "mx", type: "A", value: "192.0.2.1" },
    { name: "track", type: "A", value: "192.0.2.2" },
  ];
  await one.call("POST", "/dns/one/rr/example.net/batch", { create });
  await one.call("POST", "/dns/one/rr/example.org/batch", {
    create: [
      { name: "north", type: "TXT", value: "v=spf1 mx -all" },
      { name: "north", type: "MX", value: "mail.north.example.org.", rr_prio: 10 },
      { name: "mail.north", type: "A", value: "192.0.2.3" },
      { name: "_dmarc", type: "TXT", value: "v=DMARC1; p=quarantine; sp=reject" },
    ],
  });
  await eventually(
    () => askDns(dns, "_dmarc.example.org", "TXT"),
    ({ answers = [] }) => answers.length > 0,
  );
});
afterAll(async () => {
  await palomar.stop();
  expect(palomar.failures).toEqual([]);
});

const look = async (who: SignedIn, path = SETUP) => (await who.call("GET", path)).body;
const changes = ({ items }: { items: Item[] }) =>
  items.filter(({ action, zone }) => action !== "keep" && zone !== null);
const agreeTo = async (who: SignedIn, path = SETUP, flatten = false) => {
  const { fingerprint } = await look(who, `${path}?flatten=${flatten}`);
  return who.call("POST", path, { fingerprint, flatten });
};

describe("whose zone it is", () => {
  test("an instance's users see what is missing, and may not write it without leave", async () => {
    const proposal = await look(north);
    expect(proposal).toMatchObject({ may_write: false, keys: [{ algorithm: "rsa" }, { algorithm: "ed25519" }] });
    expect(proposal.items.every(({ zone }: Item) => zone === null)).toBe(true);
    expect(proposal.zone_file).toContain('; remove: north.example.org. IN TXT "v=spf1 mx -all"');
    expect((await agreeTo(north)).body).toEqual({ written: [], refused: [] });
    // The licence to add records that are missing is another thing: it changes nothing that is there.
    await operator.call("PATCH", "/instances/north", { records: true });
    expect(await look(north)).toMatchObject({ may_write: false });
    await operator.call("PATCH", "/instances/north", { records: false });
  });

  test("leave is the company's, its reseller's or the operator's to give, of its own zones alone", async () => {
    const leaveOf = (reseller: string, crm: string) => `/resellers/${reseller}/companies/${crm}/instances/north`;
    const { one, two, acme } = palomar.users;
    expect((await north.call("PUT", leaveOf("one", "acme"))).status).toBe(403);
    expect((await two.call("PUT", leaveOf("one", "acme"))).status).toBe(404);
    expect((await acme.call("PUT", leaveOf("one", "other"))).status).toBe(404);
    expect((await acme.call("PUT", leaveOf("two", "acme"))).status).toBe(404);
    // The operator's word for another company opens nothing here.
    expect((await operator.call("PUT", leaveOf("two", "acme"))).body).toEqual({ msg: "given" });
    expect(await look(north)).toMatchObject({ may_write: false });
    expect((await two.call("DELETE", leaveOf("two", "acme"))).body).toEqual({ msg: "taken" });
    expect((await one.call("GET", "/resellers/one/companies/acme/instances")).body).toEqual({ instances: [] });
    expect((await acme.call("PUT", leaveOf("one", "acme"))).body).toEqual({ msg: "given" });
    expect((await north.call("GET", "/instances/north/companies")).body.companies).toMatchObject([
      { reseller_id: "one", crm_id: "acme", granted_by: "acme" },
    ]);
    expect((await south.call("GET", "/instances/north/companies")).status).toBe(404);
  });

  test("who has no zone by an instance's domains is told of it as of one that there is not", async () => {
    const { two } = palomar.users;
    const ask = (method: string, name: string) => two.call(method, `/resellers/two/companies/acme/instances/${name}`);
    const unknown = await ask("PUT", "nobody");
    expect(unknown).toMatchObject({ status: 404, body: { code: "no-instance-of-zones" } });
    for (const name of ["north", "south"]) {
      expect(await ask("PUT", name)).toMatchObject({ status: 404, body: unknown.body });
      expect(await ask("DELETE", name)).toMatchObject({ status: 404, body: unknown.body });
    }
    const { companies } = (await north.call("GET", "/instances/north/companies")).body;
    expect(companies).toHaveLength(1);
  });

  test("with leave they may write what is the domain's, and nothing of the deployment's", async () => {
    const proposal = await look(north);
    expect(proposal).toMatchObject({ may_write: true });
    expect(changes(proposal).map(({ part }) => part)).toEqual(["spf", "dkim", "dkim", "dmarc", "tls-rpt"]);
    expect(changes(await look(operator)).map(({ part }) => part)).toEqual([
      ...["spf", "dkim", "dkim", "dmarc", "bounce-mx", "bounce-spf", "dmarc-reports", "tls-rpt"],
    ]);
  });

  test("a zone that somebody else put below the domain is left to them", async () => {
    const { one } = palomar.users;
    const below = "_domainkey.north.example.org";
    await one.call("POST", `/dns/one/master_zone/${below}`, { ...ZONE, crm_id: "other" });
    await palomar.context.db("zones").where({ name: below }).update({ made_by: "company" });
    const parts = async (who: SignedIn) => changes(await look(who)).map(({ part }) => part);
    expect(await parts(north)).not.toContain("dkim");
    expect(await parts(operator)).not.toContain("dkim");
    expect((await one.call("DELETE", `/dns/one/master_zone/${below}`)).status).toBe(200);
    expect(await parts(north)).toContain("dkim");
  });

  test("another instance's domain is not there", async () => {
    for (const [method, path] of [
      ["GET", SETUP],
      ["POST", SETUP],
      ["PATCH", SETUP],
      ["POST", SETUP.replace("setup", "check")],
      ["POST", SETUP.replace("setup", "rotation")],
      ["GET", SETUP.replace("instances/north", "instances/south")],
    ] as const) {
      const body = method === "POST" && path === SETUP ? { fingerprint: "0" } : method === "GET" ? undefined : {};
      expect((await south.call(method, path, body)).status, `${method} ${path}`).toBe(404);
    }
  });
});

describe("agreeing", () => {
  test("to something else than what is proposed now is refused", async () => {
    const { fingerprint } = await look(north);
    const create = [{ name: "north", type: "TXT", value: "something else" }];
    await palomar.users.one.call("POST", "/dns/one/rr/example.org/batch", { create });
    // Others' texts at the name change nothing of the proposal.
    expect((await look(north)).fingerprint).toBe(fingerprint);
    const refused = await north.call("POST", SETUP, { fingerprint: "0000000000000000" });
    expect(refused).toMatchObject({ status: 409, body: { code: "setup-changed" } });
  });

  test("merges what is there, by one change that the history has", async () => {
    const agreed = await agreeTo(north);
    expect(agreed.body.refused).toEqual([]);
    const wanted = (part: string) => agreed.body.written.find((item: Item) => item.part === part).after;
    expect(wanted("spf")).toBe(`v=spf1 mx include:${BOUNCES} -all`);
    // The policy from above would otherwise be weakened.
    expect(wanted("dmarc")).toMatch(/^v=DMARC1; p=reject; rua=mailto:dmarc[^,;]+@bounces\.example\.net$/);
    const { history } = (await palomar.users.one.call("GET", "/dns/one/zone_history/example.org?limit=1")).body;
    expect(history[0]).toMatchObject({
      actor: "north",
      deleted: [{ value: expect.stringContaining("v=spf1 mx -all") }],
    });
    const { rr } = (await palomar.users.one.call("GET", "/dns/one/rr/example.org")).body;
    const texts = rr.filter(
      (record: { name: string; type: string }) => record.type === "TXT" && record.name === "north",
    );
    expect(texts.map(({ value }: { value: string }) => value.replaceAll('"', "")).sort()).toEqual([
      ...["something else", `v=spf1 mx include:${BOUNCES} -all`],
    ]);
    expect(changes(await look(north))).toEqual([]);
  });

  test("the operator agrees to what is the deployment's", async () => {
    const agreed = await agreeTo(operator);
    expect(agreed.body.written.map(({ part }: Item) => part)).toEqual(["bounce-mx", "bounce-spf", "dmarc-reports"]);
    const check = async () => (await north.call("POST", SETUP.replace("setup", "check"))).body;
    const { checks } = await eventually(check, (body) => body.checks.every(({ action }: Item) => action === "keep"));
    expect(checks.length).toBeGreaterThan(7);
    expect(checks.find(({ part }: Item) => part === "spf")).toMatchObject({ spf_lookups: 3 });
  });

  test("a domain whose zone is not hosted here is looked at all the same", async () => {
    await operator.call("POST", "/instances/south/domains", { domain: "elsewhere.example" });
    const path = "/instances/south/domains/elsewhere.example/setup";
    const proposal = await look(operator, path);
    expect(proposal).toMatchObject({ may_write: false, domain_connect: { serviceId: "sender-domain" } });
    const published = proposal.items.filter(({ part }: Item) => part === "dkim").map(({ after }: Item) => after);
    expect(published, "both keys, before anything has looked at the domain").toEqual([
      expect.stringContaining("k=rsa"),
      expect.stringContaining("k=ed25519"),
    ]);
    expect((await agreeTo(operator, path)).body).toEqual({ written: [], refused: [] });
    expect((await look(operator, path)).agreed_by).toBeNull();
  });
});

describe("settings", () => {
  test("of a command are tried, and kept once somebody agrees", async () => {
    const command = operatorOf(palomar.context);
    const words = ["instance", "domain", "setup", "north", "north.example.org"];
    const given = ["--mta-sts", "testing", "--tracking-host", "links.north.example.org", "--rotate-days", "90"];
    const row = () =>
      palomar.context
        .db("domain_upkeep")
        .where({ domain: "north.example.org" })
        .first("sts_mode", "tracking_host", "rotate_days");
    const before = await row();
    expect(before).toEqual({ sts_mode: null, tracking_host: null, rotate_days: null });
    const tried = await command(...words, ...given);
    expect(tried.json).toMatchObject({ mta_sts: "testing", rotate_days: 90 });
    expect(changes(tried.json).map(({ name }) => name)).toEqual([
      "links.north.example.org",
      "mta-sts.north.example.org",
      "_mta-sts.north.example.org",
    ]);
    const way = `palomar ${words.join(" ")} ${given.join(" ")} --agree ${tried.json.fingerprint}`;
    expect(tried.text).toMatch(new RegExp(`\nTo write it: ${way}$`));
    expect(await command(...words, ...given, "--agree", "another")).toMatchObject({ status: 1 });
    expect(await row()).toEqual(before);
    const only = ["--rotate-days", "30"];
    const { fingerprint } = (await command(...words, ...only)).json;
    expect((await command(...words, ...only, "--agree", fingerprint)).json).toEqual({ written: [], refused: [] });
    expect(await row()).toEqual({ ...before, rotate_days: 30 });
  });

  test("a policy for a domain without exchangers is an item that says why there is none", async () => {
    await operator.call("POST", "/instances/south/domains", { domain: "no-mail.example.org" });
    const command = operatorOf(palomar.context);
    const { json, text } = await command(
      ...["instance", "domain", "setup", "south", "no-mail.example.org", "--mta-sts", "enforce"],
    );
    expect(json.items.filter(({ part }: Item) => /^mta-sts/.test(part))).toMatchObject([
      { action: "ask", name: "_mta-sts.no-mail.example.org", fault: { kind: "no-exchanger" } },
    ]);
    expect(text).toContain("! no-exchanger: _mta-sts.no-mail.example.org");
  });

  test("what nobody said is there is told, and left out of files to paste", async () => {
    const { config } = palomar.context;
    const mute = { ...config, resolver: { host: "127.0.0.1", port: 1 } };
    const command = operatorOf({ ...palomar.context, config: mute });
    const asked = await command("instance", "domain", "setup", "south", "elsewhere.example", "--zone-file");
    expect(asked.status).toBe(1);
    expect(asked.notes[0]).toMatch(/^nobody said what is there: elsewhere\.example, /);
    expect(asked.text).toMatch(/^; not looked up: elsewhere\.example\. IN TXT "v=spf1 /);
    expect(asked.text!.split("\n").filter((line) => line !== "" && !line.startsWith("; "))).toEqual([]);
  });

  test("MTA-STS, a host for links and rotation are proposed as they are wanted", async () => {
    const wanted = { mta_sts: "testing", tracking_host: "Links.north.example.org", rotate_days: 90 };
    expect((await north.call("PATCH", SETUP, wanted)).body).toMatchObject({
      ...{ mta_sts: "testing", tracking_host: "links.north.example.org", rotate_days: 90 },
    });
    const proposal = await eventually(
      () => look(north),
      (body) => changes(body).length === 3,
    );
    expect(changes(proposal).map(({ name, after }) => [name, after])).toEqual([
      ["links.north.example.org", "track.example.net"],
      ["mta-sts.north.example.org", "track.example.net"],
      ["_mta-sts.north.example.org", expect.stringMatching(/^v=STSv1; id=[0-9a-f]{20};$/)],
    ]);
    expect((await agreeTo(north)).body.written).toHaveLength(3);
    const { keyRing, db } = palomar.context;
    const of = { instanceId: (await db("instances").where({ name: "north" }).first()).id, domain: "north.example.org" };
    await eventually(
      () => findSenderKeys(db, keyRing, of),
      (sender) => sender?.linkHost === "links.north.example.org",
    );
  });

  test("what is wanted no more is taken back by null", async () => {
    const none = { tracking_host: null, rotate_days: null };
    expect((await north.call("PATCH", SETUP, none)).body).toMatchObject({ ...none, mta_sts: "testing" });
    const some = { tracking_host: "links.north.example.org", rotate_days: 90 };
    expect((await north.call("PATCH", SETUP, some)).body).toMatchObject({ ...some, mta_sts: "testing" });
  });

  test.each([
    [{ tracking_host: "links.example.com" }],
    [{ tracking_host: "north.example.org" }],
    [{ tracking_host: "mta-sts.north.example.org" }],
    [{ rotate_days: 1 }],
    [{ mta_sts: "none" }],
  ])("%j is refused", async (fields) => {
    expect((await north.call("PATCH", SETUP, fields)).status).toBe(400);
  });
});

describe("keys", () => {
  const signing = async () => {
    const { keyRing, db } = palomar.context;
    const { id } = await db("instances").where({ name: "north" }).first();
    const found = await findSenderKeys(db, keyRing, { instanceId: id, domain: "north.example.org" });
    return found!.keys.map(({ selector }) => selector);
  };
  const states = async () => {
    const { keys } = await look(north);
    return keys.map(({ algorithm, state }: { algorithm: string; state: string }) => `${algorithm} ${state}`).sort();
  };

  test("the Ed25519 key is signed with once it was seen for as long as caches keep its absence", async () => {
    await eventually(
      states,
      (all) => all.join() === "ed25519 new,rsa signing" || all.join() === "ed25519 signing,rsa signing",
    );
    palomar.clock.advance(400_000);
    await eventually(states, (all) => all.join() === "ed25519 signing,rsa signing");
    expect(await signing()).toHaveLength(2);
  });

  test("a rotation that is not published never takes over", async () => {
    await palomar.users.acme.call("DELETE", "/resellers/one/companies/acme/instances/north");
    const before = await signing();
    expect((await north.call("POST", SETUP.replace("setup", "rotation"))).status).toBe(200);
    expect((await north.call("POST", SETUP.replace("setup", "rotation"))).body.code).toBe("rotation-begun");
    for (let looks = 0; looks < 3; looks += 1) {
      palomar.clock.advance(DAY_MS);
      await north.call("POST", SETUP.replace("setup", "check"));
    }
    expect(await states()).toEqual(["ed25519 new", "ed25519 signing", "rsa new", "rsa signing"]);
    expect(await signing()).toEqual(before);
    await palomar.users.acme.call("PUT", "/resellers/one/companies/acme/instances/north");
  });

  test("once it is published and seen by all it does, and the old ones go after a week", async () => {
    const before = await signing();
    const after = await eventually(
      async () => {
        palomar.clock.advance(60_000);
        await north.call("POST", SETUP.replace("setup", "check"));
        return states();
      },
      (all) => all.join() === "ed25519 old,ed25519 signing,rsa old,rsa signing",
    );
    expect(after).toHaveLength(4);
    expect((await signing()).some((selector) => before.includes(selector))).toBe(false);
    palomar.clock.advance(6.9 * DAY_MS);
    await north.call("POST", SETUP.replace("setup", "check"));
    expect(await states()).toHaveLength(4);
    palomar.clock.advance(0.2 * DAY_MS);
    await eventually(
      async () => {
        await north.call("POST", SETUP.replace("setup", "check"));
        return states();
      },
      (all) => all.join() === "ed25519 signing,rsa signing",
    );
    const { rr } = (await palomar.users.one.call("GET", "/dns/one/rr/example.org")).body;
    const names = rr.map(({ name }: { name: string }) => name).filter((name: string) => name.includes("_domainkey"));
    expect(names.sort()).toEqual((await signing()).map((selector) => `${selector}._domainkey.north`).sort());
  });
});

test("addresses for reports that another secret signed follow by themselves where somebody agreed", async () => {
  const { keyRing, db } = palomar.context;
  const { id } = await db("instances").where({ name: "north" }).first();
  const sender = { instanceId: id, domain: "north.example.org" };
  const of = (ring: KeyRing) => reportAddresses(ring, sender, { bounceDomain: BOUNCES, tracking: "" });
  const [ours, former] = [of(keyRing), of(KeyRing.ofSecret("the secret before"))];
  const records = async (): Promise<{ rr_id: number; name: string; value: string }[]> => {
    const { rr } = (await palomar.users.one.call("GET", "/dns/one/rr/example.org")).body;
    return rr.filter(({ name }: { name: string }) => /^(_dmarc|_smtp._tls).north$/.test(name));
  };
  for (const { rr_id, value } of await records()) {
    const before = value.replace(ours.dmarc, `${former.dmarc},mailto:a@example.com`).replace(ours.tls, former.tls);
    expect(before).not.toBe(value);
    const changed = await palomar.users.one.call("PUT", `/dns/one/rr/example.org/${rr_id}`, { value: before });
    expect(changed.status).toBe(200);
  }
  const values = await eventually(
    async () => {
      await north.call("POST", SETUP.replace("setup", "check"));
      return (await records()).map(({ value }) => value);
    },
    (all) => !all.join().includes(former.dmarc) && !all.join().includes(former.tls),
  );
  expect(values.join()).toContain(`rua=mailto:a@example.com,${ours.dmarc}`);
  expect(values.join()).toContain(ours.tls);
});

test("MTA-STS that is wanted no more ends with mode none, and its records go once no sender goes by it", async () => {
  const { db } = palomar.context;
  const check = () => north.call("POST", SETUP.replace("setup", "check"));
  const policy = () => findServedStsPolicy(db, "north.example.org");
  const records = async () => {
    const { rr } = (await palomar.users.one.call("GET", "/dns/one/rr/example.org")).body;
    return rr.filter(({ name }: { name: string }) => /mta-sts/.test(name)).map(({ value }: { value: string }) => value);
  };
  const [before] = (await look(north)).items.filter(({ part }: Item) => part === "mta-sts");
  expect(await policy()).toMatchObject({ mode: "testing" });
  const off = (await north.call("PATCH", SETUP, { mta_sts: "off" })).body;
  const ends = new Date(palomar.clock.nowMs() + 7 * DAY_MS).getTime();
  expect(off.mta_sts).toBe("off");
  expect(Math.abs(Date.parse(off.mta_sts_ends) - ends)).toBeLessThan(60_000);
  expect(await policy()).toEqual({ mode: "none", exchangers: [] });
  // The new id follows by itself where somebody agreed.
  await eventually(
    async () => {
      await check();
      return (await look(north)).items.filter(({ part }: Item) => part === "mta-sts");
    },
    ([item]) => item.action === "keep" && item.after !== before.after,
  );
  palomar.clock.advance(6.9 * DAY_MS);
  await check();
  expect(await records()).toHaveLength(2);
  palomar.clock.advance(0.2 * DAY_MS);
  await eventually(
    async () => {
      await check();
      return policy();
    },
    (served) => served === undefined,
  );
  expect(await records()).toEqual([]);
  expect(await look(north)).toMatchObject({ mta_sts: "off", mta_sts_ends: null });
});
