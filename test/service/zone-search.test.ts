import { afterAll, beforeAll, expect, test } from "vitest";
import { nameSortKey } from "../../services/core/dns/name.ts";
import { addCompany } from "../../services/operations/dns/companies.ts";
import { queryRows } from "../../services/platform/postgres/db.ts";
import { searchZones } from "../../services/store/dns/console-zones.ts";
import { listPowerdnsZones } from "../../services/store/dns/powerdns-zones.ts";
import { addReseller } from "../../services/store/dns/resellers.ts";
import { partsOfPattern } from "../../services/store/dns/zone-name-parts.ts";
import { searchZoneNames } from "../../services/store/dns/zone-search.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { nameOf, SIGNER } from "../support/dns-server.ts";

/** More than are gone over one by one. */
const ZONES = 12_000;

let database: TestDatabase;

beforeAll(async () => {
  database = await createTestDatabase();
  for (const id of ["one", "two"]) await addZones(id, id === "one" ? ZONES : 50);
});

afterAll(async () => {
  await database?.drop();
});

test("the console finds what many have, what few have at the end, and what nobody has", async () => {
  const search = async (text: string, more: { limit?: number; after?: string; crmId?: string } = {}) => {
    const after = more.after === undefined ? undefined : nameOf(more.after);
    const found = await searchZones(database.db, { resellerId: "one", text, limit: 3, ...more, after });
    return found.map(({ name }) => name);
  };
  expect(await search("")).toEqual(["one-00000.test", "one-00001.test", "one-00002.test"]);
  expect(await search("ONE-", { after: "one-00500.test" })).toEqual([
    "one-00501.test",
    "one-00502.test",
    "one-00503.test",
  ]);
  expect(await search("99.te")).toEqual(["one-00099.test", "one-00199.test", "one-00299.test"]);
  // Within the second walk, behind it, and on both sides of its end.
  expect(await search("-0520")).toEqual(["one-05200.test", "one-05201.test", "one-05202.test"]);
  expect(await search("-1190", { limit: 2 })).toEqual(["one-11900.test", "one-11901.test"]);
  expect(await search("9999", { limit: 50 })).toEqual(["one-09999.test"]);
  expect(await search("0000.", { limit: 50 })).toEqual(["one-00000.test", "one-10000.test"]);
  expect(await search("11999", { after: "one-11998.test", limit: 50 })).toEqual(["one-11999.test"]);
  expect(await search("nowhere")).toEqual([]);
  expect(await search("_")).toEqual([]);
  // What the index of parts of names does not know.
  expect(await search("t.", { limit: 1 })).toEqual([]);
  expect(await search("9.", { limit: 2 })).toEqual(["one-00009.test", "one-00019.test"]);
  expect(await search("xq")).toEqual([]);
  // Neither another reseller's, nor by a company that is not there.
  expect(await search("two")).toEqual([]);
  expect(await search("one", { crmId: "two" })).toEqual([]);
  expect(await search("11999", { crmId: "one", limit: 50 })).toEqual(["one-11999.test"]);
});

test("PowerDNS's API goes on where a page has ended, within one's own zones", async () => {
  const found: string[] = [];
  for (let after: Buffer | undefined; ; ) {
    const page = await listPowerdnsZones(database.db, { resellerId: "one" }, { after, limit: 40, like: "%7_.test" });
    found.push(...page.zones.map(({ zone }) => zone.name));
    if (page.next === undefined) break;
    after = page.next;
  }
  expect(found).toHaveLength(ZONES / 10);
  expect(found).toEqual(found.toSorted());
  const others = await listPowerdnsZones(
    database.db,
    { resellerId: "two" },
    { after: undefined, limit: 100, like: "%" },
  );
  expect(others.zones).toHaveLength(50);
});

