import * as dnsPacket from "dns-packet";
import { describe, expect, it } from "vitest";
import { RCODE, TYPE } from "../../../services/core/dns/rr-types.ts";
import { Client, TRANSPORT } from "../../../services/dns-server/message/client.ts";
import { DEFER } from "../../../services/dns-server/pipeline.ts";
import { createRateLimitTable } from "../../../services/dns-server/rate-limit.ts";
import { ZoneDatabaseWriter } from "../../../services/dns-server/zone-database/writer.ts";
import { ask, askOctets, readAnswer, respond } from "./ask.ts";
import { pipelineOn, zoneDatabaseOf } from "./test-zone-database.ts";

const manyAddresses = Array.from({ length: 60 }, (_, index) => `many A 192.0.2.${index + 1}`).join("\n");
const manyTexts = Array.from({ length: 9 }, (_, index) => `texts TXT "${String(index).repeat(250)}"`).join("\n");
const hugeTexts = Array.from({ length: 300 }, (_, index) => `huge TXT "${String(index).padStart(250, "x")}"`).join(
  "\n",
);
const manyServers = Array.from({ length: 40 }, (_, index) => `cut NS ns${index}.cut\nns${index}.cut A 192.0.2.9`).join(
  "\n",
);
const manyMails = Array.from({ length: 30 }, (_, index) => `mails MX 1 m${index}\nm${index} A 192.0.2.9`).join("\n");
const zoneDatabase = zoneDatabaseOf({
  origin: "example.org.",
  text: `$TTL 60\n@ SOA ns hostmaster 1 2 3 4 5\n@ NS ns\nns A 192.0.2.53\n${manyAddresses}\n${manyTexts}\n${hugeTexts}\n${manyServers}\n${manyMails}\n`,
});
const pipeline = pipelineOn(zoneDatabase);

/** A query for example.org SOA with octets of the header, or more, put otherwise. */
function packet(change: (octets: Buffer) => Buffer | undefined = () => undefined): Buffer {
  const octets = dnsPacket.encode({ type: "query", id: 0xabcd, questions: [{ name: "example.org", type: "SOA" }] });
  return change(octets) ?? octets;
}

/** The query with an OPT record of these RDATA octets. */
function withOpt(rdata: readonly number[], { version = 0, payload = 4096, flags = 0 } = {}): Buffer {
  return packet((octets) => {
    octets.writeUInt16BE(octets.readUInt16BE(10) + 1, 10);
    const head = [0, 0, 41, payload >> 8, payload & 255, 0, version, flags >> 8, flags & 255];
    return Buffer.concat([octets, Buffer.from([...head, rdata.length >> 8, rdata.length & 255, ...rdata])]);
  });
}

