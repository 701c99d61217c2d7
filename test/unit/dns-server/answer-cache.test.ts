import * as dnsPacket from "dns-packet";
import { describe, expect, it } from "vitest";
import { AnswerCache, type DatagramView } from "../../../services/dns-server/answer-cache.ts";
import { Client } from "../../../services/dns-server/message/client.ts";
import { DROP, type Pipeline } from "../../../services/dns-server/pipeline.ts";
import { createRateLimitTable } from "../../../services/dns-server/rate-limit.ts";
import { RCODE_COUNTERS, STATISTIC, Statistics } from "../../../services/dns-server/reports/statistics.ts";
import { ZoneDatabaseReader } from "../../../services/dns-server/zone-database/reader.ts";
import type { ZoneDatabaseWriter } from "../../../services/dns-server/zone-database/writer.ts";
import { makeRandom } from "../../bench/dns-data.ts";
import { nameOf } from "../../support/dns-server.ts";
import {
  byOwner,
  NO_RATE_LIMIT,
  pipelineOn,
  publishZoneText,
  recordsOf,
  zoneDatabaseOf,
} from "./test-zone-database.ts";

const NOW_SECONDS = 1_700_000_000;

/** A pipeline with its counters, as a worker has it. */
class Server {
  readonly #pipeline: Pipeline;
  readonly #statistics = new Statistics(1);
  readonly #client = new Client();
  readonly #query = viewOf(512);
  readonly #out = viewOf(1_280);

  constructor(writer: ZoneDatabaseWriter, cacheMebioctets: number, answersPerSecond = 0) {
    const rateLimit = { ...NO_RATE_LIMIT, answersPerSecond, table: createRateLimitTable() };
    this.#pipeline = pipelineOn(writer, { rateLimit }, { statistics: this.#statistics, cacheMebioctets });
    this.#client.setAddress("192.0.2.99");
  }

