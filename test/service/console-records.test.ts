import { afterAll, beforeAll, expect, test } from "vitest";
import { start as startDnsApi } from "../../services/dns-api/main.ts";
import { type SignedIn, startConsole, type TestConsole } from "../support/console.ts";
import { fillZone } from "../support/console-zones.ts";
import { withTableHeld } from "../support/held-table.ts";

// Records of a zone as the console's pages read them: any size, page by page, found by what is shown of them.
let palomar: TestConsole;
let one: SignedIn;

beforeAll(async () => {
  palomar = await startConsole([startDnsApi]);
  one = palomar.users.one;
});
afterAll(async () => {
  await palomar.stop();
  expect(palomar.failures).toEqual([]);
});

const SOA = { mname: "ns1.example.net", rname: "hostmaster.example.net", serial_type: "numeric" };
const TIMES = { refresh: 7200, retry: 900, expire: 1_209_600, minimum: 300, ttl: 3600 };
const addZone = async (domain: string, crmId = "acme") => {
  const made = await one.call("POST", `/dns/one/master_zone/${domain}`, { crm_id: crmId, ...SOA, ...TIMES });
  expect(made.status).toBe(200);
};

interface Row {
  readonly rr_id: number;
  readonly name: string;
  readonly type: string;
  readonly value: string;
}

const recordsOf = (domain: string, query: Readonly<Record<string, string>> = {}, who = one) =>
  who.call("GET", `/resellers/one/zones/${domain}/records?${new URLSearchParams(query)}`);

/** All pages of a list. */
async function allRecords(domain: string, query: Readonly<Record<string, string>>): Promise<Row[]> {
  const rows: Row[] = [];
  for (let after: string | null = ""; after !== null; ) {
    const { body } = await recordsOf(domain, { ...query, ...(after === "" ? {} : { after }) });
    rows.push(...body.records);
    after = body.next;
  }
  return rows;
}

const MIXED = `
@ NS ns1.example.net.
@ MX 10 Mail
@ MX 20 backup.example.net.
@ TXT "v=spf1 ip4:192.0.2.0/24 -all" "second 10% part_of-it"
@ CAA 0 issue "ca.example.net"
@ AAAA 2001:db8::10
www A 192.0.2.10
WWW2 A 192.0.2.110
deep.er A 203.0.113.255
_sip._tcp SRV 5 0 5061 sip.example.net.
v6 AAAA 2001:db8:0:1::ab
v6 AAAA ::ffff:192.0.2.10
sub DS 12345 13 2 4AA1E4CF2E8A6C1EAB9CBF8B7F53C8B0C5B7C0F2B4A8B3A51B0C2C3D4E5F6071
esc\\046aped TXT "back\\\\slash \\200 quoted\\"text"
*.wild CNAME www
unknown TYPE65280 \\# 4 DEADBEEF
naptr NAPTR 100 10 "u" "E2U+sip" "!^.*$!sip:info@example.org!" .
`;

test("are found by any part of name or value as it is shown, and in no other way", async () => {
  await addZone("mixed.example.org");
  const zoneFile = `@ 3600 IN SOA ns1.example.net. hostmaster.example.net. 1 7200 900 1209600 300\n${MIXED}`;
  const replaced = await one.call("PUT", "/dns/one/zone_file/mixed.example.org", zoneFile);
  expect(replaced.status).toBe(200);
  const { rr } = (await one.call("GET", "/dns/one/rr/mixed.example.org")).body as { rr: Row[] };
  expect(await allRecords("mixed.example.org", {})).toEqual(rr);
  // Every part of up to four characters of everything that is shown, and some that are in no record.
  const shown = rr.flatMap(({ name, value }) => [name, value]);
  const parts = shown.flatMap((text) => [1, 4].flatMap((size) => (text.length < size ? [] : [text.slice(-size)])));
  const searches = ["@", "www", "WWW", "192.0.2.1", ".10", "db8::", "::a", "sip.", "mixed", "absent", "%", "_", "5061"];
  for (const search of new Set([...searches, ...parts, ...shown])) {
    const wanted = search.trim().toLowerCase();
    const expected = rr.filter(({ name, value }) => [name, value].some((text) => text.toLowerCase().includes(wanted)));
    expect(await allRecords("mixed.example.org", { search, limit: "3" }), search).toEqual(expected);
  }
  const types = (await one.call("GET", "/resellers/one/zones/mixed.example.org/record_types")).body.types;
  expect(types).toContainEqual({ type: "MX", records: 2 });
  expect((await recordsOf("mixed.example.org", { type: "mx" })).body.records).toMatchObject([
    { type: "MX" },
    { type: "MX" },
  ]);
});

test("of a large zone come page by page, in the order of the zone, each once", async () => {
  await addZone("large.example.org");
  await fillZone(palomar.database.db, "large.example.org", 3_000);
  const names = (await allRecords("large.example.org", { limit: "1000" })).map(({ name }) => name);
  expect(names).toEqual(["@", ...Array.from({ length: 3_000 }, (_, index) => hostLabel(index))]);
  const found = (await recordsOf("large.example.org", { search: "host-00299", type: "A" })).body;
  expect(found.records.map(({ name }: Row) => name)).toEqual(
    Array.from({ length: 10 }, (_, digit) => hostLabel(2_990 + digit)),
  );
  expect(found.next).toBeNull();
});

test("of a zone larger than what is looked through at a time are found behind all others, and none of what is absent", async () => {
  await addZone("wide.example.org");
  await fillZone(palomar.database.db, "wide.example.org", 45_000);
  expect(await allRecords("wide.example.org", { search: hostLabel(44_999) })).toHaveLength(1);
  expect(await allRecords("wide.example.org", { search: "absent" })).toEqual([]);
});

test("are looked for in turn: many searches leave others their connections", async () => {
  await addZone("held.example.org");
  const { searches, neighbour } = await withTableHeld(palomar.database.url, "records", async () => {
    const sent = Array.from({ length: 18 }, () => recordsOf("held.example.org", { search: "absent" }));
    expect(await Promise.race(sent)).toMatchObject({ status: 429 });
    return { searches: sent, neighbour: await palomar.users.two.call("GET", "/session") };
  });
  expect(neighbour.status).toBe(200);
  const statuses = (await Promise.all(searches)).map(({ status }) => status);
  expect(statuses.sort()).toEqual([...Array(17).fill(200), 429]);
});

const hostLabel = (index: number) => `host-${String(index).padStart(6, "0")}`;

test("are those of one's own zones alone", async () => {
  await addZone("others.example.org", "other");
  const { acme, two, operator, north } = palomar.users;
  expect((await recordsOf("others.example.org")).status).toBe(200);
  expect((await recordsOf("others.example.org", {}, operator)).status).toBe(200);
  const unknown = await recordsOf("nowhere.example.org");
  expect(unknown).toMatchObject({ status: 404, body: { msg: "nowhere.example.org does not exist" } });
  expect((await recordsOf("others.example.org", {}, acme)).body.msg).toBe("others.example.org does not exist");
  expect((await recordsOf("others.example.org", {}, two)).status).toBe(404);
  expect((await recordsOf("others.example.org", {}, north)).status).toBe(403);
  expect((await recordsOf("others.example.org", { after: "nonsense" })).body.msg).toContain("invalid field: after");
  expect((await recordsOf("others.example.org", { type: "nonsense" })).body.msg).toContain("invalid field: type");
});