describe("the header matrix", () => {
  it("drops what is shorter than a header, and answers to answers", () => {
    for (let length = 0; length < 12; length += 1)
      expect(respond(pipeline, packet().subarray(0, length))).toBeUndefined();
    expect(
      respond(
        pipeline,
        packet((octets) => void octets.writeUInt8(0x80, 2)),
      ),
    ).toBeUndefined();
  });

  it.each([
    [1, 4],
    [2, 4],
    [3, 4],
    [6, 4],
    [15, 4],
  ])("answers opcode %i with rcode %i: id, opcode and RD echoed, all else clear", (opcode, rcode) => {
    const octets = packet((query) => {
      query[2] = (opcode << 3) | 0x07;
      query[3] = 0xf0;
    });
    expect(Buffer.from(respond(pipeline, octets)!)).toEqual(
      Buffer.from([0xab, 0xcd, 0x80 | (opcode << 3) | 0x01, rcode, 0, 0, 0, 0, 0, 0, 0, 0]),
    );
  });

  it.each([1, 2, 3, 6, 15])("answers opcode %i with EDNS where the query has it, and with no question", (opcode) => {
    const octets = withOpt([0, 10, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8]);
    octets[2] = opcode << 3;
    const answer = respond(pipeline, octets)!;
    expect([...answer.subarray(2, 12)]).toEqual([0x80 | (opcode << 3), 4, 0, 0, 0, 0, 0, 0, 0, 1]);
    expect([...answer.subarray(12, 17)]).toEqual([0, 0, 41, 1232 >> 8, 1232 & 255]);
    expect([...answer.subarray(21, 35)]).toEqual([0, 28, 0, 10, 0, 24, 1, 2, 3, 4, 5, 6, 7, 8]);
  });

  it.each([
    ["REFUSED", 1, 1],
    ["FORMERR", 2, 0],
    ["FORMERR", 0, 0],
  ])("answers an UPDATE without a signature with %s when it has %i zones", (rcode, zones, returned) => {
    const question = { name: "example.org", type: "SOA" } as const;
    const octets = dnsPacket.encode({ type: "query", id: 7, questions: Array(zones).fill(question) });
    octets[2] = 5 << 3;
    const answer = respond(pipeline, octets)!;
    expect([...answer.subarray(2, 6)]).toEqual([0xa8, RCODE[rcode as keyof typeof RCODE], 0, returned]);
  });

  it.each([
    ["example.org", "REFUSED"],
    ["www.example.org", "NOTAUTH"],
    ["example.net", "NOTAUTH"],
  ])("answers NOTIFY for %s with %s and the question", (name, rcode) => {
    const octets = dnsPacket.encode({ type: "query", id: 7, questions: [{ name, type: "SOA" }] });
    octets[2] = 4 << 3;
    const answer = respond(pipeline, octets)!;
    expect(answer[2]).toBe(0x80 | (4 << 3));
    expect(readAnswer(answer)).toMatchObject({ id: 7, rcode, question: { name, type: "SOA" }, answers: [] });
  });

  it.each([
    ["IXFR over UDP", TYPE.IXFR, TRANSPORT.UDP],
    ["IXFR over TCP", TYPE.IXFR, TRANSPORT.TCP],
    ["AXFR over TLS", TYPE.AXFR, TRANSPORT.TLS],
  ])("leaves %s to whoever knows who may transfer", (_, type, transport) => {
    const octets = packet((query) => void query.writeUInt16BE(type, query.length - 4));
    const client = new Client(transport);
    expect(pipeline.respond(octets, octets.length, new Uint8Array(65_535), client, 1_700_000_000)).toBe(DEFER);
  });

  it("echoes RD and CD; RA, AD and Z stay clear", () => {
    const octets = respond(
      pipeline,
      packet((query) => {
        query[2] = 0x01;
        query[3] = 0xf0;
      }),
    )!;
    expect(octets[2]! & 0x01).toBe(0x01);
    expect(octets[3]! & 0xf0).toBe(0x10);
  });

  it("says FORMERR to no question and to several", () => {
    expect(
      askOctets(
        pipeline,
        packet((octets) => void octets.writeUInt16BE(2, 4)),
      )!.rcode,
    ).toBe("FORMERR");
    const none = Buffer.alloc(12);
    expect(askOctets(pipeline, none)!.rcode).toBe("FORMERR");
  });

  it("says FORMERR with EDNS to several questions, and to a signature before the OPT record", () => {
    const questions = [
      { name: "example.org", type: "SOA" as const },
      { name: "www.example.org", type: "A" as const },
    ];
    const opt: dnsPacket.OptAnswer = {
      type: "OPT",
      name: ".",
      udpPayloadSize: 1400,
      extendedRcode: 0,
      ednsVersion: 0,
      flags: 0,
      flag_do: false,
      options: [],
    };
    const several = dnsPacket.encode({ type: "query", id: 1, questions, additionals: [opt] });
    expect(askOctets(pipeline, several)).toMatchObject({ rcode: "FORMERR", question: undefined, opt: { name: "." } });
    for (let length = 12; length < several.length; length += 1)
      expect(askOctets(pipeline, several.subarray(0, length))).toMatchObject({ rcode: "FORMERR", opt: undefined });

    const signature = Buffer.from([0, 0, 250, 0, 255, 0, 0, 0, 0, 0, 0]);
    const misplaced = withOpt([]);
    misplaced.writeUInt16BE(2, 10);
    const end = misplaced.length - 11;
    const octets = Buffer.concat([misplaced.subarray(0, end), signature, misplaced.subarray(end)]);
    expect(askOctets(pipeline, octets)).toMatchObject({ rcode: "FORMERR", opt: { name: "." } });
  });

  it.each<[string, (octets: Buffer) => Buffer | undefined]>([
    ["a name that runs past the end", (octets) => octets.subarray(0, 20)],
    ["a pointer in the question", (octets) => void octets.writeUInt16BE(0xc00c, 12)],
    ["a label of kind 01", (octets) => void octets.writeUInt8(0x47, 12)],
    ["a label of kind 10", (octets) => void octets.writeUInt8(0x87, 12)],
    ["a missing class", (octets) => octets.subarray(0, octets.length - 1)],
    ["a record that is not there", (octets) => void octets.writeUInt16BE(1, 10)],
  ])("says FORMERR to %s", (_what, change) => {
    expect(askOctets(pipeline, packet(change))!.rcode).toBe("FORMERR");
  });

  it("ignores trailing octets and a non-zero ANCOUNT with its record", () => {
    expect(askOctets(pipeline, Buffer.concat([packet(), Buffer.from("trailing")]))!.rcode).toBe("NOERROR");
    const record = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 192, 0, 2, 1]);
    const octets = packet((query) => {
      query.writeUInt16BE(1, 6);
      return Buffer.concat([query, record]);
    });
    expect(askOctets(pipeline, octets)!.rcode).toBe("NOERROR");
  });

  it.each([
    [252, 5],
    [253, 5],
    [254, 5],
    [249, 1],
    [250, 1],
    [41, 1],
    [99, 0],
    [65_000, 0],
  ])("answers QTYPE %i with rcode %i", (type, rcode) => {
    const octets = packet((query) => void query.writeUInt16BE(type, query.length - 4));
    expect(respond(pipeline, octets)![3]! & 15).toBe(rcode);
  });

  it("refuses classes other than IN, and CH texts unless they are set", () => {
    for (const qclass of [3, 4, 254, 255]) {
      const octets = packet((query) => void query.writeUInt16BE(qclass, query.length - 2));
      expect(askOctets(pipeline, octets)!.rcode).toBe("REFUSED");
    }
    const telling = pipelineOn(zoneDatabase, { identity: { version: "Palomar", id: "one" } });
    for (const [name, text] of [
      ["version.bind", "Palomar"],
      ["ID.server", "one"],
      ["hostname.bind", "one"],
    ] as const) {
      const query = dnsPacket.encode({ type: "query", id: 1, questions: [{ name, type: "TXT", class: "CH" }] });
      expect(askOctets(telling, query)!.answers).toEqual([`${name} TXT ${text}`]);
      expect(askOctets(pipeline, query)!.rcode).toBe("REFUSED");
    }
  });

  it("says SERVFAIL before the first zone database", () => {
    const empty = pipelineOn(new ZoneDatabaseWriter());
    expect(ask(empty, "example.org", "SOA")!.rcode).toBe("SERVFAIL");
  });
});

