import { describe, expect, it } from "vitest";
import { formatDomainName, isSubdomain } from "../../../../services/core/dns/name.ts";
import type { ResourceRecord } from "../../../../services/core/dns/record.ts";
import { checkWholeZone } from "../../../../services/core/dns/zone-checks.ts";
import {
  alteredTargets,
  digestWarnings,
  findWarnings,
  surroundingsOf,
} from "../../../../services/core/dns/zone-warnings.ts";
import { inWords } from "../../../support/said.ts";
import { accepted, nameOf, recordOf } from "./support.ts";

const apex = nameOf("example.org.");

function addresses(count: number): ResourceRecord[] {
  return Array.from({ length: count }, (_, index) => recordOf("many", "A", `192.0.2.${index}`));
}

/** Records of as many types. */
function types(owner: string, count: number): ResourceRecord[] {
  return Array.from({ length: count }, (_, index) => recordOf(owner, `TYPE${65_280 + index}`, "\\# 1 00"));
}

const belowDname = (record: string, above: string) =>
  `${record} lies below the DNAME at ${above} and is not served as an answer: Knot as a secondary refuses the whole zone for it, and NSD when it reads the zone from a file`;

const atCut = (record: string) => `${record} stands beside the NS of a zone cut and is not served as an answer`;

describe("warnings", () => {
  const zone = [
    recordOf("@", "NS", "ns1"),
    recordOf("ns1", "A", "192.0.2.1"),
    recordOf("alias", "CNAME", "ns1"),
    recordOf("sub", "NS", "ns.sub"),
    recordOf("ns.sub", "A", "192.0.2.2"),
    recordOf("d", "DNAME", "other.test."),
    recordOf("held", "MX", "10 ns1"),
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
    return findWarnings({ apex, changed, mname: primary }, view).map(({ message }) => message);
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
    [
      "data at a cut that is there, each type once",
      [recordOf("sub", "TXT", "x"), recordOf("sub", "TXT", "y"), recordOf("sub", "A", "192.0.2.5")],
      [atCut("sub.example.org. TXT"), atCut("sub.example.org. A")],
    ],
    [
      "a new cut at data",
      [recordOf("held", "NS", "ns.example.net."), recordOf("held", "NS", "ns2.example.net.")],
      [atCut("held.example.org. MX")],
    ],
    [
      "what belongs to a cut: glue of its own name, DS, proofs and signatures",
      [
        recordOf("own", "NS", "own"),
        recordOf("own", "A", "192.0.2.6"),
        recordOf("own", "DS", `1 13 2 ${"ab".repeat(32)}`),
        recordOf("own", "NSEC", "www.example.org. NS DS RRSIG NSEC"),
        recordOf("own", "RRSIG", "DS 13 3 3600 20300101000000 20200101000000 1 example.org. AAAA"),
      ],
      [],
    ],
    ["glue below a cut", [recordOf("ns.sub", "AAAA", "2001:db8::2")], []],
    [
      "data below a cut that is below another",
      [recordOf("c.sub", "NS", "ns.example.net."), recordOf("www.c.sub", "TXT", "x")],
      [
        "c.sub.example.org. NS lies below the zone cut at sub.example.org. and is not served as an answer",
        "www.c.sub.example.org. TXT lies below the zone cut at sub.example.org. and is not served as an answer",
      ],
    ],
    [
      "data deep below a DNAME",
      [recordOf("a.b.d", "TXT", "x")],
      [belowDname("a.b.d.example.org. TXT", "d.example.org.")],
    ],
    [
      "a new cut above data",
      [recordOf("a.b.e", "TXT", "x"), recordOf("e", "NS", "ns.example.net.")],
      ["a.b.e.example.org. TXT lies below the zone cut at e.example.org. and is not served as an answer"],
    ],
    [
      "NS at a wildcard, each name once",
      [recordOf("*.w", "NS", "ns.example.net."), recordOf("*.w", "NS", "ns2.example.net.")],
      [
        "*.w.example.org. is a wildcard with NS records: BIND as a secondary refuses the whole zone for it, and where the zone is signed validating resolvers take answers below it for forged",
      ],
    ],
    [
      "an alias of a service with parameters",
      [recordOf("@", "HTTPS", "0 pool.example.net. port=8443"), recordOf("s", "SVCB", "1 pool.example.net. port=8443")],
      ["the HTTPS of example.org. has parameters beside a SvcPriority of 0, with which clients ignore them"],
    ],
    [
      "NSEC3 that takes too long",
      [recordOf("@", "NSEC3PARAM", "1 0 151 -"), recordOf("@", "NSEC3PARAM", `1 0 75 ${"ab".repeat(36)}`)],
      ["the NSEC3PARAM asks for more hashing than 150 iterations: names that do not exist are denied without a proof"],
    ],
    [
      "DS at the apex, and not elsewhere",
      [recordOf("@", "DS", `1 13 2 ${"ab".repeat(32)}`), recordOf("cut", "DS", `1 13 2 ${"ab".repeat(32)}`)],
      ["example.org. is the zone's apex: nobody looks for its DS records here, but in the zone above"],
    ],
    ["NSEC3 that does not", [recordOf("@", "NSEC3PARAM", `1 0 150 ${"ab".repeat(35)}`)], []],
    ["an alias of a service without", [recordOf("@", "HTTPS", "0 pool.example.net.")], []],
    ["another type at a wildcard", [recordOf("*.w", "A", "192.0.2.1")], []],
    ["a hundred records of a type, and one of another", [...addresses(100), recordOf("many", "TXT", "x")], []],
    [
      "more than a hundred",
      addresses(101),
      [
        "many.example.org. has 101 A records: BIND as a secondary refuses the whole zone for more than 100, unless its max-records-per-type allows them",
      ],
    ],
    ["a hundred types", types("many", 100), []],
    [
      "more than a hundred types",
      types("many", 101),
      [
        "many.example.org. has 101 record types: BIND as a secondary refuses the whole zone for more than 100, unless its max-types-per-name allows them",
      ],
    ],
    ["a hundred types at the apex, with its SOA", types("@", 98), []],
    ["more than a hundred there", types("@", 99), [expect.stringMatching("has 101 record types")]],
  ])("%s", (_, changed, expected) => {
    expect(warningsOf(changed)).toEqual(expected);
  });

  it("has a word on the record that is one too many beside those that are there", () => {
    const there = addresses(100);
    zone.push(...there);
    expect(warningsOf([recordOf("many", "A", "198.51.100.1")])).toEqual([expect.stringMatching("has 101 A records")]);
    zone.splice(-there.length);
  });

  it("has a word on a new cut above data that is there", () => {
    const below = recordOf("x.y", "A", "192.0.2.9");
    zone.push(below);
    expect(warningsOf([recordOf("y", "DNAME", "z.")])).toEqual([belowDname("x.y.example.org. A", "y.example.org.")]);
    zone.pop();
  });

  it("has a word on data below a DNAME at the apex", () => {
    zone.push(recordOf("@", "DNAME", "other.test."));
    expect(warningsOf([recordOf("www", "A", "192.0.2.3")])).toEqual([belowDname("www.example.org. A", "example.org.")]);
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
    expect(inWords(accepted(checkWholeZone({ apex, records, mname: nameOf("ns9.example.org.") })))).toEqual([
      "www.sub.example.org. A lies below the zone cut at sub.example.org. and is not served as an answer",
      belowDname("www.d.example.org. A", "d.example.org."),
      "mname ns9.example.org. has no address in the zone",
    ]);
  });

  it("are no more than anybody reads", () => {
    const hidden = Array.from({ length: 1_001 }, (_, index) => recordOf(`h${index}.sub`, "TXT", "x"));
    expect(accepted(checkWholeZone({ apex, records: [...zone, ...hidden.slice(1)] }))).toHaveLength(1_000);
    const cut = accepted(checkWholeZone({ apex, records: [...zone, ...hidden] }));
    expect(inWords(cut.slice(-2))).toEqual([expect.stringMatching(/^h999\.sub\./), "further warnings are left out"]);
  });

  it("has a word on what points to a name that became a CNAME", () => {
    const pointing = [recordOf("@", "MX", "10 www"), recordOf("_sip._tcp", "SRV", "1 1 5060 www")];
    const view = { recordsAt: () => [recordOf("www", "CNAME", "ns1")], recordsBelow: () => [] };
    expect(inWords(findWarnings({ apex, changed: [], pointing }, view))).toEqual([
      "the MX of example.org. points to www.example.org., which is a CNAME",
      "the SRV of _sip._tcp.example.org. points to www.example.org., which is a CNAME",
    ]);
  });

  it("ask for no more than the names around the change", () => {
    const { names, subtrees } = surroundingsOf(apex, [recordOf("a.b.c", "MX", "0 mail")], nameOf("ns1.example.org."));
    expect(names.map(formatDomainName)).toEqual([
      "example.org.",
      "c.example.org.",
      "b.c.example.org.",
      "a.b.c.example.org.",
      "mail.example.org.",
      "ns1.example.org.",
    ]);
    expect(subtrees).toEqual([]);
  });
});

