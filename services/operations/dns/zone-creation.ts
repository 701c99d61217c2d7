import type { Follower } from "../../core/dns/follow/follower.ts";
import type { DomainName } from "../../core/dns/name.ts";
import { NO_USAGE, type Usage } from "../../core/dns/quotas.ts";
import type { ResourceRecord } from "../../core/dns/record.ts";
import type { SerialType } from "../../core/dns/serial.ts";
import type { SoaRdata } from "../../core/dns/soa.ts";
import { zoneOctets } from "../../core/dns/zone-octets.ts";
import { duplicatedZone, type ZoneMaker } from "../../core/dns/zone-tenancy.ts";
import { digestWarnings } from "../../core/dns/zone-warnings.ts";
import type { Refusal } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import type { Sentence } from "../../core/sentences.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { holdCompany } from "../../store/dns/companies.ts";
import { charge, checkOneChange, type QuotaMode, withinQuotas } from "../../store/dns/quotas.ts";
import { insertZone } from "../../store/dns/zone-changes.ts";
import { type Zone, zoneName } from "../../store/dns/zones.ts";
import { inTransaction } from "../../store/transactions.ts";
import { companyDoesNotExist } from "./companies.ts";
import { octetsOfRecords } from "./zone-changes.ts";
import { guardCircles, judgeFirstFollowers } from "./zone-followers.ts";
import { claimName } from "./zone-tenancy.ts";

export interface NewZone {
  readonly apex: DomainName;
  /** The name as the caller wrote it, for refusals. */
  readonly domain: string;
  readonly serialType: SerialType;
  readonly soa: SoaRdata;
  readonly ttl: number;
  /** All but the SOA; checked before. */
  readonly records: readonly ResourceRecord[];
  readonly followers?: readonly Follower[];
}

/** Whose the zone is to be. */
export interface ZoneOwner {
  readonly resellerId: string;
  readonly crmId: string;
  /** A caller that is a company makes zones of its own only. */
  readonly companyId?: number;
  /** How the quotas judge it; enforced unless said. */
  readonly quotas?: QuotaMode | undefined;
  /** By the operator's command, in the reseller's stead. */
  readonly byOperator?: boolean;
}

/** A zone, and what is doubtful about its place among others and its digest. */
export interface ZoneCreated {
  readonly zone: Zone;
  readonly warnings: readonly Sentence[];
}

/**
 * Creates a zone, not suspended, with all its records in one step.
 * Refuses an unknown company, a zone that exists anywhere in the deployment, what `core/dns/zone-tenancy.ts` refuses, and
 * what the quotas of the company or the reseller do not allow.
 */
export function createZone(
  db: Db,
  owner: ZoneOwner,
  added: NewZone,
  actor: string,
): Promise<Result<ZoneCreated, Refusal>> {
  return withinQuotas(db, () => createWithinQuotas(db, owner, added, actor));
}

function createWithinQuotas(
  db: Db,
  owner: ZoneOwner,
  added: NewZone,
  actor: string,
): Promise<Result<ZoneCreated, Refusal>> {
  const maker: ZoneMaker = owner.companyId !== undefined ? "company" : owner.byOperator ? "operator" : "reseller";
  return inTransaction(db, async (transaction): Promise<Result<ZoneCreated, Refusal>> => {
    const company = await holdCompany(transaction, owner);
    if (!company) return refuse(companyDoesNotExist(owner.crmId));
    const { apex, domain, serialType, soa, ttl } = added;
    const name = zoneName(apex);
    const holder = { resellerId: owner.resellerId, companyId: company.id };
    const claimed = await claimName(transaction, apex, { ...holder, domain, name, maker });
    if (!claimed.ok) return claimed;
    const usage = usageOf(added);
    if (owner.quotas !== "count" && usage.records > 1) {
      const tooMany = await checkOneChange(transaction, holder, usage.records);
      if (tooMany) return refuse(tooMany);
      // What is refused is better not written first.
      await charge(transaction, holder, usage, { mode: "look" });
    }
    const { records, octets } = usage;
    const place = { kind: "primary" as const, ...holder, companySuspended: company.suspended, maker };
    const { followers = [] } = added;
    const circle = await judgeFirstFollowers(transaction, followers);
    if (circle) return refuse(circle);
    const id = await insertZone(transaction, { ...added, ...place, usage: { records, octets } }, actor);
    if (id === undefined) return refuse(duplicatedZone(domain));
    await charge(transaction, holder, usage, { mode: owner.quotas });
    if (followers.length > 0) await guardCircles(transaction, { deleted: [], updated: [], created: followers });
    const crmId = owner.crmId.toLowerCase();
    const fresh = { suspended: false, version: 1, signed: false, hasFollowers: followers.length > 0 };
    const zone = { id, name, apex, crmId, serialType, soa, ttl, ...fresh };
    return ok({ zone, warnings: [...claimed.value, ...digestWarnings(zone, soa.serial, added.records)] });
  });
}

/** What the zone takes. */
function usageOf({ apex, soa, records }: NewZone): Usage {
  const octets = zoneOctets(apex, soa) + octetsOfRecords(records, apex.wire.length);
  return { ...NO_USAGE, zones: 1, records: records.length, octets };
}
