import { refreshCatalog } from "../../operations/dns/catalogs.ts";
import { removeExpiredRules } from "../../operations/dns/rpz-expiries.ts";
import type { Clock } from "../../platform/clock.ts";
import { EachByItself } from "../../platform/each-by-itself.ts";
import type { Observe } from "../../platform/observability/observation.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { repeatTasks } from "../../platform/repeated-work.ts";
import { listCatalogIds, lookForZoneChanges, startOfLooks } from "../../store/dns/catalogs.ts";
import { listFeedsWithExpired } from "../../store/dns/rpz-feeds.ts";
import { notifyZones } from "../../store/dns/zone-notices.ts";

/** Who is named in the journal. */
const ACTOR = "palomar";
/** A zone is in its catalog soon after it was made. */
const CATALOGS_EVERY_MS = 500;
/** Rules are gone well within a minute of their time. */
const EXPIRIES_EVERY_MS = 5_000;

export interface UpkeepOptions {
  readonly db: Db;
  readonly clock: Clock;
  readonly observe: Observe;
}

/**
 * Keeps the zones that no customer edits up to date: catalogs list the zones that there are, feeds lose the rules whose
 * time has come. One that cannot be kept up rests, and holds up no other. Any number of servers may do it at once: each change
 * is made under its zone's lock, by whoever is first.
 */
export function startUpkeep({ db, clock, observe }: UpkeepOptions): { stop(): Promise<void> } {
  /** Where the next look for changed zones begins. */
  let sinceXid = "";
  /** Catalogs that have listed what they should at some look: from then on it is enough to look at what changes. */
  const followed = new Set<number>();
  const each = new EachByItself<number>((zoneId, err) =>
    observe({ kind: "zone-upkeep-failed", level: "error", zoneId, err }),
  );
  const tasks = [
    { name: "catalogs", everyMs: CATALOGS_EVERY_MS, run: refreshCatalogs },
    { name: "expiries", everyMs: EXPIRIES_EVERY_MS, run: removeExpired },
  ];
  return repeatTasks(tasks, (task, err) => observe({ kind: "upkeep-failed", level: "warn", task, err }));

  async function refreshCatalogs(): Promise<void> {
    const catalogs = await listCatalogIds(db);
    const refreshed: number[] = [];
    const failed = new Set<number>();
    const refresh = async (id: number, since: string | null) => {
      const isChanged = await each.attempt(id, () => refreshCatalog(db, id, ACTOR, since));
      if (isChanged) refreshed.push(id);
      if (isChanged === undefined) failed.add(id);
    };
    try {
      if (followed.size === 0 && catalogs.length > 0) sinceXid = await startOfLooks(db);
      if (followed.size > 0) {
        const look = await lookForZoneChanges(db, sinceXid);
        for (const id of look.catalogIds) if (followed.has(id)) await refresh(id, sinceXid);
        sinceXid = look.sinceXid;
      }
      // What a catalog lists that has just been made is of a moment before any look at it.
      for (const id of catalogs) if (!followed.has(id)) await refresh(id, null);
    } catch (error) {
      // The database may be away for longer than it remembers what was deleted.
      followed.clear();
      throw error;
    }
    followed.clear();
    // Of one that could not be refreshed all is to be compared once more.
    for (const id of catalogs) if (!failed.has(id)) followed.add(id);
    await announce(refreshed);
  }

  async function removeExpired(): Promise<void> {
    const now = new Date(clock.nowMs());
    const changed: number[] = [];
    for (const { id, apex } of await listFeedsWithExpired(db, now)) {
      await each.attempt(id, async () => {
        await removeExpiredRules(db, apex, now, ACTOR);
        changed.push(id);
      });
    }
    await announce(changed);
  }

  async function announce(zoneIds: readonly number[]): Promise<void> {
    if (zoneIds.length > 0) await notifyZones(db, zoneIds);
  }
}
