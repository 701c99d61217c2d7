import type { DomainName } from "../../core/dns/name.ts";
import { isPublicSuffix } from "../../core/dns/public-suffix.ts";
import { type AskedZone, areInOneHand, judgeName, judgeSuffix } from "../../core/dns/zone-tenancy.ts";
import type { Refusal } from "../../core/refusal.ts";
import { ok, type Result } from "../../core/result.ts";
import type { Sentence } from "../../core/sentences.ts";
import type { Db, Transaction } from "../../platform/postgres/db.ts";
import { isZoneAllowed } from "../../store/dns/zone-allowances.ts";
import { lockName, readPlaces, surveyName } from "../../store/dns/zone-names.ts";
import type { ZoneScope } from "../../store/dns/zones.ts";
import { isOfScope, warnOfDelegation } from "./zone-signing-warnings.ts";

/**
 * Whether a zone of this name may be made ({@link judgeName}); until the transaction ends no zone comes above or below.
 * @returns the warnings
 */
export async function claimName(
  transaction: Transaction,
  apex: DomainName,
  asked: AskedZone,
): Promise<Result<Sentence[], Refusal>> {
  const isAllowed = asked.resellerId !== null && (await isZoneAllowed(transaction, apex, asked.resellerId));
  if (isPublicSuffix(apex)) {
    // Before any lock: a suffix is what many names wait for.
    const suffix = judgeSuffix(asked, isAllowed);
    if (!suffix.ok) return suffix;
  }
  await lockName(transaction, apex);
  const { closest, ...around } = await surveyName(transaction, apex, asked, isAllowed);
  const judged = judgeName(asked, around);
  if (!judged.ok || !closest || asked.companyId === null || !isOfScope(scopeOfMaker(asked), closest)) return judged;
  return ok([...judged.value, ...(await warnOfDelegation(transaction, apex, closest))]);
}

/** The zones that whoever makes this one may know of. */
function scopeOfMaker({ maker, resellerId, companyId }: AskedZone): ZoneScope {
  if (maker === "operator" || resellerId === null || companyId === null) return {};
  return maker === "reseller" ? { resellerId } : { resellerId, companyId };
}

/** Whether what follows from one zone may be written into another one ({@link areInOneHand}). */
export async function zonesAreInOneHand(db: Db, ids: readonly [number, number]): Promise<boolean> {
  if (ids[0] === ids[1]) return true;
  const [one, other] = await readPlaces(db, ids);
  return one !== undefined && other !== undefined && areInOneHand(one, other);
}