describe("EDNS (RFC 6891)", () => {
  it("puts OPT into the answer if, and only if, it is in the query; on errors as well", () => {
    expect(askOctets(pipeline, packet())!.opt).toBeUndefined();
    expect(askOctets(pipeline, withOpt([]))!.opt).toMatchObject({ udpPayloadSize: 1232, ednsVersion: 0 });
    expect(ask(pipeline, "example.com", "A", { edns: {} })).toMatchObject({ rcode: "REFUSED", opt: { type: "OPT" } });
  });

  it("answers a later version with BADVERS and no records", () => {
    const answer = askOctets(pipeline, withOpt([], { version: 1 }))!;
    expect(answer.opt).toMatchObject({ extendedRcode: 1, ednsVersion: 0 });
    expect(answer).toMatchObject({ rcode: "NOERROR", answers: [], authorities: [] });
  });

  it("copies DO and no other flag", () => {
    expect(askOctets(pipeline, withOpt([], { flags: 0xffff }))!.opt!.flags).toBe(0x8000);
    expect(askOctets(pipeline, withOpt([], { flags: 0x7fff }))!.opt!.flags).toBe(0);
  });

  it("does not echo unknown options, and says FORMERR to options past RDLENGTH and to a second OPT", () => {
    expect(askOctets(pipeline, withOpt([0xfd, 0xe9, 0, 2, 1, 2]))!.opt!.options).toEqual([]);
    expect(askOctets(pipeline, withOpt([0xfd, 0xe9, 0, 3, 1, 2]))!.rcode).toBe("FORMERR");
    expect(askOctets(pipeline, withOpt([0xfd, 0xe9, 0]))!.rcode).toBe("FORMERR");
    const second = Buffer.from([0, 0, 41, 16, 0, 0, 0, 0, 0, 0, 0]);
    const twice = Buffer.concat([withOpt([]), second]);
    twice.writeUInt16BE(2, 10);
    expect(askOctets(pipeline, twice)!.rcode).toBe("FORMERR");
  });

  it("answers NSID (RFC 5001) with the server's, and without one with nothing", () => {
    const options = askOctets(pipeline, withOpt([0, 3, 0, 0]))!.opt!.options;
    expect(options).toMatchObject([{ code: 3, data: Buffer.from("test") }]);
    const edns = { nsid: new Uint8Array(0), cookieSecret: new Uint8Array(16), tcpIdleSeconds: 15 };
    expect(askOctets(pipelineOn(zoneDatabase, { edns }), withOpt([0, 3, 0, 0]))!.opt!.options).toEqual([]);
  });

  it("answers keepalive (RFC 7828) over TCP only, and pads (RFC 8467) over TLS only", () => {
    const query = withOpt([0, 11, 0, 0, 0, 12, 0, 0]);
    const codes = (transport: number) =>
      askOctets(pipeline, query, { transport })!.opt!.options.map(({ code }) => code);
    expect(codes(TRANSPORT.UDP)).toEqual([]);
    expect(codes(TRANSPORT.TCP)).toEqual([11]);
    expect(codes(TRANSPORT.TLS)).toEqual([11, 12]);
    expect(respond(pipeline, query, { transport: TRANSPORT.TLS })!.length % 468).toBe(0);
  });

  it("explains refusals (RFC 8914)", () => {
    const [error] = ask(pipeline, "example.com", "A", { edns: {} })!.opt!.options as { code: number; data: Buffer }[];
    expect(error).toMatchObject({ code: 15, data: Buffer.from([0, 20]) });
  });
});

