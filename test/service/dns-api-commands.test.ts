import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ServiceContext } from "../../services/platform/service.ts";
import { findAcl, removeAcl } from "../../services/store/dns/acls.ts";
import {
  KEY_RING,
  makeZone,
  RESELLER_TWO,
  type RunningApi,
  startApiWithCompany,
  zoneFields,
} from "../support/dns-api.ts";
import { type CommandOutcome, operatorOf } from "../support/operator.ts";

let api: RunningApi;
let folder: string;

beforeAll(async () => {
  api = await startApiWithCompany();
  folder = mkdtempSync(join(tmpdir(), "palomar-test-"));
});
afterAll(async () => {
  rmSync(folder, { recursive: true });
  await api.stop();
});

const palomar = (...words: string[]): Promise<CommandOutcome> =>
  operatorOf({ db: api.database.db, keyRing: KEY_RING, config: {} as ServiceContext["config"] })(...words);

function file(name: string, text: string | Buffer): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

const ZONE = "$TTL 300\n@ SOA ns1.example.net. h.example.net. 7 1 2 3 4\n@ NS ns1.example.net.\nwww A 192.0.2.1\n";

test("palomar zone updates shows and sets who takes DNS UPDATE", async () => {
  const name = await makeZone(api);
  const json = async (...words: string[]) => (await palomar("zone", "updates", ...words)).json;
  expect(await json(name)).toEqual({ domain: name, enabled: false, default: true });
  expect(await json("one", "on", "--reseller")).toEqual({ reseller_id: "one", enabled: true });
  expect(await json(name)).toEqual({ domain: name, enabled: true, default: true });
  expect(await json(name, "off")).toEqual({ domain: name, enabled: false, default: false });
  expect(await json(name, "default")).toEqual({ domain: name, enabled: true, default: true });
  expect(await json("one", "off", "--reseller")).toEqual({ reseller_id: "one", enabled: false });
  for (const wrong of [
    ["nowhere.example", "on"],
    [name, "perhaps"],
    ["nobody", "on", "--reseller"],
    ["one", "default", "--reseller"],
  ]) {
    expect((await palomar("zone", "updates", ...wrong)).status).not.toBe(0);
  }
});

describe("palomar reseller", () => {
  test("adds, lists, rotates the key, and gives the licence", async () => {
    const added = await palomar("reseller", "add", "three", "--name", "Three", "--rpz");
    expect(added.json).toEqual({ reseller_id: "three", key: expect.stringMatching(/^[\w-]{43}$/) });
    const ask = (key: string, path = "companies") =>
      api.call("GET", `/api/v1/${path}`, undefined, { reseller: "three", key });
    expect((await ask(added.json.key)).status).toBe(200);
    expect((await ask(added.json.key, "active_rpz")).status).toBe(200);
    expect((await palomar("reseller", "licence", "three", "--rpz", "off")).json).toEqual({
      reseller_id: "three",
      rpz: false,
    });
    expect((await ask(added.json.key, "active_rpz")).status).toBe(403);
    const rotated = await palomar("reseller", "key", "rotate", "three");
    expect((await ask(added.json.key)).status).toBe(403);
    expect((await ask(rotated.json.key)).status).toBe(200);
    const again = await palomar("reseller", "key", "rotate", "three", "--grace", "24h");
    expect((await ask(rotated.json.key)).status).toBe(200);
    expect((await ask(again.json.key)).status).toBe(200);
    expect(again.notes).toEqual([]);
    const third = await palomar("reseller", "key", "rotate", "three", "--grace", "1h");
    expect(third.notes).toEqual([expect.stringMatching(/^an older key, to be accepted until .*Z, has ended/)]);
    expect(await Promise.all([rotated, again, third].map(async ({ json }) => (await ask(json.key)).status))).toEqual([
      ...[403, 200, 200],
    ]);
    await api.database.db("resellers").where({ id: "three" }).update({ previous_key_until: new Date() });
    expect((await ask(again.json.key)).status).toBe(403);
    expect((await palomar("reseller", "list")).json).toContainEqual({
      reseller_id: "three",
      name: "Three",
      rpz: false,
    });
  });

  test.each([
    [["add", "three", "--name", "Again"], "reseller three already exists"],
    [["add", "four", "--name", " "], "--name must not be empty"],
    [["add", "bad id", "--name", "x"], "reseller_id: must have"],
    [["add", "four", "--name", "x", "--key", "with space"], "key: must be"],
    [["key", "rotate", "nobody"], "reseller nobody does not exist"],
    [["licence", "nobody", "--rpz", "on"], "reseller nobody does not exist"],
  ])("refuses %j", async (words, refused) => {
    expect((await palomar("reseller", ...words)).refused).toContain(refused);
  });
});

