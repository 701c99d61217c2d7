import pg from "pg";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { withAnswers } from "../support/answered-octets.ts";
import { callApi } from "../support/api-client.ts";
import { RESELLER_ONE, type RunningApi, startApiWithCompany } from "../support/dns-api.ts";
import { withTableHeld } from "../support/held-table.ts";

let api: RunningApi;
let made = 0;

beforeAll(async () => {
  api = await startApiWithCompany();
  await api.call("POST", "/api/v1/company", { crm_id: "beta", name: "Beta", apikey: "beta-api-key-0001" });
});
afterAll(() => api.stop());

const ACME = "acme-api-key-0001";
const SAME = { name: "same", access: "write", tsig: "hmac-sha256" };
const MAKER = { name: "maker", access: "write", verbs: ["create", "modify", "delete", "zone_create"] };

async function pdns(method: string, path: string, body?: unknown, key: string | null = ACME) {
  const url = `${api.url}/api/v1/servers${path}`;
  return callApi(method, url, key === null ? {} : { "X-API-Key": key }, body);
}

async function newZone(fields: object = {}): Promise<string> {
  made += 1;
  const name = `pdns${made}.example.org.`;
  const answer = await pdns("POST", "/localhost/zones", {
    name,
    kind: "Native",
    nameservers: ["ns1.example.net."],
    ...fields,
  });
  expect([answer.status, answer.body]).toMatchObject([201, { name }]);
  return name;
}

const patch = (zone: string, ...rrsets: object[]) => pdns("PATCH", `/localhost/zones/${zone}`, { rrsets });
const replace = (name: string, type: string, contents: string[], ttl = 300) => ({
  ...{ name, type, ttl, changetype: "REPLACE" },
  records: contents.map((content) => ({ content, disabled: false })),
});
async function rrset(zone: string, name: string, type: string) {
  const { body } = await pdns("GET", `/localhost/zones/${zone}?rrset_name=${name}&rrset_type=${type}`);
  return body.rrsets[0];
}
const contents = async (zone: string, name: string, type: string): Promise<string[]> =>
  ((await rrset(zone, name, type))?.records ?? []).map(({ content }: { content: string }) => content);

