import type { DomainName } from "../../core/dns/name.ts";
import type { Refusal } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import type { Binding, Db, Transaction } from "../../platform/postgres/db.ts";
import { stirFollowersInZones } from "../../store/dns/followers.ts";
import { charge } from "../../store/dns/quotas.ts";
import { readHeld } from "../../store/dns/zone-usage.ts";
import { deleteZonesWhere, findZone, listZonesWhere, lockZones, zoneDoesNotExist } from "../../store/dns/zones.ts";
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
    const zone = await findZone(transaction, scope, apex);
    const deleted = zone && (await deleteZonesById(transaction, [zone.id], signer));
    return deleted && deleted.zoneIds.length > 0 ? ok(deleted) : refuse(zoneDoesNotExist(domain));
  });
}

/** Deletes all zones of a company, as {@link deleteZone} does; the company's row must be locked. */
export function deleteCompanyZones(
  transaction: Transaction,
  companyId: number,
  signer: ZoneSigner,
): Promise<ZonesDeleted> {
  return deleteZones(transaction, "company_id = $1", [companyId], signer);
}

/** Deletes some zones of a reseller, its catalogs and those of all of its companies alike, as {@link deleteZone} does. */
export function deleteZonesById(
  transaction: Transaction,
  zoneIds: readonly number[],
  signer: ZoneSigner,
): Promise<ZonesDeleted> {
  return deleteZones(transaction, "id = any($1::bigint[])", [zoneIds], signer);
}

async function deleteZones(
  transaction: Transaction,
  condition: string,
  bindings: readonly Binding[],
  signer: ZoneSigner,
): Promise<ZonesDeleted> {
  const going = await listZonesWhere(transaction, condition, bindings);
  const ids = going.map(({ id }) => id);
  const signed = going.filter((zone) => zone.signed).map(({ apex }) => apex);
  const staying = await parentsOf(transaction, signed, new Set(ids));
  await lockZones(transaction, "id = any($1::bigint[])", [[...ids, ...staying.values()]]);
  const parentIds = new Set<number>();
  for (const apex of staying.keys()) {
    const parent = await withdrawDs(transaction, apex, signer);
    if (parent) parentIds.add(parent.id);
  }
  // What follows names in these zones looks for them elsewhere from now on.
  await stirFollowersInZones(transaction, ids, new Date(signer.clock.nowMs()));
  const freed = await readHeld(transaction, ids);
  const zoneIds = await deleteZonesWhere(transaction, "id = any($1::bigint[])", [ids]);
  for (const { owner, usage } of freed) await charge(transaction, owner, usage, { mode: "count" });
  return { zoneIds, parentIds: [...parentIds] };
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
