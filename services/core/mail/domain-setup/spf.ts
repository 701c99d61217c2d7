/** Sender policies (RFC 7208): read, changed without losing anything, counted, and flattened on request. */
import { parseIpv4, parseIpv6 } from "../../dns/ip-address.ts";
import { ok, type Result, refuse } from "../../result.ts";
import { spfPolicies } from "../sender-records.ts";

/** A mechanism, or a modifier (RFC 7208 §4.6.1). */
interface SpfTerm {
  /** As it is written. */
  readonly text: string;
  /** Of a mechanism; a modifier has none. */
  readonly qualifier: "+" | "-" | "~" | "?" | undefined;
  /** Lower case: `include`, `redirect`. */
  readonly name: string;
  /** What stands behind `:` or `=`, with the prefix lengths; empty where nothing does. */
  readonly value: string;
}

/** What counting asks for; undefined where nobody answers. Names come without the final dot. */
export interface SpfLookups {
  texts(name: string): Promise<readonly string[] | undefined>;
  /** A and AAAA. */
  addresses(name: string): Promise<readonly string[] | undefined>;
  /** Names of the mail exchangers. */
  exchangers(name: string): Promise<readonly string[] | undefined>;
}

export type SpfFault =
  /** The text is no policy. */
  | "malformed"
  /** More than ten terms that need a look-up (RFC 7208 §4.6.4). */
  | "too-many-lookups"
  /** More than two look-ups that find nothing (the same). */
  | "too-many-voids"
  /** An included name has no policy, or several (§5.2). */
  | "no-policy-included"
  /** A policy includes itself. */
  | "loop"
  /** More than ten exchangers of one `mx` (§4.6.4). */
  | "too-many-exchangers";

/** What a policy costs a receiver that has to go through all of it. */
export interface SpfCost {
  /** Terms that need a look-up, with those of included policies. */
  readonly lookups: number;
  /** Look-ups that found nothing. */
  readonly voids: number;
  /** False: macros, or names that nobody answered for, may need more. */
  readonly exact: boolean;
  /** What makes receivers give up (permerror), and the term that is to blame. */
  readonly fault: { readonly kind: SpfFault; readonly at: string } | undefined;
}

export const MOST_SPF_LOOKUPS = 10;
const MOST_SPF_VOIDS = 2;
const MOST_EXCHANGERS = 10;
/** Beyond this nothing is looked up any more: the policy is far above what is allowed. */
const MOST_WALKED = 2 * MOST_SPF_LOOKUPS;

const MECHANISM = /^([-+~?]?)(all|include|a|mx|ptr|ip4|ip6|exists)(?:([:/])(.*))?$/i;
const MODIFIER = /^([a-z][a-z0-9_.-]*)=(.*)$/i;
/** Mechanisms that mean nothing without a value. */
const NEEDS_VALUE = new Set(["include", "ip4", "ip6", "exists"]);
/** Terms that need a look-up each. */
const LOOKED_UP = new Set(["include", "a", "mx", "ptr", "exists"]);

/** @returns refused with the term that is none */
export function parseSpf(policy: string): Result<readonly SpfTerm[], string> {
  const [version = "", ...texts] = policy.trim().split(/ +/);
  if (version.toLowerCase() !== "v=spf1") return refuse(version);
  const terms: SpfTerm[] = [];
  for (const text of texts) {
    const term = parseTerm(text);
    if (term === undefined) return refuse(text);
    // RFC 7208 §6: each of these once.
    if (["redirect", "exp"].includes(term.name) && terms.some(({ name }) => name === term.name)) return refuse(text);
    terms.push(term);
  }
  return ok(terms);
}

function parseTerm(text: string): SpfTerm | undefined {
  const mechanism = MECHANISM.exec(text);
  if (mechanism) {
    const [, sign = "", written = "", parting, rest = ""] = mechanism;
    const name = written.toLowerCase();
    const value = parting === "/" ? `/${rest}` : rest;
    const term = { text, qualifier: (sign || "+") as SpfTerm["qualifier"], name, value };
    return isLawful(term, parting !== undefined) ? term : undefined;
  }
  const modifier = MODIFIER.exec(text);
  if (!modifier) return undefined;
  const [, name = "", value = ""] = modifier;
  if (name.toLowerCase() === "redirect" && value === "") return undefined;
  return { text, qualifier: undefined, name: name.toLowerCase(), value };
}

