import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { ZoneDatabaseSnapshot } from "../../../../services/dns-server/feed/snapshot.ts";
import { SnapshotWriter } from "../../../../services/dns-server/feed/snapshot-file.ts";
import { ZonePublisher } from "../../../../services/dns-server/feed/zone-publisher.ts";
import { NODE } from "../../../../services/dns-server/zone-database/layout.ts";
import { ZoneDatabaseMemory } from "../../../../services/dns-server/zone-database/memory.ts";
import { ZoneDatabaseReader } from "../../../../services/dns-server/zone-database/reader.ts";
import type { CompiledRecord } from "../../../../services/dns-server/zone-database/stored-rrset.ts";
import { ZoneDatabaseWriter } from "../../../../services/dns-server/zone-database/writer.ts";
import { type Question, queryOctets, readSections } from "../../../support/dnssec-questions.ts";
import { findBookErrors } from "../../../support/zone-database-books.ts";
import { respond } from "../ask.ts";
import { pipelineOn, type ZoneText, zoneDatabaseOf } from "../test-zone-database.ts";

const NOW_MS = 1_790_000_000_000;
/** The word at which the first node begins in the image of a zone without a salt. */
const FIRST_NODE = 3;
/** A last file is waited for, however busy the machine. */
const PATIENCE_MS = 240_000;

let folder: string;
let observed: string[];
let unconfirmedMs: number | undefined;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "palomar-snapshot-"));
  observed = [];
  unconfirmedMs = 0;
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

const signature = (type: string, labels: number) =>
  `RRSIG ${type} 13 ${labels} 60 20300101000000 20200101000000 1 example.org. AAAA`;

/** The hash of the apex, which a customer may use as a name like any other. */
const OWN = "8um1kjcjmofvvmq7cb0op7jt39lg8r9j";
const SIGNED_ZONE: ZoneText = {
  origin: "example.org.",
  text: `$TTL 60
@ SOA ns h 1 2 3 600 5
@ ${signature("SOA", 2)}
@ NS ns
@ DNSKEY 257 3 13 AAAA
@ ${signature("DNSKEY", 2)}
@ NSEC3PARAM 1 0 0 -
${OWN} NSEC3 1 0 0 - ${OWN} SOA NS RRSIG DNSKEY NSEC3PARAM
${OWN} ${signature("NSEC3", 3)}
${OWN} TXT "a name of its own"
${OWN} ${signature("TXT", 3)}
www A 192.0.2.1
www ${signature("A", 3)}
`,
};
const ZONE_WIRE = Buffer.from("\x07example\x03org\0", "latin1");

/** A zone database with a snapshot beside it, whose zones are numbered in order. */
function snapshotOf(
  writer: ZoneDatabaseWriter,
  apexes: readonly Uint8Array[],
  nowMs = NOW_MS,
  publisher = new ZonePublisher(writer, () => {}),
): ZoneDatabaseSnapshot {
  publisher.follow("first life");
  for (const [index, apex] of apexes.entries()) publisher.standings.adopt(index + 1, { apex, version: 7 });
  const observe = ({ kind }: { readonly kind: string }) => observed.push(kind);
  const file = join(folder, "zones.snapshot");
  const access = { table: undefined, sealed: () => undefined, restore: () => {} };
  return new ZoneDatabaseSnapshot({
    file,
    writer,
    publisher,
    access,
    unconfirmedMs: () => unconfirmedMs,
    nowMs: () => nowMs,
    observe,
  });
}

/** What a zone database says that comes from the snapshot alone. */
async function reload(afterMs = 0): Promise<ZoneDatabaseWriter> {
  const writer = new ZoneDatabaseWriter();
  expect(await snapshotOf(writer, [], NOW_MS + afterMs).load()).toBe(afterMs);
  return writer;
}

function expectSameAnswers(reloaded: ZoneDatabaseWriter, writer: ZoneDatabaseWriter): void {
  const questions: readonly Question[] = [
    { name: `${OWN}.example.org`, type: "TXT" },
    { name: `${OWN}.example.org`, type: "RRSIG" },
    { name: "example.org", type: "MX" },
    { name: "none.example.org", type: "A" },
    { name: "www.example.org", type: "A" },
  ];
  for (const question of questions) expect(answer(reloaded, question)).toEqual(answer(writer, question));
  expect(answer(reloaded, questions[0]!).answers).toHaveLength(2);
  expect(answer(reloaded, questions[2]!).authorities.filter((text) => text.includes(" NSEC3 "))).toHaveLength(2);
}

