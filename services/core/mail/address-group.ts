/** Which mailbox provider an address belongs to: contacts carry its number, traffic shaping goes by it. */
import { ok, type Result, refuse } from "../result.ts";
import { validateAddress } from "./address.ts";

/** One row of config/domain-groups.json. */
interface DomainGroup {
  /** 1 to 99; what `grupo_de_dominio_id` shows. */
  readonly id: number;
  readonly name: string;
  /** Domains of addresses, as A-labels in lower case, matched whole. */
  readonly domains: readonly string[];
  /**
   * Domains that the provider's mail exchangers lie in, or the exchangers themselves where customers have names beside them:
   * they tell hosted domains.
   */
  readonly mxDomains: readonly string[];
}

/** Looks up groups; made by `compileDomainGroups`. Group 0 is everybody else. */
export interface DomainGroups {
  /** @param asciiDomain domain of an address, as A-labels in lower case */
  ofDomain(asciiDomain: string): number;
  /** @param mxHost name of a mail exchanger, with or without the last dot */
  ofMxHost(mxHost: string): number;
  /** Name of a group, "default" for 0. */
  nameOf(id: number): string;
  /** @param name in any case @returns 0 where no group is called so */
  named(name: string): number;
}

/**
 * What mail is paced by, as somebody names it: a group, by its name or one of its domains, or a domain that is in none.
 * @returns the group's name, or the domain as A-labels in lower case; undefined for what is neither
 */
export function providerNamed(groups: DomainGroups, text: string): string | undefined {
  const group = groups.named(text);
  if (group !== OTHER_GROUP) return groups.nameOf(group);
  const address = validateAddress(`postmaster@${text}`, { allowSmtputf8: false });
  if (!address.ok) return undefined;
  const { asciiDomain } = address.value;
  const owner = groups.ofDomain(asciiDomain);
  return owner === OTHER_GROUP ? asciiDomain : groups.nameOf(owner);
}

const OTHER_GROUP = 0;
const DOMAIN = /^[a-z0-9-]+(\.[a-z0-9-]+)+$/;

/**
 * Check the content of a groups file and index it.
 * @returns refused with a sentence that names the row
 */
export function compileDomainGroups(data: unknown): Result<DomainGroups, string> {
  if (!Array.isArray(data)) return refuse("domain groups must be a list");
  const names = new Map<number, string>([[OTHER_GROUP, "default"]]);
  const byName = new Map<string, number>();
  const byDomain = new Map<string, number>();
  const byMxDomain = new Map<string, number>();
  for (const group of data as readonly DomainGroup[]) {
    const fault = findFault(group, names);
    if (fault !== null) return refuse(`domain group ${JSON.stringify(group?.name ?? group)}: ${fault}`);
    names.set(group.id, group.name);
    byName.set(group.name.toLowerCase(), group.id);
    for (const domain of group.domains) byDomain.set(domain, group.id);
    for (const domain of group.mxDomains) byMxDomain.set(domain, group.id);
  }
  return ok({
    ofDomain: (asciiDomain) => byDomain.get(asciiDomain) ?? OTHER_GROUP,
    ofMxHost: (mxHost) => findEnclosing(mxHost.toLowerCase().replace(/\.$/, ""), byMxDomain),
    nameOf: (id) => names.get(id) ?? "default",
    named: (name) => byName.get(name.toLowerCase()) ?? OTHER_GROUP,
  });
}

function findFault(group: DomainGroup, known: ReadonlyMap<number, string>): string | null {
  if (typeof group?.name !== "string" || group.name === "") return "it needs a name";
  if (!Number.isInteger(group.id) || group.id < 1 || group.id > 99) return "its id must be from 1 to 99";
  if (known.has(group.id)) return "its id is taken";
  const lists: readonly unknown[] = [group.domains, group.mxDomains];
  const areDomains = lists.every(
    (list) => Array.isArray(list) && list.every((domain) => typeof domain === "string" && DOMAIN.test(domain)),
  );
  return areDomains ? null : "domains and mxDomains must be lists of lower-case domains";
}

function findEnclosing(host: string, byDomain: ReadonlyMap<string, number>): number {
  for (let name = host; name !== ""; name = name.slice(name.indexOf(".") + 1 || name.length)) {
    const id = byDomain.get(name);
    if (id !== undefined) return id;
  }
  return OTHER_GROUP;
}
