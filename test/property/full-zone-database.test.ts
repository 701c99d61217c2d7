import { randomInt } from "node:crypto";
import { describe, expect, it, onTestFailed } from "vitest";
import { parseDomainName } from "../../services/core/dns/name.ts";
import { TYPE } from "../../services/core/dns/rr-types.ts";
import { HEADER } from "../../services/dns-server/zone-database/layout.ts";
import { ZoneDatabaseFullError, ZoneDatabaseMemory } from "../../services/dns-server/zone-database/memory.ts";
import { ZoneDatabaseReader } from "../../services/dns-server/zone-database/reader.ts";
import type { CompiledRecord } from "../../services/dns-server/zone-database/stored-rrset.ts";
import { ZoneDatabaseWriter } from "../../services/dns-server/zone-database/writer.ts";
import { fc } from "../support/property.ts";
import { findBookErrors } from "../support/zone-database-books.ts";
import { ask } from "../unit/dns-server/ask.ts";
import { pipelineOn } from "../unit/dns-server/test-zone-database.ts";

/** Octets of a zone database with hardly any room, of one segment or several, and what is done to it. */
const SIZES = [
  { segments: 1, octets: 768 * 1024, steps: 2_000, largeNames: 500 },
  { segments: 4, octets: 1_536 * 1024, steps: 1_000, largeNames: 250 },
] as const;
type Size = (typeof SIZES)[number];
/** A parent and its children among them. */
const APEXES = ["test", "a.test", "b.test", "x.a.test", "example.org", "c.test", "d.test", "e.test"];
const KINDS = ["plain", "nsec", "nsec3"] as const;
type Kind = (typeof KINDS)[number];

const wireOf = (text: string): Uint8Array => {
  const name = parseDomainName(text);
  if (!name.ok) throw new Error(name.error.message);
  return name.value.wire;
};
const record = (type: number, rdata: ArrayLike<number>): CompiledRecord => ({
  type,
  ttl: 60,
  rdata: new Uint8Array(rdata),
});
/** RFC 4034 §3.1: what covers a type, its signature a few octets that nobody checks. */
const signature = (covered: number) => record(TYPE.RRSIG, [covered >> 8, covered & 255, ...new Array(30).fill(1)]);

function apexRecords(kind: Kind, serial: number): CompiledRecord[] {
  const numbers = [serial >> 8, serial & 255].concat(new Array(16).fill(1));
  const soa = record(TYPE.SOA, [...wireOf("ns.test"), ...wireOf("h.test"), 0, 0, ...numbers]);
  if (kind === "plain") return [soa];
  const chain =
    kind === "nsec" ? record(TYPE.NSEC, [...wireOf("z.test"), 0, 1, 64]) : record(TYPE.NSEC3PARAM, [1, 0, 0, 1, 1, 7]);
  return [soa, record(TYPE.DNSKEY, [1, 1, 3, 13, 9, 9]), signature(TYPE.SOA), chain];
}

/** One of 200 octets for each letter. */
const TEXTS = Array.from({ length: 26 }, (_, letter) => record(TYPE.TXT, [200, ...new Array(200).fill(65 + letter)]));

/** Some records of a name, of a length that differs. */
function contentOf(kind: Kind, seed: number): CompiledRecord[] {
  const address = record(TYPE.A, [192, 0, 2, seed & 255]);
  const text = TEXTS[seed % TEXTS.length]!;
  const records = seed % 3 === 0 ? new Array<CompiledRecord>(1 + (seed % 11)).fill(text) : [address];
  if (kind === "plain") return records;
  const next = kind === "nsec" ? record(TYPE.NSEC, [...wireOf("z.test"), 0, 1, 64]) : undefined;
  return [...records, signature(records[0]!.type), ...(next ? [next] : [])];
}

function nsec3Of(seed: number): CompiledRecord[] {
  return [record(TYPE.NSEC3, [1, 0, 0, 1, 1, 7, 20, ...new Array(20).fill(seed & 255)]), signature(TYPE.NSEC3)];
}

/** Two zone databases that are told the same, of which one has hardly any room; it may refuse a step, and then the other is spared it. */
class Pair {
  readonly tight: ZoneDatabaseWriter;
  readonly roomy = new ZoneDatabaseWriter();
  readonly kinds = new Map<string, Kind>();
  refusals = 0;

  /** @param hashKey what places in the tables, and with them the moments at which there is no room, follow from */
  constructor(hashKey: number, { octets, segments }: Size) {
    const memory = ZoneDatabaseMemory.create(octets, octets / segments);
    memory.first.words.fill(hashKey, HEADER.HASH_KEY_0, HEADER.HASH_KEY_1 + 1);
    this.tight = new ZoneDatabaseWriter(memory);
    this.tight.setReady();
    this.roomy.setReady();
  }

  /** Does a step to the one with hardly any room, then to the other, or to neither. */
  step(apex: string, work: (writer: ZoneDatabaseWriter) => number): boolean {
    const before = this.tight.publishedZone(wireOf(apex));
    let zone = 0;
    const attempt = (writer: ZoneDatabaseWriter) => {
      zone = 0;
      zone = work(writer);
    };
    try {
      attempt(this.tight);
    } catch (error) {
      if (!(error instanceof ZoneDatabaseFullError)) throw error;
      this.refusals += 1;
      expect(this.tight.publishedZone(wireOf(apex))).toBe(before);
      return false;
    }
    attempt(this.roomy);
    return zone !== -1;
  }

