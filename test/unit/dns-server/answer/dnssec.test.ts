import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { parseDomainName } from "../../../../services/core/dns/name.ts";
import { TYPE } from "../../../../services/core/dns/rr-types.ts";
import { Nsec3Hash } from "../../../../services/dns-server/answer/nsec3-hash.ts";
import { TRANSPORT } from "../../../../services/dns-server/message/client.ts";
import type { Pipeline } from "../../../../services/dns-server/pipeline.ts";
import { LookupName } from "../../../../services/dns-server/zone-database/lookup-name.ts";
import type { CompiledRecord } from "../../../../services/dns-server/zone-database/stored-rrset.ts";
import { ZoneDatabaseWriter } from "../../../../services/dns-server/zone-database/writer.ts";
import { queryOctets, readSections, type Sections } from "../../../support/dnssec-questions.ts";
import { respond } from "../ask.ts";
import { pipelineOn, zoneDatabaseOf } from "../test-zone-database.ts";

const signature = (type: string, labels: number) =>
  `RRSIG ${type} 13 ${labels} 60 20300101000000 20200101000000 1 example.org. AAAA`;
const HEAD = `$TTL 60
@ SOA ns h 1 2 3 4 5
@ ${signature("SOA", 2)}
@ NS ns
@ ${signature("NS", 2)}
@ DNSKEY 257 3 13 AAAA
@ ${signature("DNSKEY", 2)}
www A 192.0.2.1
www ${signature("A", 3)}
www TXT "text"
www ${signature("TXT", 3)}
mx MX 10 www
mx ${signature("MX", 3)}
`;
const NSEC = `@ NSEC mx NS SOA RRSIG NSEC DNSKEY
@ ${signature("NSEC", 2)}
mx NSEC www MX RRSIG NSEC
mx ${signature("NSEC", 3)}
www NSEC @ A TXT RRSIG NSEC
www ${signature("NSEC", 3)}
`;

function ask(pipeline: Pipeline, name: string, type: string, options: { dnssecOk?: boolean; streamed?: boolean } = {}) {
  const query = queryOctets({ name, type, dnssecOk: options.dnssecOk ?? true });
  return readSections(respond(pipeline, query, { transport: options.streamed ? TRANSPORT.TCP : TRANSPORT.UDP })!);
}

/** Of each record its type, of an RRSIG also what it covers. */
function typesOf(records: Sections["answers"]): string[] {
  return records.map((text) => /^\S+ \d+ (RRSIG \S+|\S+)/.exec(text)![1]!);
}

describe("a signed zone", () => {
  const pipeline = pipelineOn(zoneDatabaseOf({ origin: "example.org.", text: HEAD + NSEC }));

  it("answers ANY with one RRset and its signature over UDP, with all over TCP", () => {
    expect(typesOf(ask(pipeline, "www.example.org", "ANY").answers)).toEqual(["A", "RRSIG A"]);
    const all = ask(pipeline, "www.example.org", "ANY", { streamed: true });
    expect(typesOf(all.answers)).toEqual(["A", "NSEC", "RRSIG A", "RRSIG NSEC", "RRSIG TXT", "TXT"]);
  });

  it("answers ANY over TCP with what has room of more than a message holds (RFC 8482 §4.1)", () => {
    const texts = (type: string) =>
      Array.from({ length: 150 }, (_, n) => `big ${type} "${String(n).padEnd(250, "x")}"\n`);
    const text = HEAD + NSEC + [...texts("TXT"), ...texts("SPF")].join("");
    const answer = ask(pipelineOn(zoneDatabaseOf({ origin: "example.org.", text })), "big.example.org", "ANY", {
      streamed: true,
    });
    expect(answer).toMatchObject({ rcode: 0 });
    expect(new Set(typesOf(answer.answers))).toEqual(new Set(["TXT"]));
    expect(answer.answers).toHaveLength(150);
  });

  it("keeps signatures and proofs out of ANY for clients without DO", () => {
    const plain = { dnssecOk: false };
    expect(typesOf(ask(pipeline, "www.example.org", "ANY", plain).answers)).toEqual(["A"]);
    expect(typesOf(ask(pipeline, "www.example.org", "ANY", { ...plain, streamed: true }).answers)).toEqual([
      "A",
      "TXT",
    ]);
  });

  it("answers RRSIG with those of one RRset over UDP, with all over TCP", () => {
    expect(typesOf(ask(pipeline, "www.example.org", "RRSIG").answers)).toEqual(["RRSIG A"]);
    const all = ask(pipeline, "www.example.org", "RRSIG", { streamed: true });
    expect(typesOf(all.answers)).toEqual(["RRSIG A", "RRSIG NSEC", "RRSIG TXT"]);
  });

  it("answers types of DNSSEC that are asked for, with DO or without", () => {
    expect(typesOf(ask(pipeline, "www.example.org", "NSEC", { dnssecOk: false }).answers)).toEqual(["NSEC"]);
    expect(typesOf(ask(pipeline, "www.example.org", "NSEC").answers)).toEqual(["NSEC", "RRSIG NSEC"]);
    expect(typesOf(ask(pipeline, "example.org", "DNSKEY", { dnssecOk: false }).answers)).toEqual(["DNSKEY"]);
  });

  it("signs additional records", () => {
    expect(typesOf(ask(pipeline, "mx.example.org", "MX").additionals)).toEqual(["A", "RRSIG A"]);
    expect(typesOf(ask(pipeline, "mx.example.org", "MX", { dnssecOk: false }).additionals)).toEqual(["A"]);
  });

  it("gives the negative SOA and its signature the negative TTL (RFC 2308 §5)", () => {
    const { authorities } = ask(pipeline, "none.example.org", "A");
    const ttls = authorities
      .filter((text) => / (RRSIG )?SOA /.test(text) && !text.includes(" NSEC "))
      .map((text) => text.split(" ")[1]);
    expect(ttls).toEqual(["5", "5"]);
  });
});

