import { describe, expect, it } from "vitest";
import {
  ancestorOf,
  type DomainName,
  domainNameFromWire,
  formatDomainName,
  formatRelative,
  isSubdomain,
  isWildcard,
  labelsOf,
  nameFromLabels,
  nameFromStoredWire,
  nameSortKey,
  parentOf,
  parseDomainName,
  ROOT,
  sameName,
  toAscii,
  withAncestors,
} from "../../../../services/core/dns/name.ts";
import { nameOf } from "./support.ts";

const apex = nameOf("example.org.");

describe("parseDomainName", () => {
  it.each([
    ["www", "www.example.org."],
    ["WWW", "WWW.example.org."],
    ["@", "example.org."],
    ["a.b", "a.b.example.org."],
    ["other.test.", "other.test."],
    [".", "."],
    ["*", "*.example.org."],
    ["_sip._tcp", "_sip._tcp.example.org."],
    ["a\\.b", "a\\.b.example.org."],
    ["a\\046b", "a\\.b.example.org."],
    ["\\065", "A.example.org."],
    ["\\000\\255", "\\000\\255.example.org."],
    ["\\@", "\\@.example.org."],
    ["a\\ b", "a\\032b.example.org."],
    ["münchen", "xn--mnchen-3ya.example.org."],
    ["faß.test.", "xn--fa-hia.test."],
    ["例。テスト.", "xn--fsq.xn--zckzah."],
  ])("%s below example.org. is %s", (text, expected) => {
    expect(formatDomainName(nameOf(text, apex))).toBe(expected);
  });

  it("takes a name without final dot for absolute where there is no origin", () => {
    expect(formatDomainName(nameOf("www.example.org"))).toBe("www.example.org.");
  });

  it.each([
    ["", /empty/],
    ["a..b", /empty label/],
    [".a", /empty label/],
    ["..", /empty label/],
    [`${"a".repeat(64)}.`, /longer than 63/],
    [`${"a".repeat(64)}`, /longer than 63/],
    [`${"abcdefg.".repeat(32)}`, /longer than 255/],
    ["\\000.".repeat(256), /longer than 255/],
    ["例".repeat(1_000_000), /longer than 255/],
    ["é.".repeat(1_000_000), /longer than 255/],
    ["a b", /blank/],
    ["a\tb", /blank/],
    ["a\u007fb", /blank/],
    ["\uff3c046", /international/],
    ["a\\", /backslash/],
    ["a\\25", /backslash/],
    ["a\\256", /backslash/],
    ["a\\é", /international|backslash/],
    ["é\\065", /international/],
  ])("refuses %s", (text, message) => {
    const parsed = parseDomainName(text, apex);
    expect(parsed).toMatchObject({ ok: false, error: { message: expect.stringMatching(message) } });
  });

  it("takes exactly 255 octets and refuses 256", () => {
    const label = "a".repeat(63);
    const longest = `${label}.${label}.${label}.${"b".repeat(61)}.`;
    expect(nameOf(longest).wire.length).toBe(255);
    expect(parseDomainName(`${label}.${label}.${label}.${"b".repeat(62)}.`).ok).toBe(false);
    expect(parseDomainName("b".repeat(50), nameOf(`${label}.${label}.${label}.`)).ok).toBe(true);
    expect(parseDomainName("b".repeat(62), nameOf(`${label}.${label}.${label}.`)).ok).toBe(false);
  });
});

describe("domainNameFromWire", () => {
  it("reads a name in the middle of octets", () => {
    const octets = Uint8Array.of(9, 1, 0x61, 2, 0x62, 0x63, 0, 7);
    const name = domainNameFromWire(octets, 1);
    expect(name.ok && formatDomainName(name.value)).toBe("a.bc.");
    expect(name.ok && name.value.wire).toEqual(Uint8Array.of(1, 0x61, 2, 0x62, 0x63, 0));
  });

  it.each([
    ["nothing", []],
    ["no root", [1, 0x61]],
    ["a label past the end", [5, 0x61, 0]],
    ["a pointer", [0xc0, 0]],
    ["label type 01", [0x41, 0]],
    ["label type 10", [0x81, 0]],
    [
      "more than 255 octets",
      Array.from({ length: 128 }, () => [1, 0x61])
        .flat()
        .concat(0),
    ],
  ])("refuses %s", (_, octets) => {
    expect(domainNameFromWire(Uint8Array.from(octets)).ok).toBe(false);
  });

  it("throws on a corrupt store", () => {
    expect(() => nameFromStoredWire(Uint8Array.of(5))).toThrow(/corrupt/);
  });
});

