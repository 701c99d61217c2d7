import { describe, expect, it } from "vitest";
import { formatDomainName } from "../../../../../services/core/dns/name.ts";
import { formatRdata } from "../../../../../services/core/dns/rdata/rdata.ts";
import type { ResourceRecord } from "../../../../../services/core/dns/record.ts";
import { typeMnemonic } from "../../../../../services/core/dns/rr-types.ts";
import { formatZoneFile, parseZoneFile, type ZoneFile } from "../../../../../services/core/dns/zone-file/zone-file.ts";
import { inWords } from "../../../../support/said.ts";
import { accepted, nameOf } from "../support.ts";

const origin = nameOf("example.org.");

function parse(text: string): ZoneFile {
  return accepted(parseZoneFile(text, { origin, defaultTtlSeconds: 777 }));
}

function lineOf({ owner, ttl, type, rdata }: ResourceRecord): string {
  return `${formatDomainName(owner)} ${ttl} ${typeMnemonic(type)} ${formatRdata(type, rdata)}`;
}

describe("parseZoneFile", () => {
  it("reads directives, parentheses, comments, blank owners, units and unknown types", () => {
    const file = parse(
      `; a zone
$TTL 1h30m
$ORIGIN example.org.
@	IN	SOA	ns1 hostmaster (
		2026112000 ; serial
		2h 15m 2w 5m )
		NS	ns1
		NS	ns2.example.net.
ns1	600	IN	A	192.0.2.1
	IN	600	AAAA	2001:db8::1
$ORIGIN sub
www	CNAME	@
$ORIGIN sub.example.org.
x	TYPE65280	\\# 4 0102 (
	0304 )

txt	TXT	"a;b" c ; d
	TXT	( "on"
		"two lines" )
`,
    );
    expect(file.soa && lineOf(file.soa)).toBe(
      "example.org. 5400 SOA ns1.example.org. hostmaster.example.org. 2026112000 7200 900 1209600 300",
    );
    expect(file.ttlSeconds).toBe(5400);
    expect(file.warnings).toEqual([]);
    expect(file.records.map(lineOf)).toEqual([
      "example.org. 5400 NS ns1.example.org.",
      "example.org. 5400 NS ns2.example.net.",
      "ns1.example.org. 600 A 192.0.2.1",
      "ns1.example.org. 600 AAAA 2001:db8::1",
      "www.sub.example.org. 5400 CNAME sub.example.org.",
      "x.sub.example.org. 5400 TYPE65280 \\# 4 01020304",
      'txt.sub.example.org. 5400 TXT "a;b" "c"',
      'txt.sub.example.org. 5400 TXT "on" "two lines"',
    ]);
  });

  it.each([
    ["with CRLF", "a 60 A 192.0.2.1\r\nb 60 A 192.0.2.2\r\n"],
    ["without a final line end", "a 60 A 192.0.2.1\nb 60 A 192.0.2.2"],
    ["with a byte order mark", "\ufeffa 60 A 192.0.2.1\nb 60 A 192.0.2.2\n"],
    ["with quoted owners", '"a" 60 A 192.0.2.1\n"b.example.org." 60 A 192.0.2.2'],
    ["in lower case", "a 60 in a 192.0.2.1\nb 60 Class1 type1 192.0.2.2\n"],
  ])("reads a file %s", (_, text) => {
    expect(parse(text).records.map(lineOf)).toEqual(["a.example.org. 60 A 192.0.2.1", "b.example.org. 60 A 192.0.2.2"]);
  });

  it.each([
    ["of the caller", "a A 192.0.2.1", 777],
    ["of $TTL", "$TTL 60\na A 192.0.2.1", 60],
    ["of $TTL, whatever went before (RFC 2308 §4)", "$TTL 60\nz 5 A 192.0.2.9\na A 192.0.2.1", 60],
    ["of the record before, without $TTL (RFC 1035 §5.1)", "z 5 A 192.0.2.9\na A 192.0.2.1", 5],
    ["of the SOA's minimum, without $TTL", "@ SOA a b 1 2 3 4 99\na A 192.0.2.1", 99],
    ["of the SOA, without $TTL", "@ 42 SOA a b 1 2 3 4 99\na A 192.0.2.1", 42],
    ["of its own", "$TTL 60\na 0 A 192.0.2.1", 0],
    ["of 2^31 − 1", "a 2147483647 A 192.0.2.1", 2_147_483_647],
  ])("gives a record the TTL %s", (_, text, expected) => {
    expect(parse(text).records.at(-1)?.ttl).toBe(expected);
  });

  it("counts a repeated record once, and says so", () => {
    const file = parse("a 60 A 192.0.2.1\nA.EXAMPLE.ORG. 90 A 192.0.2.1\nb 60 NS Host\nb 60 NS host\n");
    expect(file.records).toHaveLength(2);
    expect(inWords(file.warnings)).toEqual([
      "line 2: duplicated record A.EXAMPLE.ORG. A",
      "line 4: duplicated record b.example.org. NS",
    ]);
  });

  it("counts the SOA with which a transfer ends as the one with which it begins", () => {
    const file = parse("@ 60 SOA a b 1 2 3 4 5\nb 60 NS host\n@ 60 SOA a b 1 2 3 4 5\n");
    expect(file.records).toHaveLength(1);
    expect(inWords(file.warnings)).toEqual(["line 3: duplicated record example.org. SOA"]);
  });

  it("gives an RRset the TTL of its first record, and says so", () => {
    const file = parse("a 60 A 192.0.2.1\na 90 A 192.0.2.2\n");
    expect(file.records.map(({ ttl }) => ttl)).toEqual([60, 60]);
    expect(inWords(file.warnings)).toEqual(["line 2: TTL 90 of a.example.org. A set to that of its RRset, 60"]);
  });

  it.each([
    ["$INCLUDE /etc/passwd", 1, 1, "$INCLUDE is not allowed"],
    ["$include x", 1, 1, "$INCLUDE is not allowed"],
    ["$NOPE x", 1, 1, "not a directive"],
    ["$TTL", 1, 1, "needs an argument"],
    ["$TTL x", 1, 6, "not a TTL"],
    ["$TTL 2147483648", 1, 6, "not a TTL"],
    ["$ORIGIN a..b", 1, 9, "empty label"],
    ["$ORIGIN a. b", 1, 12, "more than $ORIGIN takes"],
    ["a 60 A 192.0.2.300", 1, 8, "A address: 192.0.2.300 is not an IPv4 address"],
    ["a 60 A 192.0.2.1\n\nb 60 MX 10", 3, 9, "MX exchange: is missing"],
    ["a 60 MX 10 mail..test", 1, 12, "empty label"],
    ["a 60 MX (\n  10\n  mail..test )", 3, 3, "empty label"],
    ["a 60", 1, 3, "no type"],
    ["a", 1, 1, "no type"],
    ["a 60 NOPE x", 1, 6, "NOPE is not a record type"],
    ["a 60 ANY x", 1, 6, "not a type of data"],
    ["a 60 OPT \\# 0", 1, 6, "not a type of data"],
    ["a 60 CH A 192.0.2.1", 1, 6, "only IN"],
    ["a 4294967296 A 192.0.2.1", 1, 3, "not a TTL"],
    ["a 2147483648 A 192.0.2.1", 1, 3, "not a TTL"],
    [" 60 A 192.0.2.1", 1, 2, "no owner"],
    ['"a b" 60 A 192.0.2.1', 1, 1, "needs an escape"],
    ['"" 60 A 192.0.2.1', 1, 1, "empty"],
    ['"$ORIGIN" x', 1, 11, "not a record type"],
    ['a "A" 192.0.2.1', 1, 3, "not a record type"],
    ["a..b 60 A 192.0.2.1", 1, 1, "empty label"],
    ["other.test. 60 A 192.0.2.1", 1, 1, "outside the zone"],
    ["a 60 SOA a b 1 2 3 4 5", 1, 1, "at the apex only"],
    ["@ 60 SOA a b 1 2 3 4 5\n@ 60 SOA a b 2 2 3 4 5", 2, 1, "second SOA"],
    ["a 60 TXT ( x", 1, 10, "never closed"],
    ["a 60 TXT x )", 1, 12, "not opened"],
    ['a 60 TXT "x\n"', 1, 10, "never closed"],
    ["a 60 TXT x\\\nb", 1, 10, "end of a line"],
    [`a 60 TXT "${"x".repeat(256)}"`, 1, 10, "256 octets"],
  ])("refuses %j at line %d, column %d", (text, line, column, message) => {
    expect(parseZoneFile(text, { origin })).toMatchObject({
      ok: false,
      error: { line, column, message: expect.stringContaining(message) },
    });
  });

  it.each([
    ["records", { records: 2, octets: 1_000 }, "the zone has more than 2 records"],
    ["octets", { records: 9, octets: 58 }, "the zone is larger than 58 octets"],
  ])("refuses more %s than it may come to", (_, bounds, message) => {
    const read = (text: string) => parseZoneFile(text, { origin, bounds });
    const text = "a 60 A 192.0.2.1\na 60 A 192.0.2.1\nb 60 A 192.0.2.1\n";
    expect(read(text).ok).toBe(true);
    expect(read(`${text}c 60 A 192.0.2.1`)).toMatchObject({ ok: false, error: { line: 4, message } });
  });

  it.each([
    ["a word of \\DDD", `a 60 TXT ${"\\000".repeat(2_000_000)}`],
    ["a word of escaped backslashes", "\\\\".repeat(4_000_000)],
    ["a quoted string", `a 60 TXT "${"\\000".repeat(2_000_000)}"`],
    ["a quoted string without an end", `a 60 TXT "${"x".repeat(8_000_000)}`],
    ["words between parentheses", `a 60 TXT (${" x\n".repeat(3_000_000)})`],
    ["parentheses", "(".repeat(8_000_000)],
    ["a $GENERATE", `$GENERATE 0-65535 a$ TXT ${"$".repeat(8_000_000)}`],
  ])("refuses an entry that is longer than any record: %s", (_, entry) => {
    expect(parseZoneFile(`b 60 A 192.0.2.1\n${entry}\n`, { origin })).toMatchObject({
      ok: false,
      error: { line: 2, column: 1, message: "the entry is longer than 300000 characters" },
    });
  });

  it("reads the longest record with every octet escaped, on lines with comments", () => {
    const string = `"${"\\000".repeat(255)}"`;
    const strings = `${string} ; ${"a comment ".repeat(100)}\n`.repeat(255);
    const { records } = parse(`a 60 TXT (\n${strings} "${"\\000".repeat(254)}" )\nb 60 A 192.0.2.1`);
    expect(records.map(({ rdata }) => rdata.length)).toEqual([65_535, 4]);
  });

  it.each([
    ["x".repeat(250_000), `${"x".repeat(300)}…`],
    [`${"x".repeat(299)}😀 and more`.replaceAll(" ", "_"), `${"x".repeat(299)}…`],
    ["x".repeat(300), "x".repeat(300)],
  ])("says the beginning of a long word", (word, said) => {
    const message = `A address: ${said} is not an IPv4 address`;
    expect(parseZoneFile(`a 60 A ${word}`, { origin })).toMatchObject({ ok: false, error: { message } });
  });

  it("refuses a record that has no TTL from anywhere", () => {
    expect(parseZoneFile("a A 192.0.2.1", { origin })).toMatchObject({ ok: false, error: { line: 1 } });
  });
});

