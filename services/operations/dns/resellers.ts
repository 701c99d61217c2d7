import { type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { deleteResellerRow, findReseller, listZonesOfReseller, lockReseller } from "../../store/dns/resellers.ts";
import { notifyZones } from "../../store/dns/zone-notices.ts";
import { inTransaction } from "../../store/transactions.ts";
import { deleteZonesById, type ZonesDeleted } from "./zone-deletion.ts";
import type { ZoneSigner } from "./zone-signing.ts";

/** Zones that a transaction deletes: others wait for its locks for some tens of milliseconds at most. */
const ZONES_A_STEP = 100;

/**
 * Deletes a reseller with its zones, companies, tokens, ACLs, catalogs and console accounts. The zones go some at a time, each step
 * by itself and announced, so that nobody else waits for long, however many there are. A deletion that ends early leaves a
 * reseller with fewer zones; asked for again it goes on. The last step holds up whoever would make a zone of the reseller.
 * @returns how many zones are gone
 */
export async function deleteReseller(db: Db, id: string, signer: ZoneSigner): Promise<Result<number, Refusal>> {
  if (!(await findReseller(db, id))) return refuse(unacceptable("reseller-unknown", { id }));
  let zones = 0;
  for (;;) {
    const zoneIds = await listZonesOfReseller(db, id, ZONES_A_STEP);
    if (zoneIds.length > 0) {
      zones += await announced(
        db,
        await inTransaction(db, (transaction) => deleteZonesById(transaction, zoneIds, signer)),
      );
    }
    if (zoneIds.length === ZONES_A_STEP) continue;
    const last = await inTransaction(db, async (transaction) => {
      const state = await lockReseller(transaction, id);
      if (state !== "locked") return state === "gone" ? NOTHING : undefined;
      const left = await listZonesOfReseller(transaction, id, ZONES_A_STEP + 1);
      // More have been made meanwhile than a step may take.
      if (left.length > ZONES_A_STEP) return undefined;
      const deleted = left.length === 0 ? NOTHING : await deleteZonesById(transaction, left, signer);
      await deleteResellerRow(transaction, id);
      return deleted;
    });
    if (last) return ok(zones + (await announced(db, last)));
  }
}

const NOTHING: ZonesDeleted = { zoneIds: [], parentIds: [] };

/** Tells the name servers. @returns how many zones are gone */
async function announced(db: Db, { zoneIds, parentIds }: ZonesDeleted): Promise<number> {
  if (zoneIds.length > 0) await notifyZones(db, [...zoneIds, ...parentIds]);
  return zoneIds.length;
}
