import type { FollowerChange } from "../../core/dns/follow/follower-edits.ts";
import { type ResourceRecord, readRecords } from "../../core/dns/record.ts";
import type { Refusal } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import type { Sentence } from "../../core/sentences.ts";
import { followersInJournal, type JournalColumns } from "../../store/dns/zone-changes.ts";
import type { HistoryEntry } from "../../store/dns/zone-history.ts";
import type { Zone } from "../../store/dns/zones.ts";
import { TOO_LARGE_TO_SHOW } from "./zone-file-size.ts";

/** What a change would come to. */
export interface ZonePreview {
  /** As the zone would be. */
  readonly zone: Zone;
  /** The serial of the zone that it was planned on. */
  readonly atSerial: number;
  /** What the history would show of it; undefined when nothing would change. */
  readonly entry: Pick<HistoryEntry, "deleted" | "added" | "followers"> | undefined;
  readonly warnings: readonly Sentence[];
}

/**
 * What a change that was only looked at comes to: planned and refused as the very same change would be.
 * @param changed of a target with `quotas: "look"`
 */
export function previewOf({
  zone,
  warnings,
  difference,
  followers,
  atSerial = zone.soa.serial,
}: {
  readonly zone: Zone;
  readonly warnings: readonly Sentence[];
  readonly difference?: JournalColumns | undefined;
  readonly followers?: FollowerChange | undefined;
  readonly atSerial?: number | undefined;
}): Result<ZonePreview, Refusal> {
  if (!difference) return ok({ zone, atSerial, entry: undefined, warnings });
  const [deleted, added] = difference;
  if (!deleted || !added) return refuse(TOO_LARGE_TO_SHOW);
  return ok({
    zone,
    atSerial,
    entry: { deleted: recordsIn(deleted), added: recordsIn(added), followers: followersInJournal(followers) },
    warnings,
  });
}

/** Read one by one when they are sent: held encoded, a change of a million records takes tens of megabytes. */
function recordsIn(octets: Uint8Array): Iterable<ResourceRecord> {
  return { [Symbol.iterator]: () => readRecords(octets) };
}
