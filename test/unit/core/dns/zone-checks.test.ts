import { describe, expect, it } from "vitest";
import type { ResourceRecord } from "../../../../services/core/dns/record.ts";
import { TYPE } from "../../../../services/core/dns/rr-types.ts";
import {
  checkRecordType,
  checkTouchedNames,
  checkZoneName,
  isHostName,
  isReverseName,
} from "../../../../services/core/dns/zone-checks.ts";
import { nameOf, recordOf } from "./support.ts";

const apex = nameOf("example.org.");

describe("checkTouchedNames", () => {
  function touch(owner: string, ...records: ResourceRecord[]) {
    return checkTouchedNames(apex, new Map([[nameOf(owner, apex).key, records]]));
  }

  function addresses(count: number): ResourceRecord[] {
    return Array.from({ length: count }, (_, index) => recordOf("a", "A", `192.0.${index >> 8}.${index & 255}`));
  }

  it.each([
    ["CNAME alone", touch("www", recordOf("www", "CNAME", "a"))],
    [
      "CNAME with its signature and NSEC",
      touch("www", recordOf("www", "CNAME", "a"), recordOf("www", "NSEC", "b CNAME")),
    ],
    ["a name left empty", touch("www")],
    ["DNAME beside other data", touch("www", recordOf("www", "DNAME", "a."), recordOf("www", "A", "192.0.2.1"))],
    ["DNAME beside NS at the apex", touch("@", recordOf("@", "NS", "ns1"), recordOf("@", "DNAME", "a.test."))],
    ["an apex with NS", touch("@", recordOf("@", "NS", "ns1"), recordOf("@", "A", "192.0.2.1"))],
    [
      "a record that just fits into a message",
      touch("a", recordOf("a", "TYPE65280", `\\# 63988 ${"00".repeat(63_988)}`)),
    ],
    ["an RRset that just fits into a message", touch("a", ...addresses(4_000), recordOf("a", "AAAA", "2001:db8::1"))],
  ])("passes %s", (_, checked) => {
    expect(checked.ok).toBe(true);
  });

  it.each([
    [
      "CNAME beside A",
      touch("www", recordOf("www", "A", "192.0.2.1"), recordOf("www", "CNAME", "a")),
      "beside other data (A)",
    ],
    [
      "CNAME beside DNAME",
      touch("www", recordOf("www", "DNAME", "a."), recordOf("www", "CNAME", "a")),
      "beside other data (DNAME)",
    ],
    ["two CNAMEs", touch("www", recordOf("www", "CNAME", "a"), recordOf("www", "CNAME", "b")), "a second CNAME"],
    ["two DNAMEs", touch("www", recordOf("www", "DNAME", "a"), recordOf("www", "DNAME", "b")), "a second DNAME"],
    ["DNAME beside NS", touch("d", recordOf("d", "NS", "a"), recordOf("d", "DNAME", "b")), "a DNAME beside NS"],
    ["CNAME at the apex", touch("@", recordOf("@", "CNAME", "a")), "apex"],
    ["an apex without NS", touch("@"), "needs an NS record"],
    ["an apex with other data only", touch("@", recordOf("@", "MX", "0 .")), "needs an NS record"],
    ["data outside", touch("a.test.", recordOf("a.test.", "A", "192.0.2.1")), "outside the zone"],
    ["a TTL above 2^31 − 1", touch("a", recordOf("a", "A", "192.0.2.1", 2 ** 31)), "above 2147483647"],
    ["SOA", touch("a", recordOf("a", "SOA", "a b 1 2 3 4 5")), "operation of its own"],
    [
      "a record for which no message has room",
      touch("a", recordOf("a", "TYPE65280", `\\# 63989 ${"00".repeat(63_989)}`)),
      "more than a DNS message can carry",
    ],
    ["an RRset for which no message has room", touch("a", ...addresses(4_001)), "the A data of a.example.org."],
  ])("refuses %s", (_, checked, message) => {
    expect(checked).toMatchObject({ ok: false, error: { message: expect.stringContaining(message) } });
  });
});

describe("checkRecordType", () => {
  it.each([
    ["example.org.", TYPE.A, true],
    ["example.org.", 65_280, true],
    ["example.org.", TYPE.SOA, false],
    ["example.org.", TYPE.ANY, false],
    ["example.org.", TYPE.OPT, false],
    ["example.org.", TYPE.TSIG, false],
    ["example.org.", 0, false],
    ["2.0.192.in-addr.arpa.", TYPE.PTR, true],
    ["2.0.192.in-addr.arpa.", TYPE.NS, true],
    ["2.0.192.in-addr.arpa.", TYPE.TXT, false],
    ["8.b.d.0.1.0.0.2.ip6.arpa.", TYPE.A, false],
  ])("%s, type %d: %s", (zone, type, expected) => {
    expect(checkRecordType(nameOf(zone), type).ok).toBe(expected);
  });
});

describe("checkZoneName", () => {
  it.each([
    ["example.org.", false],
    ["internal.", false],
    ["in-addr.arpa.example.org.", false],
    ["xin-addr.arpa.", false],
    ["2.0.192.in-addr.arpa.", true],
    ["2.0.192.IN-ADDR.ARPA.", true],
    ["0.0.0.in-addr.arpa.", true],
    ["255.255.255.in-addr.arpa.", true],
    ["8.b.d.0.1.0.0.2.ip6.arpa.", true],
    ["A.ip6.arpa.", true],
  ])("%s is lawful, reverse: %s", (name, reverse) => {
    expect(checkZoneName(nameOf(name))).toEqual({ ok: true, value: { reverse } });
    expect(isReverseName(nameOf(name))).toBe(reverse);
  });

  it.each([
    ".",
    "in-addr.arpa.",
    "192.in-addr.arpa.",
    "0.192.in-addr.arpa.",
    "1.2.0.192.in-addr.arpa.",
    "256.0.192.in-addr.arpa.",
    "02.0.192.in-addr.arpa.",
    "x.0.192.in-addr.arpa.",
    "0-127.2.0.192.in-addr.arpa.",
    "ip6.arpa.",
    "g.ip6.arpa.",
    "10.ip6.arpa.",
    `${"0.".repeat(33)}ip6.arpa.`,
    "ex\\032ample.org.",
    "a\\@example.org.",
    "ex\\.ample.org.",
    "\\255.org.",
  ])("%s is refused", (name) => {
    expect(checkZoneName(nameOf(name)).ok).toBe(false);
  });
});

describe("isHostName", () => {
  it.each([
    ["ns1.example.org.", true],
    ["3com.test.", true],
    ["a.", true],
    ["a-b.test.", true],
    ["-a.test.", false],
    ["a-.test.", false],
    ["a_b.test.", false],
    ["*.test.", false],
    ["a\\.b.test.", false],
    [".", false],
  ])("%s: %s", (name, expected) => {
    expect(isHostName(nameOf(name))).toBe(expected);
  });
});
