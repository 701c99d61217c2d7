import { soaRecord } from "../../core/dns/soa.ts";
import { formatZoneFile } from "../../core/dns/zone-file/zone-file.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { readAllDerived } from "../../store/dns/dnssec-records.ts";
import { readAllRecords } from "../../store/dns/records.ts";
import type { Zone } from "../../store/dns/zones.ts";
import { exportZone } from "./zone-files.ts";

/**
 * A zone as a master file with all that signing makes of it, all of it from one moment: what secondaries have.
 * @param find finds the zone, in the snapshot that it is given
 * @returns undefined when there is none
 */
export function exportSignedZone(
  db: Db,
  find: (snapshot: Db) => Promise<Zone | undefined>,
): Promise<{ readonly zone: Zone; readonly text: string } | undefined> {
  return exportZone(db, find, async (snapshot, { id, apex, soa, ttl }) => {
    const records = [...(await readAllRecords(snapshot, id)), ...(await readAllDerived(snapshot, id))];
    return formatZoneFile({ apex, soa: soaRecord(apex, soa, ttl), records, ttl });
  });
}
