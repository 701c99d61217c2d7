import { createSocket } from "node:dgram";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { decodeMessage, encodeMessage } from "../../services/core/dns/message.ts";
import { exportSignedZone } from "../../services/operations/dns/zone-signed-file.ts";
import { loadConfig } from "../../services/platform/config/config.ts";
import { findAnyZone } from "../../services/store/dns/zones.ts";
import { callApi } from "../support/api-client.ts";
import { KEY_RING, RESELLER_TWO, type RunningApi, startApi, zoneFields } from "../support/dns-api.ts";
import { eventually, nameOf } from "../support/dns-server.ts";
import { complaintsAbout } from "../support/dnssec.ts";
import { operatorOf } from "../support/operator.ts";

const COMPANY_KEY = "company-key-of-acme";

let api: RunningApi;
let palomar: ReturnType<typeof operatorOf>;

beforeAll(async () => {
  // Nobody answers there, so that what the parent has is never known from elsewhere.
  api = await startApi({ PALOMAR_RESOLVER: "127.0.0.1:1" });
  await api.call("POST", "/api/v1/company", { crm_id: "acme", name: "Acme", apikey: COMPANY_KEY });
  const config = loadConfig({ PALOMAR_RESOLVER: "127.0.0.1:1" });
  if (!config.ok) throw new Error(config.error.join());
  palomar = operatorOf({ db: api.database.db, keyRing: KEY_RING, config: config.value });
});
afterAll(() => api.stop());

async function makeZone(name: string): Promise<void> {
  const made = await api.call("POST", `/api/v1/master_zone/${name}`, zoneFields());
  expect(made.status, made.text).toBe(200);
  await api.call("POST", `/api/v1/rr/${name}`, { name: "www", type: "A", value: "192.0.2.1" });
}

async function complaints(zone: string) {
  const exported = await exportSignedZone(api.database.db, (on) => findAnyZone(on, nameOf(zone)));
  return complaintsAbout(zone, exported!.text);
}

describe("a parent that takes its time", () => {
  /** Says of every name that it has no DS, when it is let. */
  const resolver = createSocket("udp4");
  let asked: () => void = () => {};
  let released: Promise<void> = Promise.resolve();
  let slow: RunningApi;
  /** Changes of one caller to a zone take turns. */
  const call = (method: string, path: string, body?: unknown) =>
    slow.call(method, path, body, { reseller: "one", key: COMPANY_KEY });

  beforeAll(async () => {
    resolver.on("message", async (octets, { port, address }) => {
      asked();
      await released;
      const query = decodeMessage(octets);
      if (!query.ok) throw new Error(query.error.message);
      const flags = { ...query.value.flags, qr: true, ra: true, ad: true };
      resolver.send(encodeMessage({ ...query.value, flags, edns: undefined }), port, address);
    });
    await new Promise<void>((resolve) => resolver.bind(0, "127.0.0.1", resolve));
    slow = await startApi({ PALOMAR_RESOLVER: `127.0.0.1:${resolver.address().port}` });
    await slow.call("POST", "/api/v1/company", { crm_id: "acme", name: "Acme", apikey: COMPANY_KEY });
  });
  afterAll(async () => {
    await slow.stop();
    resolver.close();
  });

  test.each([
    ["stop.example", "signing is to stop", (zone: string) => call("PUT", `/api/v1/dnssec/${zone}`, { enabled: false })],
    ["check.example", "it is to be asked", (zone: string) => call("POST", `/api/v1/dnssec/${zone}/check`)],
    [
      "powerdns.example",
      "signing is to stop through PowerDNS's API",
      (zone: string) =>
        callApi(
          "PUT",
          `${slow.url}/api/v1/servers/localhost/zones/${zone}.`,
          { "X-API-Key": COMPANY_KEY },
          { dnssec: false },
        ),
    ],
  ])("%s: other changes of the zone do not wait for it where %s", async (zone, _, ask) => {
    await call("POST", `/api/v1/master_zone/${zone}`, zoneFields());
    await call("PUT", `/api/v1/dnssec/${zone}`, { enabled: true });
    let release: () => void = () => {};
    released = new Promise<void>((resolve) => {
      release = resolve;
    });
    const isAsked = new Promise<void>((resolve) => {
      asked = resolve;
    });
    let isOver = false;
    const asking = ask(zone).finally(() => {
      isOver = true;
    });
    await isAsked;
    // It may have been upkeep that asked.
    await sleep(300);
    const created = await call("POST", `/api/v1/rr/${zone}`, { name: "www", type: "A", value: "192.0.2.1" });
    expect({ status: created.status, isOver }).toEqual({ status: 200, isOver: false });
    release();
    expect((await asking).status).toBeLessThan(300);
  });
});

