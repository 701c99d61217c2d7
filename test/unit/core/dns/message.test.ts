import dnsPacket from "dns-packet";
import { describe, expect, it } from "vitest";
import { decodeMessage, encodeMessage, type Message } from "../../../../services/core/dns/message.ts";
import { formatRdata } from "../../../../services/core/dns/rdata/rdata.ts";
import { CLASS, OPCODE, RCODE, TYPE } from "../../../../services/core/dns/rr-types.ts";
import { accepted, hex, nameOf, recordOf } from "./support.ts";

const noFlags = { qr: false, aa: false, tc: false, rd: false, ra: false, ad: false, cd: false };

function messageOf(parts: Partial<Message>): Message {
  return {
    id: 0x1234,
    opcode: OPCODE.QUERY,
    flags: noFlags,
    rcode: RCODE.NOERROR,
    questions: [],
    answers: [],
    authorities: [],
    additionals: [],
    ...parts,
  };
}

const question = { name: nameOf("www.example.org."), type: TYPE.A, class: CLASS.IN };
const inClass = (record: ReturnType<typeof recordOf>) => ({ ...record, class: CLASS.IN });

describe("encodeMessage and decodeMessage", () => {
  it.each([
    ["an empty message", messageOf({})],
    ["every flag", messageOf({ flags: { qr: true, aa: true, tc: true, rd: true, ra: true, ad: true, cd: true } })],
    ["an opcode and an rcode", messageOf({ opcode: OPCODE.UPDATE, rcode: RCODE.NOTAUTH })],
    ["a question", messageOf({ questions: [question] })],
    [
      "records in all sections",
      messageOf({
        questions: [question],
        answers: [inClass(recordOf("www", "CNAME", "web")), inClass(recordOf("web", "A", "192.0.2.1"))],
        authorities: [inClass(recordOf("@", "NS", "ns1"))],
        additionals: [inClass(recordOf("ns1", "AAAA", "2001:db8::1"))],
      }),
    ],
    [
      "EDNS with an extended rcode",
      messageOf({
        rcode: RCODE.BADCOOKIE,
        edns: {
          udpPayloadSize: 1232,
          version: 1,
          dnssecOk: true,
          options: [{ code: 10, data: Uint8Array.of(1, 2, 3) }],
        },
      }),
    ],
    [
      "the largest rcode",
      messageOf({ rcode: 4095, edns: { udpPayloadSize: 0, version: 255, dnssecOk: false, options: [] } }),
    ],
    [
      "a record of another class",
      messageOf({ answers: [{ ...recordOf("id.server.", "TXT", '"a"'), class: CLASS.CH }] }),
    ],
    [
      "an update's record without data",
      messageOf({ answers: [{ ...recordOf("a", "MX", "1 a"), rdata: new Uint8Array(0), class: CLASS.ANY }] }),
    ],
    ["a type that is not known", messageOf({ answers: [inClass(recordOf("a", "TYPE65280", "\\# 3 C00C00"))] })],
  ])("keep %s", (_, message) => {
    expect(accepted(decodeMessage(encodeMessage(message)))).toEqual(message);
  });

  it("compress names in the data of old types only (RFC 3597 §4)", () => {
    const mx = encodeMessage(messageOf({ answers: [inClass(recordOf("@", "MX", "10 mail"))] }));
    expect(hex(mx)).toContain("046d61696cc00c");
    const srv = encodeMessage(messageOf({ answers: [inClass(recordOf("@", "SRV", "1 2 3 mail"))] }));
    expect(hex(srv)).toContain(hex(nameOf("mail.example.org.").wire));
  });

  it("decompress names in the data of any known type", () => {
    // SRV whose target is a pointer to the owner.
    const octets = Buffer.from(
      "000000000000000100000000" + "016100" + "00210001" + "0000003c" + "0008" + "000100020003c00c",
      "hex",
    );
    const [record] = accepted(decodeMessage(octets)).answers;
    expect(formatRdata(record!.type, record!.rdata)).toBe("1 2 3 a.");
  });

  it("put the OPT record before a TSIG record", () => {
    const tsig = { owner: nameOf("key."), type: TYPE.TSIG, class: CLASS.ANY, ttl: 0, rdata: Uint8Array.of(1) };
    const edns = { udpPayloadSize: 512, version: 0, dnssecOk: false, options: [] };
    const octets = hex(encodeMessage(messageOf({ additionals: [tsig], edns })));
    expect(octets.indexOf("0000290200")).toBeLessThan(octets.indexOf("036b657900"));
    expect(octets.indexOf("0000290200")).toBeGreaterThan(0);
  });

  it("leave octets behind the last record alone", () => {
    const octets = Buffer.concat([encodeMessage(messageOf({ questions: [question] })), Buffer.of(1, 2, 3)]);
    expect(accepted(decodeMessage(octets)).questions).toEqual([question]);
  });
});

