import { type Refusal, unacceptable } from "../refusal.ts";
import { ok, type Result, refuse } from "../result.ts";
import { type Sentence, sentence } from "../sentences.ts";
import { WarningList } from "./warning-list.ts";

/** By whose leave a zone is made: the operator's command, the reseller's key, or the key of one of its companies. */
export type ZoneMaker = "operator" | "reseller" | "company";

/** Whose a zone is. */
export interface ZoneHolder {
  /** Null of the operator's feeds. */
  readonly resellerId: string | null;
  /** Null of feeds and of catalogs. */
  readonly companyId: number | null;
}

/** A zone above or below the name that is asked for; suspended ones count as any other. */
export interface RelatedZone extends ZoneHolder {
  /** Its name as it is stored. */
  readonly domain: string;
  /** The company's id at its reseller; null where there is no company. */
  readonly crmId: string | null;
}

/** A zone that somebody wants to make. */
export interface AskedZone extends ZoneHolder {
  /** The name as the caller wrote it, for refusals. */
  readonly domain: string;
  /** The name as it is stored, for warnings. */
  readonly name: string;
  readonly maker: ZoneMaker;
}

/** What lies around the name. */
export interface NameSurroundings {
  /** All zones above, the closest first. */
  readonly above: readonly RelatedZone[];
  /** Zones below that are not the company's own; in canonical order, perhaps not all of them. */
  readonly below: readonly RelatedZone[];
  /** Whether `below` was cut. */
  readonly isCut: boolean;
  /** The operator allowed this very name for this reseller. */
  readonly isAllowed: boolean;
  /**
   * The name is, or lies below, a zone that the reseller had below the closest one above when that was made, and that
   * one does not answer for it.
   */
  readonly wasFirst: boolean;
}

/**
 * Whether a public suffix, or a name of one label, may become a zone: only as the operator allowed it, or as the
 * operator's own feed or catalog.
 */
export function judgeSuffix(asked: AskedZone, isAllowed: boolean): Result<void, Refusal> {
  if (isAllowed || isOperatorsOwn(asked)) return ok(undefined);
  return refuse(unacceptable("public-suffix", { domain: asked.domain }));
}

/**
 * Whether a name may become a zone beside those that are there: the one rule for all ways to make one.
 * - A company's key: nothing of anybody else may lie above or below.
 * - A reseller's key, and the operator for a reseller: the closest zone above may be another reseller's only where the
 *   operator allowed the name, or the reseller had it, or a zone above it, first. Zones of other companies above or below
 *   are warned of.
 * - The operator's feeds, which have no reseller: anywhere, with the same warnings.
 * Whatever is in the way, the refusal is the same: it tells neither whose it is nor where.
 * @returns the warnings; those for a reseller do not name what belongs to another one
 */
export function judgeName(asked: AskedZone, around: NameSurroundings): Result<Sentence[], Refusal> {
  const warnings = new WarningList();
  const mayBeBelow = asked.resellerId === null || around.isAllowed || around.wasFirst;
  for (const [index, above] of around.above.entries()) {
    const place = { lies: "below", mayBeBelow: index > 0 || mayBeBelow } as const;
    const verdict = judgePair(asked, above, place);
    if (verdict === "refused") return refuse(duplicatedZone(asked.domain));
    if (verdict === "warned") warnings.add(warningOf(asked, above, "below"));
  }
  for (const below of around.below) {
    const verdict = judgePair(asked, below, { lies: "above", mayBeBelow: true });
    if (verdict === "refused") return refuse(duplicatedZone(asked.domain));
    if (verdict === "warned") warnings.add(warningOf(asked, below, "above"));
  }
  return ok(around.isCut ? [...warnings.sentences(), sentence("warnings-left-out")] : warnings.sentences());
}

/** What two zones are to each other, one of which lies below the other. */
export type PairVerdict =
  /** One owner, or nobody's business. */
  | "fine"
  /** Two owners, by the leave of somebody who may give it. */
  | "warned"
  | "refused";

/**
 * What the rule says of a zone that comes above or below another one.
 * @param place.mayBeBelow whether another reseller's zone may lie above it
 */
export function judgePair(
  added: ZoneHolder & { readonly maker: ZoneMaker },
  other: ZoneHolder,
  { lies, mayBeBelow }: { readonly lies: "above" | "below"; readonly mayBeBelow: boolean },
): PairVerdict {
  if (other.companyId !== null && other.companyId === added.companyId) return "fine";
  // What a feed or a catalog answers stays with it, whatever comes above.
  if (lies === "above" && other.companyId === null) return "fine";
  if (added.maker === "company") return "refused";
  if (lies === "below" && other.resellerId !== added.resellerId && !mayBeBelow) return "refused";
  return other.companyId === null ? "fine" : "warned";
}

/** A zone as it is, with what its making tells. */
export interface PlacedZone extends ZoneHolder {
  /** Later zones have higher ids. */
  readonly id: number;
  /** Null where it was not noted. */
  readonly madeBy: ZoneMaker | null;
}

/**
 * Whether what follows from one zone may be written into another one above or below it without asking: both are one
 * company's, or the later one was put there by the reseller of both, or the operator, who were told of the earlier one.
 */
export function areInOneHand(one: PlacedZone, other: PlacedZone): boolean {
  if (one.companyId !== null && one.companyId === other.companyId) return true;
  const later = one.id > other.id ? one : other;
  const isPutThere = later.madeBy === "operator" || later.madeBy === "reseller";
  return isPutThere && one.resellerId !== null && one.resellerId === other.resellerId;
}

/** Says that a name is not free, whatever stands in the way. */
export function duplicatedZone(domain: string): Refusal {
  return unacceptable("zone-exists", { domain });
}

function isOperatorsOwn({ maker, companyId }: AskedZone): boolean {
  return maker === "operator" && companyId === null;
}

function warningOf(
  { name: domain, maker, resellerId }: AskedZone,
  other: RelatedZone,
  lies: "above" | "below",
): Sentence {
  if (maker !== "operator" && other.resellerId !== resellerId) return sentence(`${lies}-zone-of-others`, { domain });
  const company = maker === "operator" ? `${other.crmId} of reseller ${other.resellerId}` : `${other.crmId}`;
  return lies === "below"
    ? sentence("below-zone-of-company", { domain, above: other.domain, company })
    : sentence("above-zone-of-company", { domain, below: other.domain, company });
}
