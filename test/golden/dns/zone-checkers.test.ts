import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { isMetaType, RR_TYPES, TYPE, typeCode } from "../../../services/core/dns/rr-types.ts";
import { formatZoneFile, parseZoneFile, type ZoneFile } from "../../../services/core/dns/zone-file/zone-file.ts";
import { isInstalled } from "../../support/peers-processes.ts";
import { ROUND_TRIPS } from "../../unit/core/dns/rdata/presentation.ts";
import { accepted, nameOf } from "../../unit/core/dns/support.ts";

/** The programs by which other makers judge a master file, and how they are called for example.org. */
const CHECKERS: readonly (readonly [program: string, args: (file: string) => string[]])[] = [
  ["named-checkzone", (file) => ["-k", "ignore", "-i", "none", "example.org", file]],
  ["nsd-checkzone", (file) => ["example.org", file]],
  ["kzonecheck", (file) => ["-o", "example.org", file]],
];

/** Types that a zone cannot hold as they stand in the list: DNSSEC proofs without a signed zone, and data for the apex. */
const LEFT_OUT: ReadonlySet<number> = new Set([
  TYPE.SOA,
  TYPE.NULL,
  TYPE.RRSIG,
  TYPE.NSEC,
  TYPE.NSEC3,
  TYPE.NSEC3PARAM,
  TYPE.ZONEMD,
  TYPE.CDS,
  TYPE.CDNSKEY,
  TYPE.DNSKEY,
]);

const origin = nameOf("example.org.");
let folder: string;
let file: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "palomar-zone-"));
  file = join(folder, "example.org.zone");
  writeFileSync(file, zoneWithEveryType());
});

afterAll(() => rmSync(folder, { recursive: true }));

describe.each(CHECKERS)("an exported zone with every type, before %s", (program, args) => {
  const isThere = isInstalled(program);

  it.skipIf(!isThere)(`is accepted${isThere ? "" : ` (skipped: ${program} is not installed)`}`, () => {
    const run = spawnSync(program, args(file), { encoding: "utf8" });
    expect(`${run.stdout}${run.stderr}`).not.toMatch(/error|fail|not loaded/i);
    expect(run.status).toBe(0);
  });
});

const namedCompilezone = isInstalled("named-compilezone");

it.skipIf(!namedCompilezone)(
  `named-compilezone reads an export as the same zone${namedCompilezone ? "" : " (skipped: named-compilezone is not installed)"}`,
  () => {
    const compiled = join(folder, "compiled.zone");
    const args = ["-k", "ignore", "-i", "none", "-s", "full", "-o", compiled, "example.org", file];
    expect(spawnSync("named-compilezone", args).status).toBe(0);
    const cat = spawnSync("cat", [compiled], { encoding: "utf8" }).stdout;
    const theirs = accepted(parseZoneFile(cat, { origin }));
    const zone = { apex: origin, soa: theirs.soa!, records: theirs.records, ttl: 3600 };
    expect(formatZoneFile(zone)).toBe(zoneWithEveryType());
  },
);

/** What stands behind `$GENERATE 1-2 g$`. */
const GENERATED = [
  'TXT "say \\"hi $\\" end"',
  'TXT "plain $ two"',
  'TXT "\\"x y\\" \\"z $\\""',
  "TXT one$",
  'TXT word\\"$',
  "TXT a\\ $",
  'TXT "semi\\;colon $"',
  'TXT "a;$"',
  'TXT "back\\\\slash\\034 $"',
  'TXT "dollar \\$ $$ $"',
  'TXT "\\\\$a (b) ("',
  'TXT "\\\\\\$a\\\\;b"',
  'TXT ""',
  'TXT "\\""',
  'TXT "$)"',
  'HINFO "\\"a b\\" c$"',
  'CAA "0 issue \\"ca$.test\\""',
  'MX "10 ma\\.il$"',
  'TYPE65280 "\\# 1 0$"',
  'HTTPS "1 . alpn=\\"h$\\" key66$=\\"a b\\""',
];