describe("decodeMessage refuses", () => {
  const header = "000000000000000000000000";
  it.each([
    ["no octets", ""],
    ["eleven octets", header.slice(2)],
    ["a question that is not there", "000000000001000000000000"],
    ["a question cut short", "000000000001000000000000" + "0161000001"],
    ["a record cut short", "000000000000000100000000" + "00000100010000003c0004c00002"],
    ["data longer than the message", "000000000000000100000000" + "00000100010000003cffff"],
    [
      "a name in the data that runs past it",
      "000000000000000100000000" + "00" + "00020001" + "0000003c" + "0002" + "0161" + "00",
    ],
    [
      "octets after a name in the data",
      "000000000000000100000000" + "00" + "00020001" + "0000003c" + "0003" + "00ffff",
    ],
    ["two OPT records", `000000000000000000000002${"0000290200000000000000".repeat(2)}`],
    ["an OPT record among the answers", "000000000000000100000000" + "0000290200000000000000"],
    ["an OPT record with an owner", "000000000000000000000001" + "01610000290200000000000000"],
    ["an EDNS option past the data", "000000000000000000000001" + "0000290200000000000004" + "000a0001"],
    ["an EDNS option without length", "000000000000000000000001" + "0000290200000000000002" + "000a"],
  ])("%s", (_, octets) => {
    expect(decodeMessage(Buffer.from(octets, "hex")).ok).toBe(false);
  });
});

describe("the dns-packet package", () => {
  it("reads what we write", () => {
    const octets = encodeMessage(
      messageOf({
        flags: { ...noFlags, qr: true, aa: true },
        questions: [question],
        answers: [inClass(recordOf("www", "MX", "10 mail")), inClass(recordOf("www", "SRV", "1 2 3 sip"))],
        authorities: [inClass(recordOf("@", "SOA", "ns1 h 1 2 3 4 5"))],
        additionals: [inClass(recordOf("mail", "TXT", '"one" "two"'))],
        edns: { udpPayloadSize: 1232, version: 0, dnssecOk: true, options: [] },
      }),
    );
    const packet = dnsPacket.decode(Buffer.from(octets));
    expect(packet).toMatchObject({
      id: 0x1234,
      flag_aa: true,
      questions: [{ name: "www.example.org", type: "A", class: "IN" }],
      answers: [
        { name: "www.example.org", type: "MX", data: { preference: 10, exchange: "mail.example.org" } },
        { type: "SRV", data: { priority: 1, weight: 2, port: 3, target: "sip.example.org" } },
      ],
      authorities: [{ type: "SOA", data: { mname: "ns1.example.org", serial: 1, minimum: 5 } }],
      additionals: [{ type: "TXT" }, { type: "OPT", udpPayloadSize: 1232, flag_do: true }],
    });
  });

  it("writes what we read", () => {
    const octets = dnsPacket.encode({
      type: "response",
      id: 7,
      flags: dnsPacket.AUTHORITATIVE_ANSWER,
      questions: [{ name: "example.org", type: "NAPTR" }],
      answers: [
        {
          name: "example.org",
          type: "NAPTR",
          ttl: 5,
          data: { order: 1, preference: 2, flags: "s", services: "x", regexp: "", replacement: "a.example.org" },
        },
        { name: "example.org", type: "CAA", ttl: 5, data: { flags: 0, tag: "issue", value: "ca.example.net" } },
        {
          name: "example.org",
          type: "TLSA",
          ttl: 5,
          data: { usage: 3, selector: 1, matchingType: 0, certificate: Buffer.of(1, 2) },
        },
        { name: "example.org", type: "RP", ttl: 5, data: { mbox: "a.example.org", txt: "b.example.org" } },
      ],
    });
    const message = accepted(decodeMessage(octets));
    expect(message).toMatchObject({ id: 7, flags: { qr: true, aa: true } });
    expect(message.answers.map(({ type, rdata }) => formatRdata(type, rdata))).toEqual([
      '1 2 "s" "x" "" a.example.org.',
      '0 issue "ca.example.net"',
      "3 1 0 0102",
      "a.example.org. b.example.org.",
    ]);
  });
});
