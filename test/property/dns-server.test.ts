import { describe, expect, it } from "vitest";
import { parseDomainName } from "../../services/core/dns/name.ts";
import { TYPE } from "../../services/core/dns/rr-types.ts";
import { TRANSPORT } from "../../services/dns-server/message/client.ts";
import type { CompiledRecord } from "../../services/dns-server/zone-database/stored-rrset.ts";
import { ZoneDatabaseWriter } from "../../services/dns-server/zone-database/writer.ts";
import { fc } from "../support/property.ts";
import { ask, respond } from "../unit/dns-server/ask.ts";
import { pipelineOn, publishZoneText, zoneDatabaseOf } from "../unit/dns-server/test-zone-database.ts";

const zoneDatabase = zoneDatabaseOf({
  origin: "example.org.",
  text: `$TTL 60
@ SOA ns hostmaster 1 2 3 4 5
@ NS ns
@ MX 10 mail
ns A 192.0.2.53
mail A 192.0.2.25
www CNAME web
web A 192.0.2.80
*.wild A 192.0.2.7
d DNAME example.net.
sub NS ns.sub
ns.sub A 192.0.2.54
${Array.from({ length: 100 }, (_, index) => `many A 192.0.2.${index}`).join("\n")}
loop1 CNAME loop2
loop2 CNAME loop1
`,
});
/** The same, signed in either way; nobody checks the signatures. */
const SIGNED = { nsec: "@ NSEC d NS\nd NSEC www DNAME\nwww NSEC @ CNAME", nsec3: "@ NSEC3PARAM 1 0 5 AB" };
for (const [denial, chain] of Object.entries(SIGNED)) {
  const signature = (type: string) => `RRSIG ${type} 13 2 60 20300101000000 20200101000000 1 example.org. AAAA`;
  const hashes = ["0", "8", "g", "v"].map((digit) => digit.repeat(32));
  const nsec3 = hashes.map(
    (hash, index) => `${hash} NSEC3 1 0 5 AB ${hashes[(index + 1) % 4]} A\n${hash} ${signature("NSEC3")}`,
  );
  publishZoneText(zoneDatabase, {
    origin: `${denial}.example.org.`,
    text: `$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ ${signature("SOA")}\n@ NS ns\n@ DNSKEY 257 3 13 AAAA\nwww CNAME web
web A 192.0.2.80\nweb ${signature("A")}\n*.wild A 192.0.2.7\nd DNAME wild\nsub NS ns.example.net.\n${chain}
${denial === "nsec3" ? nsec3.join("\n") : ""}\n`,
  });
}
const pipeline = pipelineOn(zoneDatabase);

/** Well-formed queries of every kind, as the seeds of what is mutated. */
const SEEDS = ["web", "www", "x.wild", "a.d", "y.sub", "many", "loop1", "", "MiXeD"].flatMap((name) =>
  ["", "nsec", "nsec3"].flatMap((zone) =>
    [1, 15, 255, 252, 16, 43, 46].map((type) => queryOctets(`${name}.${zone}`, type)),
  ),
);

function queryOctets(name: string, type: number): number[] {
  const labels = `${name}.example.org`.split(".").filter((label) => label !== "");
  const wire = labels.flatMap((label) => [label.length, ...Buffer.from(label)]);
  const opt = [0, 0, 41, 16, 0, 0, 0, 128, 0, 0, 20, 0, 3, 0, 0, 0, 10, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0, 11, 0, 0];
  opt[10] = opt.length - 11;
  return [1, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1, ...wire, 0, type >> 8, type & 255, 0, 1, ...opt];
}

/** A query with some octets put otherwise, cut off, or grown. */
const mutated = fc
  .tuple(
    fc.constantFrom(...SEEDS),
    fc.array(fc.tuple(fc.nat(80), fc.integer({ min: 0, max: 255 })), { maxLength: 6 }),
    fc.option(fc.nat(80)),
    fc.uint8Array({ maxLength: 40 }),
  )
  .map(([seed, changes, cut, tail]) => {
    const octets = [...seed];
    for (const [place, value] of changes) octets[place % octets.length] = value;
    return Uint8Array.from([...(cut === null ? octets : octets.slice(0, cut)), ...tail]);
  });

const hostile = fc.oneof(mutated, fc.uint8Array({ maxLength: 600 }));

/** The payload that a client of this packet can be sure to have offered: what we may send at most. */
const MOST_UDP_OCTETS = 1232;

