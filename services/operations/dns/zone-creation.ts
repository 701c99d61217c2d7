import { type DomainName, nameSortKey } from "../../core/dns/name.ts";
import { NO_USAGE, type Usage } from "../../core/dns/quotas.ts";
import type { ResourceRecord } from "../../core/dns/record.ts";
import type { SerialType } from "../../core/dns/serial.ts";
import type { SoaRdata } from "../../core/dns/soa.ts";
import { zoneOctets } from "../../core/dns/zone-octets.ts";
import { duplicatedZone, type ZoneMaker } from "../../core/dns/zone-tenancy.ts";
import type { Refusal } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import type { Db, Transaction } from "../../platform/postgres/db.ts";
import { charge, checkOneChange, type QuotaMode, withinQuotas } from "../../store/dns/quotas.ts";
import { type Zone, zoneName } from "../../store/dns/zones.ts";
import { inTransaction } from "../../store/transactions.ts";
import { companyDoesNotExist } from "./companies.ts";
import { insertRecords, journalColumns, octetsOfRecords, soaRecord } from "./zone-changes.ts";
import { claimName, notePredecessors } from "./zone-tenancy.ts";

export interface NewZone {
  readonly apex: DomainName;
  /** The name as the caller wrote it, for refusals. */
  readonly domain: string;
  readonly serialType: SerialType;
  readonly soa: SoaRdata;
  readonly ttl: number;
  /** All but the SOA; checked before. */
  readonly records: readonly ResourceRecord[];
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

/** A zone, and what is doubtful about its place among others. */
export interface ZoneCreated {
  readonly zone: Zone;
  readonly warnings: readonly string[];
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
  const maker = owner.companyId !== undefined ? "company" : owner.byOperator ? "operator" : "reseller";
  return inTransaction(db, async (transaction): Promise<Result<ZoneCreated, Refusal>> => {
    const company = await holdCompany(transaction, owner);
    if (!company) return refuse(companyDoesNotExist(owner.crmId));
    const { apex, domain } = added;
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
    const id = await insertZone(transaction, { ...holder, isSuspended: company.suspended, maker, usage }, added);
    if (id === undefined) return refuse(duplicatedZone(domain));
    await notePredecessors(transaction, { zoneId: id, apex, resellerId: owner.resellerId });
    await insertRecords(transaction, id, added.records);
    await writeCreation(transaction, id, added, actor);
    await charge(transaction, holder, usage, { mode: owner.quotas });
    const { serialType, soa, ttl } = added;
    const crmId = owner.crmId.toLowerCase();
    const zone = { id, name, apex, crmId, suspended: false, serialType, soa, ttl, version: 1, signed: false };
    return ok({ zone, warnings: claimed.value });
  });
}

/** @returns its id; undefined when the deployment has a zone of that name */
async function insertZone(
  transaction: Transaction,
  owner: {
    readonly resellerId: string;
    readonly companyId: number;
    readonly isSuspended: boolean;
    readonly maker: ZoneMaker;
    readonly usage: Usage;
  },
  { apex, serialType, ttl, soa }: NewZone,
): Promise<number | undefined> {
  const inserted = await transaction("zones")
    .insert({
      reseller_id: owner.resellerId,
      company_id: owner.companyId,
      made_by: owner.maker,
      name: zoneName(apex),
      name_key: nameSortKey(apex.wire),
      apex: lowerCased(apex),
      company_suspended: owner.isSuspended,
      serial_type: serialType,
      ttl,
      ...soaColumns(soa),
      ...heldColumns(owner.usage),
    })
    .onConflict()
    .ignore()
    .returning("id");
  return inserted[0]?.id;
}

/** The company, kept from being suspended or deleted until the zone is there. */
function holdCompany(
  transaction: Transaction,
  owner: ZoneOwner,
): Promise<{ id: number; suspended: boolean } | undefined> {
  const mine = owner.companyId === undefined ? {} : { id: owner.companyId };
  return transaction("companies")
    .where({ reseller_id: owner.resellerId, crm_id: owner.crmId.toLowerCase(), ...mine })
    .forShare()
    .first("id", "suspended");
}

async function writeCreation(transaction: Transaction, id: number, added: NewZone, actor: string): Promise<void> {
  const soa = soaRecord(added.apex, added.soa, added.ttl);
  const [deleted, appeared] = journalColumns(undefined, soa, { deleted: [], added: added.records });
  if (deleted === null) return;
  await transaction("zone_journal").insert({
    zone_id: id,
    version: 1,
    serial_before: null,
    serial: added.soa.serial,
    actor,
    deleted,
    added: appeared,
  });
}

/** What the zone takes. */
function usageOf({ apex, soa, records }: NewZone): Usage {
  const octets = zoneOctets(apex, soa) + octetsOfRecords(records, apex.wire.length);
  return { ...NO_USAGE, zones: 1, records: records.length, octets };
}

function heldColumns({ records, octets }: Usage) {
  return { records, octets, records_held: records, octets_held: octets };
}

function soaColumns({ serial, mname, rname, refresh, retry, expire, minimum }: SoaRdata) {
  return { serial, mname: mname.wire, rname: rname.wire, refresh, retry, expire, minimum };
}

function lowerCased(name: DomainName): Buffer {
  return Buffer.from(name.key, "latin1");
}
