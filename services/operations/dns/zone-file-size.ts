import { type DomainName, MAX_NAME_OCTETS } from "../../core/dns/name.ts";
import { measureZoneFile, type ZoneFileSize } from "../../core/dns/zone-file/size.ts";
import { type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { runInTurns } from "../../platform/turns.ts";
import { type ChargedOwner, readRoom, withinQuotas } from "../../store/dns/quotas.ts";
import { MOST_JOURNAL_OCTETS } from "../../store/dns/zone-changes.ts";
import { readZoneUsage, type ZoneUsage } from "../../store/dns/zone-usage.ts";
import { zoneDoesNotExist } from "../../store/dns/zones.ts";
import type { ZoneTarget } from "./zone-changes.ts";

/** Asks whether all of a zone, which is locked, may be gone over here. @throws what `admitWhole` throws */
export async function admitWhole(db: Db, { scope, apex, admitWhole }: ZoneTarget): Promise<void> {
  const usage = admitWhole && (await readZoneUsage(db, scope, apex));
  if (usage) admitWhole(usage);
}

/**
 * Tells what a master file in the place of a zone comes to, before anything is made of it. Refuses one that expands to
 * more than the quotas allow, with line and column, and where it is only to be shown, one that cannot be.
 */
export function measureReplacement(
  db: Db,
  { scope, apex, domain, quotas }: Pick<ZoneTarget, "scope" | "apex" | "domain" | "quotas">,
  text: string,
): Promise<Result<ZoneFileSize, Refusal>> {
  return withinQuotas(db, async () => {
    const zone = await readZoneUsage(db, scope, apex);
    if (!zone) return refuse(zoneDoesNotExist(domain));
    const size = await measureWithin(db, zone, { apex, text, replaced: zone });
    if (!size.ok || quotas !== "look") return size;
    // What the zone has is on the wire no more than this; the difference is at least what is beyond.
    const wireOctets = zone.octets + zone.records * MAX_NAME_OCTETS;
    return size.value.leastWireOctets - wireOctets > MOST_JOURNAL_OCTETS ? refuse(TOO_LARGE_TO_SHOW) : size;
  });
}

/** What is said of a change that no history could hold. */
export const TOO_LARGE_TO_SHOW: Refusal = unacceptable("change-too-large");

/** As {@link measureReplacement}, of a file that a new zone of a company is to be made of. */
export function measureNewZone(
  db: Db,
  owner: ChargedOwner,
  { apex, text }: { readonly apex: DomainName; readonly text: string },
): Promise<Result<ZoneFileSize, Refusal>> {
  return withinQuotas(db, () => measureWithin(db, owner, { apex, text, replaced: undefined }));
}

async function measureWithin(
  db: Db,
  owner: ChargedOwner,
  {
    apex,
    text,
    replaced,
  }: { readonly apex: DomainName; readonly text: string; readonly replaced: ZoneUsage | undefined },
): Promise<Result<ZoneFileSize, Refusal>> {
  const room = await readRoom(db, owner, replaced);
  const size = await runInTurns(measureZoneFile(text, { origin: apex, defaultTtlSeconds: 0 }, room));
  if (!size.excess) return ok(size);
  const { position, of } = size.excess;
  const refusal = room.refusalOf(of, of === "records" ? size.records : size.octets.least);
  if (refusal.kind !== "unacceptable") return refuse(refusal);
  return refuse(unacceptable("file-line", { line: position.line, column: position.column, reason: refusal }));
}
