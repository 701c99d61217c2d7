import { describe, expect, it } from "vitest";
import { parseDomainName } from "../../../../services/core/dns/name.ts";
import { decodeSoaRdata } from "../../../../services/core/dns/soa.ts";
import { parseZoneFile } from "../../../../services/core/dns/zone-file/zone-file.ts";
import { recordOctets, zoneOctets } from "../../../../services/core/dns/zone-octets.ts";
import { ZoneDatabaseWriter } from "../../../../services/dns-server/zone-database/writer.ts";

const HEAD = "$TTL 60\n@ SOA ns hostmaster 1 2 3 4 5\n@ NS ns\n";

const lines = (count: number, line: (index: number) => string) =>
  Array.from({ length: count }, (_, index) => line(index)).join("\n");
const nibbles = (index: number) => [...index.toString(16).padStart(4, "0")].reverse().join(".");
const scattered = (index: number) =>
  [...((index * 2_654_435_761) >>> 0).toString(16).padStart(20, "0")].reverse().join(".");

/** Octets that the zone database takes for a zone, and what is estimated. */
function measure(origin: string, text: string, zones = 1): { taken: number; estimated: number } {
  const writer = new ZoneDatabaseWriter();
  const before = writer.usedOctets;
  let estimated = 0;
  for (let number = 0; number < zones; number += 1) {
    const name = parseDomainName(zones === 1 ? origin : `z${number}.${origin}`);
    if (!name.ok) throw new Error(name.error.message);
    const apex = name.value;
    const parsed = parseZoneFile(text, { origin: apex, maxGenerated: 1_000_000 });
    if (!parsed.ok) throw new Error(parsed.error.message);
    const { records, soa } = parsed.value;
    const wire = Buffer.from(apex.key, "latin1");
    const zone = writer.createZone({ apex: wire, negativeTtlSeconds: 5, resellerId: "one" });
    const byOwner = new Map<
      string,
      { owner: Uint8Array; records: { type: number; ttl: number; rdata: Uint8Array }[] }
    >();
    for (const { owner, type, ttl, rdata } of [soa!, ...records]) {
      const named = byOwner.get(owner.key) ?? { owner: owner.wire, records: [] };
      named.records.push({ type, ttl, rdata });
      byOwner.set(owner.key, named);
    }
    for (const named of byOwner.values()) writer.setName(zone, named.owner, named.records);
    writer.publishZone(zone);
    writer.collect();
    estimated += zoneOctets(apex, decodeSoaRdata(soa!.rdata));
    for (const { owner, rdata } of records) estimated += recordOctets(owner.wire, apex.wire.length, rdata.length);
  }
  return { taken: writer.usedOctets - before, estimated };
}

describe("the estimate of what zones take of the zone database", () => {
  it.each([
    ["addresses", "example.org.", lines(20_000, (n) => `host${n} A 192.0.2.1`), 1.6],
    [
      "addresses of both families",
      "example.org.",
      lines(10_000, (n) => `h${n} A 192.0.2.1\nh${n} AAAA 2001:db8::1`),
      2.2,
    ],
    ["mail", "example.org.", lines(8_000, (n) => `m${n} MX 10 mail${n}.example.net.`), 1.6],
    ["services", "example.org.", lines(8_000, (n) => `_sip._tcp.s${n} SRV 1 2 3 t.example.net.`), 2],
    ["long texts", "example.org.", lines(2_000, (n) => `t${n} TXT ${`"${"x".repeat(250)}" `.repeat(7)}`), 1.3],
    ["many texts at one name", "example.org.", lines(3_000, (n) => `t TXT "number ${n}"`), 4],
    ["a reverse zone", "2.0.192.in-addr.arpa.", lines(256, (n) => `${n} PTR h${n}.example.org.`), 8],
    [
      "a scattered IPv6 reverse zone",
      "8.b.d.0.1.0.0.2.ip6.arpa.",
      lines(4_000, (n) => `${scattered(n)} PTR h.example.org.`),
      4,
    ],
    [
      "a dense IPv6 reverse zone",
      "8.b.d.0.1.0.0.2.ip6.arpa.",
      lines(8_000, (n) => `${nibbles(n)} PTR h.example.org.`),
      6,
    ],
    ["deep names", "example.org.", lines(200, (n) => `${"a.".repeat(60)}x${n} A 192.0.2.1`), 1.7],
    [
      "deep names that differ at their beginning",
      "example.org.",
      lines(2_000, (n) => `x${n}.${"a.".repeat(60)}b A 192.0.2.1`),
      60,
    ],
    ["$GENERATE of long texts", "example.org.", `$GENERATE 1-5000 g$ TXT ${`"${"$".repeat(40)}" `.repeat(8)}`, 1.4],
    ["an empty zone", "example.org.", "", 8],
  ] as const)("is never less, and not much more: %s", (_, origin, text, mostTimes) => {
    const { taken, estimated } = measure(origin, `${HEAD}${text}\n`);
    // Tables begin with some room that no zone is charged for.
    expect(estimated + 16_384).toBeGreaterThanOrEqual(taken);
    expect(estimated).toBeLessThanOrEqual(taken * mostTimes);
  });

  it("is never less for many small zones", () => {
    const { taken, estimated } = measure("example.org.", `${HEAD}www A 192.0.2.1\n`, 3_000);
    expect(estimated).toBeGreaterThanOrEqual(taken);
    expect(estimated).toBeLessThanOrEqual(taken * 1.8);
  });

  it("counts the names between a record's and the apex", () => {
    const owner = parseDomainName("a.b.c.example.org");
    const apex = parseDomainName("example.org");
    if (!owner.ok || !apex.ok) throw new Error("names");
    const shallow = recordOctets(owner.value.wire.subarray(4), apex.value.wire.length, 4);
    expect(recordOctets(owner.value.wire, apex.value.wire.length, 4)).toBe(shallow + 4 + (56 + 4) + (56 + 2));
  });
});
