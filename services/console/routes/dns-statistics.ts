import { z } from "zod";
import { rcodeMnemonic } from "../../core/dns/rr-types.ts";
import { ok, refuse } from "../../core/result.ts";
import { readTraffic, readZoneTraffic, type TrafficSummary } from "../../store/dns/dns-traffic.ts";
import { areaOf, ownZones } from "../caller.ts";
import { consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";
import { problem } from "../problems.ts";

const PERIODS = { nowSeconds: 16, lastSeconds: 300, seriesSeconds: 3_600, stepSeconds: 60, topZones: 20 };

/** What the DNS servers are asked: the operator sees all of it, others what concerns their own zones. */
export const makeDnsStatisticsEndpoints: MakeConsoleEndpoints = ({ db, clock }) => [
  consoleEndpoint({
    method: "GET",
    path: "/dns_statistics",
    summary:
      "Queries per second now and over the last hour; codes and the busiest zones of the last five minutes. " +
      "A reseller or a company: of its own zones",
    authorise: areaOf("reseller", "company"),
    reply: z.object({
      queries_per_second: z.number().meta({ description: "of one's own zones: estimated" }),
      rcodes: z
        .record(z.string(), z.int())
        .nullable()
        .meta({ description: "null for whoever is confined to zones: codes are not counted by zone" }),
      top_zones: z.array(z.object({ domain: z.string(), queries: z.int() })).meta({ description: "estimated" }),
      series: z
        .array(z.object({ timestamp: z.string(), queries_per_second: z.number().nullable() }))
        .meta({ description: "every minute since the first that is known; null for one that no server told of" }),
    }),
    act: async ({ caller }) => {
      const now = new Date(clock.nowMs());
      const zones = await ownZones(db, caller);
      if (!zones) return refuse(problem("no-such-company"));
      const isConfined = caller.role !== "operator";
      const traffic = isConfined ? await readZoneTraffic(db, zones, now, PERIODS) : await readTraffic(db, now, PERIODS);
      return ok({
        queries_per_second: traffic.queriesPerSecond,
        rcodes:
          traffic.rcodes &&
          Object.fromEntries([...traffic.rcodes].map(([rcode, count]) => [rcodeMnemonic(rcode), count])),
        top_zones: traffic.topZones.map(({ name, queries }) => ({ domain: name, queries })),
        series: everyStep(traffic.series, now).map(({ at, queriesPerSecond }) => ({
          timestamp: at.toISOString(),
          queries_per_second: queriesPerSecond,
        })),
      });
    },
  }),
];

/** That nobody told of a time does not mean that nothing was asked. The step that has just begun may have no report yet. */
function everyStep(series: TrafficSummary["series"], now: Date): { at: Date; queriesPerSecond: number | null }[] {
  const [first] = series;
  if (!first) return [];
  const stepMs = PERIODS.stepSeconds * 1_000;
  const known = new Map(series.map(({ at, queriesPerSecond }) => [at.getTime(), queriesPerSecond]));
  const lastMs = Math.max(series.at(-1)!.at.getTime(), now.getTime() - (now.getTime() % stepMs) - stepMs);
  const steps = (lastMs - first.at.getTime()) / stepMs + 1;
  return Array.from({ length: steps }, (_, index) => {
    const atMs = first.at.getTime() + index * stepMs;
    return { at: new Date(atMs), queriesPerSecond: known.get(atMs) ?? null };
  });
}
