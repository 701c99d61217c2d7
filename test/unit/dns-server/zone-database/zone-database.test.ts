import { describe, expect, it } from "vitest";
import { parseDomainName } from "../../../../services/core/dns/name.ts";
import { TYPE } from "../../../../services/core/dns/rr-types.ts";
import { ZoneDatabaseFullError, ZoneDatabaseMemory } from "../../../../services/dns-server/zone-database/memory.ts";
import { ZoneDatabaseReader } from "../../../../services/dns-server/zone-database/reader.ts";
import type { CompiledRecord } from "../../../../services/dns-server/zone-database/stored-rrset.ts";
import { ZoneDatabaseWriter } from "../../../../services/dns-server/zone-database/writer.ts";
import { findBookErrors } from "../../../support/zone-database-books.ts";
import { ask } from "../ask.ts";
import { pipelineOn, publishZoneText, recordsOf, zoneDatabaseOf } from "../test-zone-database.ts";

const HEAD = "$TTL 60\n@ SOA ns hostmaster 1 2 3 4 5\n@ NS ns\n";
const zone = (records: string) => ({ origin: "example.org.", text: `${HEAD}${records}\n` });

function wire(text: string): Uint8Array {
  const name = parseDomainName(text);
  if (!name.ok) throw new Error(name.error.message);
  return name.value.wire;
}

/** Changes one name of a zone and lets it be seen. */
function changeName(
  writer: ZoneDatabaseWriter,
  reference: number,
  name: string,
  records: readonly CompiledRecord[],
): void {
  writer.setName(reference, wire(name), records);
  writer.publishZone(reference);
}

const address = (last: number) => ({ type: TYPE.A, ttl: 60, rdata: Uint8Array.of(192, 0, 2, last) });

describe("changes of single names", () => {
  it("come and go with the empty non-terminals above them", () => {
    const writer = zoneDatabaseOf(zone("keep A 192.0.2.1"));
    const pipeline = pipelineOn(writer);
    const reference = writer.publishedZone(wire("example.org"));
    const rcode = (name: string) => ask(pipeline, name, "A")!.rcode;

    changeName(writer, reference, "a.b.c.example.org", [address(2)]);
    expect(["a.b.c", "b.c", "c", "x.b.c"].map((name) => rcode(`${name}.example.org`))).toEqual([
      "NOERROR",
      "NOERROR",
      "NOERROR",
      "NXDOMAIN",
    ]);
    changeName(writer, reference, "b.c.example.org", [address(3)]);
    changeName(writer, reference, "a.b.c.example.org", []);
    expect(["a.b.c", "b.c", "c"].map((name) => rcode(`${name}.example.org`))).toEqual([
      "NXDOMAIN",
      "NOERROR",
      "NOERROR",
    ]);
    changeName(writer, reference, "b.c.example.org", []);
    expect(["b.c", "c", "keep"].map((name) => rcode(`${name}.example.org`))).toEqual([
      "NXDOMAIN",
      "NXDOMAIN",
      "NOERROR",
    ]);
  });

  it("leave an empty non-terminal where names stand below", () => {
    const writer = zoneDatabaseOf(zone("b A 192.0.2.1\na.b A 192.0.2.2"));
    changeName(writer, writer.publishedZone(wire("example.org")), "b.example.org", []);
    expect(ask(pipelineOn(writer), "b.example.org", "A")).toMatchObject({ rcode: "NOERROR", answers: [] });
  });

  it("bring wildcards into force and out of it, in any case of their owner", () => {
    const writer = zoneDatabaseOf(zone("x A 192.0.2.1"));
    const pipeline = pipelineOn(writer);
    const reference = writer.publishedZone(wire("example.org"));
    changeName(writer, reference, "*.X.example.org", [address(9)]);
    expect(ask(pipeline, "any.x.example.org", "A")!.answers).toEqual(["any.x.example.org A 192.0.2.9"]);
    changeName(writer, reference, "X.example.org", [address(2)]);
    expect(ask(pipeline, "any.x.example.org", "A")!.answers).toEqual(["any.x.example.org A 192.0.2.9"]);
    changeName(writer, reference, "*.x.example.org", []);
    expect(ask(pipeline, "any.x.example.org", "A")!.rcode).toBe("NXDOMAIN");
    expect(ask(pipeline, "x.example.org", "A")!.answers).toEqual(["x.example.org A 192.0.2.2"]);
  });

  it("can take the apex' records and give them back", () => {
    const writer = zoneDatabaseOf(zone("@ A 192.0.2.1\n* A 192.0.2.3"));
    const reference = writer.publishedZone(wire("example.org"));
    changeName(writer, reference, "example.org", [address(2)]);
    expect(ask(pipelineOn(writer), "example.org", "A")!.answers).toEqual(["example.org A 192.0.2.2"]);
    expect(ask(pipelineOn(writer), "y.example.org", "A")!.answers).toEqual(["y.example.org A 192.0.2.3"]);
  });
});