describe("palomar acl add", () => {
  test("makes a key, or takes one", async () => {
    const made = await palomar("acl", "add", "one", "made", "--block", "192.0.2.1", "--tsig", "Key.Example.");
    expect(made.json).toEqual({
      name: "made",
      tsig: { name: "key.example", algorithm: "hmac-sha256", secret: expect.stringMatching(/^.{43}=$/) },
    });
    const given = "given.example:HMAC-SHA512:c2VjcmV0IHNlY3JldCBzZWNyZXQ=";
    const words = [
      "--tsig",
      given,
      "--zone",
      "A.example.org.",
      "--notify",
      "192.0.2.1",
      "--notify",
      "[2001:db8::1]:5353",
    ];
    const taken = await palomar("acl", "add", "one", "given", ...words);
    expect(taken.json.tsig).toEqual({
      name: "given.example",
      algorithm: "hmac-sha512",
      secret: "c2VjcmV0IHNlY3JldCBzZWNyZXQ=",
    });
    expect(await findAcl(api.database.db, KEY_RING, "one", "given")).toEqual({
      name: "given",
      blocks: [],
      tsig: { name: "given.example", algorithm: "hmac-sha512", secret: Buffer.from("secret secret secret") },
      zones: ["a.example.org"],
      notify: ["192.0.2.1:53", "[2001:db8::1]:5353"],
    });
    expect(taken.notes).toEqual([
      "warning: the secret of given.example should have at least 64 octets for hmac-sha512, not 20",
      "warning: one has no zone a.example.org yet",
    ]);
    expect(made.notes).toEqual([]);
    expect((await palomar("acl", "add", "one", "nobody", "--notify", "192.0.2.1")).notes).toEqual([
      "warning: nobody may transfer by it, with neither --block nor --tsig",
    ]);
    expect((await palomar("acl", "add", "one", "plain", "--block", "2001:db8::/32")).json).toEqual({
      name: "plain",
      tsig: null,
    });
    const row = await api.database.db("tsig_keys").where({ name: "given.example" }).first();
    expect(row.secret_sealed).not.toContain("c2VjcmV0");
  });

  test("warns of zones that the reseller does not have", async () => {
    const zone = await makeZone(api);
    await palomar("rpz", "feed", "add", "named-feed.example");
    const named = ["--zone", zone, "--zone", "named-feed.example", "--zone", "unmade.example.org"];
    const { notes, refused } = await palomar("acl", "add", "two", "elsewhere", "--block", "192.0.2.1", ...named);
    expect({ notes, refused }).toEqual({
      notes: [`warning: two has no zone ${zone} yet`, "warning: two has no zone unmade.example.org yet"],
      refused: undefined,
    });
    await removeAcl(api.database.db, "two", "elsewhere");
    const own = await palomar("acl", "add", "one", "here", "--block", "192.0.2.1", ...named);
    expect(own.notes).toEqual(["warning: one has no zone unmade.example.org yet"]);
  });

  test.each([
    [["one", "made"], "ACL made already exists"],
    [["one", "new", "--tsig", "key.example"], "TSIG key key.example already exists"],
    [["nobody", "new"], "reseller nobody does not exist"],
    [["one", "new", "--block", "192.0.2.1/24"], "host bits"],
    [["one", "new", "--block", "::ffff:192.0.2.1"], "write it as an IPv4 block, 192.0.2.1/32"],
    [["one", "new", "--tsig", "k:hmac-md5"], "hmac-md5"],
    [["one", "new", "--tsig", "k:hmac-sha1:!!"], "base64"],
    [["one", "new", "--tsig", "k:hmac-sha1:c2VjcmV0IHNlY3JldCBzZWNyZXQ=:"], "base64"],
    [["one", "new", "--tsig", "."], "the root"],
    [["one", "new", "--notify", "a b:53"], "HOST"],
    [["one", "new", "--notify", "192.0.2.1:99999"], "HOST"],
    [["one", "new", "--notify", "300.1.1.1"], "300.1.1.1 is not HOST or HOST:PORT"],
    [["one", "new", "--zone", "a..b"], "a..b"],
  ])("refuses %j", async (words, refused) => {
    expect((await palomar("acl", "add", ...words)).refused).toContain(refused);
    expect(await findAcl(api.database.db, KEY_RING, "one", "new")).toBeUndefined();
  });
});