const ADDRESS: CompiledRecord = { type: 1, ttl: 60, rdata: Uint8Array.of(192, 0, 2, 1) };

/** A name of `SIGNED_ZONE` in wire form. */
function nameInZone(name: string): Uint8Array {
  const labels = name.split(".").map((label) => `${String.fromCharCode(label.length)}${label}`);
  return Buffer.concat([Buffer.from(labels.join(""), "latin1"), ZONE_WIRE]);
}

function answer(writer: ZoneDatabaseWriter, question: Question) {
  return readSections(respond(pipelineOn(writer), queryOctets(question))!);
}

it("keeps both of an NSEC3 and what else its owner has", async () => {
  const writer = zoneDatabaseOf(SIGNED_ZONE);
  await snapshotOf(writer, [ZONE_WIRE]).stop(PATIENCE_MS);
  expectSameAnswers(await reload(), writer);
});

it("is too old for a zone when its SOA's EXPIRE has passed", async () => {
  await snapshotOf(zoneDatabaseOf(SIGNED_ZONE), [ZONE_WIRE]).stop(PATIENCE_MS);
  expect((await reload(600_000)).zoneCount).toBe(1);
  expect((await reload(601_000)).zoneCount).toBe(0);
});

it.each(["first life", "second life"])(
  "keeps what became of its zones before the database could confirm them, and how old they are: %s",
  async (life) => {
    const other = { origin: "other.test.", text: "@ 60 SOA ns h 1 2 3 600 5\n@ 60 NS ns.test.\n" };
    const wires = [ZONE_WIRE, Buffer.from("\x05other\x04test\0", "latin1")];
    await snapshotOf(zoneDatabaseOf(SIGNED_ZONE, other), wires).stop(PATIENCE_MS);
    unconfirmedMs = undefined;
    const writer = new ZoneDatabaseWriter();
    const publisher = new ZonePublisher(writer, () => {});
    const snapshot = snapshotOf(writer, [], NOW_MS + 500_000, publisher);
    expect(await snapshot.load()).toBe(500_000);
    observed = [];
    await snapshot.stop(PATIENCE_MS);
    expect(observed).toEqual([]);
    publisher.follow(life);
    publisher.standings.withdraw([2]);
    await snapshot.stop(PATIENCE_MS);
    expect(observed).toEqual(["snapshot-written"]);
    expect((await reload(600_000)).zoneCount).toBe(1);
    expect((await reload(601_000)).zoneCount).toBe(0);
  },
);

it("keeps records that are too long for any message", async () => {
  const writer = zoneDatabaseOf(SIGNED_ZONE);
  const apex = Buffer.from("\x04long\x04test\0", "latin1");
  const zone = writer.createZone({ apex, negativeTtlSeconds: 60 });
  const soa: CompiledRecord = { type: 6, ttl: 60, rdata: Buffer.concat([Buffer.alloc(14), Buffer.alloc(8, 1)]) };
  const long: CompiledRecord = { type: 65_280, ttl: 60, rdata: new Uint8Array(65_535).fill(7) };
  writer.setName(zone, apex, [soa, long, { ...long, ttl: 60, rdata: new Uint8Array(65_534).fill(8) }]);
  writer.publishZone(zone);
  await snapshotOf(writer, [apex, ZONE_WIRE]).stop(PATIENCE_MS);
  expect(observed).toEqual(["snapshot-written"]);
  const reloaded = await reload();
  expect(reloaded.zoneCount).toBe(2);
  const [kept, stored] = [reloaded, writer].map((one) => {
    const reader = new ZoneDatabaseReader(one.memory);
    const node = reader.open(one.publishedZone(apex));
    const rrset = reader.findRrset(node, 65_280);
    return reader.segment.octets.slice(rrset, reader.nextRrset(rrset));
  });
  expect(Buffer.compare(kept!, stored!)).toBe(0);
});