describe("whole zones", () => {
  it("are replaced in one step, withdrawn in one step", () => {
    const writer = zoneDatabaseOf(zone("old A 192.0.2.1"));
    const pipeline = pipelineOn(writer);
    publishZoneText(writer, zone("new A 192.0.2.2"));
    expect(ask(pipeline, "old.example.org", "A")!.rcode).toBe("NXDOMAIN");
    expect(ask(pipeline, "new.example.org", "A")!.rcode).toBe("NOERROR");
    writer.withdrawZone(wire("example.org"));
    expect(ask(pipeline, "new.example.org", "A")!.rcode).toBe("REFUSED");
    expect(writer.zoneCount).toBe(0);
  });

  it("hide nothing of the parent when they go", () => {
    const writer = zoneDatabaseOf(zone("*.child A 192.0.2.1"), {
      origin: "child.example.org.",
      text: `${HEAD}x A 192.0.2.2`,
    });
    const pipeline = pipelineOn(writer);
    expect(ask(pipeline, "x.child.example.org", "A")!.answers).toEqual(["x.child.example.org A 192.0.2.2"]);
    writer.withdrawZone(wire("child.example.org"));
    expect(ask(pipeline, "x.child.example.org", "A")!.answers).toEqual(["x.child.example.org A 192.0.2.1"]);
  });

  it("may be the root and top-level domains", () => {
    const writer = zoneDatabaseOf(
      {
        origin: ".",
        text: `$TTL 60\n@ SOA ns.test. host.test. 1 2 3 4 5\n@ NS ns.test.\nns.test. A 192.0.2.1\nx.y A 192.0.2.2\n`,
      },
      { origin: "test.", text: `${HEAD}ns A 192.0.2.3` },
    );
    const pipeline = pipelineOn(writer);
    expect(ask(pipeline, "x.y", "A")!.answers).toEqual(["x.y A 192.0.2.2"]);
    expect(ask(pipeline, "ns.test", "A")!.answers).toEqual(["ns.test A 192.0.2.3"]);
    expect(ask(pipeline, ".", "SOA")!.answers).toEqual([". SOA ns.test 1"]);
    expect(ask(pipeline, "missing", "A")).toMatchObject({ rcode: "NXDOMAIN", authorities: [". SOA ns.test 1"] });
  });
});