describe("GET and PUT /dnssec/{domain}", () => {
  test("signs a zone and stops", async () => {
    await makeZone("switch.example");
    const off = { domain: "switch.example", enabled: false, denial: "nsec", keys: [] };
    expect((await api.call("GET", "/api/v1/dnssec/switch.example")).body).toEqual(off);
    const before = (await api.call("GET", "/api/v1/soa/switch.example")).body.serial;
    const on = await api.call("PUT", "/api/v1/dnssec/switch.example", { enabled: true });
    expect(on.status).toBe(200);
    expect(on.body).toEqual({
      domain: "switch.example",
      enabled: true,
      denial: "nsec",
      keys: [
        {
          key_tag: expect.any(Number),
          role: "csk",
          algorithm: 13,
          state: "published",
          ds: [expect.stringMatching(new RegExp(`^${on.body.keys[0].key_tag} 13 2 [0-9A-F]{64}$`))],
        },
      ],
    });
    expect((await api.call("GET", "/api/v1/dnssec/switch.example")).body).toEqual(on.body);
    expect((await api.call("PUT", "/api/v1/dnssec/switch.example", { enabled: true })).body).toEqual(on.body);
    expect((await api.call("GET", "/api/v1/soa/switch.example")).body.serial).toBe(before + 1);
    expect(await complaints("switch.example")).toEqual({});
    expect((await api.call("PUT", "/api/v1/dnssec/switch.example", { enabled: false })).body).toEqual(off);
    expect((await api.call("GET", "/api/v1/soa/switch.example")).body.serial).toBe(before + 2);
  });

  test("leaves the customer's view of the zone as it was", async () => {
    await makeZone("view.example");
    const records = (await api.call("GET", "/api/v1/rr/view.example")).body.rr;
    await api.call("PUT", "/api/v1/dnssec/view.example", { enabled: true, denial: "nsec3" });
    expect((await api.call("GET", "/api/v1/rr/view.example")).body.rr).toEqual(records);
    const file = (await api.call("GET", "/api/v1/zone_file/view.example")).text;
    expect(file).not.toMatch(/RRSIG|DNSKEY|NSEC/);
    const created = await api.call("POST", "/api/v1/rr/view.example", { name: "x.y", type: "TXT", value: "deep" });
    expect(created.status).toBe(200);
    expect(await complaints("view.example")).toEqual({});
    const { history } = (await api.call("GET", "/api/v1/zone_history/view.example")).body;
    expect(history[0].added).toEqual([{ name: "x.y", type: "TXT", ttl: 3600, rr_prio: null, value: '"deep"' }]);
    expect(history[0].deleted).toEqual([]);
    expect(history[1]).toMatchObject({ actor: "reseller:one", added: [], deleted: [], signing: "begun" });
    expect(history[0].signing).toBe("renewed");
    expect(history[2]).not.toHaveProperty("signing");
    await api.call("PUT", "/api/v1/dnssec/view.example", { enabled: true, denial: "nsec" });
    await api.call("PUT", "/api/v1/dnssec/view.example", { enabled: false });
    const later = (await api.call("GET", "/api/v1/zone_history/view.example?limit=2")).body.history;
    expect(later.map(({ signing }: { signing?: string }) => signing)).toEqual(["ended", "renewed"]);
    await api.call("PUT", "/api/v1/dnssec/view.example", { enabled: true, denial: "nsec3" });
    const restored = await api.call("PUT", "/api/v1/zone_file/view.example", file);
    expect(restored.status).toBe(200);
    expect(await complaints("view.example")).toEqual({});
  });

  test("changes the kind of denial, the SOA's times and whole zones under way", async () => {
    await makeZone("change.example");
    for (const denial of ["nsec3", "nsec", "nsec3"]) {
      const changed = await api.call("PUT", "/api/v1/dnssec/change.example", { enabled: true, denial });
      expect(changed.body.denial).toBe(denial);
      expect(await complaints("change.example")).toEqual({});
    }
    const { serial } = (await api.call("GET", "/api/v1/soa/change.example")).body;
    const soa = `acme/change.example/ns1.example.net/host.example.net/${serial + 5}/7200/900/1209600/60/600`;
    expect((await api.call("POST", `/api/v1/update_soa/${soa}`)).status).toBe(200);
    expect(await complaints("change.example")).toEqual({});
  });

  test("says what is wrong", async () => {
    await makeZone("wrong.example");
    const refusals = [
      [{}, "missing field: enabled"],
      [{ enabled: "yes" }, "invalid field: enabled: must be true or false"],
      [{ enabled: true, denial: "nsec5" }, "invalid field: denial: must be nsec or nsec3"],
      [{ enabled: true, algorithm: 5 }, "invalid field: algorithm: must be 8, 13 or 15"],
      [{ enabled: true, keys: "many" }, "invalid field: keys: must be csk or ksk-zsk"],
    ] as const;
    for (const [body, msg] of refusals) {
      expect(await api.call("PUT", "/api/v1/dnssec/wrong.example", body)).toMatchObject({ status: 400, body: { msg } });
    }
    const missing = { status: 400, body: { msg: "absent.example does not exist" } };
    expect(await api.call("GET", "/api/v1/dnssec/absent.example")).toMatchObject(missing);
    expect(await api.call("PUT", "/api/v1/dnssec/absent.example", { enabled: true })).toMatchObject(missing);
    const invisible = { status: 400, body: { msg: "wrong.example does not exist" } };
    expect(await api.call("GET", "/api/v1/dnssec/wrong.example", undefined, RESELLER_TWO)).toMatchObject(invisible);
    expect(await api.call("DELETE", "/api/v1/dnssec/wrong.example")).toMatchObject({ status: 405 });
    const company = { reseller: "one", key: "company-key-of-acme" };
    expect(await api.call("PUT", "/api/v1/dnssec/wrong.example", { enabled: true }, company)).toMatchObject({
      status: 200,
    });
  });

  test.each([8, 15])("signs with algorithm %i, and with two keys", async (algorithm) => {
    const zone = `algorithm-${algorithm}.example`;
    await makeZone(zone);
    const on = await api.call("PUT", `/api/v1/dnssec/${zone}`, { enabled: true, algorithm, keys: "ksk-zsk" });
    expect(
      on.body.keys.map(({ role, algorithm: of, ds }: { role: string; algorithm: number; ds: string[] }) => [
        role,
        of,
        ds.length,
      ]),
    ).toEqual([
      ["ksk", algorithm, 1],
      ["zsk", algorithm, 0],
    ]);
    expect(await complaints(zone)).toEqual({});
  });

  test("refuses records that signing makes, and a zone that has some of its own", async () => {
    await makeZone("own.example");
    const key = { name: "@", type: "CDNSKEY", value: "257 3 13 AAAA" };
    const created = await api.call("POST", "/api/v1/rr/own.example", key);
    expect(created.status, created.text).toBe(200);
    const refused = await api.call("PUT", "/api/v1/dnssec/own.example", { enabled: true });
    expect(refused.status).toBe(400);
    expect(refused.body.msg).toMatch(/^own\.example has CDNSKEY records of its own/);
    await api.call("DELETE", `/api/v1/rr/own.example/${created.body.rr_id}`);
    expect((await api.call("PUT", "/api/v1/dnssec/own.example", { enabled: true })).status).toBe(200);
    const msg = "own.example is signed: its CDNSKEY records are made by signing";
    expect(await api.call("POST", "/api/v1/rr/own.example", key)).toMatchObject({ status: 400, body: { msg } });
    const file = "@ NS ns1.example.net.\n@ CDNSKEY 257 3 13 AAAA\n";
    const placed = { status: 400, body: { msg: `line 2, column 1: ${msg}` } };
    expect(await api.call("PUT", "/api/v1/zone_file/own.example", file)).toMatchObject(placed);
    for (const [type, value] of [
      ["NSEC3PARAM", "1 0 0 -"],
      ["TYPE51", "\\# 5 0100000000"],
    ]) {
      const made = { status: 400, body: { msg: msg.replace("CDNSKEY", "NSEC3PARAM") } };
      expect(await api.call("POST", "/api/v1/rr/own.example", { name: "@", type, value })).toMatchObject(made);
      const given = await api.call(
        "PUT",
        "/api/v1/zone_file/own.example",
        `${file.split("\n")[0]}\n@ ${type} ${value}\n`,
      );
      expect(given).toMatchObject({ status: 400, body: { msg: `line 2, column 1: ${made.body.msg}` } });
    }
  });
});