describe("hostile packets", () => {
  it("get a refusal, an answer or silence, never more than is allowed", () => {
    fc.assert(
      fc.property(hostile, fc.constantFrom(TRANSPORT.UDP, TRANSPORT.TCP, TRANSPORT.TLS), (packet, transport) => {
        const answer = respond(pipeline, packet, { transport });
        if (packet.length < 12 || (packet[2]! & 0x80) !== 0) {
          expect(answer).toBeUndefined();
          return;
        }
        expect(answer).toBeDefined();
        expect(answer!.length).toBeGreaterThanOrEqual(12);
        expect(answer!.length).toBeLessThanOrEqual(transport === TRANSPORT.UDP ? MOST_UDP_OCTETS : 65_535);
        expect(answer!.subarray(0, 2)).toEqual(packet.subarray(0, 2));
        expect(answer![2]! & 0xf8).toBe((packet[2]! & 0x78) | 0x80);
        // What we send is itself no query: two servers cannot keep each other busy.
        expect(respond(pipeline, answer!, { transport })).toBeUndefined();
      }),
      { numRuns: 20_000 },
    );
  });

  it("without EDNS get at most 512 octets", () => {
    const plain = mutated.map((packet) => {
      const octets = packet.slice();
      for (let index = 6; index < Math.min(12, octets.length); index += 1) octets[index] = 0;
      return octets;
    });
    fc.assert(
      fc.property(plain, (packet) => {
        expect((respond(pipeline, packet) ?? packet).length).toBeLessThanOrEqual(Math.max(512, packet.length));
      }),
      { numRuns: 5_000 },
    );
  });
});

/** A few labels, so that names meet, nest and stand below wildcards, cuts and DNAMEs. */
const label = fc.constantFrom("a", "b", "*", "A");
const owner = fc.array(label, { minLength: 1, maxLength: 4 }).map((labels) => `${labels.join(".")}.example.org`);
const apexWire = wireOf("example.org");
const SOA: CompiledRecord = {
  type: TYPE.SOA,
  ttl: 60,
  rdata: Uint8Array.from([...wireOf("ns.example.org"), ...wireOf("h.example.org"), ...new Array(20).fill(1)]),
};
const CONTENTS: readonly (readonly CompiledRecord[])[] = [
  [],
  [record(TYPE.A, [192, 0, 2, 1])],
  [record(TYPE.A, [192, 0, 2, 2]), record(TYPE.TXT, [1, 65])],
  [record(TYPE.CNAME, wireOf("b.example.org"))],
  [record(TYPE.NS, wireOf("ns.a.example.org"))],
  [record(TYPE.DNAME, wireOf("a.b.example.org"))],
];

describe("a zone changed name by name", () => {
  it("answers as one that was loaded whole", { timeout: 180_000 }, () => {
    const changes = fc.array(fc.tuple(owner, fc.constantFrom(...CONTENTS)), { maxLength: 40 });
    fc.assert(
      fc.property(changes, fc.array(owner, { minLength: 1, maxLength: 20 }), (steps, asked) => {
        const changed = new ZoneDatabaseWriter();
        const reference = emptyZone(changed);
        const final = new Map<string, readonly [string, readonly CompiledRecord[]]>();
        for (const [name, records] of steps) {
          changed.setName(reference, wireOf(name), records);
          changed.publishZone(reference);
          changed.collect();
          final.set(name.toLowerCase(), [name, records]);
        }
        const loaded = new ZoneDatabaseWriter();
        const whole = emptyZone(loaded);
        for (const [name, records] of final.values()) {
          if (records.length > 0) loaded.setName(whole, wireOf(name), records);
        }
        loaded.publishZone(whole);
        const [onLoaded, onChanged] = [pipelineOn(loaded), pipelineOn(changed)];
        for (const name of asked) {
          for (const type of ["A", "TXT", "NS", "DS"]) {
            const expected = ask(onLoaded, name, type);
            expect(ask(onChanged, name, type)!.octets).toEqual(expected!.octets);
          }
        }
      }),
      { numRuns: 300 },
    );
  });
});

function emptyZone(writer: ZoneDatabaseWriter): number {
  const zone = writer.createZone({ apex: apexWire, negativeTtlSeconds: 60 });
  writer.setName(zone, apexWire, [SOA]);
  writer.publishZone(zone);
  writer.setReady();
  return zone;
}

function record(type: number, rdata: ArrayLike<number>): CompiledRecord {
  return { type, ttl: 60, rdata: Uint8Array.from(rdata) };
}

function wireOf(text: string): Uint8Array {
  const name = parseDomainName(text);
  if (!name.ok) throw new Error(name.error.message);
  return name.value.wire;
}