function isLawful({ name, value }: SpfTerm, isParted: boolean): boolean {
  if (name === "all") return !isParted;
  if (isParted && value === "") return false;
  if (NEEDS_VALUE.has(name) && value === "") return false;
  const [address = "", prefix] = value.split("/");
  if (name === "ip4") return parseIpv4(address) !== undefined && isPrefix(prefix, 32);
  if (name === "ip6") return parseIpv6(address) !== undefined && isPrefix(prefix, 128);
  return true;
}

function isPrefix(text: string | undefined, most: number): boolean {
  return text === undefined || (/^\d{1,3}$/.test(text) && Number(text) <= most);
}

/** The terms that are ever looked at: nothing behind `all`, and no `redirect` beside it (RFC 7208 §5.1, §6.1). */
function termsInForce(terms: readonly SpfTerm[]): readonly SpfTerm[] {
  const all = terms.findIndex(({ name }) => name === "all");
  if (all >= 0) return terms.slice(0, all).filter(({ name }) => name !== "redirect");
  const redirect = terms.filter(({ name }) => name === "redirect");
  return [...terms.filter(({ name }) => name !== "redirect"), ...redirect];
}

/** Counts what a policy costs: what it includes and redirects to is gone through as well. */
export async function countSpf(domain: string, policy: string, lookups: SpfLookups): Promise<SpfCost> {
  const tally: Tally = { lookups: 0, voids: 0, exact: true, fault: undefined };
  await walk({ domain, policy, above: [] }, tally, lookups);
  if (tally.fault === undefined && tally.lookups > MOST_SPF_LOOKUPS)
    tally.fault = { kind: "too-many-lookups", at: domain };
  if (tally.fault === undefined && tally.voids > MOST_SPF_VOIDS) tally.fault = { kind: "too-many-voids", at: domain };
  return tally;
}

type Tally = { -readonly [Key in keyof SpfCost]: SpfCost[Key] };

interface Step {
  readonly domain: string;
  readonly policy: string;
  /** Names whose policies led here. */
  readonly above: readonly string[];
}

async function walk(step: Step, tally: Tally, lookups: SpfLookups): Promise<void> {
  const terms = parseSpf(step.policy);
  if (!terms.ok) {
    tally.fault ??= { kind: "malformed", at: terms.error };
    return;
  }
  for (const term of termsInForce(terms.value)) {
    if (tally.lookups > MOST_WALKED) return;
    const needsLookup = LOOKED_UP.has(term.name) || (term.qualifier === undefined && term.name === "redirect");
    if (needsLookup) await look(term, step, { tally, lookups });
  }
}

interface Walk {
  readonly tally: Tally;
  readonly lookups: SpfLookups;
}

async function look(term: SpfTerm, step: Step, { tally, lookups }: Walk): Promise<void> {
  tally.lookups += 1;
  const target = targetOf(term, step.domain);
  // What a macro stands for is known when there is a message; `ptr` asks for the client's names.
  if (target === undefined || term.name === "ptr") {
    tally.exact = false;
    return;
  }
  if (term.name === "include" || term.name === "redirect") return follow({ term, target, step }, { tally, lookups });
  const found = await (term.name === "mx" ? lookups.exchangers(target) : lookups.addresses(target));
  if (found === undefined) tally.exact = false;
  else if (found.length === 0) tally.voids += 1;
  else if (term.name === "mx" && found.length > MOST_EXCHANGERS)
    tally.fault ??= { kind: "too-many-exchangers", at: term.text };
}

async function follow(
  { term, target, step }: { readonly term: SpfTerm; readonly target: string; readonly step: Step },
  { tally, lookups }: Walk,
): Promise<void> {
  const above = [...step.above, step.domain];
  if (above.includes(target)) {
    tally.fault ??= { kind: "loop", at: term.text };
    return;
  }
  const texts = await lookups.texts(target);
  if (texts === undefined) {
    tally.exact = false;
    return;
  }
  if (texts.length === 0) tally.voids += 1;
  const [policy, another] = spfPolicies(texts);
  if (policy === undefined || another !== undefined) tally.fault ??= { kind: "no-policy-included", at: term.text };
  else await walk({ domain: target, policy, above }, tally, lookups);
}

/** The name that a term looks up; undefined where a macro says it (RFC 7208 §7). */
function targetOf({ value }: SpfTerm, domain: string): string | undefined {
  const [name = ""] = value.split("/");
  if (name.includes("%")) return undefined;
  return (name === "" ? domain : name).toLowerCase().replace(/\.$/, "");
}