describe("cookies (RFC 7873, RFC 9018)", () => {
  const clientCookie = [1, 2, 3, 4, 5, 6, 7, 8];
  const cookieOf = (octets: Uint8Array) =>
    (readAnswer(octets).opt!.options as { code: number; data: Buffer }[]).find(({ code }) => code === 10)!.data;

  it("gives a server cookie, and gives back one that is young", () => {
    const first = cookieOf(respond(pipeline, withOpt([0, 10, 0, 8, ...clientCookie]))!);
    expect(first).toHaveLength(24);
    expect([...first.subarray(0, 8)]).toEqual(clientCookie);
    const again = withOpt([0, 10, 0, 24, ...first]);
    const now = 1_700_000_000;
    expect(cookieOf(respond(pipeline, again, { nowSeconds: now + 60 })!)).toEqual(first);
    expect(cookieOf(respond(pipeline, again, { nowSeconds: now + 1_801 })!)).not.toEqual(first);
  });

  it.each([1, 7, 9, 15, 41])("says FORMERR to a cookie of %i octets", (length) => {
    expect(askOctets(pipeline, withOpt([0, 10, 0, length, ...Array(length).fill(0)]))!.rcode).toBe("FORMERR");
  });

  it("answers a cookie without a question", () => {
    const query = withOpt([0, 10, 0, 8, ...clientCookie]);
    const head = Buffer.from(query.subarray(0, 12));
    head.writeUInt16BE(0, 4);
    const bare = Buffer.concat([head, query.subarray(query.length - 23)]);
    const octets = respond(pipeline, bare)!;
    expect(octets[3]! & 15).toBe(0);
    expect(octets[5]).toBe(0);
    expect(cookieOf(octets)).toHaveLength(24);
  });
});

