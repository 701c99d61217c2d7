import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { DomainName } from "../../core/dns/name.ts";
import { WireReader } from "../../core/dns/wire-reader.ts";
import type { Clock } from "../../platform/clock.ts";
import type { Observe } from "../../platform/observability/observation.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { addTrafficReport, zonesOfNames } from "../../store/dns/dns-traffic.ts";
import { RCODE_COUNTERS, SAMPLE, STATISTIC, Statistics } from "./statistics.ts";

const REPORT_EVERY_MS = 5_000;
/** With more queries than this in a report's time one in 64 is a sample, with fewer each is. */
const BUSY_QUERIES = 2_000;
const BUSY_MASK = 63;
const MOST_ZONES = 100;

export interface TrafficReportOptions {
  readonly db: Db;
  readonly clock: Clock;
  readonly observe: Observe;
  readonly statistics: Statistics;
}

/** Tells the console every few seconds what was asked: counted by the threads, of zones estimated from their samples. */
export function startTrafficReports({ db, clock, observe, statistics: shared }: TrafficReportOptions): {
  stop(): Promise<void>;
} {
  const stopping = new AbortController();
  const source = randomUUID();
  // Counts increases for itself, beside the metrics.
  const statistics = new Statistics(shared.buffer);
  const samples = new Samples(statistics);
  samples.setMask(BUSY_MASK);
  let reportedAtMs = clock.nowMs();
  const reporting = run();

  async function run(): Promise<void> {
    while (!stopping.signal.aborted) {
      await sleep(REPORT_EVERY_MS, undefined, { signal: stopping.signal }).catch(() => {});
      if (stopping.signal.aborted) return;
      await report().catch((err) => observe({ kind: "traffic-report-failed", level: "warn", err }));
    }
  }

  async function report(): Promise<void> {
    const queries = [STATISTIC.UDP, STATISTIC.TCP, STATISTIC.TLS, STATISTIC.HTTPS]
      .map((statistic) => statistics.takeIncrease(statistic))
      .reduce((sum, increase) => sum + increase, 0);
    const rcodes = Object.fromEntries(
      Array.from({ length: RCODE_COUNTERS }, (_, rcode) => [
        rcode,
        statistics.takeIncrease(STATISTIC.RCODE + rcode),
      ]).filter(([, responses]) => responses! > 0),
    );
    const names = samples.take();
    samples.setMask(queries > BUSY_QUERIES ? BUSY_MASK : 0);
    const atMs = clock.nowMs();
    const seconds = (atMs - reportedAtMs) / 1_000;
    reportedAtMs = atMs;
    const zones = await countZones(names, queries);
    await addTrafficReport(db, { source, at: new Date(atMs), seconds, queries, rcodes, zones });
  }

  /** Each sample stands for as many queries as there were to a sample. */
  async function countZones(names: readonly DomainName[], queries: number): Promise<Record<string, number>> {
    if (names.length === 0) return {};
    const zoneOf = await zonesOfNames(db, names);
    const counts = new Map<string, number>();
    for (const { key } of names) {
      const zone = zoneOf.get(key);
      if (zone !== undefined) counts.set(zone, (counts.get(zone) ?? 0) + queries / names.length);
    }
    return Object.fromEntries([...counts].sort(([, a], [, b]) => b - a).slice(0, MOST_ZONES));
  }

  return {
    stop: async () => {
      stopping.abort();
      await reporting;
    },
  };
}

/** The questions that the threads keep for us; one that is being overwritten while it is read is as good as any. */
class Samples {
  readonly #rows: readonly Int32Array[];
  readonly #taken: number[];

  constructor(statistics: Statistics) {
    this.#rows = Array.from({ length: statistics.rows }, (_, index) => statistics.row(index));
    this.#taken = this.#rows.map((row) => row[SAMPLE.COUNT]!);
  }

  setMask(mask: number): void {
    for (const row of this.#rows) row[SAMPLE.MASK] = mask;
  }

  /** The names that were asked for since the last call, as many as there is room to keep. */
  take(): DomainName[] {
    return this.#rows.flatMap((row, index) => {
      const count = row[SAMPLE.COUNT]!;
      const fresh = Math.min((count - this.#taken[index]!) >>> 0, SAMPLE.SLOTS);
      this.#taken[index] = count;
      return Array.from({ length: fresh }, (_, back) => nameIn(row, (count - 1 - back) & (SAMPLE.SLOTS - 1))).filter(
        (name) => name !== undefined,
      );
    });
  }
}

function nameIn(row: Int32Array, slot: number): DomainName | undefined {
  const start = row.byteOffset + SAMPLE.START + slot * SAMPLE.OCTETS;
  // A copy: names are kept, and threads go on writing.
  return new WireReader(new Uint8Array(row.buffer, start, SAMPLE.OCTETS).slice()).name();
}