describe("a zone that is not signed, with records of DNSSEC in it", () => {
  it.each([
    ["no keys", HEAD.replaceAll(/^.*DNSKEY.*\n/gm, "") + NSEC],
    ["no signature of its SOA", HEAD.replace(/^.*RRSIG SOA.*\n/m, "") + NSEC],
    ["no chain", HEAD],
    ["parameters that nobody may use yet", `${HEAD}@ NSEC3PARAM 1 1 0 -\n`],
    ["parameters of an unknown algorithm", `${HEAD}@ NSEC3PARAM 2 0 0 -\n`],
    ["more iterations than anybody accepts", `${HEAD}@ NSEC3PARAM 1 0 151 -\n`],
    ["iterations over a salt that takes as long", `${HEAD}@ NSEC3PARAM 1 0 75 ${"ab".repeat(36)}\n`],
  ])("denies without proofs: %s", (_, text) => {
    const pipeline = pipelineOn(zoneDatabaseOf({ origin: "example.org.", text }));
    expect(ask(pipeline, "none.example.org", "A")).toMatchObject({ rcode: 3 });
    expect(typesOf(ask(pipeline, "none.example.org", "A").authorities).filter((type) => /NSEC/.test(type))).toEqual([]);
    expect(ask(pipeline, "www.example.org", "AAAA")).toMatchObject({ rcode: 0, answers: [] });
  });

  it("serves them as the data that they are", () => {
    const stray = `$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nx ${signature("A", 3)}\nx NSEC y A\nh NSEC3 1 0 0 - ${"0".repeat(32)} A\n`;
    const pipeline = pipelineOn(zoneDatabaseOf({ origin: "example.org.", text: stray }));
    const plain = { dnssecOk: false };
    expect(typesOf(ask(pipeline, "x.example.org", "RRSIG", plain).answers)).toEqual(["RRSIG A"]);
    expect(typesOf(ask(pipeline, "x.example.org", "NSEC", plain).answers)).toEqual(["NSEC"]);
    expect(typesOf(ask(pipeline, "h.example.org", "NSEC3", plain).answers)).toEqual(["NSEC3"]);
    expect(typesOf(ask(pipeline, "x.example.org", "ANY", { ...plain, streamed: true }).answers)).toEqual([
      "NSEC",
      "RRSIG A",
    ]);
    expect(ask(pipeline, "x.example.org", "A")).toMatchObject({ rcode: 0, answers: [] });
  });
});

describe("names of NSEC3 records", () => {
  const own = hashOf("example.org");
  const chain = `@ NSEC3PARAM 1 0 0 -\n${own} NSEC3 1 0 0 - ${own} NS SOA\n${own} ${signature("NSEC3", 3)}\n`;

  it("do not exist (RFC 5155 §7.2.8)", () => {
    const pipeline = pipelineOn(zoneDatabaseOf({ origin: "example.org.", text: HEAD + chain }));
    for (const type of ["NSEC3", "RRSIG", "A"]) {
      const response = ask(pipeline, `${own}.example.org`, type);
      expect(response.rcode).toBe(3);
      expect(typesOf(response.authorities)).toContain("NSEC3");
    }
  });

  it("exist with other records, which are their own", () => {
    const pipeline = pipelineOn(
      zoneDatabaseOf({ origin: "example.org.", text: `${HEAD}${chain}${own} A 192.0.2.9\n` }),
    );
    expect(typesOf(ask(pipeline, `${own}.example.org`, "A").answers)).toEqual(["A"]);
    expect(ask(pipeline, `${own}.example.org`, "NSEC3")).toMatchObject({ rcode: 0, answers: [] });
  });
});

