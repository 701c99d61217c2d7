import { Counter, Gauge, Histogram, Registry } from "prom-client";
import { expect, it } from "vitest";
import { KeptCounts } from "../../../services/cli/kept-counts.ts";
import { aggregateMetrics, type MetricFamilies } from "../../../services/platform/observability/metrics.ts";

/** A process that has counted some events of a kind, each of which took a second. */
async function processWith(kind: string, count: number): Promise<MetricFamilies> {
  const registers = [new Registry()];
  const counter = new Counter({ name: "events_total", help: "Events", labelNames: ["kind"], registers });
  const histogram = new Histogram({ name: "event_seconds", help: "Times", buckets: [0.5, 5], registers });
  new Gauge({ name: "connections", help: "Connections", registers }).set(count);
  counter.inc({ kind }, count);
  for (let number = 0; number < count; number += 1) histogram.observe(1);
  return (await registers[0]!.getMetricsAsJSON()) as MetricFamilies;
}

const shown = async (families: readonly MetricFamilies[]) =>
  (await aggregateMetrics(families)).split("\n").filter((line) => /^\w/.test(line));

it("counts of a service do not fall when its process ends, or does not answer; what is so now is not kept", async () => {
  const counts = new KeptCounts();
  counts.withKept(await processWith("a", 2));
  expect(await shown(counts.withKept(undefined))).toEqual([
    'events_total{kind="a"} 2',
    'event_seconds_bucket{le="0.5"} 0',
    'event_seconds_bucket{le="5"} 2',
    'event_seconds_bucket{le="+Inf"} 2',
    "event_seconds_sum 2",
    "event_seconds_count 2",
  ]);
  counts.endProcess();
  expect(await shown(counts.withKept(undefined))).toContain('events_total{kind="a"} 2');
  counts.withKept(await processWith("a", 1));
  counts.endProcess();
  const lines = await shown(counts.withKept(await processWith("b", 4)));
  expect(lines).toContain('events_total{kind="a"} 3');
  expect(lines).toContain('events_total{kind="b"} 4');
  expect(lines).toContain('event_seconds_bucket{le="5"} 7');
  expect(lines).toContain("event_seconds_count 7");
  expect(lines).toContain("connections 4");
});
