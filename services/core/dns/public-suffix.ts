import { getDomain, getPublicSuffix } from "tldts";
import { ancestorOf, type DomainName, formatDomainName } from "./name.ts";

/** Names are judged as they are: underscores and asterisks included, digits never as an address. */
const OPTIONS = {
  allowIcannDomains: true,
  allowPrivateDomains: true,
  detectIp: false,
  extractHostname: false,
  mixedInputs: false,
  validateHostname: false,
} as const;

/** Nibbles of a /32, the shortest prefix that registries usually give to one party (RIPE-738 §5.1). */
const LEAST_NIBBLES = 8;

/** What reverse names of IPv6 end in (RFC 3596 §2.5), as {@link formatDomainName} has it. */
const IPV6_REVERSE = "ip6.arpa.";

/**
 * Whether names below this one belong to different parties: it is in the Public Suffix List (ICANN and private parts,
 * wildcards and exceptions, as the installed release of `tldts` has it), or has one label, listed or not. Of reverse names
 * `in-addr.arpa` and `ip6.arpa` are, as listed, and those of IPv6 prefixes shorter than a /32: such hold many parties'.
 * @see https://publicsuffix.org/list/
 */
export function isPublicSuffix(name: DomainName): boolean {
  if (name.labelCount <= 1) return true;
  if (isShortReverse(name)) return true;
  const text = formatDomainName(name).toLowerCase().slice(0, -1);
  return getPublicSuffix(text, OPTIONS) === text;
}

/**
 * What one party has registered: the public suffix of a host and one label more.
 * @param host as A-labels, in lower case
 * @returns undefined for a public suffix itself
 */
export function registrableDomain(host: string): string | undefined {
  return getDomain(host, OPTIONS) ?? undefined;
}

function isShortReverse(name: DomainName): boolean {
  const nibbles = name.labelCount - 2;
  return nibbles < LEAST_NIBBLES && formatDomainName(ancestorOf(name, 2)).toLowerCase() === IPV6_REVERSE;
}
