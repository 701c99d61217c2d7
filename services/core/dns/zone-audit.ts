import { type DomainName, formatDomainName, nameSortKey, withAncestors } from "./name.ts";
import { isPublicSuffix } from "./public-suffix.ts";
import { judgePair, type PlacedZone } from "./zone-tenancy.ts";

/** A company's zone as an audit looks at it. */
export interface AuditedZone extends PlacedZone {
  readonly apex: DomainName;
  /** Whether the operator allowed this name for this reseller. */
  readonly isAllowed: boolean;
  /** The zones that other resellers had below this one when it was made: their names by {@link notedName}. */
  readonly predecessors: ReadonlySet<string>;
}

/** A reseller and the name of a zone that it had, in one text. */
function notedName(apex: DomainName, resellerId: string): string {
  return `${resellerId} ${formatDomainName(apex).toLowerCase()}`;
}

/** What the rule for names would not let pass in silence. */
export type ZoneFinding<Z> =
  /** Zones of two companies, one below the other. */
  | { readonly kind: "pair"; readonly above: Z; readonly below: Z; readonly verdict: "refused" | "warned" }
  /** A public suffix or single label that the operator did not allow. */
  | { readonly kind: "public-suffix"; readonly zone: Z };

/**
 * Looks for what breaks the rule for names (`zone-tenancy.ts`) in one pass over all zones in canonical order: of a zone
 * only those above it are kept. A pair is judged as if the later of the two were made now, by whoever made it; where
 * that is not known, by a company. What the operator allowed is no finding.
 */
export class ZoneAudit<Z extends AuditedZone> {
  /** The zones above the one that was looked at last, and that one. */
  readonly #open: { readonly zone: Z; readonly key: Uint8Array }[] = [];

  /** @param zone the next one in canonical order */
  *look(zone: Z): Generator<ZoneFinding<Z>> {
    const key = nameSortKey(zone.apex.wire);
    while (this.#open.length > 0 && !startsWith(key, this.#open.at(-1)!.key)) this.#open.pop();
    if (!zone.isAllowed && isPublicSuffix(zone.apex)) yield { kind: "public-suffix", zone };
    for (const [index, { zone: above }] of this.#open.entries()) {
      const verdict = judgeStanding(above, zone, index === this.#open.length - 1);
      if (verdict !== "fine") yield { kind: "pair", above, below: zone, verdict };
    }
    this.#open.push({ zone, key });
  }
}

function judgeStanding(above: AuditedZone, below: AuditedZone, isClosest: boolean): ReturnType<typeof judgePair> {
  const isBelowLater = below.id > above.id;
  const [later, earlier] = isBelowLater ? [below, above] : [above, below];
  if (later.isAllowed) return "fine";
  const mayBeBelow = !isClosest || wasFirst(above, below);
  const { resellerId, companyId, madeBy } = later;
  const added = { resellerId, companyId, maker: madeBy ?? "company" };
  return judgePair(added, earlier, { lies: isBelowLater ? "below" : "above", mayBeBelow });
}

/** Whether the lower zone is, or lies below, one that its reseller had when the upper one was made. */
function wasFirst({ apex, predecessors }: AuditedZone, { apex: name, resellerId }: AuditedZone): boolean {
  if (resellerId === null || predecessors.size === 0) return false;
  return withAncestors(name, apex).some((root) => predecessors.has(notedName(root, resellerId)));
}

function startsWith(key: Uint8Array, prefix: Uint8Array): boolean {
  return key.length >= prefix.length && Buffer.compare(key.subarray(0, prefix.length), prefix) === 0;
}