describe("a chain of many names", () => {
  it("has the record before a name at hand, whatever comes and goes", () => {
    const writer = zoneDatabaseOf({ origin: "example.org.", text: HEAD + NSEC });
    const pipeline = pipelineOn(writer);
    const zone = writer.publishedZone(wireOf("example.org"));
    const present = new Set(["mx", "www"]);
    const nsec: CompiledRecord = { type: TYPE.NSEC, ttl: 60, rdata: Uint8Array.of(0, 0, 1, 0x40) };
    const set = (name: string, isThere: boolean) => {
      writer.setName(zone, wireOf(`${name}.example.org`), isThere ? [nsec] : []);
      if (isThere) present.add(name);
      else present.delete(name);
    };
    const check = (seed: number) => {
      writer.publishZone(zone);
      writer.collect();
      const sorted = ["", ...[...present].toSorted()];
      for (let step = 0; step < 50; step += 1) {
        const asked = nameAt((seed * 7919 + step * 104_729) % 20_000);
        if (present.has(asked)) continue;
        const before = sorted.findLast((name) => name < asked)!;
        const owners = ask(pipeline, `${asked}.example.org`, "A").authorities.filter((text) => / NSEC /.test(text));
        expect(owners.map((text) => text.split(" ")[0])).toContain(`${before === "" ? "" : `${before}.`}example.org.`);
      }
    };
    // In order, which fills the blocks; then at random, which splits them; then away, which joins them again.
    for (let index = 0; index < 6_000; index += 2) set(nameAt(index), true);
    check(1);
    for (let index = 0; index < 3_000; index += 1) set(nameAt((index * 7_919) % 20_000), true);
    check(2);
    for (let round = 0; round < 10; round += 1) {
      for (let index = round; index < 20_000; index += 10) set(nameAt(index), false);
      check(3 + round);
    }
    const comeAndGo = () => {
      for (let index = 0; index < 6_000; index += 1) set(nameAt(index), true);
      check(20);
      for (let index = 0; index < 6_000; index += 1) set(nameAt(index), false);
      check(21);
      writer.collect();
      return writer.usedOctets;
    };
    const used = comeAndGo();
    expect(comeAndGo()).toBe(used);
  });

  const nameAt = (index: number) => `n${String(index).padStart(5, "0")}`;
});

describe("hashed owner names", () => {
  it.each([
    ["example.org", 0, ""],
    ["example.org", 12, "aabbccdd"],
    [`${"l".repeat(63)}.${"m".repeat(63)}.${"n".repeat(63)}.example.org`, 1, "ff".repeat(255)],
    ["*.A.example.org", 3, "00"],
  ])("are those of the platform's SHA-1: %s, %d iterations, salt %s", (name, iterations, salt) => {
    const writer = new ZoneDatabaseWriter();
    const zone = writer.createZone({ apex: wireOf("example.org"), negativeTtlSeconds: 60 });
    const parameters = [1, 0, iterations >> 8, iterations & 255, salt.length / 2, ...Buffer.from(salt, "hex")];
    const rdata = (octets: readonly number[]) => Uint8Array.from(octets);
    writer.setName(zone, wireOf("example.org"), [
      { type: TYPE.SOA, ttl: 60, rdata: rdata([0, 0, ...new Array(20).fill(0)]) },
      { type: TYPE.RRSIG, ttl: 60, rdata: rdata([0, TYPE.SOA]) },
      { type: TYPE.DNSKEY, ttl: 60, rdata: rdata([1, 1, 3, 13]) },
      { type: TYPE.NSEC3PARAM, ttl: 60, rdata: rdata(parameters) },
    ]);
    const lookup = new LookupName();
    const wire = wireOf(name);
    lookup.read(wire, 0, wire.length);
    const hash = new Nsec3Hash();
    for (let time = 0; time < 2; time += 1) {
      hash.hashKnown(writer.memory.segmentOf(zone), zone, lookup, 0);
      expect(Buffer.from(hash.name.octets.subarray(1, 33)).toString()).toBe(hashOf(name, iterations, salt));
    }
  });
});

/** RFC 5155 §5, by other means. */
function hashOf(name: string, iterations = 0, salt = ""): string {
  let digest: Uint8Array = wireOf(name.toLowerCase());
  for (let left = iterations; left >= 0; left -= 1) {
    digest = createHash("sha1").update(digest).update(Buffer.from(salt, "hex")).digest();
  }
  return BigInt(`0x${Buffer.from(digest).toString("hex")}`)
    .toString(32)
    .padStart(32, "0");
}

function wireOf(text: string): Uint8Array {
  const name = parseDomainName(text);
  if (!name.ok) throw new Error(name.error.message);
  return name.value.wire;
}
