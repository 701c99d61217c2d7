import { formatIpAddress } from "../../core/dns/ip-address.ts";
import { type DomainName, domainNameFromWire, labelsOf, nameFromLabels, withAncestors } from "../../core/dns/name.ts";
import { TYPE } from "../../core/dns/rr-types.ts";
import type { StoredRecord } from "../../core/dns/zone-edit.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { findNamesWithBelow, readRecordsAt } from "../../store/dns/records.ts";
import { type EnclosingZone, findEnclosingZone } from "../../store/dns/zone-names.ts";

/** How far the zones of a company lead from a name to its addresses. */
export interface HostedWay {
  /** The names that were looked up, the one that was asked for first. */
  readonly chain: readonly DomainName[];
  /** Of what was gone through; seconds. */
  readonly ttl: number;
  readonly end:
    | {
        readonly kind: "addresses";
        readonly ipv4: readonly string[];
        readonly ipv6: readonly string[];
        /** False: the last name of the chain is in its zone in no way (NXDOMAIN). */
        readonly exists: boolean;
      }
    /** The last name of the chain is somebody else's to tell. */
    | { readonly kind: "elsewhere" }
    | { readonly kind: "suspended" | "loop" };
}

/** More aliases than that are a loop. */
const LONGEST_CHAIN = 16;

/** Goes from a name as far as a company's zones lead, as the name servers would answer (RFC 1034 §4.3.2). */
export async function followHosted(db: Db, companyId: number | null, name: DomainName): Promise<HostedWay> {
  const chain = [name];
  let ttl = Number.POSITIVE_INFINITY;
  while (chain.length <= LONGEST_CHAIN) {
    const zone = await findEnclosingZone(db, chain.at(-1)!);
    if (companyId === null || zone?.companyId !== companyId) return { chain, ttl, end: { kind: "elsewhere" } };
    if (zone.suspended) return { chain, ttl, end: { kind: "suspended" } };
    const records = await recordsFor(db, zone, chain.at(-1)!);
    if (records === "elsewhere") return { chain, ttl, end: { kind: "elsewhere" } };
    const alias = records?.find(({ type }) => type === TYPE.CNAME);
    const target = alias && domainNameFromWire(alias.rdata);
    if (!alias || !target?.ok) {
      const { end, ttl: whole } = addressesIn(records ?? [], Math.min(ttl, zone.negativeTtl), ttl);
      return { chain, ttl: whole, end: { ...end, exists: records !== undefined } };
    }
    ttl = Math.min(ttl, alias.ttl);
    chain.push(target.value);
  }
  return { chain, ttl, end: { kind: "loop" } };
}

function addressesIn(records: readonly StoredRecord[], negativeTtl: number, chainTtl: number) {
  const addresses = records.filter(({ type }) => type === TYPE.A || type === TYPE.AAAA);
  const ofType = (wanted: number) =>
    addresses.filter(({ type }) => type === wanted).map(({ rdata }) => formatIpAddress(rdata));
  const end = { kind: "addresses" as const, ipv4: ofType(TYPE.A), ipv6: ofType(TYPE.AAAA) };
  const ttl = addresses.length === 0 ? negativeTtl : Math.min(chainTtl, ...addresses.map((record) => record.ttl));
  return { end, ttl };
}

/**
 * The records that answer for a name, those of a wildcard among them.
 * @returns undefined where the name does not exist, and `elsewhere` where the zone leaves it to others
 */
async function recordsFor(
  db: Db,
  zone: EnclosingZone,
  name: DomainName,
): Promise<StoredRecord[] | "elsewhere" | undefined> {
  const path = [...withAncestors(name, zone.apex), zone.apex];
  const wildcards = path.slice(1).flatMap((above) => wildcardBelow(above) ?? []);
  const records = await readRecordsAt(db, zone.id, [...path, ...wildcards]);
  const at = ({ key }: DomainName) => records.filter(({ owner }) => owner.key === key);
  const has = (owner: DomainName, wanted: number) => at(owner).some(({ type }) => type === wanted);
  const isCut = (owner: DomainName) => owner.key !== zone.apex.key && has(owner, TYPE.NS);
  const isRenamed = (owner: DomainName) => owner.key !== name.key && has(owner, TYPE.DNAME);
  if (path.some((owner) => isCut(owner) || isRenamed(owner))) return "elsewhere";
  const own = at(name);
  if (own.length > 0 || name.key === zone.apex.key) return own;
  const withBelow = new Set(await findNamesWithBelow(db, zone.id, path, []));
  if (withBelow.has(0)) return [];
  const encloser = path.find((owner, index) => index > 0 && (at(owner).length > 0 || withBelow.has(index)));
  const wildcard = wildcardBelow(encloser ?? zone.apex);
  const synthesised = wildcard ? at(wildcard) : [];
  return synthesised.length > 0 ? synthesised : undefined;
}

function wildcardBelow(name: DomainName): DomainName | undefined {
  const wildcard = nameFromLabels([Buffer.from("*"), ...labelsOf(name)]);
  return wildcard.ok ? wildcard.value : undefined;
}
