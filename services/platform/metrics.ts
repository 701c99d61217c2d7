import { AggregatorRegistry, Counter, Registry } from "prom-client";

/** The metrics of this process; the supervisor gathers those of all services (see services/cli/supervisor.ts). */
export const registry = new Registry();

/** Counts every observation by its kind. */
export const observations = new Counter({
  name: "palomar_observations_total",
  help: "Observations by kind",
  labelNames: ["kind"],
  registers: [registry],
});

/** One metric family as prom-client hands it between processes. */
export type MetricFamilies = object[];

export async function collectMetrics(): Promise<MetricFamilies> {
  return (await registry.getMetricsAsJSON()) as MetricFamilies;
}

/** Sums the families of several processes into one Prometheus exposition text. */
export async function aggregateMetrics(processes: readonly MetricFamilies[]): Promise<string> {
  return AggregatorRegistry.aggregate(processes as never).metrics();
}
