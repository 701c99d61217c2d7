import { isSubdomain, parseDomainName, withAncestors } from "../../core/dns/name.ts";
import { TYPE } from "../../core/dns/rr-types.ts";
import type { ExpectedRecord } from "../../core/mail/sender-records.ts";
import type { Refusal } from "../../core/refusal.ts";
import type { Result } from "../../core/result.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { readRecordsAt } from "../../store/dns/records.ts";
import { findZoneOf } from "../../store/dns/zone-names.ts";
import type { Zone } from "../../store/dns/zones.ts";
import { zonesAreInOneHand } from "../dns/zone-tenancy.ts";

/** A record to be made, names without the final dot. */
export type ZoneRecord = Omit<ExpectedRecord, "type"> & { readonly type: ExpectedRecord["type"] | "CNAME" };

/** Records of a zone that come and go together. */
export interface ZoneWrite {
  readonly creations: readonly ZoneRecord[];
  readonly deletionIds: readonly number[];
  /** Refused where the zone has another one by now; undefined: whatever it has. */
  readonly serial: number | undefined;
}

/** Changes a zone that is hosted here, and announces it. Whether that may be is for the caller to judge. */
export type WriteZone = (zone: Zone, change: ZoneWrite) => Promise<Result<void, Refusal>>;

/** The zone of this deployment that answers for a domain: not one that delegates it away. */
export async function hostingZone({ db }: { readonly db: Db }, domain: string): Promise<Zone | undefined> {
  const name = parseDomainName(domain);
  const zone = name.ok ? await findZoneOf(db, {}, name.value) : undefined;
  if (!name.ok || zone === undefined) return undefined;
  const belowApex = withAncestors(name.value, zone.apex);
  const isDelegated = (await readRecordsAt(db, zone.id, belowApex, [TYPE.NS])).length > 0;
  return isDelegated ? undefined : zone;
}

/** Whether a zone is none that somebody who does not answer for the sender domain has put below it. */
export async function answersForDomain({ db }: { readonly db: Db }, domain: string, zone: Zone): Promise<boolean> {
  const name = parseDomainName(domain);
  if (!name.ok || !isSubdomain(zone.apex, name.value)) return true;
  const home = await findZoneOf(db, {}, name.value);
  return home === undefined || zonesAreInOneHand(db, [home.id, zone.id]);
}