test("upkeep makes signatures anew before they end, and tells the servers", async () => {
  await makeZone("upkeep.example");
  const key = (await api.call("PUT", "/api/v1/dnssec/upkeep.example", { enabled: true })).body.keys[0];
  const serial = async () => (await api.call("GET", "/api/v1/soa/upkeep.example")).body.serial;
  const before = await serial();
  api.clock.set(new Date(Date.now() + 8 * 86_400_000).toISOString());
  try {
    await eventually(async () => (await serial()) > before, 60_000);
    await eventually(async () => {
      const { body } = await api.call("GET", "/api/v1/dnssec/upkeep.example");
      return body.keys[0].key_tag === key.key_tag && body.keys[0].state === "ready";
    }, 60_000);
  } finally {
    api.clock.set(new Date().toISOString());
  }
});

describe("the parent's DS", () => {
  test("is read where the parent is hosted here, and keeps the zone from being unsigned", async () => {
    await makeZone("parent.example");
    await makeZone("child.parent.example");
    const on = (await api.call("PUT", "/api/v1/dnssec/child.parent.example", { enabled: true })).body;
    const [ds] = on.keys[0].ds;
    const record = { name: "child", type: "DS", value: ds };
    await api.call("POST", "/api/v1/rr/parent.example", { name: "child", type: "NS", value: "ns1.example.net." });
    const created = (await api.call("POST", "/api/v1/rr/parent.example", record)).body;
    const checked = await api.call("POST", "/api/v1/dnssec/child.parent.example/check");
    expect(checked.body.parent.ds).toEqual([ds]);
    expect((await api.call("GET", "/api/v1/dnssec/child.parent.example")).body.keys[0].state).toBe("active");
    const refused = await api.call("PUT", "/api/v1/dnssec/child.parent.example", { enabled: false });
    expect(refused.status).toBe(400);
    expect(refused.body.msg).toContain(`the parent of child.parent.example has a DS (key ${on.keys[0].key_tag})`);

    await api.call("PUT", "/api/v1/dnssec/child.parent.example/ds_wanted", { wanted: false });
    const exported = await palomar("zone", "export", "child.parent.example", "--signed");
    expect(exported.text).toMatch(/\tCDS\t0 0 0 00\n/);
    expect(exported.text).toMatch(/\tCDNSKEY\t0 3 0 AA==\n/);
    await api.call("DELETE", `/api/v1/rr/parent.example/${created.rr_id}`);
    const tooSoon = await api.call("PUT", "/api/v1/dnssec/child.parent.example", { enabled: false });
    expect(tooSoon.body.msg).toMatch(/^caches may have the DS of child\.parent\.example until 20/);
    api.clock.set(new Date(Date.now() + 2 * 86_400_000).toISOString());
    expect((await api.call("PUT", "/api/v1/dnssec/child.parent.example", { enabled: false })).body.enabled).toBe(false);
    api.clock.set(new Date().toISOString());
  });

  test("follows CDS by itself where the parent is hosted here, until that is switched off", async () => {
    const [parent, child] = ["auto.example", "child.auto.example"];
    for (const zone of [parent, child]) await makeZone(zone);
    await api.call("POST", `/api/v1/rr/${parent}`, { name: "child", type: "NS", value: "ns1.example.net." });
    await api.call("POST", `/api/v1/rr/${child}`, { name: "@", type: "NS", value: "ns1.example.net." });
    const [key] = (await api.call("PUT", `/api/v1/dnssec/${child}`, { enabled: true })).body.keys;
    const seen = await api.call("POST", `/api/v1/dnssec/${child}/ds_seen`, { key_tag: key.key_tag });
    expect(seen.body.keys[0].state).toBe("active");
    const ds = async () => {
      const { rr } = (await api.call("GET", `/api/v1/rr/${parent}`)).body;
      return rr.filter(({ type }: { type: string }) => type === "DS").map(({ value }: { value: string }) => value);
    };
    expect(await ds()).toEqual(key.ds);
    const details = (await api.call("GET", `/api/v1/dnssec/${child}/details`)).body;
    expect(details).toMatchObject({ ds_automatic: true, parent: { ds: key.ds, authenticated: true } });
    const [change] = (await api.call("GET", `/api/v1/zone_history/${parent}`)).body.history;
    expect(change).toMatchObject({ actor: `cds:${child}`, added: [{ name: "child", type: "DS", value: key.ds[0] }] });

    await api.call("PUT", `/api/v1/dnssec/${child}/ds_automatic`, { automatic: false });
    await api.call("PUT", `/api/v1/dnssec/${child}/ds_wanted`, { wanted: false });
    expect(await ds()).toEqual(key.ds);
    expect((await api.call("GET", `/api/v1/dnssec/${child}/details`)).body.ds_automatic).toBe(false);
    await api.call("PUT", `/api/v1/dnssec/${child}/ds_automatic`, { automatic: true });
    expect(await ds()).toEqual([]);
    expect(await api.call("PUT", `/api/v1/dnssec/${child}/ds_automatic`, { automatic: "no" })).toMatchObject({
      status: 400,
      body: { msg: "invalid field: automatic: must be true or false" },
    });
  });

  test("is taken from the operator's word", async () => {
    await makeZone("word.example");
    for (const change of [{ role: "csk" }, { algorithm: 15 }, { algorithm: 15, keys: "ksk-zsk" }]) {
      expect(await api.call("POST", "/api/v1/dnssec/word.example/rollover", change)).toMatchObject({
        status: 400,
        body: { msg: "word.example is not signed" },
      });
    }
    const { key_tag: tag } = (await api.call("PUT", "/api/v1/dnssec/word.example", { enabled: true })).body.keys[0];
    const refused = await api.call("POST", "/api/v1/dnssec/word.example/rollover", { role: "csk" });
    expect(refused).toMatchObject({
      status: 400,
      body: { msg: `the DS of key ${tag} has not been seen at the parent yet` },
    });
    const seen = await api.call("POST", "/api/v1/dnssec/word.example/ds_seen", { key_tag: tag });
    expect(seen.body.keys[0].state).toBe("active");
    expect((await api.call("PUT", "/api/v1/dnssec/word.example", { enabled: false })).status).toBe(400);
    const rolling = await api.call("POST", "/api/v1/dnssec/word.example/rollover", { role: "csk" });
    expect(rolling.body.keys.map(({ state, ds }: { state: string; ds: string[] }) => [state, ds.length])).toEqual([
      ["active", 1],
      ["published", 0],
    ]);
    expect(await complaints("word.example")).toEqual({});
    const again = await api.call("POST", "/api/v1/dnssec/word.example/rollover", { role: "csk" });
    expect(again.body.msg).toMatch(/a rollover is under way/);
    const details = (await api.call("GET", "/api/v1/dnssec/word.example/details")).body;
    expect(details.keys.map(({ ds_seen }: { ds_seen: boolean }) => ds_seen)).toEqual([true, false]);
    expect((await palomar("dnssec", "disable", "word.example")).refused).toContain("word.example was seen with the DS");
    expect((await palomar("dnssec", "disable", "word.example", "--force")).json).toMatchObject({ enabled: false });
  });
});