describe("PowerDNS's API", () => {
  test("says what it is, and asks for a key", async () => {
    expect(await pdns("GET", "", undefined, null)).toMatchObject({ status: 401, body: { error: "Unauthorized" } });
    expect(await pdns("GET", "/localhost", undefined, "wrong")).toMatchObject({ status: 401 });
    expect(await pdns("GET", "/localhost")).toMatchObject({
      status: 200,
      body: { id: "localhost", daemon_type: "authoritative" },
    });
    expect(await pdns("GET", "/remotehost")).toMatchObject({ status: 404, body: { error: "Not Found" } });
    expect((await callApi("GET", `${api.url}/api`, {})).body).toEqual([{ version: 1, url: "/api/v1" }]);
    expect(await pdns("GET", "/localhost/statistics?statistic=uptime")).toMatchObject({ body: [{ name: "uptime" }] });
    expect(await pdns("GET", "/localhost/statistics?statistic=nothing")).toMatchObject({
      status: 422,
      body: { error: "Unknown statistic name" },
    });
    expect((await pdns("GET", "/localhost/config")).status).toBe(200);
    expect((await pdns("GET", "/localhost", undefined, RESELLER_ONE.key)).status).toBe(200);
  });

  test("makes, shows, lists and deletes zones", async () => {
    const zone = await newZone({
      rrsets: [replace("www.pdns1.example.org.", "A", ["192.0.2.1"])],
      soa_edit_api: "DEFAULT",
    });
    const shown = (await pdns("GET", `/localhost/zones/${zone}`)).body;
    expect(shown).toMatchObject({
      id: zone,
      name: zone,
      kind: "Native",
      account: "acme",
      dnssec: false,
      soa_edit_api: "DEFAULT",
    });
    expect(shown.rrsets.map(({ name, type }: { name: string; type: string }) => `${name} ${type}`)).toEqual([
      `${zone} SOA`,
      `${zone} NS`,
      `www.${zone} A`,
    ]);
    expect(String(shown.serial)).toMatch(/^20\d{8}$/);
    expect((await pdns("GET", `/localhost/zones?zone=${zone}`)).body).toMatchObject([{ name: zone }]);
    expect((await pdns("GET", "/localhost/zones")).body).toMatchObject([{ name: zone }]);
    expect((await pdns("GET", `/localhost/zones/${zone}?rrsets=false`)).body.rrsets).toBeUndefined();
    expect((await pdns("GET", `/localhost/zones/${zone}?rrsets=maybe`)).status).toBe(422);
    const file = await pdns("GET", `/localhost/zones/${zone}/export`);
    const soa = `ns1.example.net. hostmaster.${zone} ${shown.serial} 10800 3600 604800 3600`;
    const lines = [
      `${zone}\t3600\tIN\tSOA\t${soa}\n`,
      `${zone}\t3600\tIN\tNS\tns1.example.net.\n`,
      `www.${zone}\t300\tIN\tA\t192.0.2.1\n`,
    ];
    expect(file.body).toBe(lines.join(""));
    const accept = { "X-API-Key": ACME, Accept: "application/json" };
    const asJson = await callApi("GET", `${api.url}/api/v1/servers/localhost/zones/${zone}/export`, accept);
    expect(asJson.body).toEqual({ zone: lines.join("") });
    expect((await pdns("PUT", `/localhost/zones/${zone}`, { kind: "Master" })).status).toBe(204);
    expect((await pdns("GET", `/localhost/zones/${zone}`)).body.kind).toBe("Master");
    expect(
      await pdns("POST", "/localhost/zones", { name: zone, kind: "Native", nameservers: ["ns1.example.net."] }),
    ).toMatchObject({ status: 409 });
    expect(await pdns("POST", "/localhost/zones", { name: zone, kind: "Native" })).toMatchObject({ status: 409 });
    expect(await pdns("PUT", `/localhost/zones/${zone}`, { rrsets: [] })).toMatchObject({
      status: 422,
      body: { error: "Must give SOA record for zone when replacing all RR sets" },
    });
    expect((await pdns("DELETE", `/localhost/zones/${zone}`)).status).toBe(204);
    expect(await pdns("GET", `/localhost/zones/${zone}`)).toMatchObject({ status: 404 });
    expect(await pdns("DELETE", `/localhost/zones/${zone}`)).toMatchObject({ status: 404 });
  });

  test("makes a zone with all that is given for it, or not at all", async () => {
    const name = "whole.example.org.";
    const comments = [{ content: "kept", account: "" }];
    const asked = {
      ...{ name, kind: "Master", nameservers: ["ns1.example.net."], soa_edit_api: "INCREASE" },
      rrsets: [{ ...replace(`www.${name}`, "A", ["192.0.2.1"]), comments }],
    };
    await api.database.db.raw(`create function refuse() returns trigger language plpgsql as $$ begin raise 'refused'; end $$;
                      create trigger refuse before insert on rrset_comments execute function refuse()`);
    expect(await pdns("POST", "/localhost/zones", asked)).toMatchObject({ status: 500 });
    await api.database.db.raw("drop function refuse cascade");
    expect(await pdns("POST", "/localhost/zones", asked)).toMatchObject({
      status: 201,
      body: { kind: "Master", soa_edit_api: "INCREASE" },
    });
    expect(await rrset(name, `www.${name}`, "A")).toMatchObject({ comments: [{ content: "kept" }] });
  });

  test("shows nobody another's zones, and makes none for others", async () => {
    const zone = await newZone();
    const beta = "beta-api-key-0001";
    for (const [method, path, body] of [
      ["GET", `/localhost/zones/${zone}`],
      ["GET", `/localhost/zones/${zone}/export`],
      ["GET", `/localhost/zones/${zone}/cryptokeys`],
      ["GET", `/localhost/zones/${zone}/metadata`],
      ["PATCH", `/localhost/zones/${zone}`, { rrsets: [replace(`www.${zone}`, "A", ["192.0.2.1"])] }],
      [
        "PATCH",
        `/localhost/zones/${zone}`,
        { rrsets: [{ name: zone, type: "NS", changetype: "REPLACE", comments: [{ content: "x" }] }] },
      ],
      ["PUT", `/localhost/zones/${zone}`, { kind: "Master" }],
      ["PUT", `/localhost/zones/${zone}/notify`],
      ["PUT", `/localhost/zones/${zone}/rectify`],
      ["PUT", `/localhost/zones/${zone}/metadata/X-A`, { metadata: ["x"] }],
      ["POST", `/localhost/zones/${zone}/cryptokeys`, { keytype: "csk" }],
      ["DELETE", `/localhost/zones/${zone}`],
    ] as const) {
      expect([method, path, (await pdns(method, path, body, beta)).status]).toEqual([method, path, 404]);
    }
    expect((await pdns("GET", "/localhost/zones", undefined, beta)).body).toEqual([]);
    expect((await pdns("GET", `/localhost/search-data?q=*pdns*`, undefined, beta)).body).toEqual([]);
    const foreign = { name: "x.example.net.", kind: "Native", nameservers: ["ns1.example.net."], account: "acme" };
    expect(await pdns("POST", "/localhost/zones", foreign, beta)).toMatchObject({ status: 422 });
    expect(await pdns("POST", "/localhost/zones", { ...foreign, account: undefined }, RESELLER_ONE.key)).toMatchObject({
      status: 422,
    });
    expect(await pdns("POST", "/localhost/zones", foreign, RESELLER_ONE.key)).toMatchObject({
      status: 201,
      body: { account: "acme" },
    });
  });

  test("changes RRsets: REPLACE, EXTEND, PRUNE, DELETE, one after the other", async () => {
    const zone = await newZone();
    const name = `a.${zone}`;
    const extend = (content: string, ttl?: number) => ({
      name,
      type: "A",
      ttl,
      changetype: "extend",
      records: [{ content }],
    });
    const prune = (content: string) => ({ name, type: "A", changetype: "PRUNE", records: [{ content }] });
    const first = await patch(zone, replace(name, "a", ["192.0.2.1", "192.0.2.2"]));
    expect(first.status).toBe(204);
    expect(Number(first.headers["x-pdns-new-serial"])).toBeGreaterThan(Number(first.headers["x-pdns-old-serial"]));
    expect((await patch(zone, extend("192.0.2.3"), prune("192.0.2.1"))).status).toBe(204);
    expect(await contents(zone, name, "A")).toEqual(["192.0.2.2", "192.0.2.3"]);
    const before = await pdns("GET", `/localhost/zones/${zone}`);
    expect((await patch(zone, extend("192.0.2.3"), prune("192.0.2.9"))).status).toBe(204);
    expect((await pdns("GET", `/localhost/zones/${zone}`)).body).toEqual(before.body);
    expect(await patch(zone, extend("192.0.2.4", 60))).toMatchObject({
      status: 422,
      body: { error: `RRset ${name} IN A: uses a different TTL value than the remainder of the RRset` },
    });
    expect((await patch(zone, replace(name, "A", ["192.0.2.3"], 60))).status).toBe(204);
    expect(await rrset(zone, name, "A")).toMatchObject({ ttl: 60, records: [{ content: "192.0.2.3" }] });
    expect(
      (await patch(zone, { name, type: "A", changetype: "DELETE" }, replace(name, "CNAME", ["www.example.net."])))
        .status,
    ).toBe(204);
    expect(await contents(zone, name, "CNAME")).toEqual(["www.example.net."]);
    expect(await patch(zone, replace(name, "A", ["192.0.2.1"]))).toMatchObject({
      status: 422,
      body: { error: expect.stringContaining("Conflicts with pre-existing RRset") },
    });
  });

  test("bounds what a zone keeps of comments and metadata, and takes no moment beyond the year 9999", async () => {
    const zone = await newZone();
    const remark = (name: string, content: string, modified_at?: number) =>
      patch(zone, { name, type: "A", changetype: "REPLACE", comments: [{ content, modified_at }] });
    const large = "x".repeat(60_000);
    const statuses: number[] = [];
    for (let host = 0; host < 18; host += 1) statuses.push((await remark(`h${host}.${zone}`, large)).status);
    expect(statuses).toEqual([...Array(17).fill(204), 422]);
    expect((await remark(`h0.${zone}`, large)).status).toBe(204);
    expect((await remark(`h0.${zone}`, "x", 2 ** 52)).status).toBe(422);
    const path = `/localhost/zones/${zone}/metadata`;
    const values = Array(10).fill("y".repeat(4_000));
    expect((await pdns("PUT", `${path}/X-A`, { metadata: values })).status).toBe(200);
    expect(await pdns("PUT", `${path}/X-B`, { metadata: values })).toMatchObject({ status: 422 });
    expect((await pdns("GET", `${path}/X-B`)).body.metadata).toEqual([]);
  });

  test("a pattern of many asterisks takes no longer than another", async () => {
    const zone = await newZone();
    expect((await patch(zone, replace(`a.${zone}`, "TXT", [`"${"a".repeat(250)}"`]))).status).toBe(204);
    const q = `${"*a".repeat(120)}*b`;
    expect((await pdns("GET", `/localhost/search-data?q=${encodeURIComponent(q)}`)).body).toEqual([]);
    const all = `${"*a".repeat(120)}*`;
    expect((await pdns("GET", `/localhost/search-data?q=${encodeURIComponent(all)}`)).body).toMatchObject([
      { name: `a.${zone}`, type: "TXT" },
    ]);
  });

  test("a pattern that is compared with long contents at each of their places is refused after a while", async () => {
    const zone = await newZone();
    const long = Array.from({ length: 200 }, () => `"${"a".repeat(250)}"`).join(" ");
    const rrsets = ["b", "c", "d", "e"].map((name) => replace(`${name}.${zone}`, "TXT", [`"b" ${long}`]));
    for (const rrset of rrsets) expect((await patch(zone, rrset)).status).toBe(204);
    const q = encodeURIComponent(`*${"?".repeat(990)}b`);
    expect(await pdns("GET", `/localhost/search-data?object_type=record&q=${q}`)).toMatchObject({
      status: 422,
      body: { error: expect.stringContaining("narrow the key") },
    });
  });

  test("a search shows no more than some megabytes", async () => {
    const zone = await newZone();
    const octets = `${"\\195\\169".repeat(127)}`;
    const content = Array.from({ length: 240 }, () => `"${octets}"`).join(" ");
    const names = Array.from({ length: 18 }, (_, index) => `long${index}.${zone}`);
    for (const name of names) expect((await patch(zone, replace(name, "TXT", [content]))).status).toBe(204);
    const search = (max: number) => pdns("GET", `/localhost/search-data?q=long*.${zone}&object_type=record&max=${max}`);
    expect((await search(17)).body).toHaveLength(17);
    expect(await search(18)).toMatchObject({ status: 422, body: { error: expect.stringContaining("ask for less") } });
  });

  test("searches take turns: those of one key leave the others their connections", async () => {
    const zone = await newZone();
    const search = () => pdns("GET", `/localhost/search-data?q=*absent*&object_type=record`);
    const { searches, neighbour } = await withTableHeld(api.database.url, "records", async () => {
      const sent = Array.from({ length: 18 }, search);
      const refused = await Promise.race(sent);
      expect(refused).toMatchObject({ status: 429, headers: { "retry-after": "2" } });
      return { searches: sent, neighbour: await pdns("GET", `/localhost/zones?zone=${zone}`) };
    });
    expect(neighbour).toMatchObject({ status: 200, body: [{ name: zone }] });
    const statuses = (await Promise.all(searches)).map(({ status }) => status);
    expect(statuses.sort()).toEqual([...Array(17).fill(200), 429]);
  });

  test("a name with many types is read and shown a part at a time, each RRset whole", async () => {
    const zone = await newZone();
    const [name, hex] = [`many.${zone}`, "41".repeat(31_000)];
    const types = Array.from({ length: 80 }, (_, index) => `TYPE${1_000 + index}`);
    const two = [`\\# 31000 ${hex}`, `\\# 31000 ${hex.replace("41", "42")}`];
    for (const some of [types.slice(0, 40), types.slice(40)]) {
      expect((await patch(zone, ...some.map((type) => replace(name, type, two)))).status).toBe(204);
    }
    const path = `/localhost/zones/${zone}?rrset_name=${name}`;
    const { value, largest } = await withAnswers(() => pdns("GET", path));
    const shown: { type: string; records: object[] }[] = value.body.rrsets;
    expect(shown.map(({ type, records }) => `${type} ${records.length}`)).toEqual(types.map((type) => `${type} 2`));
    expect(largest).toBeLessThan(1.2 * 2 ** 20);
  });

  test("a reseller's key takes the TSIG key of a company away, and not its own token of the same name", async () => {
    const reseller = RESELLER_ONE.key;
    const make = (key: string) =>
      callApi(
        "POST",
        `${api.url}/api/v1/token`,
        { Authorization: key, Reseller: "one" },
        { ...SAME, api: key === reseller },
      );
    const [own, ofCompany] = [await make(reseller), await make(ACME)];
    expect([own.status, ofCompany.status]).toEqual([200, 200]);
    const ids = async () =>
      (await pdns("GET", "/localhost/tsigkeys", undefined, reseller)).body.map(({ name }: { name: string }) => name);
    const [kept, gone] = [own.body.tsig.name, ofCompany.body.tsig.name];
    expect(await ids()).toEqual(expect.arrayContaining([kept, gone]));
    expect((await pdns("DELETE", `/localhost/tsigkeys/${gone}.`, undefined, reseller)).status).toBe(204);
    expect((await pdns("GET", `/localhost/tsigkeys/${gone}.`, undefined, reseller)).status).toBe(404);
    expect(await ids()).toContain(kept);
    expect((await pdns("DELETE", `/localhost/tsigkeys/${kept}.`, undefined, reseller)).status).toBe(422);
  });

  test("keeps comments", async () => {
    const zone = await newZone();
    const comments = [{ content: "of the hostmaster", account: "me", modified_at: 11_112 }];
    expect((await patch(zone, { name: zone, type: "NS", changetype: "REPLACE", comments })).status).toBe(204);
    expect(await rrset(zone, zone, "NS")).toMatchObject({ comments, records: [{ content: "ns1.example.net." }] });
    expect((await pdns("GET", "/localhost/search-data?q=*hostmaster&object_type=comment")).body).toMatchObject([
      { zone, content: "of the hostmaster" },
    ]);
    expect((await patch(zone, { name: zone, type: "NS", changetype: "REPLACE", comments: [] })).status).toBe(204);
    expect((await rrset(zone, zone, "NS")).comments).toEqual([]);
    const name = `www.${zone}`;
    expect((await patch(zone, { ...replace(name, "A", ["192.0.2.1"]), comments })).status).toBe(204);
    expect((await rrset(zone, name, "A")).comments).toEqual(comments);
    expect((await patch(zone, { name, type: "A", changetype: "DELETE" })).status).toBe(204);
    expect((await patch(zone, replace(name, "A", ["192.0.2.1"]))).status).toBe(204);
    expect((await rrset(zone, name, "A")).comments).toEqual([]);
  });

  test("changes RRsets with their comments, or neither", async () => {
    const zone = await newZone();
    const name = `www.${zone}`;
    const comments = [{ content: "kept", account: "me", modified_at: 11_112 }];
    const given = { ...replace(name, "A", ["192.0.2.1"]), comments };
    const whole = async () => {
      const { rrsets } = (await pdns("GET", `/localhost/zones/${zone}`)).body;
      return { rrsets: [...rrsets, given] };
    };
    const serial = async () => (await pdns("GET", `/localhost/zones/${zone}`)).body.serial;
    const before = await serial();
    const all = await whole();
    await api.database.db.raw(`create function refuse() returns trigger language plpgsql as $$ begin raise 'refused'; end $$;
                      create trigger refuse before insert on rrset_comments execute function refuse()`);
    expect(await patch(zone, given)).toMatchObject({ status: 500 });
    expect(await pdns("PUT", `/localhost/zones/${zone}`, all)).toMatchObject({ status: 500 });
    await api.database.db.raw("drop function refuse cascade");
    expect([await rrset(zone, name, "A"), await serial()]).toEqual([undefined, before]);
    expect(await pdns("PUT", `/localhost/zones/${zone}`, all)).toMatchObject({ status: 204 });
    expect(await rrset(zone, name, "A")).toMatchObject({ comments, records: [{ content: "192.0.2.1" }] });
    // Refused for its record, a change leaves the comments as they were as well.
    const clash = { ...replace(name, "CNAME", ["elsewhere.example.net."]), comments: [] };
    expect(await patch(zone, { ...replace(name, "A", ["192.0.2.2"]), comments: [] }, clash)).toMatchObject({
      status: 422,
    });
    expect(await rrset(zone, name, "A")).toMatchObject({ comments, records: [{ content: "192.0.2.1" }] });
  });

  test("puts the comments of several RRsets in place, each in its order", async () => {
    const zone = await newZone();
    const comment = (content: string) => ({ content, account: "", modified_at: 11_112 });
    const given = (name: string, ...texts: string[]) => ({
      ...replace(`${name}.${zone}`, "A", ["192.0.2.1"]),
      comments: texts.map(comment),
    });
    expect((await patch(zone, given("a", "1", "2", "3"), given("b", "4"), given("c", "5"))).status).toBe(204);
    const extended = { ...given("c", "6"), changetype: "EXTEND" };
    const again = { ...given("c", "7", "8"), changetype: "EXTEND" };
    const gone = { name: `b.${zone}`, type: "A", changetype: "DELETE" };
    expect((await patch(zone, gone, extended, again)).status).toBe(204);
    expect((await patch(zone, replace(`b.${zone}`, "A", ["192.0.2.1"]))).status).toBe(204);
    const kept = async (name: string) => (await rrset(zone, `${name}.${zone}`, "A")).comments;
    expect([await kept("a"), await kept("b"), await kept("c")]).toEqual([
      ["1", "2", "3"].map(comment),
      [],
      ["7", "8"].map(comment),
    ]);
  });

  test("makes large changes by few statements", async () => {
    const zone = await newZone();
    const names = Array.from({ length: 300 }, (_, index) => `n${index}.${zone}`);
    await patch(zone, ...names.map((name) => replace(`below.${name}`, "A", ["192.0.2.1"])));
    const query = vi.spyOn(pg.Client.prototype, "query");
    expect((await patch(zone, ...names.map((name) => replace(name, "NS", ["ns.example.net."])))).status).toBe(204);
    const ofCuts = query.mock.calls.length;
    query.mockClear();
    const gone = names.map((name) => ({ name: `below.${name}`, type: "A", changetype: "DELETE" }));
    expect((await patch(zone, ...gone)).status).toBe(204);
    const ofDeletions = query.mock.calls.length;
    query.mockRestore();
    expect([ofCuts, ofDeletions].every((statements) => statements < 60)).toBe(true);
  });

  test.each<[string, object, string]>([
    ["no changetype", { name: "www.$Z", type: "A" }, "Key 'changetype' not present"],
    [
      "an unknown one",
      { ...replace("www.$Z", "A", ["192.0.2.1"]), changetype: "x" },
      "Changetype 'X' is not a valid value",
    ],
    ["a relative name", replace("www", "A", ["192.0.2.1"]), "is not canonical"],
    ["another zone's name", replace("www.example.net.", "A", ["192.0.2.1"]), "out of zone"],
    ["an unknown type", replace("www.$Z", "FAFAFA", ["x"]), "unknown type given"],
    ["a type of messages", replace("www.$Z", "OPT", ["x"]), "invalid type given"],
    ["a wrong address", replace("www.$Z", "A", ["999.0.2.1"]), "Not in expected format"],
    ["a relative target", replace("www.$Z", "CNAME", ["example.net"]), "names end in a dot"],
    ["a record twice", replace("www.$Z", "A", ["192.0.2.1", "192.0.2.1"]), "duplicate record with content"],
    ["two CNAMEs", replace("www.$Z", "CNAME", ["a.example.", "b.example."]), "IN CNAME: only one such record"],
    [
      "a disabled record",
      { ...replace("www.$Z", "A", []), records: [{ content: "192.0.2.1", disabled: true }] },
      "disabled records",
    ],
    [
      "a PTR record beside",
      { ...replace("www.$Z", "A", []), records: [{ content: "192.0.2.1", "set-ptr": true }] },
      "set-ptr has no meaning here",
    ],
    [
      "a priority that the content does not have",
      { ...replace("www.$Z", "MX", []), records: [{ content: "10 mx.example.net.", priority: 5 }] },
      "priority has no meaning here",
    ],
    ["no TTL", { ...replace("www.$Z", "A", ["192.0.2.1"]), ttl: undefined }, "Key 'ttl' not present"],
    ["an EXTEND of nothing", { name: "www.$Z", type: "A", changetype: "EXTEND" }, "No record provided"],
    ["a DS at the apex", replace("$Z", "DS", [`1 8 2 ${"00".repeat(32)}`]), "not allowed at apex"],
    ["a SOA elsewhere", replace("www.$Z", "SOA", ["a. b. 1 2 3 4 5"]), "only allowed at apex"],
    ["no NS", { name: "$Z", type: "NS", changetype: "DELETE" }, "NS"],
  ])("refuses %s and changes nothing", async (_, change, words) => {
    const zone = await newZone();
    const before = await pdns("GET", `/localhost/zones/${zone}`);
    const given = JSON.parse(JSON.stringify(change).replaceAll("$Z", zone));
    const answer = await patch(zone, replace(`other.${zone}`, "A", ["192.0.2.1"]), given);
    expect([answer.status, answer.body.error]).toEqual([422, expect.stringContaining(words)]);
    expect((await pdns("GET", `/localhost/zones/${zone}`)).body).toEqual(before.body);
  });

  test.each<[object, string]>([
    [{ kind: "Slave" }, "kind Slave is not supported"],
    [{ masters: ["192.0.2.1"] }, "masters has no meaning here"],
    [{ soa_edit_api: "EPOCH" }, "soa_edit_api has no meaning here"],
    [{ nsec3param: "1 0 100 ab" }, "nsec3param has no meaning here"],
    [{ nsec3param: "1 0 0 -" }, "refused.example.org. is not signed"],
    [{ nameservers: ["ns1.example.net"] }, "Nameserver is not canonical"],
    [{ nameservers: [] }, "Nameservers are missing"],
    [{ account: "beta" }, "account beta is not that of the key"],
    [{ name: "x.example.org" }, "is not canonical"],
    [{ name: "a..example.org." }, "Unable to parse Zone Name"],
    [
      { rrsets: [replace("pdns.example.org.", "NS", ["ns1.example.net."])], name: "pdns.example.org." },
      "MUST NOT be mixed",
    ],
  ])("makes no zone with %j", async (fields, words) => {
    const zone = { name: "refused.example.org.", kind: "Native", nameservers: ["ns1.example.net."], ...fields };
    const answer = await pdns("POST", "/localhost/zones", zone);
    expect([answer.status, answer.body.error]).toEqual([422, expect.stringContaining(words)]);
  });

  test("takes what asks for nothing beside a record and a zone, and refuses what a zone cannot become", async () => {
    const zone = await newZone();
    const mx = { content: "10 mx.example.net.", priority: 10, "set-ptr": false };
    const a = { content: "192.0.2.1", priority: 0, "set-ptr": null };
    const records = [
      { ...replace(zone, "MX", []), records: [mx] },
      { ...replace(zone, "A", []), records: [a] },
    ];
    expect((await patch(zone, ...records)).status).toBe(204);
    const put = (fields: object) => pdns("PUT", `/localhost/zones/${zone}`, fields);
    const { rrsets: _, ...whole } = (await pdns("GET", `/localhost/zones/${zone}`)).body;
    expect((await put(whole)).status).toBe(204);
    expect((await put({ name: zone.toUpperCase(), serial: 99, nameservers: [] })).status).toBe(204);
    for (const [field, value] of Object.entries({ name: "x.test.", nameservers: ["ns1.example.net."] })) {
      const answer = await put({ [field]: value });
      expect([answer.status, answer.body.error]).toEqual([
        422,
        expect.stringContaining(`${field} has no meaning here`),
      ]);
    }
  });

  test("takes a master file, and signs", async () => {
    made += 1;
    const name = `pdns${made}.example.org.`;
    const zone = `$TTL 1h\n@ SOA ns1.example.net. h.example.net. 7 3h 1h 1w 1h\n@ NS ns1.example.net.\nwww A 192.0.2.1\n`;
    expect(
      await pdns("POST", "/localhost/zones", { name, kind: "Master", zone, dnssec: true, nsec3param: "1 0 0 -" }),
    ).toMatchObject({
      status: 201,
      body: { dnssec: true, nsec3param: "1 0 0 -" },
    });
    const [key] = (await pdns("GET", `/localhost/zones/${name}/cryptokeys`)).body;
    expect(key).toMatchObject({ type: "Cryptokey", keytype: "csk", algorithm: "ECDSAP256SHA256", flags: 257 });
    expect((await pdns("GET", `/localhost/zones/${name}/cryptokeys/${key.id}`)).body).toEqual(key);
    expect(key.ds).toEqual([expect.stringMatching(new RegExp(`^${key.id} 13 2 `))]);
    expect((await pdns("PUT", `/localhost/zones/${name}`, { nsec3param: "" })).status).toBe(204);
    expect((await pdns("DELETE", `/localhost/zones/${name}/cryptokeys/${key.id}`)).status).toBe(204);
    expect((await pdns("GET", `/localhost/zones/${name}`)).body.dnssec).toBe(false);
    expect((await pdns("POST", `/localhost/zones/${name}/cryptokeys`, { keytype: "ksk", active: true })).status).toBe(
      201,
    );
  });

  test("shows the DS of a key that is coming in no sooner than its parent should have it", async () => {
    made += 1;
    const name = `pdns${made}.example.org`;
    const zone = { name: `${name}.`, kind: "Native", nameservers: ["ns1.example.net."], dnssec: true };
    expect((await pdns("POST", "/localhost/zones", zone)).status).toBe(201);
    const signing = await api.call("GET", `/api/v1/dnssec/${name}`);
    const { key_tag: tag } = signing.body.keys[0];
    expect((await api.call("POST", `/api/v1/dnssec/${name}/ds_seen`, { key_tag: tag })).status).toBe(200);
    const renewed = await api.call("PUT", `/api/v1/dnssec/${name}`, { enabled: true, algorithm: 15 });
    const dsByState = (keys: { state: string; ds: string[] }[]) => keys.map(({ state, ds }) => [state, ds.length]);
    expect(dsByState(renewed.body.keys)).toEqual([
      ["active", 1],
      ["generated", 0],
    ]);
    const keys = (await pdns("GET", `/localhost/zones/${name}./cryptokeys`)).body;
    expect(keys.map(({ id, ds }: { id: number; ds: string[] }) => [id === tag, ds.length])).toEqual([
      [true, 1],
      [false, 0],
    ]);
  });

  test("makes no zone that it cannot sign as asked", async () => {
    const zone = "@ SOA ns1.example.net. h.example.net. 7 3h 1h 1w 1h\n@ NS ns1.example.net.\n@ DNSKEY 257 3 13 AAAA\n";
    const name = "unsigned.example.org.";
    const answer = await pdns("POST", "/localhost/zones", { name, kind: "Master", zone, dnssec: true });
    expect([answer.status, answer.body.error]).toEqual([422, expect.stringContaining("DNSKEY")]);
    expect((await pdns("GET", `/localhost/zones?zone=${name}`)).body).toEqual([]);
    const twice = { name, nameservers: ["ns1.example.net."], dnssec: true };
    expect((await pdns("POST", "/localhost/zones", twice)).body).toMatchObject({ dnssec: true });
    expect((await pdns("POST", "/localhost/zones", twice)).status).toBe(409);
    const { body } = await api.call("POST", "/api/v1/token", MAKER, { reseller: "one", key: ACME });
    const as = (fields: object) =>
      pdns("POST", "/localhost/zones", { nameservers: ["ns1.example.net."], ...fields }, body.token);
    const barred = await as({ name: "barred.example.org.", dnssec: true });
    expect([barred.status, barred.body.error]).toEqual([403, "token maker: verbs: it has no sign"]);
    expect((await as({ name: "barred.example.org." })).body).toMatchObject({ dnssec: false });
  });

  test.each<[object, string]>([
    [{ active: false }, "keys are in use from the start"],
    [{ published: false }, "keys are in use from the start"],
    [{ bits: "-6" }, "'bits' must be a positive integer value"],
    [{ algorithm: 8, bits: 512 }, "The algorithm does not support the given bit size"],
    [{ algorithm: "md5" }, "Unknown algorithm:"],
    [{ algorithm: "constructor" }, "Unknown algorithm:"],
  ])("makes no key with %j", async (fields, words) => {
    const zone = await newZone();
    const answer = await pdns("POST", `/localhost/zones/${zone}/cryptokeys`, { keytype: "ksk", ...fields });
    expect([answer.status, answer.body.error]).toEqual([422, expect.stringContaining(words)]);
    expect((await pdns("GET", `/localhost/zones/${zone}/cryptokeys`)).body).toEqual([]);
  });

  test("puts all RRsets in place", async () => {
    const zone = await newZone();
    const soa = replace(zone, "SOA", ["ns9.example.net. h.example.net. 77 1 2 3 4"], 900);
    const rrsets = [soa, replace(zone, "NS", ["ns9.example.net."]), replace(`www.${zone}`, "AAAA", ["2001:db8::1"])];
    expect((await pdns("PUT", `/localhost/zones/${zone}`, { rrsets })).status).toBe(204);
    const { body } = await pdns("GET", `/localhost/zones/${zone}`);
    expect(body.serial).toBe(77);
    expect(body.rrsets.map(({ records }: { records: { content: string }[] }) => records[0]!.content)).toEqual([
      "ns9.example.net. h.example.net. 77 1 2 3 4",
      "ns9.example.net.",
      "2001:db8::1",
    ]);
  });

  test("keeps metadata that begins with X-, and says where the rest is set", async () => {
    const zone = await newZone();
    expect(await pdns("PUT", `/localhost/zones/${zone}/metadata/X-OWNER`, { metadata: ["a"] })).toMatchObject({
      status: 200,
      body: { metadata: ["a"] },
    });
    expect(await pdns("POST", `/localhost/zones/${zone}/metadata`, { kind: "X-OWNER", metadata: ["b"] })).toMatchObject(
      { status: 201, body: { metadata: ["a", "b"] } },
    );
    expect((await pdns("GET", `/localhost/zones/${zone}/metadata`)).body).toMatchObject([{ kind: "X-OWNER" }]);
    expect((await pdns("DELETE", `/localhost/zones/${zone}/metadata/X-OWNER`)).status).toBe(204);
    expect((await pdns("GET", `/localhost/zones/${zone}/metadata/X-OWNER`)).body.metadata).toEqual([]);
    expect(
      await pdns("PUT", `/localhost/zones/${zone}/metadata/ALSO-NOTIFY`, { metadata: ["192.0.2.1"] }),
    ).toMatchObject({ status: 422 });
    for (const kind of ["constructor", "__proto__", "toString"]) {
      const path = `/localhost/zones/${zone}/metadata`;
      expect(await pdns("GET", `${path}/${kind}`)).toMatchObject({ status: 200, body: { kind, metadata: [] } });
      const refused = { status: 422, body: { error: `Unsupported metadata kind '${kind}': X-… is kept as it is` } };
      expect(await pdns("PUT", `${path}/${kind}`, { metadata: ["a"] })).toMatchObject(refused);
      expect(await pdns("POST", path, { kind, metadata: ["a"] })).toMatchObject(refused);
      expect(await pdns("DELETE", `${path}/${kind}`)).toMatchObject(refused);
    }
    expect(await pdns("PUT", `/localhost/zones/${zone}/notify`)).toMatchObject({
      status: 200,
      body: { result: "Notification queued" },
    });
    expect(await pdns("PUT", `/localhost/zones/${zone}/rectify`)).toMatchObject({ status: 200 });
    expect(await pdns("PUT", `/localhost/zones/${zone}/axfr-retrieve`)).toMatchObject({ status: 422 });
  });

  test("finds zones and records", async () => {
    const zone = await newZone({ rrsets: [] });
    await patch(zone, replace(`findme.${zone}`, "TXT", ['"something rare"']));
    const find = async (q: string, type = "all") =>
      (await pdns("GET", `/localhost/search-data?q=${encodeURIComponent(q)}&object_type=${type}`)).body.map(
        ({ object_type, name }: { object_type: string; name: string }) => `${object_type} ${name}`,
      );
    expect(await find("findme*")).toEqual([`record findme.${zone}`]);
    expect(await find("*RARE*")).toEqual([`record findme.${zone}`]);
    expect(await find(zone.slice(0, -1), "zone")).toEqual([`zone ${zone}`]);
    expect(await find(`findme.${zone}`)).toEqual([`record findme.${zone}`]);
  });

  test("finds contents as they are shown: with their numbers, and as PowerDNS spells them", async () => {
    const zone = await newZone({ rrsets: [] });
    const shown = {
      MX: `10 mail.${zone}`,
      SRV: `0 5 5060 sip.${zone}`,
      HTTPS: "1 . alpn=h2,h3",
      LOC: "52 22 23.000 N 4 53 32.000 E -2.00m 0.00m 10000.00m 10.00m",
      TXT: '"10 mail" "0 5 5060"',
    };
    for (const [type, content] of Object.entries(shown)) {
      expect((await patch(zone, replace(`a.${zone}`, type, [content]))).status).toBe(204);
    }
    const find = async (q: string) =>
      (await pdns("GET", `/localhost/search-data?q=${encodeURIComponent(q)}&object_type=record`)).body
        .filter((found: { zone: string; type: string }) => found.zone === zone && found.type !== "SOA")
        .map(({ type }: { type: string }) => type);
    for (const [type, content] of Object.entries(shown)) {
      expect(await find(content), content).toEqual([type]);
      expect(await find(`${content.slice(0, -2)}*`), content).toEqual([type]);
    }
    for (const [q, types] of Object.entries({
      "10 mail*": ["MX"],
      "1? mail*": ["MX"],
      "10*": ["MX"],
      "*0 mail*": ["MX", "TXT"],
      "0 5 5060 sip*": ["SRV"],
      "*5 5060*": ["TXT", "SRV"],
      "1 . alpn=h2*": ["HTTPS"],
      "*-2.00m*": ["LOC"],
      "11 mail*": [],
    })) {
      expect((await find(q)).sort(), q).toEqual([...types].sort());
    }
  });

  test("finds zones by patterns whose other signs stand for themselves", async () => {
    const [zone, other] = [await newZone({ rrsets: [] }), await newZone({ rrsets: [] })];
    const find = async (q: string) =>
      (await pdns("GET", `/localhost/search-data?q=${encodeURIComponent(q)}&object_type=zone&max=1000`)).body.map(
        ({ name }: { name: string }) => name,
      );
    expect(await find(zone.toUpperCase())).toEqual([zone]);
    expect(await find(`?${zone.slice(1)}`)).toContain(zone);
    expect(await find(`*${zone.slice(1, -1)}`)).toContain(zone);
    expect(await find("*")).toEqual(expect.arrayContaining([zone, other]));
    for (const q of [`_${zone.slice(1)}`, `%${zone.slice(1)}`, `\\${zone}`, `${zone}?`])
      expect(await find(q), q).toEqual([]);
  });

  test("holds tokens to their policy", async () => {
    const zone = await newZone();
    const fields = { name: "lego", access: "write", zones: [zone], names: ["_acme-challenge.**"], types: ["TXT"] };
    const { body } = await api.call("POST", "/api/v1/token", fields, { reseller: "one", key: ACME });
    const as = (method: string, path: string, given?: object) =>
      pdns(method, `/localhost/zones/${zone}${path}`, given, body.token);
    const challenge = replace(`_acme-challenge.${zone}`, "TXT", ['"abc"']);
    expect((await as("PATCH", "", { rrsets: [challenge] })).status).toBe(204);
    expect((await as("PUT", "/notify")).status).toBe(200);
    const others = { name: "reader", access: "read", zones: [zone] };
    const reader = (await api.call("POST", "/api/v1/token", others, { reseller: "one", key: ACME })).body.token;
    const elsewhere = await newZone();
    for (const [path, key] of [
      [zone, reader],
      [elsewhere, body.token],
    ]) {
      expect((await pdns("PUT", `/localhost/zones/${path}/notify`, undefined, key)).status).toBe(403);
    }
    expect((await as("GET", "")).body.rrsets.map(({ name }: { name: string }) => name)).toEqual([
      `_acme-challenge.${zone}`,
    ]);
    for (const [method, path, given] of [
      ["PATCH", "", { rrsets: [challenge, replace(`www.${zone}`, "A", ["192.0.2.1"])] }],
      ["PATCH", "", { rrsets: [{ name: zone, type: "NS", changetype: "REPLACE", comments: [{ content: "mine" }] }] }],
      ["PUT", "", { kind: "Master" }],
      ["PUT", "", { dnssec: true }],
      ["PUT", "/metadata/X-A", { metadata: ["x"] }],
      ["GET", "/export"],
      ["DELETE", ""],
      ["POST", "/cryptokeys", {}],
    ] as const) {
      const answer = await as(method, path, given);
      expect([method, path, answer.status, answer.body.error]).toEqual([
        method,
        path,
        403,
        expect.stringMatching(/^token lego: /),
      ]);
    }
    expect((await pdns("GET", "/localhost/zones", undefined, body.token)).body).toMatchObject([{ name: zone }]);
    expect((await pdns("GET", "/localhost/tsigkeys", undefined, body.token)).status).toBe(403);
    expect((await pdns("GET", "/localhost/search-data?q=*example*", undefined, body.token)).body).toMatchObject([
      { object_type: "zone" },
      { object_type: "record", name: `_acme-challenge.${zone}` },
    ]);
  });

  test("loses and doubles nothing when 16 change one RRset at a time", async () => {
    const zone = await newZone();
    const name = `race.${zone}`;
    const wanted = Array.from({ length: 16 }, (_, index) => `192.0.2.${index + 1}`);
    const answers = await Promise.all(
      wanted.map((content) => patch(zone, { name, type: "A", ttl: 60, changetype: "EXTEND", records: [{ content }] })),
    );
    expect(answers.map(({ status }) => status)).toEqual(wanted.map(() => 204));
    expect((await contents(zone, name, "A")).sort()).toEqual(wanted.sort());
    const serials = answers.map(({ headers }) => headers["x-pdns-new-serial"]);
    expect(new Set(serials).size).toBe(16);
    await Promise.all(wanted.map((content) => patch(zone, replace(name, "A", [content]))));
    expect(await contents(zone, name, "A")).toHaveLength(1);
  });

  test("loses and doubles no comments and no metadata when 16 change them at a time", async () => {
    const zone = await newZone();
    const each = Array.from({ length: 16 }, (_, index) => `${index}`);
    const change = (content: string) => ({ name: zone, type: "NS", changetype: "REPLACE", comments: [{ content }] });
    await Promise.all(each.map((content) => patch(zone, change(content))));
    expect((await rrset(zone, zone, "NS")).comments).toHaveLength(1);
    const path = `/localhost/zones/${zone}/metadata`;
    await Promise.all(each.map((value) => pdns("POST", path, { kind: "X-OWNER", metadata: [value] })));
    expect((await pdns("GET", `${path}/X-OWNER`)).body.metadata.sort()).toEqual(each.sort());
  });

  test("can be switched off", async () => {
    const without = await startApiWithCompany({ PALOMAR_POWERDNS_API: "false" });
    const answer = await callApi("GET", `${without.url}/api/v1/servers`, { "X-API-Key": ACME });
    expect(answer).toMatchObject({ status: 404, body: { msg: "no such path" } });
    await without.stop();
  });
});