test("finds what going over all names finds, whatever these begin with", async () => {
  const { db } = database;
  const names = manyNames();
  await addNames("three", names);
  const keys = new Map(names.map((name) => [name, Buffer.from(nameSortKey(nameOf(name).wire))]));
  const ordered = [...names].sort((a, b) => Buffer.compare(keys.get(a)!, keys.get(b)!));
  const patterns = [
    "%q%",
    "%zx%",
    "%co.u%",
    "%.uk%",
    "uk%",
    "%a-b%",
    "%mail%",
    "%xn--%",
    "ab.%",
    "%.w_b%",
    "%!%",
    "_",
    "%0",
  ];
  for (const [limit, after] of [
    [5, undefined],
    [200, undefined],
    [5, ordered[1_200]],
    [50, ordered[2_500]],
    [7, ordered[ordered.findIndex((name) => name.endsWith(".abc.com")) + 300]],
    [7, ordered[ordered.findIndex((name) => name.endsWith(".co.uk")) + 300]],
  ] as const) {
    for (const like of patterns) {
      const isLike = new RegExp(`^${like.replace(/[.]/g, "\\.").replace(/%/g, ".*").replace(/_/g, ".")}$`);
      const from = after === undefined ? 0 : ordered.indexOf(after) + 1;
      const expected = ordered.filter((name, place) => place >= from && isLike.test(name)).slice(0, limit);
      const place = after === undefined ? undefined : keys.get(after);
      const ids = await searchZoneNames(db, { scope: { resellerId: "three" }, like, after: place, limit });
      const found = await queryRows<{ name: string }>(
        db,
        "select name from zones where id = any($1::bigint[]) order by name_key",
        [ids],
      );
      expect([like, limit, after, found.map(({ name }) => name)]).toEqual([like, limit, after, expected]);
    }
  }
});

test("PostgreSQL takes names apart as patterns are", async () => {
  for (const text of ["example.org", "a_b-0/1.test", "\\225x.test", "aa", ""]) {
    const [row] = await queryRows<{ parts: string }>(database.db, "select zone_name_parts($1)::text as parts", [text]);
    expect(row!.parts).toBe(partsOfPattern(text.replace(/[\\_%]/g, "\\$&")));
  }
});

/** Names of all shapes below several ends, more than are gone over at first. */
function manyNames(): string[] {
  const ends = ["uk", "co.uk", "a.uk", "com", "abc.com", "info", "in-addr.arpa"];
  const shapes = (number: number) => {
    const word = ["mail", "shop", "zx", "q", "a-b", "xn--caf-dma"][number % 6]!;
    return [`${word}${number}`, `web.${word}${number}`, `n${number.toString(36)}${word}`][number % 3]!;
  };
  const made = ends.flatMap((end, place) =>
    Array.from({ length: 600 }, (_, number) => `${shapes(number * 7 + place)}.${end}`),
  );
  return [
    ...new Set([
      ...made,
      ...ends,
      "abc.com",
      "abcq.com",
      "co.uk",
      "couq.uk",
      "ab.com",
      "www.ab.com",
      "a.com",
      "w.a.com",
      "!.com",
      "\\225.com",
      "w.b.co.uk",
    ]),
  ];
}

async function addNames(id: string, names: readonly string[]): Promise<void> {
  const { db } = database;
  await addZones(id, 0);
  const parsed = names.map((name) => nameOf(name));
  await queryRows(
    db,
    String.raw`
    insert into zones (reseller_id, company_id, name, name_key, apex, serial_type, serial, mname, rname, refresh, retry,
                       expire, minimum, ttl)
    select $1, c.id, n.name, n.name_key, n.apex, 'numeric', 1, '\000', '\000', 1, 1, 1, 1, 1
      from unnest($2::text[], $3::bytea[], $4::bytea[]) as n (name, name_key, apex)
      join companies c on c.reseller_id = $1`,
    [
      ...[id, names, parsed.map(({ wire }) => Buffer.from(nameSortKey(wire)))],
      parsed.map(({ key }) => Buffer.from(key, "latin1")),
    ],
  );
  await db.raw("analyze zones, zone_name_buckets");
}

async function addZones(id: string, count: number): Promise<void> {
  const { db } = database;
  await addReseller(db, { id, name: id, rpzLicence: false, keyHash: Buffer.from(id) });
  await addCompany(db, SIGNER.keyRing, { resellerId: id, crmId: id, name: id, apikey: `key-of-${id}` });
  await queryRows(
    db,
    String.raw`
    insert into zones (reseller_id, company_id, name, name_key, apex, serial_type, serial, mname, rname, refresh, retry,
                       expire, minimum, ttl)
    select $1, c.id, label || '.test', 'test\000'::bytea || convert_to(label, 'utf8') || '\000'::bytea,
           '\011'::bytea || convert_to(label, 'utf8') || '\004test\000'::bytea, 'numeric', 1, '\000', '\000', 1, 1, 1, 1, 1
      from generate_series(0, $2::int - 1) n, lateral (select $1 || '-' || lpad(n::text, 5, '0') as label) l
      join companies c on c.reseller_id = $1`,
    [id, count],
  );
  await db.raw("analyze zones");
}
