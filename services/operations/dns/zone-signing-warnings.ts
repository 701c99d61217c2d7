import { type DomainName, formatDomainName, isSubdomain, sameName, withAncestors } from "../../core/dns/name.ts";
import { TYPE } from "../../core/dns/rr-types.ts";
import { isForZone } from "../../core/dns/token.ts";
import type { ZoneHolder } from "../../core/dns/zone-tenancy.ts";
import { digestWarnings } from "../../core/dns/zone-warnings.ts";
import { type Sentence, sentence } from "../../core/sentences.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { findWildcardNs, readRecordsAt } from "../../store/dns/records.ts";
import { findWithParent, type HostedZone, listZonesBelow } from "../../store/dns/zone-names.ts";
import { type Zone, type ZoneScope, zoneName } from "../../store/dns/zones.ts";
import type { ZoneTarget } from "./zone-changes.ts";

/** So many of the hosted zones below a signed one are looked at, in canonical order. */
const MOST_LOOKED_AT = 1_000;
/** So many are named of a kind. */
const MOST_NAMED = 20;

/** What of a signed zone, and of those beside it that the caller may know of, is refused by who validates or verifies. */
export async function signingWarnings(
  db: Db,
  zone: Pick<Zone, "id" | "apex" | "soa">,
  asked: Pick<ZoneTarget, "scope" | "token">,
): Promise<Sentence[]> {
  const wildcards = await findWildcardNs(db, zone.id, MOST_NAMED + 1);
  const atApex = await readRecordsAt(db, zone.id, [zone.apex], [TYPE.ZONEMD]);
  return [
    ...digestWarnings({ apex: zone.apex, signed: true }, zone.soa.serial, atApex),
    ...inBounds(wildcards.map((owner) => sentence("wildcard-ns", { owner: formatDomainName(owner) }))),
    ...(await warnOfParent(db, zone.apex, asked)),
    ...inBounds(await warnOfChildren(db, zone, (below) => mayKnow(asked, below, below.apex))),
  ];
}

/** That the zone above, where it is hosted here and signed, and the caller's as well, does not delegate this one. */
export async function warnOfParent(
  db: Db,
  apex: DomainName,
  asked: Pick<ZoneTarget, "scope" | "token">,
): Promise<Sentence[]> {
  const above = (await findWithParent(db, apex))?.above;
  if (above?.kind !== "primary" || !mayKnow(asked, above, above.zone.apex)) return [];
  return warnOfDelegation(db, apex, above.zone);
}

/** The same, of the closest zone above. @param apex the zone's, which may be about to come */
export async function warnOfDelegation(
  db: Db,
  apex: DomainName,
  above: Pick<Zone, "id" | "apex" | "signed">,
): Promise<Sentence[]> {
  const names = [above.apex, ...withAncestors(apex, above.apex)];
  const records = await readRecordsAt(db, above.id, names, [TYPE.NS, TYPE.DNSKEY]);
  const isSigned =
    above.signed || records.some(({ type, owner }) => type === TYPE.DNSKEY && sameName(owner, above.apex));
  const isCut = records.some(({ type, owner }) => type === TYPE.NS && !sameName(owner, above.apex));
  return isSigned && !isCut ? [notDelegated(apex, above.apex)] : [];
}

/** Whether whoever sees the zones of a scope may be told of this one. */
export function isOfScope(scope: ZoneScope, { resellerId, companyId }: ZoneHolder): boolean {
  if (scope.companyId !== undefined) return companyId === scope.companyId;
  return scope.resellerId === undefined || resellerId === scope.resellerId;
}

function mayKnow({ scope, token }: Pick<ZoneTarget, "scope" | "token">, holder: ZoneHolder, apex: DomainName): boolean {
  return isOfScope(scope, holder) && (!token || isForZone(token, zoneName(apex)));
}

async function warnOfChildren(
  db: Db,
  { id, apex }: Pick<Zone, "id" | "apex">,
  isKnown: (below: HostedZone) => boolean,
): Promise<Sentence[]> {
  const children = closestTo(await listZonesBelow(db, apex, MOST_LOOKED_AT)).filter(isKnown);
  const names = new Map(children.flatMap((child) => withAncestors(child.apex, apex)).map((name) => [name.key, name]));
  const delegations = await readRecordsAt(db, id, [...names.values()], [TYPE.NS]);
  const cuts = new Set(delegations.map(({ owner }) => owner.key));
  const isDelegated = (child: HostedZone) => withAncestors(child.apex, apex).some(({ key }) => cuts.has(key));
  return children.filter((child) => !isDelegated(child)).map((child) => notDelegated(child.apex, apex));
}

/** Of zones in canonical order those that lie below none of the others. */
function closestTo(below: readonly HostedZone[]): HostedZone[] {
  const closest: HostedZone[] = [];
  for (const zone of below) {
    const last = closest.at(-1);
    if (!last || !isSubdomain(zone.apex, last.apex)) closest.push(zone);
  }
  return closest;
}

function notDelegated(apex: DomainName, above: DomainName): Sentence {
  return sentence("not-delegated", { domain: zoneName(apex), above: zoneName(above) });
}

function inBounds(warnings: readonly Sentence[]): Sentence[] {
  if (warnings.length <= MOST_NAMED) return [...warnings];
  return [...warnings.slice(0, MOST_NAMED), sentence("warnings-left-out")];
}