test("palomar acl list shows a reseller's ACLs without secrets, and acl remove takes one away with its key", async () => {
  await palomar("reseller", "add", "listed", "--name", "Listed", "--key", "listed-key-0123456789");
  const words = ["--block", "192.0.2.0/24", "--tsig", "listed.example", "--zone", "z.example", "--notify", "192.0.2.1"];
  await palomar("acl", "add", "listed", "first", ...words);
  await palomar("acl", "add", "listed", "second", "--block", "2001:db8::/32");
  const second = { name: "second", blocks: ["2001:db8::/32"], tsig: null, zones: null, notify: [] };
  const listed = await palomar("acl", "list", "listed");
  expect(listed.json).toEqual([
    {
      ...{ name: "first", blocks: ["192.0.2.0/24"], zones: ["z.example"], notify: ["192.0.2.1:53"] },
      tsig: { name: "listed.example", algorithm: "hmac-sha256" },
    },
    second,
  ]);
  expect((await palomar("acl", "remove", "listed", "first")).json).toEqual({ name: "first", removed: true });
  expect((await palomar("acl", "list", "listed")).json).toEqual([second]);
  expect(await api.database.db("tsig_keys").where({ name: "listed.example" }).first()).toBeUndefined();
  expect((await palomar("acl", "remove", "listed", "first")).refused).toBe("ACL first does not exist");
  expect((await palomar("acl", "list", "nobody")).refused).toBe("reseller nobody does not exist");
});

