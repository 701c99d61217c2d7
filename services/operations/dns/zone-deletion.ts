import { type DomainName, nameFromStoredWire } from "../../core/dns/name.ts";
import type { Usage } from "../../core/dns/quotas.ts";
import type { Refusal } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { type Binding, type Db, queryRows, type Transaction } from "../../platform/postgres/db.ts";
import { type ChargedOwner, charge } from "../../store/dns/quotas.ts";
import { deleteZonesWhere, lockZones, zoneDoesNotExist, zoneName } from "../../store/dns/zones.ts";
import { inTransaction } from "../../store/transactions.ts";
import { findHostedParent, withdrawDs } from "./dnssec-hosted-parent.ts";
import type { ZoneSigner } from "./zone-signing.ts";
import type { SigningTarget } from "./zone-signing-state.ts";

/** What a deletion came to. */
export interface ZonesDeleted {
  readonly zoneIds: readonly number[];
  /** Parents that lost the DS of a deleted zone. */
  readonly parentIds: readonly number[];
}

/** Deletes a zone with all that belongs to it, its DS in a parent that is hosted here included. */
export function deleteZone(
  db: Db,
  { scope, apex, domain, signer }: Omit<SigningTarget, "actor">,
): Promise<Result<ZonesDeleted, Refusal>> {
  return inTransaction(db, async (transaction) => {
    const deleted = await deleteZones(
      transaction,
      "name = ? and reseller_id = coalesce(?, reseller_id) and company_id = coalesce(?, company_id)",
      [zoneName(apex), scope.resellerId ?? null, scope.companyId ?? null],
      signer,
    );
    return deleted.zoneIds.length === 0 ? refuse(zoneDoesNotExist(domain)) : ok(deleted);
  });
}

/** Deletes all zones of a company, as {@link deleteZone} does; the company's row must be locked. */
export function deleteCompanyZones(
  transaction: Transaction,
  companyId: number,
  signer: ZoneSigner,
): Promise<ZonesDeleted> {
  return deleteZones(transaction, "company_id = ?", [companyId], signer);
}

async function deleteZones(
  transaction: Transaction,
  condition: string,
  bindings: readonly Binding[],
  signer: ZoneSigner,
): Promise<ZonesDeleted> {
  const going = await queryRows<{ id: number; apex: Buffer; signed: boolean }>(
    transaction,
    `select id, apex, signed from zones where ${condition}`,
    bindings,
  );
  const ids = going.map(({ id }) => id);
  const signed = going.filter((zone) => zone.signed).map(({ apex }) => nameFromStoredWire(apex));
  const staying = await parentsOf(transaction, signed, new Set(ids));
  await lockZones(transaction, "id = any(?::bigint[])", [[...ids, ...staying.values()]]);
  const parentIds = new Set<number>();
  for (const apex of staying.keys()) {
    const parent = await withdrawDs(transaction, apex, signer);
    if (parent) parentIds.add(parent.id);
  }
  const freed = await readHeld(transaction, ids);
  const zoneIds = await deleteZonesWhere(transaction, "id = any(?::bigint[])", [ids]);
  for (const { owner, usage } of freed) await charge(transaction, owner, usage, { mode: "count" });
  return { zoneIds, parentIds: [...parentIds] };
}

/** What zones hold, as what their companies are charged less without them. */
async function readHeld(
  transaction: Transaction,
  ids: readonly number[],
): Promise<{ readonly owner: ChargedOwner; readonly usage: Usage }[]> {
  const rows = await queryRows<Usage & { readonly reseller_id: string; readonly company_id: number }>(
    transaction,
    `select reseller_id, company_id, -count(*) as zones, -count(*) filter (where signed) as signed_zones,
            (-sum(records_held))::bigint as records, (-sum(octets_held))::bigint as octets
       from zones where id = any(?::bigint[]) and company_id is not null
      group by reseller_id, company_id order by company_id`,
    [ids],
  );
  return rows.map(({ reseller_id: resellerId, company_id: companyId, ...usage }) => ({
    owner: { resellerId, companyId },
    usage,
  }));
}

/** The hosted parents of zones, without those that are going as well. */
async function parentsOf(
  transaction: Transaction,
  zones: readonly DomainName[],
  going: ReadonlySet<number>,
): Promise<Map<DomainName, number>> {
  const parents = new Map<DomainName, number>();
  for (const apex of zones) {
    const hosted = await findHostedParent(transaction, apex);
    if (hosted && !going.has(hosted.zone.id)) parents.set(apex, hosted.zone.id);
  }
  return parents;
}
