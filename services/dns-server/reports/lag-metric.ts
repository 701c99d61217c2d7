import { Gauge } from "prom-client";
import { registry } from "../../platform/observability/metrics.ts";

const NAME = "palomar_dns_behind_seconds";

/**
 * Shows how long ago the zones were last known to be what the database has: a second or less while it is followed.
 * @param confirmedAtMs when that was, by `performance.now()`; undefined before
 * @returns takes it off again
 */
export function exportLag(confirmedAtMs: () => number | undefined): () => void {
  const startedAt = performance.now();
  new Gauge({
    name: NAME,
    help: "Time since the zones were known to be what the database has",
    registers: [registry],
    aggregator: "max",
    collect() {
      this.set((performance.now() - (confirmedAtMs() ?? startedAt)) / 1_000);
    },
  });
  return () => registry.removeSingleMetric(NAME);
}