describe("keys in BIND's format", () => {
  test("go out, and sign the zone again elsewhere or here", async () => {
    await makeZone("keys.example");
    const path = "/api/v1/dnssec/keys.example";
    const signed = (await api.call("PUT", path, { enabled: true, keys: "ksk-zsk" })).body;
    const pairs: { key: string; private: string }[] = [];
    for (const { key_tag: tag } of signed.keys) {
      const { status, body } = await api.call("POST", `${path}/keys/${tag}/export`);
      expect(status).toBe(200);
      expect(body.name).toBe(`Kkeys.example.+013+${String(tag).padStart(5, "0")}`);
      expect(body.key).toMatch(/^keys\.example\. IN DNSKEY 25[67] 3 13 /m);
      pairs.push({ key: body.key, private: body.private });
    }
    await api.call("PUT", path, { enabled: false });
    const back = await api.call("POST", `${path}/keys`, { keys: pairs });
    expect(back.body.keys).toEqual(signed.keys);
    expect(await complaints("keys.example")).toEqual({});

    const swapped = [{ key: pairs[0]!.key, private: pairs[1]!.private }];
    const refusals = [
      [{}, "missing field: keys"],
      [{ keys: [] }, "invalid field: keys: must be one key or more"],
      [{ keys: swapped }, "the .private file does not go with the .key file"],
      [{ keys: [{ key: "nothing", private: "nothing" }] }, /^the \.key file: line 1/],
    ] as const;
    for (const [body, msg] of refusals) {
      const refused = await api.call("POST", `${path}/keys`, body);
      expect(refused.status).toBe(400);
      expect(refused.body.msg).toMatch(msg);
    }
    expect((await api.call("POST", `${path}/keys`, { keys: pairs })).body.msg).toMatch(
      /is published: |has not been seen/,
    );
    const absent = await api.call("POST", `${path}/keys/99999/export`);
    expect(absent).toMatchObject({ status: 400, body: { msg: "keys.example has no key 99999" } });
    const invisible = await api.call("POST", `${path}/keys/1/export`, undefined, RESELLER_TWO);
    expect(invisible).toMatchObject({ status: 400, body: { msg: "keys.example does not exist" } });
  });

  test("that hold no key, or a revoked one, are refused with what is wrong, and change nothing", async () => {
    const path = "/api/v1/dnssec/no-keys.example";
    await makeZone("no-keys.example");
    const [{ key_tag: tag }] = (await api.call("PUT", path, { enabled: true })).body.keys;
    const { key, private: text } = (await api.call("POST", `${path}/keys/${tag}/export`)).body;
    await api.call("PUT", path, { enabled: false });
    const before = (await api.call("GET", "/api/v1/soa/no-keys.example")).body;
    const scalar = (octets: Buffer) => text.replace(/^PrivateKey: .*$/m, `PrivateKey: ${octets.toString("base64")}`);
    for (const [keys, msg] of [
      [{ key, private: scalar(Buffer.alloc(33, 1)) }, "the .private file: PrivateKey must have 32 octets, not 33"],
      [{ key, private: scalar(Buffer.alloc(960, 1)) }, "the .private file: PrivateKey must have 32 octets, not 960"],
      [{ key, private: scalar(Buffer.alloc(32)) }, /^the \.private file: PrivateKey is not between 1 and the order/],
      [
        { key: key.replace("DNSKEY 257", "DNSKEY 385"), private: text },
        /^key \d+ is revoked \(flags 385, RFC 5011\): /,
      ],
    ] as const) {
      const refused = await api.call("POST", `${path}/keys`, { keys: [keys] });
      expect(refused.status).toBe(400);
      expect(refused.body.msg).toMatch(msg);
    }
    expect((await api.call("GET", path)).body).toMatchObject({ enabled: false, keys: [] });
    expect((await api.call("GET", "/api/v1/soa/no-keys.example")).body).toEqual(before);
  });
});