test("palomar acl show prints one stanza for several policy zones, each once", async () => {
  await palomar("acl", "add", "one", "resolver", "--block", "192.0.2.1");
  for (const feed of ["b.feed.example", "a.feed.example"]) await palomar("rpz", "feed", "add", feed);
  const show = ["show", "one", "resolver", "--for", "bind", "--primary", "192.0.2.53:53"];
  const given = ["b.feed.example", "A.feed.example", "b.feed.example."].flatMap((feed) => ["--rpz", feed]);
  const { stanza } = (await palomar("acl", ...show, ...given)).json;
  expect(stanza).toMatch(/response-policy \{ zone "b\.feed\.example" .* zone "a\.feed\.example" /);
  expect(stanza.match(/^[a-z].* \{/gm)).toEqual([
    expect.stringMatching(/^primaries "palomar-resolver-[\da-f]{8}" \{$/),
    'zone "b.feed.example" {',
    'zone "a.feed.example" {',
  ]);
  expect((await palomar("acl", ...show, ...given, "--rpz", "none.example")).refused).toBe(
    "feed none.example does not exist",
  );
});

test("palomar resolver-block add", async () => {
  const added = await palomar("resolver-block", "add", "one", "192.0.2.0/24", "--description", "office");
  expect(added.json).toEqual({ block: "192.0.2.0/24", description: "office" });
  expect((await api.call("GET", "/api/v1/resolver_blocks")).body.resolver_blocks).toEqual([added.json]);
  // Not said is not emptied; said to be empty is.
  expect((await palomar("resolver-block", "add", "one", "192.0.2.0/24")).json).toEqual(added.json);
  const emptied = await palomar("resolver-block", "add", "one", "192.0.2.0/24", "--description", "");
  expect(emptied.json).toEqual({ block: "192.0.2.0/24", description: "" });
  expect((await api.call("GET", "/api/v1/resolver_blocks")).body.resolver_blocks).toEqual([emptied.json]);
  expect((await palomar("resolver-block", "add", "one", "192.0.2.1/24")).refused).toContain("host bits");
  expect((await palomar("resolver-block", "add", "one", "::ffff:192.0.2.0/120")).refused).toContain("192.0.2.0/24");
  expect((await palomar("resolver-block", "add", "nobody", "192.0.2.0/24")).refused).toContain("does not exist");
});

describe("palomar zone", () => {
  test("imports a new zone with the file's SOA and serial, and replaces one that is there", async () => {
    const path = file("one.zone", ZONE);
    const imported = await palomar("zone", "import", "one", "ACME", "Import.example.org.", path);
    expect(imported).toMatchObject({ status: 0, json: [{ domain: "import.example.org", serial: 7, records: 2 }] });
    expect((await api.call("GET", "/api/v1/soa/import.example.org")).body).toMatchObject({
      crm_id: "acme",
      mname: "ns1.example.net",
      ttl: 300,
      serial_type: "numeric",
    });
    const again = await palomar("zone", "import", "one", "acme", "import.example.org", path);
    expect(again.json).toEqual([{ domain: "import.example.org", serial: 8, records: 2 }]);
    const { history } = (await api.call("GET", "/api/v1/zone_history/import.example.org")).body;
    expect(history.map(({ serial, actor }: Record<string, unknown>) => [serial, actor])).toEqual([
      [8, "operator"],
      [7, "operator"],
    ]);
  });

  test("exports what the API exports", async () => {
    const { text } = await api.call("GET", "/api/v1/zone_file/import.example.org");
    const exported = await palomar("zone", "export", "IMPORT.example.org");
    expect(exported.text).toBe(text);
    expect(exported.json).toEqual({ domain: "import.example.org", serial: 8, zone: text });
    expect((await palomar("zone", "export", "never.example.org")).refused).toContain("does not exist");
  });

  test("warns of a ZONEMD of another serial in a new zone", async () => {
    const path = file("digest.zone", `${ZONE}@ ZONEMD 6 1 1 ${"AB".repeat(48)}\n`);
    const { json } = await palomar("zone", "import", "one", "acme", "digest.example.org", path);
    expect(json).toMatchObject([
      { serial: 7, warnings: [expect.stringContaining("the ZONEMD of digest.example.org.")] },
    ]);
  });

  test("imports by manifest: bad zones do not stop good ones", async () => {
    file("good.zone", ZONE);
    file("bad.zone", "@ SOA ns1 h 1 1 1 1 1\n@ NS ns1\nwww A 192.0.2.300\n");
    file("latin1.zone", Buffer.from("; se\xf1al", "latin1"));
    const lines = ["good", "bad", "missing", "latin1", "good"].map(
      (name, index) => `m${index}.example.org\t${name}.zone`,
    );
    const manifest = file("manifest", `# zones\n${lines.join("\n")}\n\n`);
    const { status, json } = await palomar("zone", "import", "one", "acme", "--manifest", manifest);
    expect(status).toBe(1);
    expect(json).toEqual([
      { domain: "m0.example.org", serial: 7, records: 2 },
      { domain: "m1.example.org", error: expect.stringMatching(/^line 3, column 7: /) },
      { domain: "m2.example.org", error: expect.stringContaining("missing.zone") },
      { domain: "m3.example.org", error: expect.stringContaining("latin1.zone") },
      { domain: "m4.example.org", serial: 7, records: 2 },
    ]);
  });

  test("imports the primary zones of a BIND configuration", async () => {
    const conf = file(
      "named.conf",
      'options { directory "."; };\nzone "bind.example.org" { type primary; file "good.zone"; };',
    );
    const { json } = await palomar("zone", "import", "one", "acme", "--named-conf", conf);
    expect(json).toEqual([{ domain: "bind.example.org", serial: 7, records: 2 }]);
  });

  test.each([
    ["nobody", "good.zone", "Company nobody does not exist"],
    ["acme", "no-soa.zone", "no SOA"],
    ["acme", "host-bits.zone", "/24", "1.2.0.192.in-addr.arpa"],
  ])("for %s refuses %s: %s", async (crmId, name, error, fqdn = "refused.example.org") => {
    const path = file(name, name === "no-soa.zone" ? "@ 60 NS ns1.example.net.\n" : ZONE);
    const { status, json } = await palomar("zone", "import", "one", crmId, fqdn, path);
    expect(status).toBe(1);
    expect(json).toEqual([{ domain: fqdn, error: expect.stringContaining(error) }]);
  });

  test("refuses zones of others", async () => {
    await api.call(
      "POST",
      "/api/v1/company",
      { crm_id: "acme", name: "Theirs", apikey: "their-api-key-0001" },
      RESELLER_TWO,
    );
    const { json } = await palomar("zone", "import", "two", "acme", "import.example.org", file("x.zone", ZONE));
    expect(json).toEqual([{ domain: "import.example.org", error: "duplicated zone: import.example.org" }]);
  });

  test("allows a name below another reseller's zone", async () => {
    const create = () =>
      api.call("POST", "/api/v1/master_zone/below.import.example.org", zoneFields({ crm_id: "acme" }), RESELLER_TWO);
    expect((await create()).status).toBe(400);
    const allowed = await palomar("zone", "allow", "Below.import.example.org.", "two");
    expect(allowed.json).toEqual({ domain: "below.import.example.org", reseller_id: "two" });
    expect((await create()).status).toBe(200);
    expect((await palomar("zone", "allow", "x.example.org", "nobody")).refused).toContain("does not exist");
  });

  test.each([[[]], [["x.example.org"]], [["x.example.org", "f", "--manifest", "m"]]])(
    "import takes one source: %j",
    async (words) => {
      expect((await palomar("zone", "import", "one", "acme", ...words)).refused).toContain("--manifest");
    },
  );
});

describe("palomar company quota, palomar reseller quota", () => {
  const of = (outcome: CommandOutcome, name: string) =>
    outcome.json.quotas.find((quota: { name: string }) => quota.name === name);

  test("show what is allowed and used, and set it", async () => {
    const shown = await palomar("company", "quota", "one", "acme");
    expect(shown.json).toMatchObject({ reseller_id: "one", crm_id: "acme" });
    expect(of(shown, "zones")).toMatchObject({ allowed: 200_000, default: true });
    expect(of(shown, "changes_per_minute")).toMatchObject({ allowed: 6_000, used: null });
    const set = await palomar("company", "quota", "one", "acme", "--set", "zones=7", "--set", "octets=1000000");
    expect(of(set, "zones")).toMatchObject({ allowed: 7, default: false });
    expect(set.text).toMatch(/^zones\t\d+\t7\tset$/m);
    const back = await palomar("company", "quota", "one", "acme", "--set", "zones=default", "--set", "octets=default");
    expect(of(back, "zones")).toMatchObject({ allowed: 200_000, default: true });
    expect(of(await palomar("reseller", "quota", "two", "--set", "acls=3"), "acls")).toEqual({
      ...{ name: "acls", allowed: 3, used: 0 },
      default: false,
    });
  });

  test("refuse what is no quota, and whom nobody knows", async () => {
    expect((await palomar("company", "quota", "one", "acme", "--set", "tokenz=1")).refused).toContain(
      "--set tokenz=1: give name=value, a whole number or default; names are zones, records",
    );
    expect((await palomar("company", "quota", "one", "acme", "--set", "acls=1")).refused).toContain("acls=1");
    expect((await palomar("company", "quota", "one", "nobody")).refused).toBe(
      "company nobody of reseller one does not exist",
    );
    expect((await palomar("reseller", "quota", "nobody")).refused).toBe("reseller nobody does not exist");
  });

  test("hold for ACLs", async () => {
    await palomar("reseller", "quota", "two", "--set", "acls=1");
    expect((await palomar("acl", "add", "two", "only", "--block", "192.0.2.1/32")).refused).toBeUndefined();
    expect((await palomar("acl", "add", "two", "more", "--block", "192.0.2.1/32")).refused).toBe(
      "quota exceeded: acls of reseller two: 1 allowed, 1 in use, 1 more wanted",
    );
    await palomar("reseller", "quota", "two", "--set", "acls=default");
    expect((await palomar("acl", "add", "two", "more", "--block", "192.0.2.1/32")).refused).toBeUndefined();
  });

  test("hold for imports, new zones and replaced ones, unless told otherwise", async () => {
    await api.call("POST", "/api/v1/company", { crm_id: "small", name: "Small", apikey: "key-of-the-small-company" });
    await palomar("company", "quota", "one", "small", "--set", "records=3", "--set", "records_per_change=50");
    const path = file("small.zone", ZONE);
    const more = file("more.zone", `${ZONE}mail A 192.0.2.2\nftp A 192.0.2.3\n`);
    const generated = file("generated.zone", `${ZONE}$GENERATE 1-60 h$ A 192.0.2.4\n`);
    const load = (name: string, from: string, ...options: string[]) =>
      palomar("zone", "import", "one", "small", name, from, ...options).then(({ json }) => json[0]);
    expect(await load("small.example.org", path)).toMatchObject({ records: 2 });
    const refused = { error: "quota exceeded: records of company small: 3 allowed, 2 in use, 2 more wanted" };
    expect(await load("small.example.org", more)).toMatchObject(refused);
    expect(await load("second.example.org", path)).toMatchObject(refused);
    expect((await load("second.example.org", generated)).error).toContain(
      "line 5, column 16: quota exceeded: records_per_change of company small: 50 allowed",
    );
    expect(await load("small.example.org", more, "--over-quota")).toMatchObject({ records: 4 });
    expect(await load("second.example.org", generated, "--over-quota")).toMatchObject({ records: 62 });
    expect(of(await palomar("company", "quota", "one", "small"), "records")).toMatchObject({ allowed: 3, used: 66 });
  });
});
