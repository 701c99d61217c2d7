import { ok, type Result, refuse } from "../../result.ts";
import { type Sentence, sentence } from "../../sentences.ts";
import { parseIpv4, parseIpv6 } from "../ip-address.ts";
import { type DomainName, labelsOf, nameFromLabels, parseDomainName, toAscii } from "../name.ts";
import { TYPE } from "../rr-types.ts";
import { MasterFileReader } from "../zone-file/reader.ts";
import { decodeRpzRule, RPZ_TTL_SECONDS, type RpzAction, type RpzTrigger, whyMarked } from "./rules.ts";

/** Formats that rules can be imported from. */
export type RpzImportFormat = "rpz" | "hosts" | "domains";

/** A rule of an imported file, or why a line was rejected; lines count from 1. */
export type ImportedLine =
  | { readonly line: number; readonly rules: readonly ImportedRule[] }
  | { readonly line: number; readonly reason: Sentence };

export interface ImportedRule {
  readonly trigger: RpzTrigger;
  readonly action: RpzAction;
}

/**
 * Reads rules out of a file line by line; lines without a rule are passed over, bad ones do not stop good ones.
 * `rpz`: a policy zone in master file format, its apex its SOA's owner, else the feed's. `hosts`: an address that
 * stands for nothing, and names; names of the host itself are passed over, but for localhost. `domains`: a name a line,
 * blocked together with everything below it.
 * @param feedApex apex of the zone that the rules are for
 */
export function readRpzRules(text: string, format: RpzImportFormat, feedApex: DomainName): Iterable<ImportedLine> {
  if (format === "rpz") return readPolicyZone(text, feedApex);
  return readLines(text, format === "hosts" ? readHostsLine : readDomainsLine);
}

const BLOCK: RpzAction = { kind: "nxdomain" };

function* readPolicyZone(text: string, feedApex: DomainName): Generator<ImportedLine> {
  const reader = new MasterFileReader(text, { origin: feedApex, defaultTtlSeconds: RPZ_TTL_SECONDS });
  let apex = feedApex;
  for (const next of reader.records()) {
    if (!next.ok) {
      const { line, column } = next.error;
      yield { line, reason: sentence("file-column", { column, reason: next.error }) };
      continue;
    }
    const { record, position } = next.value;
    if (record.type === TYPE.SOA) apex = record.owner;
    // The zone's own SOA and NS say nothing to those who apply it.
    if (record.type === TYPE.SOA || (record.type === TYPE.NS && record.owner.key === apex.key)) continue;
    const rule = decodeRpzRule(record, apex);
    yield rule.ok ? { line: position.line, rules: [rule.value] } : { line: position.line, reason: rule.error };
  }
}

function* readLines(
  text: string,
  readLine: (words: readonly string[]) => Result<ImportedRule[], Sentence>,
): Generator<ImportedLine> {
  let line = 0;
  for (let start = 0; start < text.length; ) {
    const newline = text.indexOf("\n", start);
    const end = newline < 0 ? text.length : newline;
    line += 1;
    const words = wordsOf(text.slice(start, end));
    start = end + 1;
    if (words.length === 0) continue;
    const rules = readLine(words);
    yield rules.ok ? { line, rules: rules.value } : { line, reason: rules.error };
  }
}

/** The words of a line up to a comment. */
function wordsOf(line: string): string[] {
  return line
    .replace(/^\ufeff/, "")
    .replace(/[#;].*$/s, "")
    .split(/\s+/)
    .filter((word) => word !== "");
}

/** What every hosts file has beside localhost for the host itself (hosts(5)): no list of names to block. */
const HOST_NAMES = new Set([
  "localhost.localdomain",
  "localhost4",
  "localhost4.localdomain4",
  "localhost6",
  "localhost6.localdomain6",
  "local",
  "broadcasthost",
  "ip6-localhost",
  "ip6-loopback",
  "ip6-localnet",
  "ip6-mcastprefix",
  "ip6-allnodes",
  "ip6-allrouters",
  "ip6-allhosts",
  "0.0.0.0",
]);

function readHostsLine([address, ...all]: readonly string[]): Result<ImportedRule[], Sentence> {
  const names = all.filter((name) => !HOST_NAMES.has(name.toLowerCase()));
  if (all.length > 0 && names.length === 0) return ok([]);
  if (!isSink(address!)) return refuse(sentence("no-sink", { text: address! }));
  if (names.length === 0) return refuse(sentence("line-without-name"));
  const rules: ImportedRule[] = [];
  for (const text of names) {
    const name = readBlockedName(text);
    if (!name.ok) return name;
    rules.push(blockRule(name.value));
  }
  return ok(rules);
}

function readDomainsLine([text, ...extra]: readonly string[]): Result<ImportedRule[], Sentence> {
  if (extra.length > 0) return refuse(sentence("more-than-a-name", { text: extra[0]! }));
  const name = readBlockedName(text!);
  if (!name.ok) return name;
  const below = nameFromLabels([Uint8Array.of(ASTERISK), ...labelsOf(name.value)]);
  return below.ok
    ? ok([blockRule(name.value), blockRule(below.value)])
    : refuse(sentence("for-name", { name: `*.${text}`, reason: below.error }));
}

const ASTERISK = 0x2a;

function blockRule(name: DomainName): ImportedRule {
  return { trigger: { kind: "qname", name }, action: BLOCK };
}

/** A name to block; addresses, URLs and patterns are refused. */
function readBlockedName(text: string): Result<DomainName, Sentence> {
  const ascii = toAscii(text);
  const isPlain = ascii.ok && PLAIN_NAME.test(ascii.value) && parseIpv4(ascii.value) === undefined;
  const name = isPlain ? parseDomainName(ascii.value) : undefined;
  if (!name?.ok) return refuse(sentence("no-domain-name", { text }));
  const marked = whyMarked(name.value, text);
  return marked ? refuse(marked) : name;
}

/** Labels of letters, digits, hyphens and underscores. */
const PLAIN_NAME = /^(?:[a-z0-9_-]+\.)*[a-z0-9_-]+\.?$/i;

/** Whether the address is one that blocklists give to names that should lead nowhere. */
function isSink(text: string): boolean {
  const octets = parseIpv4(text) ?? parseIpv6(text);
  if (octets === undefined) return false;
  const isLoopback4 = octets.length === 4 && octets[0] === 127;
  const isUnspecifiedOrLoopback = octets.slice(0, -1).every((octet) => octet === 0) && octets.at(-1)! <= 1;
  return isLoopback4 || isUnspecifiedOrLoopback;
}