describe("$GENERATE", () => {
  it.each([
    ["1-3 host$ A 192.0.2.$", ["host1 A 192.0.2.1", "host2 A 192.0.2.2", "host3 A 192.0.2.3"]],
    ["0-4/2 h$ 60 IN CNAME $.0", ["h0 CNAME 0.0", "h2 CNAME 2.0", "h4 CNAME 4.0"]],
    [`1-1 h\${10,4,d} A 192.0.2.1`, ["h0011 A 192.0.2.1"]],
    [`26-26 h\${0,3,x}-\${0,0,X}-\${0,0,o} A 192.0.2.1`, ["h01a-1A-32 A 192.0.2.1"]],
    [`18-18 \${0,3,n} PTR h$`, ["2.1 PTR h18"]],
    [`18-18 \${0,4,n}r PTR h$`, ["2.1.r PTR h18"]],
    [`18-18 \${0,6,N}r PTR h$`, ["2.1.0.r PTR h18"]],
    [`18-18 \${0,2,n} PTR h$`, ["2.1 PTR h18"]],
    [`5-5 h\${-5} A 192.0.2.1`, ["h0 A 192.0.2.1"]],
    ['1-1 h$ MX "10 mail$"', ["h1 MX 10 mail1"]],
    ['1-1 h$ TXT "number $ of 1"', ['h1 TXT "number" "1" "of" "1"']],
    ['1-1 h$ TXT "\\"number $ of\\" \\"1\\""', ['h1 TXT "number 1 of" "1"']],
    ['1-1 h$ TXT "a\\;$\\\\ $$;c"', ['h1 TXT "a;1\\\\" "$"']],
    ['1-1 h$ TXT "number $" "of 1"', ['h1 TXT "number 1" "of 1"']],
    ['1-1 h$ HINFO A "x y"', ['h1 HINFO "A" "x y"']],
    ['1-1 h$ CAA "0 issue \\"ca$.test\\""', ['h1 CAA 0 issue "ca1.test"']],
    ['1-1 h$ HTTPS "1 . key66$=\\"h $\\""', ['h1 HTTPS 1 . key661="h 1"']],
    ["1-1 h$ TXT cost$$", ['h1 TXT "cost$"']],
    ["1-1 h\\$$ A 192.0.2.1", ["h\\$1 A 192.0.2.1"]],
  ])("%s", (text, expected) => {
    const lines = parse(`$TTL 60\n$GENERATE ${text}`).records.map(lineOf);
    const absolute = expected.map(
      (line) => accepted(parseZoneFile(line, { origin, defaultTtlSeconds: 60 })).records.map(lineOf)[0],
    );
    expect(lines).toEqual(absolute);
  });

  it.each([
    ["3-1 h$ A 192.0.2.1", "range"],
    ["x h$ A 192.0.2.1", "range"],
    ["1-3/0 h$ A 192.0.2.1", "range"],
    ["1-3 h$", "owner, a type and data"],
    ['1-3 h$ TXT ""', "TXT text: is missing"],
    ['1-3 h$ TXT "\\""', "never closed"],
    ['1-3 h$ TXT "a)"', "not opened"],
    [`1-3 h\${a} A 192.0.2.1`, "offset,width,base"],
    [`1-3 h\${-2} A 192.0.2.1`, "offset,width,base"],
    ["1-300 h$ A 192.0.2.$", "192.0.2.256 is not an IPv4 address"],
    ["0-65536 h$ A 192.0.2.1", "65536 records"],
    ["0-4294967295 h$ A 192.0.2.1", "range"],
  ])("refuses %s", (text, message) => {
    expect(parseZoneFile(`$TTL 60\n$GENERATE ${text}`, { origin })).toMatchObject({
      ok: false,
      error: { line: 2, message: expect.stringContaining(message) },
    });
  });

  it("leaves a record without owner that follows to the one before it", () => {
    const { records } = parse("$TTL 60\na A 192.0.2.1\n$GENERATE 1-2 h$ A 192.0.2.1\n  TXT x\nh2 A 192.0.2.2");
    expect(records.map(lineOf).slice(-2)).toEqual(parse('$TTL 60\na TXT "x"\nh2 A 192.0.2.2').records.map(lineOf));
    expect(parseZoneFile("$TTL 60\n$GENERATE 1-2 h$ A 192.0.2.1\n  TXT x", { origin })).toMatchObject({
      ok: false,
      error: { line: 3, message: "the record has no owner" },
    });
  });

  it("is capped over all directives, and can be refused", () => {
    const twice = "$TTL 60\n$GENERATE 1-6 a$ A 192.0.2.1\n$GENERATE 1-6 b$ A 192.0.2.1";
    expect(parseZoneFile(twice, { origin, maxGenerated: 12 }).ok).toBe(true);
    expect(parseZoneFile(twice, { origin, maxGenerated: 11 }).ok).toBe(false);
    expect(parseZoneFile(twice, { origin, maxGenerated: 0 }).ok).toBe(false);
  });
});

