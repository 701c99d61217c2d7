import { refreshCatalog } from "../../operations/dns/catalogs.ts";
import { removeExpiredRules } from "../../operations/dns/rpz-expiries.ts";
import type { Clock } from "../../platform/clock.ts";
import type { Observe } from "../../platform/observability/observation.ts";
import { type Db, isDatabaseAway } from "../../platform/postgres/db.ts";
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
/** A zone that cannot be kept up is left alone for so long. */
const REST_MS = 10_000;

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
  const keepUp = makeKeepUp(observe);
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
      const isDone = await keepUp(id, async () => {
        if (await refreshCatalog(db, id, ACTOR, since)) refreshed.push(id);
      });
      if (!isDone) failed.add(id);
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
      if (await keepUp(id, () => removeExpiredRules(db, apex, now, ACTOR))) changed.push(id);
    }
    await announce(changed);
  }

  async function announce(zoneIds: readonly number[]): Promise<void> {
    if (zoneIds.length > 0) await notifyZones(db, zoneIds);
  }
}

/** @returns does the work of a zone, and tells whether it was done: else the zone rests; throws what concerns all of them */
function makeKeepUp(observe: Observe): (zoneId: number, work: () => Promise<void>) => Promise<boolean> {
  /** Until when zones rest, by `performance.now()`. */
  const resting = new Map<number, number>();
  return async (zoneId, work) => {
    if (performance.now() < (resting.get(zoneId) ?? 0)) return false;
    try {
      await work();
      resting.delete(zoneId);
      return true;
    } catch (err) {
      if (isDatabaseAway(err)) throw err;
      observe({ kind: "zone-upkeep-failed", level: "error", zoneId, err });
      resting.set(zoneId, performance.now() + REST_MS);
      return false;
    }
  };
}
