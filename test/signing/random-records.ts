import { nsec3Hash } from "../../services/core/dns/dnssec/denial.ts";
import { ancestorOf, type DomainName, isWildcard, parseDomainName } from "../../services/core/dns/name.ts";
import { formatBase32Hex } from "../../services/core/dns/rdata/encoded-fields.ts";
import { parseRdata } from "../../services/core/dns/rdata/rdata.ts";
import { type ResourceRecord, recordIdentity, rrsetKey } from "../../services/core/dns/record.ts";
import { TYPE, typeCode } from "../../services/core/dns/rr-types.ts";
import type { RecordDraft } from "../../services/core/dns/zone-edit.ts";
import type { Random } from "./random.ts";

/** Few labels, so that names meet: of either case, with escapes, wildcards, and what sorts before and after all. */
const LABELS = ["a", "b", "c", "A", "B", "*", "www", "_sip", "\\000", "\\255", "x\\.y", "z9", "1", "-"];
/** From so many names on zones have names that are told apart by a number as well. */
const FEW_NAMES = 60;
const TTLS = [0, 60, 300, 300, 3_600, 7_200, 86_400];
const DIGEST = "0123456789ABCDEF".repeat(4);

const TYPES: readonly (readonly [number, string])[] = [
  [22, "A"],
  [5, "AAAA"],
  [10, "TXT"],
  [5, "MX"],
  [10, "NS"],
  [6, "DS"],
  [6, "CNAME"],
  [4, "DNAME"],
  [3, "CAA"],
  [3, "SRV"],
  [2, "TYPE65400"],
];

const NOT_AT_APEX = ["DS", "CNAME", "DNAME"];
/** RFC 4592 §4.2, §4.4: what these mean there nobody says, and BIND loads no zone with them. */
const NOT_AT_WILDCARDS = ["NS", "DNAME"];

/** A name of the zone: of those that are there, above or below one of them, new, or the hash of another. */
export function randomName(
  random: Random,
  apex: DomainName,
  { owners, size }: { readonly owners: readonly DomainName[]; readonly size: number },
): DomainName {
  const kind = random.below(100);
  const known = owners.length > 0 ? random.pick(owners) : apex;
  if (kind < 25) return known;
  if (kind < 35 && known.labelCount > apex.labelCount + 1) return ancestorOf(known, known.labelCount - 1);
  if (kind < 50) return below(known, random.pick(LABELS), apex);
  // What the NSEC3 of another name stands at.
  if (kind < 52) return below(apex, formatBase32Hex(nsec3Hash(known)), apex);
  const number = size > FEW_NAMES ? String(random.below(size)) : "";
  let name = below(apex, `${random.pick(LABELS).replace("*", number ? "h" : "*")}${number}`, apex);
  while (random.percent(30)) name = below(name, random.pick(LABELS), apex);
  return name;
}

function below(name: DomainName, label: string, apex: DomainName): DomainName {
  const parsed = parseDomainName(label, name);
  // Of names that would be too long the apex does.
  return parsed.ok ? parsed.value : apex;
}

/** What a record may become at a name. */
export function randomDraft(random: Random, owner: DomainName, apex: DomainName): RecordDraft {
  const mnemonic = random.weighted(TYPES);
  const unfit = owner.key === apex.key ? NOT_AT_APEX : isWildcard(owner) ? NOT_AT_WILDCARDS : [];
  const chosen = unfit.includes(mnemonic) ? "TXT" : mnemonic;
  const type = typeCode(chosen)!;
  const rdata = parseRdata(type, dataOf(random, chosen), apex, "value");
  if (!rdata.ok) throw new Error(`${chosen}: ${rdata.error.message}`);
  return { owner, type, ttl: random.percent(50) ? random.pick(TTLS) : undefined, rdata: rdata.value };
}

function dataOf(random: Random, mnemonic: string): string {
  const number = random.below(4);
  switch (mnemonic) {
    case "A":
      return `192.0.2.${number}`;
    case "AAAA":
      return `2001:db8::${number}`;
    case "MX":
      return `${number} mail.Example.NET.`;
    case "NS":
      return random.pick([`ns${number}.example.net.`, "ns.a", "a"]);
    case "DS":
      return `${number} 13 2 ${DIGEST}`;
    case "CNAME":
    case "DNAME":
      return random.pick(["elsewhere.test.", "a", "b.A"]);
    case "CAA":
      return `0 issue "ca${number}.test"`;
    case "SRV":
      return `0 ${number} 443 www`;
    case "TYPE65400":
      return `\\# 2 000${number}`;
    default:
      return `text ${number}`;
  }
}

/**
 * Makes a lawful zone of records: of what excludes each other the first stays, an RRset has the TTL of its first record.
 * Empty of NS at the apex it stays.
 */
export function lawful(records: readonly ResourceRecord[], apex: DomainName): ResourceRecord[] {
  const kept: ResourceRecord[] = [];
  const types = new Map<string, Set<number>>();
  const ttls = new Map<string, number>();
  const seen = new Set<string>();
  for (const record of records) {
    const { owner, type } = record;
    const there = types.get(owner.key) ?? new Set();
    const isApex = owner.key === apex.key;
    if (isExcluded(type, there, isApex) || (isApex && type === TYPE.DS)) continue;
    if (seen.has(recordIdentity(record))) continue;
    seen.add(recordIdentity(record));
    types.set(owner.key, there.add(type));
    const key = rrsetKey(owner, type);
    const ttl = ttls.get(key) ?? record.ttl;
    ttls.set(key, ttl);
    kept.push({ ...record, ttl });
  }
  return kept;
}

function isExcluded(type: number, there: ReadonlySet<number>, isApex: boolean): boolean {
  if (there.has(TYPE.CNAME) || (type === TYPE.CNAME && there.size > 0)) return true;
  if (!isApex && (type === TYPE.NS ? there.has(TYPE.DNAME) : type === TYPE.DNAME && there.has(TYPE.NS))) return true;
  return type === TYPE.DNAME && there.has(TYPE.DNAME);
}

/** Records of a zone of about so many names. */
export function randomZone(random: Random, apex: DomainName, size: number): ResourceRecord[] {
  const owners: DomainName[] = [];
  const ns = parseRdata(TYPE.NS, "ns.example.net.", apex, "value");
  if (!ns.ok) throw new Error(ns.error.message);
  const records: ResourceRecord[] = [{ owner: apex, type: TYPE.NS, ttl: 3_600, rdata: ns.value }];
  const keys = new Set<string>();
  // A few names are there already each time: so it ends, whatever is drawn.
  for (let tries = 0; keys.size < size && tries < 4 * size; tries += 1) {
    const owner = randomName(random, apex, { owners, size });
    if (!keys.has(owner.key)) owners.push(owner);
    keys.add(owner.key);
    const draft = randomDraft(random, owner, apex);
    // A cut high up would hide most of a large zone.
    const isRare = draft.type === TYPE.NS || draft.type === TYPE.DNAME;
    if (isRare && size > FEW_NAMES && owner.labelCount === apex.labelCount + 1 && random.percent(70)) continue;
    records.push({ ...draft, ttl: draft.ttl ?? random.pick(TTLS) });
  }
  return lawful(records, apex);
}