describe("alteredTargets", () => {
  const address = recordOf("mail", "A", "192.0.2.1");
  const otherAddress = recordOf("mail", "AAAA", "2001:db8::1");
  const alias = recordOf("mail", "CNAME", "www");

  it.each([
    ["the last address goes", [address], [], [], ["mail.example.org."]],
    ["one of two addresses goes", [address], [], [otherAddress], []],
    ["an address is replaced", [address], [otherAddress], [otherAddress], []],
    ["a CNAME comes", [], [alias], [alias], ["mail.example.org."]],
    ["a CNAME takes the place of an address", [address], [alias], [alias], ["mail.example.org."]],
    ["a CNAME gets another target", [alias], [recordOf("mail", "CNAME", "b")], [recordOf("mail", "CNAME", "b")], []],
    ["something else goes", [recordOf("mail", "TXT", "x")], [], [], []],
  ])("%s", (_, deleted, added, after, expected) => {
    const touched = new Map([[address.owner.key, after]]);
    expect(alteredTargets({ deleted, added }, touched).map(formatDomainName)).toEqual(expected);
  });
});

describe("digestWarnings", () => {
  const digest = (serial: number, scheme = 1) => recordOf("@", "ZONEMD", `${serial} ${scheme} 1 ${"AB".repeat(48)}`);

  it.each([
    ["no digest", false, [recordOf("@", "NS", "ns1")], []],
    ["one of the serial", false, [digest(4_294_967_295)], []],
    ["one of another", false, [digest(6)], ["digest-outdated"]],
    ["one of several of the serial", false, [digest(6), digest(4_294_967_295, 240)], []],
    ["one below the apex, which is of no zone", false, [recordOf("sub", "ZONEMD", `6 1 1 ${"AB".repeat(48)}`)], []],
    ["one of the serial in a zone that is signed here", true, [digest(4_294_967_295)], ["digest-of-signed"]],
  ])("%s", (_, signed, records, expected) => {
    expect(digestWarnings({ apex, signed }, 4_294_967_295, records).map(({ code }) => code)).toEqual(expected);
  });
});