describe("memory", () => {
  it("stays flat however often names and zones change", () => {
    const writer = zoneDatabaseOf(zone("a A 192.0.2.1"));
    const churn = () => {
      const reference = writer.publishedZone(wire("example.org"));
      for (let round = 0; round < 2_000; round += 1) {
        changeName(writer, reference, `n${round % 50}.deep.example.org`, round % 3 === 0 ? [] : [address(round % 250)]);
        if (round % 10 === 0) writer.collect();
      }
      for (let round = 0; round < 50; round += 1)
        publishZoneText(writer, zone("a A 192.0.2.1\nb A 192.0.2.2\nc.d A 192.0.2.3"));
      while (writer.collect(100)) {}
      writer.collect();
    };
    churn();
    const before = writer.usedOctets;
    for (let round = 0; round < 10; round += 1) churn();
    expect(writer.usedOctets).toBeLessThan(before * 1.2);
  });

  it("that tables leave when they grow is of use for names", () => {
    const writer = zoneDatabaseOf(zone(""));
    const reference = writer.createZone({ apex: wire("example.net"), negativeTtlSeconds: 60 });
    writer.setName(reference, wire("example.net"), recordsOf(zone("")));
    for (let index = 0; index < 100_000; index += 1) {
      writer.setName(reference, wire(`n${index}.example.net`), [address(1)]);
      if (index % 1_000 === 0) writer.collect();
    }
    writer.publishZone(reference);
    const free = [...writer.freeBlocks()].reduce((sum, { octets }) => sum + octets, 0);
    expect(free / writer.usedOctets).toBeLessThan(0.05);
    expect(findBookErrors(writer)).toEqual([]);
  });

  it("is not given back while a reader is inside", () => {
    const writer = zoneDatabaseOf(zone("a A 192.0.2.1"));
    const reader = new ZoneDatabaseReader(new ZoneDatabaseMemory(writer.memory.buffers), 1);
    const reference = writer.publishedZone(wire("example.org"));
    reader.enter();
    const before = writer.usedOctets;
    for (let round = 0; round < 100; round += 1) {
      changeName(writer, reference, "a.example.org", [address(round)]);
      writer.collect();
    }
    const held = writer.usedOctets;
    expect(held).toBeGreaterThan(before + 99 * 40);
    reader.leave();
    writer.collect();
    expect(writer.usedOctets).toBeLessThan(held - 99 * 40);
  });

  it("keeps a snapshot whole while its names change", () => {
    const writer = zoneDatabaseOf(zone("a A 192.0.2.1\nb A 192.0.2.2"));
    const reference = writer.publishedZone(wire("example.org"));
    const { nodes, release } = writer.snapshot(reference);
    const reader = new ZoneDatabaseReader(writer.memory);
    const addresses = () => [...nodes].map((node) => reader.findRrset(node, TYPE.A)).filter((rrset) => rrset !== 0);
    const octetsOf = (rrset: number) => [...writer.memory.first.octets.subarray(rrset + 8, rrset + 8 + 16)].join();
    const before = addresses().map(octetsOf);
    for (let round = 0; round < 50; round += 1) {
      changeName(writer, reference, "a.example.org", [address(round)]);
      changeName(writer, reference, `new${round}.example.org`, [address(round)]);
      writer.collect();
    }
    expect(addresses().map(octetsOf)).toEqual(before);
    release();
  });

  it("grows under readers that have mapped less", () => {
    const writer = new ZoneDatabaseWriter(ZoneDatabaseMemory.create());
    writer.setReady();
    const pipeline = pipelineOn(writer);
    const other = pipelineOn({ memory: new ZoneDatabaseMemory(writer.memory.buffers) } as ZoneDatabaseWriter);
    publishZoneText(writer, zone("a A 192.0.2.1"));
    const reference = writer.publishedZone(wire("example.org"));
    const text = { type: TYPE.TXT, ttl: 60, rdata: new Uint8Array(50_000) };
    for (let index = 0; writer.usedOctets < 40 * 1024 * 1024; index += 1) {
      changeName(writer, reference, `t${index}.example.org`, [text]);
      changeName(writer, reference, `a${index}.example.org`, [address(1)]);
      for (const asked of [pipeline, other]) expect(ask(asked, `a${index}.example.org`, "A")!.answers).toHaveLength(1);
    }
    expect(writer.memory.first.octets.length).toBeGreaterThan(32 * 1024 * 1024);
  });

  it("gives a new zone back wherever its room ends", () => {
    const dnskey = { type: TYPE.DNSKEY, ttl: 60, rdata: Uint8Array.of(1, 1, 3, 13, 9, 9) };
    const signedSoa = { type: TYPE.RRSIG, ttl: 60, rdata: Uint8Array.of(0, TYPE.SOA, ...new Array(30).fill(1)) };
    const nsec = { type: TYPE.NSEC, ttl: 60, rdata: Uint8Array.of(0, 0, 1, 64) };
    for (let taken = 0; taken < 400; taken += 1) {
      const writer = new ZoneDatabaseWriter(ZoneDatabaseMemory.create(128 * 1024));
      const other = writer.createZone({ apex: wire("other.test"), negativeTtlSeconds: 60 });
      writer.setName(other, wire("other.test"), [address(1)]);
      for (let index = 0; index < taken; index += 1) writer.setName(other, wire(`n${index}.other.test`), [address(1)]);
      writer.publishZone(other);
      const signed = writer.createZone({ apex: wire("test"), negativeTtlSeconds: 60 });
      writer.setName(signed, wire("test"), [dnskey, signedSoa, nsec]);
      const fill = () => {
        for (let index = 0; index < 1_000; index += 1) {
          for (const name of [`a.n${index}.test`, `n${index}.test`, `a.n${index}.test`]) {
            writer.setName(signed, wire(name), [address(1), nsec]);
          }
        }
      };
      expect(fill, `${taken} names`).toThrow(ZoneDatabaseFullError);
      writer.discardZone(signed);
      expect(findBookErrors(writer), `${taken} names`).toEqual([]);
    }
  });

  it("refuses what would pass its limit", () => {
    const writer = new ZoneDatabaseWriter(ZoneDatabaseMemory.create(1024 * 1024));
    const fill = () => {
      for (let index = 0; index < 20_000; index += 1)
        publishZoneText(writer, { origin: `z${index}.test.`, text: HEAD });
    };
    expect(fill).toThrow(/need more than 1048576 octets/);
  });
});