/** What flattening came to. */
interface FlattenedSpf {
  readonly policy: string;
  /** Includes that stay, as what they come to cannot be written out. */
  readonly left: readonly string[];
}

/**
 * Puts addresses in the place of what a policy includes. The included policy is somebody else's, who may change it at any
 * time: so this is done on request alone.
 * @param kept names whose includes stay as they are; so does what comes to too much: see {@link Flattening}
 */
export async function flattenSpf(
  policy: string,
  kept: ReadonlySet<string>,
  lookups: SpfLookups,
): Promise<FlattenedSpf> {
  const terms = parseSpf(policy);
  if (!terms.ok) return { policy, left: [] };
  const walk: Flattening = { lookups, looked: 0, known: new Map() };
  const left: string[] = [];
  const written: string[] = [];
  for (const term of terms.value) {
    const target = targetOf(term, "");
    const isFlattened = term.name === "include" && term.qualifier === "+" && !kept.has(target ?? "");
    const addresses = isFlattened && target !== undefined ? await addressesOf(target, walk, []) : undefined;
    if (isFlattened && addresses === undefined) left.push(term.text);
    written.push(...(addresses ?? [term.text]));
  }
  return { policy: ["v=spf1", ...new Set(written)].join(" "), left };
}

/** Of one policy. The names in it are others': what they include may branch without end. */
interface Flattening {
  readonly lookups: SpfLookups;
  /** At most {@link MOST_FLATTENED_LOOKUPS}; beyond them nothing is looked up any more. */
  looked: number;
  /** What names have come to already. */
  readonly known: Map<string, ReadonlySet<string>>;
}

const MOST_FLATTENED_LOOKUPS = 50;
/** Terms of addresses that an include may come to. */
const MOST_ADDRESSES = 500;

/** Whether so many names more may be looked up. */
function take(walk: Flattening, names: number): boolean {
  walk.looked += names;
  return walk.looked <= MOST_FLATTENED_LOOKUPS;
}

/**
 * The terms of addresses that an included policy comes to. Undefined where it cannot be told: it has macros or `exists`,
 * lets some through only if others do not match, or comes to too much.
 */
async function addressesOf(
  domain: string,
  walk: Flattening,
  above: readonly string[],
): Promise<ReadonlySet<string> | undefined> {
  const known = walk.known.get(domain);
  if (known) return known;
  if (above.includes(domain) || above.length > MOST_SPF_LOOKUPS || !take(walk, 1)) return undefined;
  const [policy, another] = spfPolicies((await walk.lookups.texts(domain)) ?? []);
  const terms = policy === undefined || another !== undefined ? undefined : parseSpf(policy);
  if (!terms?.ok) return undefined;
  const found = new Set<string>();
  for (const term of terms.value) {
    if (term.name === "all" && term.qualifier === "+") return undefined;
    if (term.name === "all") break;
    const isOther = term.qualifier === undefined && term.name !== "redirect";
    if (isOther) continue;
    if (term.qualifier !== undefined && term.qualifier !== "+") return undefined;
    const addresses = await addressesOfTerm(term, { domain, above }, walk);
    if (addresses === undefined) return undefined;
    for (const address of addresses) found.add(address);
    if (found.size > MOST_ADDRESSES) return undefined;
  }
  walk.known.set(domain, found);
  return found;
}

async function addressesOfTerm(
  term: SpfTerm,
  { domain, above }: { readonly domain: string; readonly above: readonly string[] },
  walk: Flattening,
): Promise<Iterable<string> | undefined> {
  if (term.name === "ip4" || term.name === "ip6") return [`${term.name}:${term.value}`];
  const target = targetOf(term, domain);
  if (target === undefined || term.value.includes("/")) return undefined;
  if (term.name === "include" || term.name === "redirect") return addressesOf(target, walk, [...above, domain]);
  if (term.name !== "a" && term.name !== "mx") return undefined;
  if (term.name === "mx" && !take(walk, 1)) return undefined;
  const hosts = term.name === "mx" ? await walk.lookups.exchangers(target) : [target];
  if (hosts === undefined || !take(walk, hosts.length)) return undefined;
  const addresses = await Promise.all(hosts.map((host) => walk.lookups.addresses(host)));
  if (addresses.some((found) => found === undefined)) return undefined;
  return addresses.flatMap((found) => found!.map((address) => `${parseIpv4(address) ? "ip4" : "ip6"}:${address}`));
}
