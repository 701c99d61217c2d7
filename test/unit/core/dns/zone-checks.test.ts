import { describe, expect, it } from "vitest";
import { formatDomainName, isSubdomain } from "../../../../services/core/dns/name.ts";
import type { ResourceRecord } from "../../../../services/core/dns/record.ts";
import { TYPE } from "../../../../services/core/dns/rr-types.ts";
import {
  checkRecordType,
  checkTouchedNames,
  checkWholeZone,
  checkZoneName,
  findWarnings,
  isHostName,
  isReverseName,
  surroundingsOf,
} from "../../../../services/core/dns/zone-checks.ts";
import { accepted, nameOf, recordOf } from "./support.ts";

const apex = nameOf("example.org.");

describe("checkTouchedNames", () => {
  function touch(owner: string, ...records: ResourceRecord[]) {
    return checkTouchedNames(apex, new Map([[nameOf(owner, apex).key, records]]));
  }

  it.each([
    ["CNAME alone", touch("www", recordOf("www", "CNAME", "a"))],
    [
      "CNAME with its signature and NSEC",
      touch("www", recordOf("www", "CNAME", "a"), recordOf("www", "NSEC", "b CNAME")),
    ],
    ["a name left empty", touch("www")],
    ["DNAME beside other data", touch("www", recordOf("www", "DNAME", "a."), recordOf("www", "A", "192.0.2.1"))],
    ["an apex with NS", touch("@", recordOf("@", "NS", "ns1"), recordOf("@", "A", "192.0.2.1"))],
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
    ["CNAME at the apex", touch("@", recordOf("@", "CNAME", "a")), "apex"],
    ["an apex without NS", touch("@"), "needs an NS record"],
    ["an apex with other data only", touch("@", recordOf("@", "MX", "0 .")), "needs an NS record"],
    ["data outside", touch("a.test.", recordOf("a.test.", "A", "192.0.2.1")), "outside the zone"],
    ["a TTL above 2^31 − 1", touch("a", recordOf("a", "A", "192.0.2.1", 2 ** 31)), "above 2147483647"],
    ["SOA", touch("a", recordOf("a", "SOA", "a b 1 2 3 4 5")), "operation of its own"],
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

describe("warnings", () => {
  const zone = [
    recordOf("@", "NS", "ns1"),
    recordOf("ns1", "A", "192.0.2.1"),
    recordOf("alias", "CNAME", "ns1"),
    recordOf("sub", "NS", "ns.sub"),
    recordOf("ns.sub", "A", "192.0.2.2"),
    recordOf("d", "DNAME", "other.test."),
  ];

  /** Only what {@link surroundingsOf} asked for is shown. */
  function warningsOf(changed: ResourceRecord[], mname?: string): string[] {
    const all = [...zone, ...changed];
    const primary = mname === undefined ? undefined : nameOf(mname, apex);
    const { names, subtrees } = surroundingsOf(apex, changed, primary);
    const shown = new Set(names.map(({ key }) => key));
    const view = {
      recordsAt: (name: { key: string }) => all.filter(({ owner }) => shown.has(name.key) && owner.key === name.key),
      recordsBelow: (name: (typeof subtrees)[number]) =>
        all.filter(({ owner }) => subtrees.includes(name) && owner.key !== name.key && isSubdomain(owner, name)),
    };
    return findWarnings(apex, changed, view, primary);
  }

  it.each([
    ["nothing to say", [recordOf("www", "A", "192.0.2.3")], []],
    ["a target outside", [recordOf("@", "MX", "10 mail.example.net.")], []],
    ["a null MX", [recordOf("@", "MX", "0 .")], []],
    [
      "MX to a CNAME",
      [recordOf("@", "MX", "10 alias")],
      ["the MX of example.org. points to alias.example.org., which is a CNAME"],
    ],
    [
      "NS to a CNAME",
      [recordOf("@", "NS", "alias")],
      ["the NS of example.org. points to alias.example.org., which is a CNAME"],
    ],
    [
      "NS without glue",
      [recordOf("new", "NS", "ns.new")],
      ["the NS of new.example.org. points to ns.new.example.org., which has no address in the zone (missing glue)"],
    ],
    [
      "NS with glue in the same change",
      [recordOf("new", "NS", "ns.new"), recordOf("ns.new", "AAAA", "2001:db8::1")],
      [],
    ],
    [
      "data below a cut",
      [recordOf("www.sub", "A", "192.0.2.4")],
      ["www.sub.example.org. A lies below the zone cut at sub.example.org. and is not served as an answer"],
    ],
    ["glue below a cut", [recordOf("ns.sub", "AAAA", "2001:db8::2")], []],
    [
      "data deep below a DNAME",
      [recordOf("a.b.d", "TXT", "x")],
      ["a.b.d.example.org. TXT lies below the DNAME at d.example.org. and is not served as an answer"],
    ],
    [
      "a new cut above data",
      [recordOf("a.b.e", "TXT", "x"), recordOf("e", "NS", "ns.example.net.")],
      ["a.b.e.example.org. TXT lies below the zone cut at e.example.org. and is not served as an answer"],
    ],
  ])("%s", (_, changed, expected) => {
    expect(warningsOf(changed)).toEqual(expected);
  });

  it("has a word on a new cut above data that is there", () => {
    const below = recordOf("x.y", "A", "192.0.2.9");
    zone.push(below);
    expect(warningsOf([recordOf("y", "DNAME", "z.")])).toEqual([
      "x.y.example.org. A lies below the DNAME at y.example.org. and is not served as an answer",
    ]);
    zone.pop();
  });

  it("has a word on data below a DNAME at the apex", () => {
    zone.push(recordOf("@", "DNAME", "other.test."));
    expect(warningsOf([recordOf("www", "A", "192.0.2.3")])).toEqual([
      "www.example.org. A lies below the DNAME at example.org. and is not served as an answer",
    ]);
    zone.pop();
  });

  it.each([
    ["ns1", []],
    ["ns.example.net.", []],
    ["ns9", ["mname ns9.example.org. has no address in the zone"]],
  ])("mname %s", (mname, expected) => {
    expect(warningsOf([], mname)).toEqual(expected);
  });

  it("are the same for a whole zone", () => {
    const records = [...zone, recordOf("www.sub", "A", "192.0.2.4"), recordOf("www.d", "A", "192.0.2.4")];
    expect(accepted(checkWholeZone({ apex, records, mname: nameOf("ns9.example.org.") }))).toEqual([
      "www.sub.example.org. A lies below the zone cut at sub.example.org. and is not served as an answer",
      "www.d.example.org. A lies below the DNAME at d.example.org. and is not served as an answer",
      "mname ns9.example.org. has no address in the zone",
    ]);
  });

  it("ask for no more than the names around the change", () => {
    const { names, subtrees } = surroundingsOf(apex, [recordOf("a.b.c", "MX", "0 mail")], nameOf("ns1.example.org."));
    expect(names.map(formatDomainName)).toEqual([
      "example.org.",
      "c.example.org.",
      "b.c.example.org.",
      "mail.example.org.",
      "ns1.example.org.",
    ]);
    expect(subtrees).toEqual([]);
  });
});
