import { ancestorOf, type DomainName, nameSortKey } from "../../core/dns/name.ts";
import type { ResourceRecord } from "../../core/dns/record.ts";
import type { SerialType } from "../../core/dns/serial.ts";
import type { SoaRdata } from "../../core/dns/soa.ts";
import { type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import type { Db, Transaction } from "../../platform/db.ts";
import { inTransaction } from "../transactions.ts";
import { companyDoesNotExist } from "./companies.ts";
import { insertRecords, journalColumns, soaRecord } from "./zone-changes.ts";
import { type Zone, zoneName } from "./zones.ts";

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
}

/**
 * Creates a zone, not suspended, with all its records in one step.
 * Refuses an unknown company, a zone that exists anywhere in the deployment, and a name below another reseller's zone
 * that the operator has not allowed.
 */
export async function createZone(
  db: Db,
  owner: ZoneOwner,
  added: NewZone,
  actor: string,
): Promise<Result<Zone, Refusal>> {
  return inTransaction(db, async (transaction) => {
    const company = await holdCompany(transaction, owner);
    if (!company) return refuse(companyDoesNotExist(owner.crmId));
    const name = zoneName(added.apex);
    if (!(await mayHaveName(transaction, owner.resellerId, added.apex))) return refuse(duplicatedZone(added.domain));
    const inserted = await transaction("zones")
      .insert({
        reseller_id: owner.resellerId,
        company_id: company.id,
        name,
        name_key: nameSortKey(added.apex.wire),
        apex: lowerCased(added.apex),
        company_suspended: company.suspended,
        serial_type: added.serialType,
        ttl: added.ttl,
        ...soaColumns(added.soa),
      })
      .onConflict()
      .ignore()
      .returning("id");
    const id: number | undefined = inserted[0]?.id;
    if (id === undefined) return refuse(duplicatedZone(added.domain));
    await insertRecords(transaction, id, added.records);
    await writeCreation(transaction, id, added, actor);
    const { apex, serialType, soa, ttl } = added;
    const crmId = owner.crmId.toLowerCase();
    return ok({ id, name, apex, crmId, suspended: false, serialType, soa, ttl, version: 1, signed: false });
  });
}

/** Lets a reseller have a zone below another's. @returns false when there is no such reseller */
export async function allowZone(db: Db, apex: DomainName, resellerId: string): Promise<boolean> {
  const known = await db("resellers").where({ id: resellerId }).first("id");
  if (!known) return false;
  await db("zone_permissions")
    .insert({ name: zoneName(apex), reseller_id: resellerId })
    .onConflict()
    .ignore();
  return true;
}

export function duplicatedZone(domain: string): Refusal {
  return unacceptable(`duplicated zone: ${domain}`);
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

/** Whether the closest zone above is the reseller's own, or there is none, or the operator allowed the name. */
export async function mayHaveName(transaction: Transaction, resellerId: string, apex: DomainName): Promise<boolean> {
  const ancestors: string[] = [];
  for (let labels = apex.labelCount - 1; labels > 0; labels -= 1) ancestors.push(zoneName(ancestorOf(apex, labels)));
  const closest = await transaction("zones")
    .whereIn("name", ancestors)
    .orderByRaw("octet_length(apex) desc")
    .first("reseller_id");
  if (!closest || closest.reseller_id === resellerId) return true;
  const allowed = await transaction("zone_permissions")
    .where({ name: zoneName(apex), reseller_id: resellerId })
    .first("name");
  return allowed !== undefined;
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

function soaColumns({ serial, mname, rname, refresh, retry, expire, minimum }: SoaRdata) {
  return { serial, mname: mname.wire, rname: rname.wire, refresh, retry, expire, minimum };
}

function lowerCased(name: DomainName): Buffer {
  return Buffer.from(name.key, "latin1");
}
