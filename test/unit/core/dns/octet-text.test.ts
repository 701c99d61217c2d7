import { expect, it } from "vitest";
import { octetsOfText, quotedText } from "../../../../services/core/dns/octet-text.ts";

const ALL = Uint8Array.from({ length: 256 }, (_, octet) => octet);
const PRINTABLE = ALL.filter((octet) => octet >= 0x20 && octet < 0x7f);
const PLAIN = PRINTABLE.filter((octet) => octet !== 0x22 && octet !== 0x5c);

it.each<[string, Uint8Array, string]>([
  ["nothing", new Uint8Array(), '""'],
  ["few plain octets", Buffer.from("v=spf1 -all"), '"v=spf1 -all"'],
  ["few octets with escapes", Buffer.from('a"b\\c\n'), '"a\\"b\\\\c\\010"'],
  ["many plain octets", PLAIN, `"${Buffer.from(PLAIN)}"`],
  [
    "many octets of which one is escaped",
    Buffer.concat([PLAIN, Uint8Array.of(0x22)]),
    `"${Buffer.from(PLAIN).toString()}\\""`,
  ],
  ["a part of a larger array", Buffer.from(`"${"x".repeat(40)}"`).subarray(1, 41), `"${"x".repeat(40)}"`],
])("quotes %s", (_, octets, text) => expect(quotedText(octets)).toBe(text));

it.each([...ALL])("octet %i is read back, among few and among many", (octet) => {
  for (const others of [0, 100]) {
    const octets = Buffer.concat([Buffer.alloc(others, "x"), Uint8Array.of(octet), Buffer.alloc(others, "y")]);
    expect(octetsOfText(quotedText(octets).slice(1, -1))).toEqual(octets);
    expect(quotedText(octets)).toMatch(/^"[ -~]*"$/);
  }
});

it.each<[string, Uint8Array | undefined]>([
  ["é\\233é", Buffer.concat([Buffer.from("é"), Uint8Array.of(233), Buffer.from("é")])],
  ['\\\\\\000\\"', Buffer.from('\\\0"')],
  ["\ud800\\255", Buffer.concat([Buffer.from("\ufffd"), Uint8Array.of(255)])],
  ["a\\", undefined],
  ["a\\256", undefined],
  ["a\\12", undefined],
  ["a\\é", undefined],
])("reads %j", (text, octets) => expect(octetsOfText(text)).toEqual(octets));