it("goes on with a zone as it was when its first part was written, whatever changes meanwhile", async () => {
  const writer = zoneDatabaseOf(SIGNED_ZONE);
  const zone = writer.publishedZone(ZONE_WIRE);
  const name = (index: number) => Buffer.from(`\x07${String(index).padStart(7, "0")}\x07example\x03org\0`, "latin1");
  const text: CompiledRecord = { type: 16, ttl: 60, rdata: new Uint8Array(1_000).fill(1) };
  for (let index = 0; index < 8_000; index += 1) writer.setName(zone, name(index), [text]);
  writer.publishZone(zone);
  const saved = snapshotOf(writer, [ZONE_WIRE]).stop(PATIENCE_MS);
  await nextTurn();
  for (let index = 0; index < 8_000; index += 1) writer.setName(zone, name(index), []);
  writer.publishZone(zone);
  while (writer.collect(100));
  await saved;
  const reloaded = await reload();
  expect(answer(reloaded, { name: "0000000.example.org", type: "TXT" }).rcode).toBe(0);
  expect(answer(reloaded, { name: "0007999.example.org", type: "TXT" }).rcode).toBe(0);
});

/** Names below others, wildcards among them, that were put in in an order in which none comes after what it is below. */
const DEEP_NAMES = ["a.b.c", "b.c", "*.c", "c", "*.d.e", "x.*.d.e", "d.e", "*", "B.F", "b.f.g"];

it("keeps which names are above others, in whatever order they came", async () => {
  const writer = zoneDatabaseOf(SIGNED_ZONE);
  const zone = writer.publishedZone(ZONE_WIRE);
  for (const name of DEEP_NAMES) writer.setName(zone, nameInZone(name), [ADDRESS]);
  writer.publishZone(zone);
  await snapshotOf(writer, [ZONE_WIRE]).stop(PATIENCE_MS);
  const reloaded = await reload();
  expect(findBookErrors(reloaded)).toEqual([]);
  const asked = [...DEEP_NAMES, "e", "any.c", "any.d.e", "any.e", "any", "f", "any.x.*.d.e", "a.any.c"];
  const answers = (of: ZoneDatabaseWriter) =>
    asked.map((name) => answer(of, { name: `${name}.example.org`, type: "A" }));
  expect(answers(reloaded)).toEqual(answers(writer));
  // What is above others goes with the last of them.
  for (const one of [writer, reloaded]) {
    const changed = one.publishedZone(ZONE_WIRE);
    for (const name of ["d.e", "*.d.e", "x.*.d.e", "a.b.c", "*"]) one.setName(changed, nameInZone(name), []);
    one.publishZone(changed);
    expect(findBookErrors(one)).toEqual([]);
  }
  expect(answers(reloaded)).toEqual(answers(writer));
  expect(answer(reloaded, { name: "e.example.org", type: "A" }).rcode).toBe(3);
});

it("gives all of a zone back wherever its room ends", async () => {
  const writer = zoneDatabaseOf(SIGNED_ZONE);
  const zone = writer.publishedZone(ZONE_WIRE);
  for (let index = 0; index < 700; index += 1) writer.setName(zone, nameInZone(`a.n${index}`), [ADDRESS]);
  writer.publishZone(zone);
  await snapshotOf(writer, [ZONE_WIRE]).stop(PATIENCE_MS);
  const counts = new Set<number>();
  for (let octets = 100_000; octets < 400_000; octets += 4_104) {
    const smaller = new ZoneDatabaseWriter(ZoneDatabaseMemory.create(octets));
    expect(await snapshotOf(smaller, []).load()).toBe(0);
    expect(findBookErrors(smaller), `${octets} octets`).toEqual([]);
    counts.add(smaller.zoneCount);
  }
  expect(counts).toEqual(new Set([0, 1]));
});

