import { describe, expect, it } from "vitest";
import {
  canonicalRdata,
  decodeRecords,
  encodeRecords,
  recordIdentity,
  recordWireLength,
  rrsetKey,
} from "../../../../services/core/dns/record.ts";
import { isMetaType, RR_TYPES, TYPE, typeCode, typeMnemonic } from "../../../../services/core/dns/rr-types.ts";
import { hex, nameOf, recordOf } from "./support.ts";

describe("encodeRecords and decodeRecords", () => {
  const records = [
    recordOf("www", "A", "192.0.2.1", 0),
    recordOf("WWW", "MX", "10 Mail", 2 ** 31 - 1),
    recordOf("@", "TYPE65280", "\\# 0"),
  ];

  it("keep records as they are", () => {
    const octets = encodeRecords(records);
    expect(decodeRecords(octets)).toEqual(records);
    expect(octets.length).toBe(records.reduce((sum, record) => sum + recordWireLength(record), 0));
    expect(encodeRecords([])).toHaveLength(0);
    expect(decodeRecords(new Uint8Array(0))).toEqual([]);
  });

  it("throw on a corrupt store, wherever it ends", () => {
    const octets = encodeRecords(records.slice(0, 1));
    for (let length = 1; length < octets.length; length += 1) {
      expect(() => decodeRecords(octets.subarray(0, length))).toThrow(/corrupt/);
    }
  });
});

describe("recordIdentity", () => {
  const base = recordIdentity(recordOf("www", "MX", "10 mail"));

  it.each([
    ["the TTL", recordOf("www", "MX", "10 mail", 1), true],
    ["the case of the owner", recordOf("WWW", "MX", "10 mail"), true],
    ["the case of a name in old types", recordOf("www", "MX", "10 MAIL"), true],
    ["the owner", recordOf("www2", "MX", "10 mail"), false],
    ["the type", recordOf("www", "KX", "10 mail"), false],
    ["the data", recordOf("www", "MX", "11 mail"), false],
  ])("%s makes no difference: %j", (_, record, expected) => {
    expect(recordIdentity(record) === base).toBe(expected);
  });

  it.each([
    ["TXT", '"a"', '"A"', false],
    ["NSEC", "a. A", "A. A", false],
    ["SVCB", "1 a.", "1 A.", false],
    ["SRV", "1 2 3 a.", "1 2 3 A.", true],
    ["RRSIG", "A 5 3 1 2 1 7 a. AAAA", "A 5 3 1 2 1 7 A. AAAA", true],
    // Of types that are taken as octets: MD, MF, SIG, PX, NXT, A6.
    ["TYPE3", "\\# 3 016100", "\\# 3 014100", true],
    ["TYPE4", "\\# 3 016100", "\\# 3 014100", true],
    ["TYPE24", `\\# 22 ${"41".repeat(18)}016100ff`, `\\# 22 ${"41".repeat(18)}014100ff`, true],
    ["TYPE24", `\\# 22 ${"41".repeat(18)}01610061`, `\\# 22 ${"41".repeat(18)}01610041`, false],
    ["TYPE26", "\\# 8 4141016100016200", "\\# 8 4141014100014200", true],
    ["TYPE26", "\\# 8 4161016100016200", "\\# 8 4141016100016200", false],
    ["TYPE30", "\\# 4 01610061", "\\# 4 01410061", true],
    ["TYPE30", "\\# 4 01610061", "\\# 4 01610041", false],
    ["TYPE38", "\\# 5 7841016100", "\\# 5 7841014100", true],
    ["TYPE38", "\\# 5 7861016100", "\\# 5 7841016100", false],
    ["TYPE38", `\\# 17 00${"61".repeat(16)}`, `\\# 17 00${"41".repeat(16)}`, false],
    // A name of TALINK is no part of RFC 4034 §6.2.
    ["TYPE58", "\\# 6 016100016200", "\\# 6 014100016200", false],
  ])("%s %s and %s are one: %s", (type, a, b, expected) => {
    expect(recordIdentity(recordOf("x", type, a)) === recordIdentity(recordOf("x", type, b))).toBe(expected);
  });

  it("takes data of any length", () => {
    const long = recordOf("x", "TXT", Array.from({ length: 8 }, () => `"${"a".repeat(255)}"`).join(" "));
    expect(recordIdentity(long)).toHaveLength(rrsetKey(long.owner, long.type).length + long.rdata.length);
  });
});

it("canonicalRdata leaves its argument alone", () => {
  const { rdata } = recordOf("x", "NS", "NS1");
  const before = hex(rdata);
  expect(hex(canonicalRdata(TYPE.NS, rdata))).toBe(hex(nameOf("ns1.example.org.").wire));
  expect(hex(rdata)).toBe(before);
});

describe("types", () => {
  it.each([
    ["A", 1],
    ["aaaa", 28],
    ["TYPE65280", 65_280],
    ["type1", 1],
    ["TYPE0", 0],
    ["TYPE65536", undefined],
    ["TYPE", undefined],
    ["NOPE", undefined],
    ["toString", undefined],
    ["TYPE99999999", undefined],
  ])("%s is %s", (text, code) => {
    expect(typeCode(text)).toBe(code);
  });

  it("have one mnemonic each, which reads back", () => {
    for (const { code, mnemonic } of RR_TYPES) {
      expect(typeMnemonic(code)).toBe(mnemonic);
      expect(typeCode(mnemonic)).toBe(code);
    }
    expect(typeMnemonic(65_280)).toBe("TYPE65280");
  });

  it.each([
    [TYPE.OPT, true],
    [TYPE.TSIG, true],
    [TYPE.AXFR, true],
    [TYPE.ANY, true],
    [0, true],
    [128, true],
    [127, false],
    [256, false],
    [TYPE.A, false],
    [65_280, false],
  ])("%d is a meta type: %s", (code, expected) => {
    expect(isMetaType(code)).toBe(expected);
  });
});