describe("size", () => {
  it("truncates to the question and OPT", () => {
    const plain = ask(pipeline, "many.example.org", "A")!;
    expect(plain).toMatchObject({ tc: true, aa: true, answers: [], authorities: [], additionals: [] });
    expect(plain.octets.length).toBeLessThanOrEqual(512);
    const texts = ask(pipeline, "texts.example.org", "TXT", { edns: { udpPayloadSize: 65_535 } })!;
    expect(texts).toMatchObject({ tc: true, answers: [], opt: { type: "OPT" } });
  });

  it("takes the smaller of the client's payload and 1232, and at least 512", () => {
    expect(ask(pipeline, "many.example.org", "A", { edns: { udpPayloadSize: 4096 } })!.answers).toHaveLength(60);
    expect(ask(pipeline, "many.example.org", "A", { edns: { udpPayloadSize: 900 } })!.tc).toBe(true);
    expect(ask(pipeline, "ns.example.org", "A", { edns: { udpPayloadSize: 10 } })!.answers).toHaveLength(1);
  });

  it("never truncates over TCP; what is too large for that is SERVFAIL", () => {
    const tcp = { transport: TRANSPORT.TCP };
    expect(ask(pipeline, "texts.example.org", "TXT", tcp)).toMatchObject({ tc: false, rcode: "NOERROR" });
    expect(ask(pipeline, "huge.example.org", "TXT", tcp)).toMatchObject({ tc: false, rcode: "SERVFAIL", answers: [] });
  });

  it("truncates a referral whose glue does not fit (RFC 9471), and drops other additional data silently", () => {
    expect(ask(pipeline, "x.cut.example.org", "A", { edns: {} })!.tc).toBe(true);
    const mails = ask(pipeline, "mails.example.org", "MX", { edns: { udpPayloadSize: 700 } })!;
    expect(mails).toMatchObject({ tc: false });
    expect(mails.answers).toHaveLength(30);
    expect(mails.additionals.length).toBeLessThan(30);
    expect(ask(pipeline, "x.cut.example.org", "A", { transport: TRANSPORT.TCP })!.additionals).toHaveLength(40);
  });
});

describe("the rate limit", () => {
  it("counts answers that come from no zone together, whatever was asked before them", () => {
    const rateLimit = { answersPerSecond: 1, allow: [], limitLoopback: false, seed: 1, table: createRateLimitTable() };
    const limited = pipelineOn(zoneDatabase, { rateLimit, identity: { version: "1", id: null } });
    const chaos = packet((octets) => {
      const question = { type: "TXT", name: "version.bind", class: "CH" } as const;
      return dnsPacket.encode({ type: "query", id: octets.readUInt16BE(), questions: [question] });
    });
    const texts: number[] = [];
    for (const before of ["example.org", "ns.example.org", "texts.example.org", "many.example.org"]) {
      expect(ask(limited, before, "A")).toBeDefined();
      texts.push(askOctets(limited, chaos)?.answers.length ?? 0);
    }
    expect(texts).toEqual([1, 0, 0, 0]);
  });
});