it("loads the smaller zones of a file that was written with more memory", async () => {
  const many = (count: number) => Array.from({ length: count }, (_, index) => `h${index} A 192.0.2.1`).join("\n");
  const text = (name: string, count: number) => ({
    origin: `${name}.`,
    text: `$TTL 60\n@ SOA ns h 1 2 3 600 5\n@ NS ns.test.\n${many(count)}\n`,
  });
  const writer = zoneDatabaseOf(text("a", 14_000), text("b", 10_000), text("c", 10));
  const wire = (name: string) => Buffer.from(`\x01${name}\0`, "latin1");
  await snapshotOf(writer, ["a", "b", "c"].map(wire)).stop(PATIENCE_MS);
  const smaller = new ZoneDatabaseWriter(ZoneDatabaseMemory.create(1_200_000));
  expect(await snapshotOf(smaller, []).load()).toBe(0);
  const rcodes = ["a", "b", "c"].map(
    (name) => respond(pipelineOn(smaller), queryOctets({ name: `h1.${name}`, type: "A" }))![3]! & 15,
  );
  expect(rcodes).toEqual([2, 0, 0]);
  expect(smaller.zoneCount).toBe(2);
});

it("keeps nothing of a file of which the last part is damaged", async () => {
  const records = Array.from({ length: 14_000 }, (_, index) => `h${index} A 192.0.2.1`).join("\n");
  const text = (name: string) => ({
    origin: `${name}.`,
    text: `$TTL 60\n@ SOA ns h 1 2 3 600 5\n@ NS ns.test.\n${records}\n`,
  });
  const wire = (name: string) => Buffer.from(`\x01${name}\0`, "latin1");
  await snapshotOf(zoneDatabaseOf(text("a"), text("b")), ["a", "b"].map(wire)).stop(PATIENCE_MS);
  const file = join(folder, "zones.snapshot");
  const octets = readFileSync(file);
  octets[octets.length - 10_000]! ^= 1;
  writeFileSync(file, octets);
  const loaded = new ZoneDatabaseWriter();
  expect(await snapshotOf(loaded, []).load()).toBeUndefined();
  expect(observed).toContain("snapshot-unreadable");
  expect([loaded.zoneCount, loaded.publishedZone(wire("a"))]).toEqual([0, 0]);
  expect(findBookErrors(loaded)).toEqual([]);
  octets[octets.length - 10_000]! ^= 1;
  writeFileSync(file, octets);
  expect(await snapshotOf(loaded, []).load()).toBe(0);
  expect([loaded.zoneCount, findBookErrors(loaded)]).toEqual([2, []]);
});

it("leaves nothing of what was there when a load from the database broke off", async () => {
  await snapshotOf(zoneDatabaseOf(SIGNED_ZONE), [ZONE_WIRE]).stop(PATIENCE_MS);
  // The same zone under another id, as it was made again since, and another zone.
  const other = { origin: "other.test.", text: "@ 60 SOA ns h 1 2 3 600 5\n@ 60 NS ns.test.\n" };
  const loaded = zoneDatabaseOf(SIGNED_ZONE, other);
  const publisher = new ZonePublisher(loaded, () => {});
  publisher.standings.adopt(9, { apex: ZONE_WIRE, version: 1 });
  publisher.standings.adopt(10, { apex: Buffer.from("\x05other\x04test\0", "latin1"), version: 1 });
  expect(await snapshotOf(loaded, [], NOW_MS, publisher).load()).toBe(0);
  expect([loaded.zoneCount, [...publisher.standings.served.ids()], publisher.standings.served.get(1)?.version]).toEqual(
    [1, [1], 7],
  );
  expect(findBookErrors(loaded)).toEqual([]);
});

it.each([
  { title: "a node without a size", word: NODE.SIZE, value: 0 },
  { title: "a node beyond the end", word: NODE.SIZE, value: 1 << 20 },
  { title: "no apex in front", word: NODE.NAME, value: -1 },
])("does not take a file in by its checksum alone: $title", async ({ word, value }) => {
  const writer = zoneDatabaseOf(SIGNED_ZONE);
  const addPart = vi.spyOn(SnapshotWriter.prototype, "addPart");
  addPart.mockImplementationOnce(function (this: SnapshotWriter, part) {
    const harmed = part.slice();
    harmed[FIRST_NODE + word] = value;
    addPart.mockRestore();
    this.addPart(harmed);
  });
  await snapshotOf(writer, [ZONE_WIRE]).stop(PATIENCE_MS);
  const loaded = new ZoneDatabaseWriter(ZoneDatabaseMemory.create(1 << 20));
  expect(await snapshotOf(loaded, []).load()).toBeUndefined();
  expect(observed).toContain("snapshot-unreadable");
});
