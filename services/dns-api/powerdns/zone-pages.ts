import { coversZone } from "../../core/dns/access-policy.ts";
import type { Db } from "../../platform/postgres/db.ts";
import type { DnsCaller } from "../../store/dns/dns-callers.ts";
import { listPowerdnsZones, type PowerdnsSelection, type PowerdnsZone } from "../../store/dns/powerdns-zones.ts";
import type { ListPosition } from "../../store/dns/zones.ts";
import { scopeOf } from "../caller.ts";

/**
 * The zones that a caller sees, in canonical order.
 * @param selection with how many zones one statement reads
 */
export async function* zonePages(
  db: Db,
  caller: DnsCaller,
  selection: Omit<PowerdnsSelection, "after">,
): AsyncGenerator<readonly PowerdnsZone[]> {
  let after: ListPosition;
  do {
    const { zones, next } = await listPowerdnsZones(db, scopeOf(caller), { ...selection, after });
    yield zones.filter(({ zone }) => !caller.token || coversZone(caller.token.policy, zone.apex));
    after = next;
  } while (after !== undefined);
}