it.skipIf(!namedCompilezone).each(GENERATED)("named-compilezone makes the same of $GENERATE with %s", (data) => {
  const lines = `$TTL 60\n@ SOA ns1.example.net. h 1 2 3 4 5\n@ NS ns1.example.net.\n$GENERATE 1-2 g$ ${data}\n`;
  const generated = join(folder, "generated.zone");
  writeFileSync(generated, lines);
  const args = ["-k", "ignore", "-i", "none", "-s", "full", "-o", "-", "example.org", generated];
  const run = spawnSync("named-compilezone", args, { encoding: "utf8" });
  const ours = parseZoneFile(lines, { origin });
  expect(ours.ok).toBe(run.status === 0);
  if (!ours.ok) return;
  const theirs = accepted(parseZoneFile(run.stdout, { origin }));
  const exportOf = ({ soa, records }: ZoneFile) => formatZoneFile({ apex: origin, soa: soa!, records, ttl: 60 });
  expect(exportOf(ours.value)).toBe(exportOf(theirs));
});

/** Data in several tokens, which we take as the fields of the record. */
const IN_TOKENS = [
  'HTTPS 1 . key66$="x"',
  'HTTPS 1 . "key66$=\\"x\\""',
  'TXT "a" b$',
  'TXT a$ "b c"',
  'TXT "" "a$"',
  'CAA 0 issue "ca$.test"',
  "SRV 0 0 $ host$",
];

it.skipIf(!namedCompilezone).each(IN_TOKENS)("named-compilezone makes nothing else of $GENERATE with %s", (data) => {
  const lines = `$TTL 60\n@ SOA ns1.example.net. h 1 2 3 4 5\n@ NS ns1.example.net.\n$GENERATE 1-2 g$ ${data}\n`;
  writeFileSync(join(folder, "generated.zone"), lines);
  const args = ["-k", "ignore", "-i", "none", "-o", "-", "example.org", join(folder, "generated.zone")];
  expect(spawnSync("named-compilezone", args).status).not.toBe(0);
  expect(parseZoneFile(lines, { origin }).ok).toBe(true);
});

/** A name for each case of the list, as we export it. */
function zoneWithEveryType(): string {
  // One case of the list delegates to ns1: Knot insists on glue for it.
  const lines = [
    "@ 3600 SOA ns1.example.net. dns+hostmaster 1 7200 900 1209600 300",
    "@ 3600 NS ns1.example.net.",
    "ns1 3600 A 192.0.2.1",
  ];
  ROUND_TRIPS.forEach(([type, text], index) => {
    const code = typeCode(type)!;
    if (!LEFT_OUT.has(code) && !isMetaType(code)) lines.push(`h${index} 3600 ${type} ${text}`);
  });
  // What RFC 1035 takes as it is and Knot in a name only behind a backslash.
  // By itself, or as the first of a label, it may mean more than a character: `[` to BIND, `#` to NSD and Knot.
  for (const character of "!#%&'+,:<=>?[]^`{|}~") {
    lines.push(`a${character}b 3600 CNAME c${character}d`);
    lines.push(`${character} 3600 CNAME ${character}.x.${character}.`, `${character}a 3600 CNAME ${character}a`);
  }
  // What NSD takes in numbers or octets alone: tags that are long or not in lower case, types younger than itself.
  lines.push(
    'tag 3600 CAA 0 ISSUE "x"',
    `tag 3600 CAA 0 ${"a".repeat(16)} "x"`,
    `tag 3600 CAA 0 ${"a".repeat(15)} "x"`,
  );
  // Lists of ALPN ids that Knot takes for lists with an empty item.
  lines.push('alpn 3600 SVCB 1 . alpn="h2,x,h3"', 'alpn 3600 HTTPS 1 . alpn="h2,\\\\,x"');
  lines.push(
    `types 3600 CSYNC 0 0 ${RR_TYPES.map(({ mnemonic }) => mnemonic)
      .filter(isData)
      .join(" ")}`,
  );
  const zone = accepted(parseZoneFile(lines.join("\n"), { origin }));
  return formatZoneFile({ apex: origin, soa: zone.soa!, records: zone.records, ttl: 3600 });
}

function isData(mnemonic: string): boolean {
  return !isMetaType(typeCode(mnemonic)!);
}
