import { Counter } from "prom-client";
import type { DomainName } from "../core/dns/name.ts";
import type { ZoneSigner } from "../operations/dns/zone-signing.ts";
import { repairZone } from "../operations/dns/zone-signing-repair.ts";
import { maintainZone, withUpkeepLock } from "../operations/dns/zone-signing-upkeep.ts";
import { fewAtOnce } from "../platform/few-at-once.ts";
import type { LookUpDs } from "../platform/lookups/ds-lookup.ts";
import { registry } from "../platform/observability/metrics.ts";
import type { Observe } from "../platform/observability/observation.ts";
import type { Db } from "../platform/postgres/db.ts";
import { RepeatedWork } from "../platform/repeated-work.ts";
import { listDueZones, listUncheckedZones, noteChecked } from "../store/dns/dnssec-zones.ts";
import { zoneName } from "../store/dns/zones.ts";
import { SparingLookUps } from "./sparing-look-ups.ts";
import type { ZoneAnnouncer } from "./zone-announcer.ts";

/** Between two looks for zones that are due. */
const EVERY_MS = 5_000;
/** Zones of one look; while there are as many, the next look follows at once. */
const ZONES_A_LOOK = 100;
/** A zone that could not be looked after is left alone for so long. It stays due, so that everybody sees for how long it has been. */
const REST_MS = 60_000;
/** How often the chain and the signatures of a zone are compared with what they should be. */
const CHECK_EVERY_MS = 86_400_000;
/** Zones that are looked after at a time: some wait for their parents, and the API needs connections too. */
const ZONES_AT_A_TIME = 4;

const versionsMade = new Counter({
  name: "palomar_dnssec_versions_total",
  help: "Versions of zones that upkeep made: signatures renewed, keys changed",
  registers: [registry],
});

const zonesRepaired = new Counter({
  name: "palomar_dnssec_repaired_total",
  help: "Signed zones whose chain of denial or signatures were not what they should be, and were repaired",
  registers: [registry],
});

export interface SigningUpkeepOptions {
  readonly db: Db;
  readonly signer: ZoneSigner;
  readonly lookUpDs: LookUpDs;
  readonly announcer: ZoneAnnouncer;
  readonly observe: Observe;
  readonly everyMs?: number;
}

/**
 * Keeps signed zones valid: makes signatures anew before they end, the longest overdue first, looks for the parent's DS
 * where one is awaited, and takes the steps of key changes. Each day it compares each zone with what it should be, those
 * first that never were compared, and repairs what is not. Of the nodes of a deployment one does it at a time.
 */
export function startSigningUpkeep(options: SigningUpkeepOptions): { stop(): Promise<void> } {
  const { db, observe, everyMs = EVERY_MS } = options;
  const upkeep = { options, lookUps: new SparingLookUps(options.lookUpDs), failed: new Map() };
  return new RepeatedWork({
    take: async (signal) => {
      const isMoreDue = await withUpkeepLock(db, async () => {
        const hasMoreToMaintain = await maintainDueZones(upkeep, signal);
        const hasMoreToCheck = await checkZones(options, signal);
        return hasMoreToMaintain || hasMoreToCheck;
      });
      return isMoreDue ? 0 : everyMs;
    },
    failed: (err) => {
      observe({ kind: "dnssec-upkeep-failed", level: "warn", err });
      return everyMs;
    },
  });
}

/** What the looks of a process have in common. */
interface Upkeep {
  readonly options: SigningUpkeepOptions;
  readonly lookUps: SparingLookUps;
  /** When zones could not be looked after, by their ids; for {@link REST_MS}. */
  readonly failed: Map<number, number>;
}

/** @returns whether there may be more */
async function maintainDueZones({ options, lookUps, failed }: Upkeep, stopping: AbortSignal): Promise<boolean> {
  const nowMs = options.signer.clock.nowMs();
  for (const [id, failedAtMs] of failed) if (nowMs - failedAtMs >= REST_MS) failed.delete(id);
  const due = await listDueZones(options.db, new Date(nowMs), { limit: ZONES_A_LOOK, except: [...failed.keys()] });
  // The lock of the upkeep is held until all are done: another node must not begin beside them.
  await fewAtOnce(due, { pieces: ZONES_AT_A_TIME }, async ({ id, apex, companyId }) => {
    if (stopping.aborted) return;
    if (!(await maintain(options, apex, lookUps.of(companyId)))) failed.set(id, nowMs);
  });
  return due.length === ZONES_A_LOOK;
}

/** @returns whether it could be done */
async function maintain(
  options: SigningUpkeepOptions,
  apex: DomainName,
  lookUpDs: LookUpDs | undefined,
): Promise<boolean> {
  const { db, signer, announcer, observe } = options;
  try {
    const changed = await maintainZone(db, apex, { signer, lookUpDs });
    announcer.announce(changed.map(({ id }) => id));
    for (const { name, soa } of changed) {
      versionsMade.inc();
      observe({ kind: "zone-signed", zone: name, serial: soa.serial });
    }
    return true;
  } catch (err) {
    // One zone whose keys cannot be opened must not keep all others from being signed.
    observe({ kind: "zone-signing-failed", level: "error", zone: zoneName(apex), err });
    return false;
  }
}

/**
 * Compares zones with what they should be, one after the other: nothing waits for it. A zone that fails is left until its
 * next time. @returns whether there may be more
 */
async function checkZones(options: SigningUpkeepOptions, stopping: AbortSignal): Promise<boolean> {
  const { db, signer, observe } = options;
  const now = new Date(signer.clock.nowMs());
  const zones = await listUncheckedZones(db, new Date(now.getTime() - CHECK_EVERY_MS), ZONES_A_LOOK);
  const checked: number[] = [];
  for (const { id, apex } of zones) {
    if (stopping.aborted) break;
    try {
      await repair(options, apex);
    } catch (err) {
      observe({ kind: "zone-check-failed", level: "error", zone: zoneName(apex), err });
    }
    checked.push(id);
  }
  await noteChecked(db, checked, now);
  return zones.length === ZONES_A_LOOK;
}

async function repair({ db, signer, announcer, observe }: SigningUpkeepOptions, apex: DomainName): Promise<void> {
  const repaired = await repairZone(db, apex, signer);
  if (!repaired) return;
  announcer.announce([repaired.id]);
  zonesRepaired.inc();
  observe({ kind: "zone-repaired", level: "warn", zone: repaired.name, serial: repaired.soa.serial });
}