describe("relations between names", () => {
  it.each([
    ["www.example.org.", "example.org.", true],
    ["example.org.", "example.org.", true],
    ["EXAMPLE.org.", "example.ORG.", true],
    ["example.org.", ".", true],
    ["org.", "example.org.", false],
    ["notexample.org.", "example.org.", false],
    // The label "x\007example" ends in the octets of the wire form of "example".
    ["x\\007example.org.", "example.org.", false],
    ["example.net.", "example.org.", false],
  ])("%s is below %s: %s", (name, ancestor, expected) => {
    expect(isSubdomain(nameOf(name), nameOf(ancestor))).toBe(expected);
  });

  it("compares without regard to ASCII case, and to ASCII case only", () => {
    expect(sameName(nameOf("WwW.example.org."), nameOf("wWw.EXAMPLE.org."))).toBe(true);
    expect(sameName(nameOf("\\192.test."), nameOf("\\224.test."))).toBe(false);
  });

  it("walks up", () => {
    const name = nameOf("a.b.example.org.");
    expect(formatDomainName(parentOf(name)!)).toBe("b.example.org.");
    expect(parentOf(ROOT)).toBeUndefined();
    expect(ancestorOf(name, 2).key).toBe(apex.key);
    expect(ancestorOf(name, 9)).toBe(name);
    expect(ancestorOf(name, 0)).toBe(ROOT);
    expect(name.labelCount).toBe(4);
  });

  it("lists the name and those above it, the closest first", () => {
    const list = (text: string, end?: string) =>
      withAncestors(nameOf(text), end === undefined ? undefined : nameOf(end)).map(formatDomainName);
    expect(list("a.b.example.org.")).toEqual(["a.b.example.org.", "b.example.org.", "example.org.", "org."]);
    expect(list("a.b.example.org.", "example.org.")).toEqual(["a.b.example.org.", "b.example.org."]);
    expect([list("example.org.", "example.org."), list(".")]).toEqual([[], []]);
  });

  it("formats relative to the apex", () => {
    expect(formatRelative(apex, apex)).toBe("@");
    expect(formatRelative(nameOf("a.b.Example.org."), apex)).toBe("a.b");
    expect(formatRelative(nameOf("other.test."), apex)).toBe("other.test.");
    expect(formatRelative(nameOf("a.test."), ROOT)).toBe("a.test.");
  });

  it("takes names apart and puts them together", () => {
    const name = nameOf("a\\.b.c.");
    const again = nameFromLabels(labelsOf(name));
    expect(again.ok && again.value.key).toBe(name.key);
    expect(nameFromLabels([new Uint8Array(64)]).ok).toBe(false);
    expect(nameFromLabels([new Uint8Array(0)]).ok).toBe(false);
    expect(nameFromLabels(Array.from({ length: 128 }, () => Uint8Array.of(0x61))).ok).toBe(false);
  });

  it.each([
    ["*.example.org.", true],
    ["\\042.example.org.", true],
    ["*a.example.org.", false],
    ["a.*.example.org.", false],
    [".", false],
  ])("%s is a wildcard: %s", (name, expected) => {
    expect(isWildcard(nameOf(name))).toBe(expected);
  });
});

describe("canonical order", () => {
  const compare = (a: DomainName, b: DomainName) => Buffer.compare(nameSortKey(a.wire), nameSortKey(b.wire));

  // RFC 4034 §6.1 has this list.
  const ordered = [
    "example.",
    "a.example.",
    "yljkjljk.a.example.",
    "Z.a.example.",
    "zABC.a.EXAMPLE.",
    "z.example.",
    "\\001.z.example.",
    "*.z.example.",
    "\\200.z.example.",
  ].map((text) => nameOf(text));

  it("is that of RFC 4034 §6.1", () => {
    const shuffled = [...ordered].reverse();
    expect(shuffled.sort(compare).map(formatDomainName)).toEqual(ordered.map(formatDomainName));
  });

  it.each([
    ["\\000.a.", "\\000\\000.a."],
    ["\\000\\000.a.", "\\000\\001.a."],
    ["a.a.", "a\\000.a."],
    ["b.a.", "a.a\\000."],
    ["\\001.a.", "\\001\\000.a."],
  ])("%s sorts before %s", (first, second) => {
    expect(compare(nameOf(first), nameOf(second))).toBeLessThan(0);
    expect(compare(nameOf(second), nameOf(first))).toBeGreaterThan(0);
  });

  it("has sort keys in the form that the database holds", () => {
    expect(nameSortKey(ROOT.wire)).toEqual(new Uint8Array(0));
    expect(Buffer.from(nameSortKey(nameOf("B\\000\\001.a.").wire)).toString("hex")).toBe("6100620101010200");
  });
});

describe("toAscii", () => {
  it.each([
    ["bücher.example.org", "xn--bcher-kva.example.org"],
    ["_dmarc.BÜCHER.test.", "_dmarc.xn--bcher-kva.test."],
    ["*.bücher.test", "*.xn--bcher-kva.test"],
    ["WWW.example.org", "WWW.example.org"],
    ["a\\.b.bücher.test", "a\\.b.xn--bcher-kva.test"],
    ["a_b-ü.test", "xn--a_b--3ra.test"],
  ])("%s becomes %s", (text, expected) => {
    const ascii = toAscii(text);
    expect(ascii.ok && ascii.value).toBe(expected);
  });

  it.each(["a\u0378.test", "\u00ad.test", "\u200d.test"])("refuses what UTS #46 refuses: %j", (text) => {
    expect(toAscii(text).ok).toBe(false);
  });

  it("refuses what is longer than any name without looking at it", () => {
    expect(toAscii("例".repeat(1_000_000))).toMatchObject({ ok: false, error: { code: "name-too-long" } });
  });
});

it("keeps names apart that differ in one octet", () => {
  const names: DomainName[] = ["a.", "b.", "a.a.", "\\.."].map((text) => nameOf(text));
  expect(new Set(names.map(({ key }) => key)).size).toBe(4);
});