  load(apex: string, kind: Kind, names: readonly string[], seed: number): void {
    const done = this.step(apex, (writer) => {
      const zone = writer.createZone({ apex: wireOf(apex), negativeTtlSeconds: 60 });
      try {
        writer.setName(zone, wireOf(apex), apexRecords(kind, seed));
        names.forEach((name, index) => {
          writer.setName(zone, wireOf(`${name}.${apex}`), contentOf(kind, seed + index));
          if (kind === "nsec3") writer.setName(zone, wireOf(`${hashLike(seed + index)}.${apex}`), nsec3Of(index));
        });
        writer.publishZone(zone);
      } catch (error) {
        writer.discardZone(zone);
        throw error;
      }
      return zone;
    });
    if (done) this.kinds.set(apex, kind);
  }

  change(apex: string, names: readonly string[], seed: number): void {
    const kind = this.kinds.get(apex);
    if (kind === undefined) return;
    this.step(apex, (writer) => {
      const zone = writer.publishedZone(wireOf(apex));
      try {
        names.forEach((name, index) => {
          const isGone = (seed + index) % 3 === 0;
          writer.setName(zone, wireOf(`${name}.${apex}`), isGone ? [] : contentOf(kind, seed + index));
          const hashed = `${hashLike(seed + index)}.${apex}`;
          if (kind === "nsec3") writer.setName(zone, wireOf(hashed), isGone ? [] : nsec3Of(index));
        });
        if (seed % 4 !== 0) writer.setName(zone, wireOf(apex), apexRecords(kind, seed));
        writer.publishZone(zone);
      } catch (error) {
        writer.discardZone(zone);
        throw error;
      }
      return zone;
    });
  }

  withhold(apex: string): void {
    for (const writer of [this.tight, this.roomy]) {
      writer.withholdZone({ apex: wireOf(apex), negativeTtlSeconds: 60 });
    }
    this.kinds.delete(apex);
  }

  withdraw(apex: string): void {
    for (const writer of [this.tight, this.roomy]) writer.withdrawZone(wireOf(apex));
    this.kinds.delete(apex);
  }
}

/** The first label of an NSEC3's owner. */
function hashLike(seed: number): string {
  return (seed % 4_096).toString(32).padStart(32, "0");
}

describe("a zone database with hardly any room", () => {
  const title = "keeps its books, and answers like one with room enough: $segments segments";
  it.each(SIZES)(title, { timeout: 300_000 }, (givenSize) => {
    const { octets, steps } = givenSize;
    const seed = Number(process.env.FULL_ZONE_DATABASE_SEED ?? randomInt(2 ** 31));
    onTestFailed(() => void process.stderr.write(`FULL_ZONE_DATABASE_SEED=${seed}\n`));
    const random = fc.sample(fc.nat(0x7fffffff), { numRuns: steps * 4, seed });
    const pair = new Pair(seed, givenSize);
    const [onTight, onRoomy] = [pipelineOn(pair.tight), pipelineOn(pair.roomy)];
    const straggler = new ZoneDatabaseReader(pair.tight.memory, 1);
    let loads = 0;
    for (let step = 0; step < steps; step += 1) {
      const [what, which, draw, size] = random.slice(step * 4, step * 4 + 4) as [number, number, number, number];
      const apex = APEXES[which % APEXES.length]!;
      const names = namesFrom(draw, what % 10 < 3 ? 1 + (size % 900) : 1 + (size % 12));
      if (what % 10 < 3) pair.load(apex, KINDS[draw % 3]!, names, draw % 10_000);
      else if (what % 10 < 8) pair.change(apex, names, draw % 10_000);
      else if (what % 10 < 9) pair.withdraw(apex);
      else if (size % 4 === 0) pair.withhold(apex);
      loads += what % 10 < 3 ? 1 : 0;
      if (size % 7 === 0) straggler.enter();
      if (size % 7 < 4) straggler.leave();
      pair.tight.collect(draw % 500);
      pair.roomy.collect();
      for (const name of [apex, `${names[0]}.${apex}`, `nothing.${apex}`, `${names.at(-1)}.${APEXES[0]}`]) {
        const [answer, expected] = [onTight, onRoomy].map((pipeline) => hexOf(ask(pipeline, name, "A")!.octets));
        expect(answer, `step ${step}: ${name}`).toBe(expected);
      }
      if (step % 20 === 19) {
        straggler.leave();
        expect(findBookErrors(pair.tight), `step ${step}`).toEqual([]);
      }
    }
    // Else it was no test: some were refused, and most were not.
    expect(pair.refusals).toBeGreaterThan(steps / 100);
    expect(loads - pair.refusals).toBeGreaterThan(steps / 20);
    for (const apex of APEXES) pair.withdraw(apex);
    expect(findBookErrors(pair.tight)).toEqual([]);
    const empty = pair.tight.usedOctets;
    // All that was there comes out as room for one large zone, which lies in one segment.
    pair.load("large.test", "plain", namesFrom(1, givenSize.largeNames), 3);
    expect(pair.kinds.has("large.test")).toBe(true);
    expect(empty).toBeLessThan(octets / 2);
  });
});

/** Texts are compared in a fraction of the time that lists of octets take. */
const hexOf = (octets: Uint8Array): string => Buffer.from(octets).toString("hex");

function namesFrom(seed: number, count: number): string[] {
  return Array.from({ length: count }, (_, index) => {
    const number = (seed + index * 7) % 2_000;
    if (number % 10 === 0) return `*.w${number % 50}`;
    return number % 4 === 0 ? `n${number}.deep.er.d${number % 30}` : `n${number}`;
  });
}
