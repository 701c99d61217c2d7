import { Gauge } from "prom-client";
import { expect, it } from "vitest";
import {
  aggregateMetrics,
  collectMetrics,
  measure,
  registry,
} from "../../../../services/platform/observability/metrics.ts";

/** Series by what comes before their values, summed over two processes that have measured the same. */
async function seriesOfTwo(): Promise<ReadonlyMap<string, number>> {
  const families = await collectMetrics();
  const lines = (await aggregateMetrics([families, families])).split("\n");
  return new Map(
    lines.map((line) => [line.slice(0, line.lastIndexOf(" ")), Number(line.slice(line.lastIndexOf(" ") + 1))]),
  );
}

it("observations become counts, latencies and bounces by class, summed over processes", async () => {
  const before = await seriesOfTwo();
  // Before the first one, so that it is seen.
  expect(before.has('palomar_delivery_attempts_total{outcome="delivered"}')).toBe(true);
  expect(before.get('palomar_observations_total{kind="notify-given-up"}')).toBe(0);
  expect(before.get('palomar_bounces_total{noticed="report",class="hard",reason="blocked"}')).toBe(0);
  measure({ kind: "http-request", requestId: "r1", method: "GET", path: "/", status: 204, ms: 7 }, "dns-api");
  const published = { kind: "zones-published", zones: 3, octets: 9_000 } as const;
  measure({ ...published, changed: 2, ms: 30 }, "dns-server");
  measure({ ...published, changed: 0, ms: 5_000 }, "dns-server");
  const attempt = { deliveryId: 1, words: "" };
  measure({ kind: "delivery-deferred", ...attempt, bounceClass: undefined }, "delivery");
  const bounceClass = { hard: true, reason: "userunknown" };
  measure({ kind: "delivery-bounced", ...attempt, bounceClass }, "delivery");
  const bounces = [{ hard: false, reason: "mailboxfull" }];
  for (const consequence of ["bounce", "complaint", "unidentified"]) {
    const applied = {
      id: 1,
      deliveryId: 1,
      finding: "dsn",
      consequence,
      bounces: consequence === "complaint" ? [] : bounces,
    };
    measure({ kind: "inbound-applied", ...applied }, "bounce");
  }
  const after = await seriesOfTwo();
  for (const [series, added] of [
    ['palomar_http_request_seconds_bucket{le="0.005",service="dns-api",method="GET",status="2xx"}', 0],
    ['palomar_http_request_seconds_bucket{le="0.01",service="dns-api",method="GET",status="2xx"}', 2],
    ['palomar_http_request_seconds_count{service="dns-api",method="GET",status="5xx"}', 0],
    ["palomar_dns_publication_seconds_count", 2],
    ['palomar_delivery_attempts_total{outcome="deferred"}', 2],
    ['palomar_delivery_attempts_total{outcome="bounced"}', 2],
    ['palomar_bounces_total{noticed="session",class="hard",reason="userunknown"}', 2],
    ['palomar_bounces_total{noticed="report",class="soft",reason="mailboxfull"}', 2],
    ["palomar_complaints_total", 2],
    ['palomar_observations_total{kind="http-request"}', 2],
  ] as const) {
    expect([series, after.get(series)]).toEqual([series, (before.get(series) ?? 0) + added]);
  }
});

it("what nobody knows is not shown, rather than as 0", async () => {
  const gauge = new Gauge({ name: "test_length", help: "A length", registers: [registry] });
  gauge.remove();
  const unknown = await collectMetrics();
  expect(await aggregateMetrics([unknown, unknown])).not.toContain("test_length");
  gauge.set(0);
  const known = await collectMetrics();
  registry.removeSingleMetric("test_length");
  expect(await aggregateMetrics([unknown, known])).toContain("\ntest_length 0\n");
});