describe("formatZoneFile", () => {
  const text = `$TTL 300
@ 3600 SOA ns1 hostmaster 7 7200 900 1209600 300
@ NS ns1
z.a 60 TXT "one" "two; three" "\\"quoted\\" \\\\ \\255"
\\@.b A 192.0.2.10
\\$x A 192.0.2.9
a\\.b A 192.0.2.8
NS1 A 192.0.2.2
NS1 A 192.0.2.1
*.w CNAME ns1
@ MX 10 ns1
a TYPE65280 \\# 3 010203
m MB ns1
`;
  const file = parse(text);
  const written = formatZoneFile({ apex: origin, soa: file.soa!, records: file.records, ttl: 3600 });

  it("is in canonical order, with explicit TTLs", () => {
    expect(written).toBe(`$ORIGIN example.org.
$TTL 3600
@	3600	IN	SOA	ns1.example.org. hostmaster.example.org. 7 7200 900 1209600 300
@	300	IN	NS	ns1.example.org.
@	300	IN	MX	10 ns1.example.org.
\\$x	300	IN	A	192.0.2.9
a	300	IN	TYPE65280	\\# 3 010203
z.a	60	IN	TXT	"one" "two; three" "\\"quoted\\" \\\\ \\255"
a\\.b	300	IN	A	192.0.2.8
\\@.b	300	IN	A	192.0.2.10
m	300	IN	TYPE7	\\# 17 036E7331076578616D706C65036F726700
NS1	300	IN	A	192.0.2.1
NS1	300	IN	A	192.0.2.2
*.w	300	IN	CNAME	ns1.example.org.
`);
  });

  it("reads back as the same zone, and writes the same octets again, whatever the order", () => {
    const again = parse(written);
    expect([...again.records].map(lineOf).sort()).toEqual([...file.records].map(lineOf).sort());
    const reversed = [...again.records].reverse();
    expect(formatZoneFile({ apex: origin, soa: again.soa!, records: reversed, ttl: again.ttlSeconds! })).toBe(written);
  });

  it("writes names, tags and types as every reader takes them, and reads them back", () => {
    const zone = parse(`$TTL 300
@ SOA ns1 john+dns 7 7200 900 1209600 300
a=b,c MX 10 d~e
a CAA 0 ISSUE "x"
a CSYNC 0 0 A AMTRELAY
a RP f#g a\\.b\\;
`);
    const exported = formatZoneFile({ apex: origin, soa: zone.soa!, records: zone.records, ttl: 300 });
    expect(exported).toBe(`$ORIGIN example.org.
$TTL 300
@	300	IN	SOA	ns1.example.org. john\\+dns.example.org. 7 7200 900 1209600 300
a	300	IN	RP	f\\035g.example.org. a\\.b\\;.example.org.
a	300	IN	CSYNC	0 0 A TYPE260
a	300	IN	CAA	\\# 8 0005495353554578
a\\=b\\,c	300	IN	MX	10 d\\~e.example.org.
`);
    expect(parse(exported).records.map(lineOf).sort()).toEqual(zone.records.map(lineOf).sort());
  });
});

describe("positions", () => {
  it("say where each record stands, the SOA too", () => {
    const file = parse("\n@ SOA ns1 h 1 2 3 4 5\n  NS ns1\nwww A 192.0.2.1\n A 192.0.2.2");
    expect(file.positions.get(file.soa!)).toEqual({ line: 2, column: 1 });
    expect(file.records.map((record) => file.positions.get(record))).toEqual([
      { line: 3, column: 3 },
      { line: 4, column: 1 },
      { line: 5, column: 2 },
    ]);
  });
});
