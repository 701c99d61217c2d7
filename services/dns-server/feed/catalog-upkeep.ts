import { refreshCatalog } from "../../operations/dns/catalogs.ts";
import { removeExpiredRules } from "../../operations/dns/rpz-expiries.ts";
import type { Clock } from "../../platform/clock.ts";
import type { Observe } from "../../platform/observability/observation.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { repeatTasks } from "../../platform/repeated-work.ts";
import { listCatalogIds, lookForZoneChanges } from "../../store/dns/catalogs.ts";
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
 * time has come. Any number of servers may do it at once: each change is made under its zone's lock, by whoever is first.
 */
export function startUpkeep({ db, clock, observe }: UpkeepOptions): { stop(): Promise<void> } {
  let sinceXid: string | null = null;
  const tasks = [
    { name: "catalogs", everyMs: CATALOGS_EVERY_MS, run: refreshCatalogs },
    { name: "expiries", everyMs: EXPIRIES_EVERY_MS, run: removeExpired },
  ];
  return repeatTasks(tasks, (task, err) => observe({ kind: "upkeep-failed", level: "warn", task, err }));

  async function refreshCatalogs(): Promise<void> {
    const catalogs = await listCatalogIds(db);
    if (catalogs.length === 0) return;
    const look = await lookForZoneChanges(db, sinceXid);
    const refreshed: number[] = [];
    if (look.changed) {
      for (const id of catalogs) if (await refreshCatalog(db, id, ACTOR)) refreshed.push(id);
    }
    sinceXid = look.sinceXid;
    await announce(refreshed);
  }

  async function removeExpired(): Promise<void> {
    await announce(await removeExpiredRules(db, new Date(clock.nowMs()), ACTOR));
  }

  async function announce(zoneIds: readonly number[]): Promise<void> {
    if (zoneIds.length > 0) await notifyZones(db, zoneIds);
  }
}
