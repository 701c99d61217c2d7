import { setTimeout as sleep } from "node:timers/promises";
import { Counter } from "prom-client";
import type { Clock } from "../platform/clock.ts";
import { registry } from "../platform/observability/metrics.ts";
import type { Observe } from "../platform/observability/observation.ts";
import type { Db } from "../platform/postgres/db.ts";
import { RepeatedWork } from "../platform/repeated-work.ts";
import { pruneJournals, pruneZoneDeletions } from "../store/dns/zone-journal.ts";
import { pruneZoneNameBuckets } from "../store/dns/zone-search.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** Secondaries answer from a zone for its EXPIRE, two to four weeks as a rule (RFC 1912 §2.2). */
const DELETIONS_KEPT_DAYS = 30;

/** Between two steps it rests for so many times as long as a step took: changes come first, however many zones there are. */
const RESTS = 9;

const rowsRemoved = new Counter({
  name: "palomar_zone_journal_rows_removed_total",
  help: "Changes of zones that were removed from the journal because of their age",
  registers: [registry],
});

export interface JournalUpkeepOptions {
  readonly db: Db;
  readonly clock: Clock;
  readonly observe: Observe;
  readonly keep: { readonly journalDays: number; readonly journalVersions: number };
  readonly everyMs?: number;
}

/**
 * Keeps the journal of zones, and what their names are searched by, from growing for ever: at the start and then each hour.
 * Any number of nodes may do it.
 */
export function startJournalUpkeep(options: JournalUpkeepOptions): { stop(): Promise<void> } {
  const { observe, everyMs = HOUR_MS } = options;
  return new RepeatedWork({
    take: async (signal) => {
      const removed = await tidy(options, async (tookMs) => {
        await sleep(RESTS * tookMs, undefined, { signal }).catch(() => {});
        return signal.aborted;
      });
      rowsRemoved.inc(removed);
      if (removed > 0) observe({ kind: "zone-journal-pruned", level: "info", removed });
      return everyMs;
    },
    failed: (err) => {
      observe({ kind: "zone-journal-pruning-failed", level: "warn", err });
      return everyMs;
    },
  });
}

async function tidy(
  { db, clock, keep }: JournalUpkeepOptions,
  isStopping: (tookMs: number) => Promise<boolean>,
): Promise<number> {
  const nowMs = clock.nowMs();
  await pruneZoneDeletions(db, new Date(nowMs - DELETIONS_KEPT_DAYS * DAY_MS));
  await pruneZoneNameBuckets(db, isStopping);
  const before = new Date(nowMs - keep.journalDays * DAY_MS);
  return pruneJournals(db, { before, versions: keep.journalVersions }, isStopping);
}
