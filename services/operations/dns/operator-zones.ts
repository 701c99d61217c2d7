import { type DomainName, nameFromLabels } from "../../core/dns/name.ts";
import type { ResourceRecord } from "../../core/dns/record.ts";
import type { SoaRdata } from "../../core/dns/soa.ts";
import { checkZoneName } from "../../core/dns/zone-checks.ts";
import { duplicatedZone, type ZoneMaker } from "../../core/dns/zone-tenancy.ts";
import { invalidField, type Refusal } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import type { Sentence } from "../../core/sentences.ts";
import type { Transaction } from "../../platform/postgres/db.ts";
import { insertZone } from "../../store/dns/zone-changes.ts";
import { zoneName } from "../../store/dns/zones.ts";
import { claimName } from "./zone-tenancy.ts";

/** A zone that no customer edits. */
export interface NewOperatorZone {
  readonly apex: DomainName;
  readonly kind: "feed" | "catalog";
  /** Of a catalog; a feed is no reseller's. */
  readonly resellerId: string | null;
  readonly maker: Exclude<ZoneMaker, "company">;
  readonly soa: SoaRdata;
  readonly ttl: number;
  /** All but the SOA. */
  readonly records: readonly ResourceRecord[];
}

/**
 * Whether a feed or a catalog may have the name: one that a zone may have, no reverse one, as those hold NS and PTR
 * alone, and short enough for the names in it.
 * @param mostOctets of the name in wire form
 */
export function checkOperatorZoneName(apex: DomainName, mostOctets: number): Result<void, Refusal> {
  const lawful = checkZoneName(apex);
  if (!lawful.ok) return refuse(invalidField("zone", lawful.error));
  if (lawful.value.reverse) return refuse(invalidField("zone", "reverse-for-ptr"));
  if (apex.wire.length > mostOctets) {
    return refuse(invalidField("zone", "name-leaves-no-room", { has: apex.wire.length, most: mostOctets }));
  }
  return ok(undefined);
}

/**
 * Makes a feed or a catalog. Refuses a name that is taken, and what `core/dns/zone-tenancy.ts` refuses.
 * @returns its id, and what is doubtful about its place among other zones
 */
export async function insertOperatorZone(
  transaction: Transaction,
  zone: NewOperatorZone,
  actor: string,
): Promise<Result<{ readonly id: number; readonly warnings: readonly Sentence[] }, Refusal>> {
  const { apex, maker, resellerId } = zone;
  const name = zoneName(apex);
  const claimed = await claimName(transaction, apex, { resellerId, companyId: null, domain: name, name, maker });
  if (!claimed.ok) return claimed;
  const id = await insertZone(transaction, { ...zone, companyId: null, serialType: "numeric" }, actor);
  if (id === undefined) return refuse(duplicatedZone(name));
  return ok({ id, warnings: claimed.value });
}

/** The name of one label, for the SOA and NS of zones whose servers nobody is to ask for. */
export function topLevelName(label: string): DomainName {
  const name = nameFromLabels([Buffer.from(label, "latin1")]);
  if (!name.ok) throw new Error(name.error.message);
  return name.value;
}