  /** @returns the answer in hexadecimal digits, or that there is none */
  ask(packet: Uint8Array): string {
    this.#query.octets.set(packet);
    const length = this.#pipeline.respondAgain(this.#query, packet.length, this.#out, this.#client, NOW_SECONDS);
    return length > DROP ? Buffer.from(this.#out.octets.subarray(0, length)).toString("hex") : `no answer ${length}`;
  }

  /** What was counted so far, but for what was given again. */
  get counts(): readonly number[] {
    return [...this.#statistics.row(0).subarray(0, STATISTIC.RCODE + RCODE_COUNTERS)];
  }

  get repeated(): number {
    return this.#statistics.row(0)[STATISTIC.REPEATED]!;
  }
}

function viewOf(octets: number): DatagramView {
  const buffer = new ArrayBuffer(octets);
  return { octets: new Uint8Array(buffer), words: new Int32Array(buffer) };
}

function queryFor(name: string, type = "A", { id = 4711, edns = {} as Partial<dnsPacket.OptAnswer> | undefined } = {}) {
  const opt = { type: "OPT", name: ".", udpPayloadSize: 1_232, flags: 0, options: [], ...edns } as dnsPacket.OptAnswer;
  const questions = [{ name, type: type as dnsPacket.RecordType }];
  return dnsPacket.encode({ type: "query", id, questions, additionals: edns ? [opt] : [] });
}

function zoneText(origin: string, lines: readonly string[] = []) {
  return { origin, text: `$TTL 60\n@ SOA ns hostmaster 1 2 3 4 5\n@ NS ns\nns A 192.0.2.53\n${lines.join("\n")}\n` };
}

/** Gives a name of a zone these records. */
function change(writer: ZoneDatabaseWriter, zone: number, origin: string, lines: readonly string[]): void {
  const groups = byOwner(recordsOf(zoneText(origin, lines)).slice(3));
  for (const records of groups) writer.setName(zone, records[0]!.owner.wire, records);
  writer.publishZone(zone);
}

const wire = (name: string) => nameOf(name).wire;

describe("the answer cache", () => {
  it("gives an answer again from the third time on, with the query's ID and letters", () => {
    const server = new Server(zoneDatabaseOf(zoneText("example.org.", ["www A 192.0.2.1"])), 1);
    const answers = [1, 2, 3, 4].map((id) => server.ask(queryFor("www.example.org", "A", { id })));
    expect(new Set(answers.map((answer) => answer.slice(4)))).toHaveProperty("size", 1);
    expect(answers.map((answer) => answer.slice(0, 4))).toEqual(["0001", "0002", "0003", "0004"]);
    expect(server.repeated).toBe(2);
    const inCapitals = server.ask(queryFor("WWW.example.org"));
    expect(Buffer.from(inCapitals, "hex").toString("latin1")).toContain("WWW");
    expect(server.repeated).toBe(2);
  });

  it("counts as before", () => {
    const writer = zoneDatabaseOf(zoneText("example.org.", ["www A 192.0.2.1"]));
    const [forgetful, server] = [new Server(writer, 0), new Server(writer, 1)];
    for (const one of [forgetful, server]) {
      for (const name of ["www.example.org", "none.example.org", "example.com"])
        for (let time = 0; time < 5; time += 1) one.ask(queryFor(name));
    }
    expect(server.counts).toEqual(forgetful.counts);
    expect(server.repeated).toBe(9);
  });

  it("holds to the rate limit, and keeps no answer that it cut short", () => {
    const writer = zoneDatabaseOf(zoneText("example.org.", ["www A 192.0.2.1"]));
    const servers = [0, 1].map((mebioctets) => new Server(writer, mebioctets, 4));
    const [forgetful, server] = servers.map((one) => ({
      answers: Array.from({ length: 12 }, () => one.ask(queryFor("www.example.org"))),
      counts: one.counts,
    }));
    expect(server).toEqual(forgetful);
    expect(server!.counts[STATISTIC.RATE_DROPPED]).toBe(4);
    expect(server!.counts[STATISTIC.RATE_SLIPPED]).toBe(4);
  });

  it.each([
    ["with a cookie, whose answer is a client's own", { options: [{ code: 10, data: Buffer.alloc(8, 7) }] }, "www"],
    ["that an alias leads into another zone", undefined, "alias"],
  ])("keeps none %s", (_, edns, name) => {
    const sub = zoneText("sub.example.org.", ["www A 192.0.2.2"]);
    const writer = zoneDatabaseOf(zoneText("example.org.", ["www A 192.0.2.1", "alias CNAME www.sub"]), sub);
    const server = new Server(writer, 1);
    const query = queryFor(`${name}.example.org`, "A", { edns: edns as Partial<dnsPacket.OptAnswer> | undefined });
    for (let time = 0; time < 4; time += 1) server.ask(query);
    expect(server.repeated).toBe(0);
  });

  it("rests where hardly any query comes twice, and looks again later", () => {
    const server = new Server(zoneDatabaseOf(zoneText("example.org.", ["www A 192.0.2.1"])), 1);
    const query = queryFor("xxxxxx.example.org");
    const askForNew = (count: number) => {
      for (let index = 0; index < count; index += 1) {
        query.write((index + count).toString(36).padStart(6, "0"), 13, "latin1");
        server.ask(query);
      }
    };
    const repeatedOfTen = () => {
      const before = server.repeated;
      for (let time = 0; time < 10; time += 1) server.ask(queryFor("www.example.org"));
      return server.repeated - before;
    };
    expect(repeatedOfTen()).toBe(8);
    askForNew(262_144);
    expect(repeatedOfTen()).toBe(0);
    askForNew(7 * 262_144);
    expect(repeatedOfTen()).toBeGreaterThan(6);
  });

  it("forgets what its ring has no room for, and only that", () => {
    const cache = new AnswerCache(new ZoneDatabaseReader(zoneDatabaseOf().memory), 1);
    const [query, out] = [viewOf(64), viewOf(1_280)];
    const show = (index: number) => {
      query.words[3] = index;
      const octets = cache.find(query, 16, out);
      if (octets > 0) return out.words[1];
      out.words[1] = index;
      cache.facts.zoneSet = 0;
      cache.keep(query, 16, out, 1_000);
      return undefined;
    };
    const count = 900;
    for (let time = 0; time < 2; time += 1) for (let index = 0; index < count; index += 1) show(index);
    for (let index = 0; index < count; index += 1) expect(show(index)).toBe(index);
    // A mebioctet has room for some thousand of a thousand octets.
    for (let index = count; index < 2 * count; index += 1) for (let time = 0; time < 2; time += 1) show(index);
    for (let index = count; index < 2 * count; index += 1) expect(show(index)).toBe(index);
    expect(Array.from({ length: 200 }, (_, index) => show(index))).toEqual(Array(200).fill(undefined));
  });
});

describe("beside a server that makes each answer anew", () => {
  const ORIGINS = ["example.org", "sub.example.org", "example.net"];
  const OWNERS = ["@", "www", "a.b", "*.wild", "cut", "alias"];
  const DATA = ["A 192.0.2.1", "A 192.0.2.2", "TXT words", "MX 1 www", "CNAME www", "CNAME www.sub.example.org."];

  it.each([1, 2, 3])("the answers are the same through all changes of the zones (seed %i)", (seed) => {
    const random = makeRandom(seed);
    const choose = <T>(from: readonly T[]): T => from[random() % from.length]!;
    const writer = zoneDatabaseOf(...ORIGINS.map((origin) => zoneText(origin, ["www A 192.0.2.9"])));
    const [forgetful, server] = [new Server(writer, 0), new Server(writer, 1)];
    const changes = [
      changeName,
      changeName,
      changeName,
      removeName,
      changeNegativeTtl,
      withdraw,
      replace,
      restrict,
      hide,
    ];
    for (let round = 0; round < 1_500; round += 1) {
      for (let asked = 0; asked < 12; asked += 1) {
        const query = queryFor(
          choose(["www", "a.b", "b", "x.wild", "x.cut", "alias", "none", "ns", "sub"]).concat(".", choose(ORIGINS)),
          choose(["A", "A", "TXT", "MX", "NS", "DS", "ANY"]),
          { id: choose([1, 2, 3]), edns: choose([undefined, {}, { flags: 0x8000 }]) },
        );
        expect(server.ask(query), `round ${round}`).toBe(forgetful.ask(query));
      }
      if (round % 3 === 0) choose(changes)(choose(ORIGINS));
      writer.collect();
    }
    expect(server.repeated).toBeGreaterThan(1_000);

    function changeName(origin: string): void {
      const zone = writer.publishedZone(wire(origin));
      if (zone !== 0) change(writer, zone, origin, [`${choose(OWNERS.slice(1))} ${choose(DATA)}`]);
    }
    function removeName(origin: string): void {
      const zone = writer.publishedZone(wire(origin));
      if (zone === 0) return;
      writer.setName(zone, wire(`${choose(["www", "a.b", "alias", "*.wild"])}.${origin}`), []);
      writer.publishZone(zone);
    }
    function changeNegativeTtl(origin: string): void {
      const zone = writer.publishedZone(wire(origin));
      if (zone !== 0) writer.setNegativeTtl(zone, choose([1, 2, 3, 4]));
    }
    function withdraw(origin: string): void {
      writer.withdrawZone(wire(origin));
    }
    function replace(origin: string): void {
      publishZoneText(writer, zoneText(origin, [`www ${choose(DATA.slice(0, 3))}`]));
    }
    function restrict(origin: string): void {
      const apex = wire(origin);
      const zone = writer.createZone({ apex, negativeTtlSeconds: 5, restricted: true });
      for (const records of byOwner(recordsOf(zoneText(origin)))) writer.setName(zone, records[0]!.owner.wire, records);
      writer.publishZone(zone);
    }
    function hide(origin: string): void {
      const zone = { apex: wire(origin), negativeTtlSeconds: 5 };
      if (choose([true, false])) writer.withholdZone(zone);
      else writer.suspendZone(zone);
    }
  });
});
