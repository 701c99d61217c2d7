import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { packageFolder } from "../../services/platform/package-folder.ts";
// Those that define counters of their own.
import "../../services/console/certificate-upkeep.ts";
import "../../services/dns-api/follow/health-checker.ts";
import "../../services/dns-api/follow/zone-deriver.ts";
import { aggregateMetrics, collectMetrics, measure } from "../../services/platform/observability/metrics.ts";

const read = (path: string) => readFileSync(join(packageFolder, path), "utf8");
const rules = read("deploy/prometheus/alerts.yml");

/** As a browser finds it on a page. */
const anchorOf = (heading: string) => heading.toLowerCase().replaceAll(" ", "-");

it("every alert has its row where its runbook is, and every row its alert", () => {
  const alerts = rules.split("- alert: ").slice(1);
  const named = alerts.map((rule) => [/^\w+/.exec(rule)![0], / {10}runbook: (.*)/.exec(rule)?.[1]]);
  const rows = read("docs/alerts.md")
    .split(/^## /m)
    .slice(1)
    .flatMap((section) => {
      const place = `docs/alerts.md#${anchorOf(section.slice(0, section.indexOf("\n")))}`;
      return [...section.matchAll(/^\| `(\w+)` (?:\| [^|]+ ){3}\|$/gm)].map(([, name]) => [name, place]);
    });
  expect(named.sort()).toEqual(rows.sort());
});

/** Counted by threads (dns-server's) or by the supervisor, and told from the start by them. */
const ELSEWHERE = /^palomar_(dns_|service_(?:restarts|hangs)_total)/;

/** Of what `increase` and `rate` are of, the series that there have to be: the metric, and for each label its values. */
function alertedCounters(): { readonly metric: string; readonly labels: readonly (readonly [string, RegExp])[] }[] {
  const ranges = rules.matchAll(/(?:rate|increase)\((palomar_\w+)(?:\{([^}]*)\})?\[/g);
  return [...ranges].map(([, metric, selector = ""]) => {
    const matchers = selector.matchAll(/(\w+)=~?"([^"]*)"/g);
    return { metric: metric!, labels: [...matchers].map(([, label, value]) => [label!, new RegExp(`^(${value})$`)]) };
  });
}

it("what alerts count is there from the start: the first of a kind is an increase", async () => {
  // Errors are expected of who was asked.
  measure({ kind: "http-request", requestId: "r1", method: "GET", path: "/", status: 200, ms: 1 }, "mail-api");
  const lines = (await aggregateMetrics([await collectMetrics()])).split("\n");
  const counters = alertedCounters().filter(({ metric }) => !ELSEWHERE.test(metric));
  expect(counters.length).toBeGreaterThan(20);
  for (const { metric, labels } of counters) {
    const series = lines.filter((line) => line.startsWith(`${metric} `) || line.startsWith(`${metric}{`));
    expect(series, metric).not.toEqual([]);
    for (const [label, wanted] of labels) {
      const values = new Set(series.flatMap((line) => new RegExp(`[{,]${label}="([^"]*)"`).exec(line)?.[1] ?? []));
      const alternatives = expand(wanted);
      expect([metric, label, alternatives.filter((value) => !values.has(value))]).toEqual([metric, label, []]);
    }
  }
});

/** All that an expression of the rules matches: alternatives, within one pair of parentheses at most. */
function expand({ source }: RegExp): string[] {
  const pattern = source.slice(2, -2);
  const [, before, group, after] = /^(.*)\((.*)\)(.*)$/.exec(pattern) ?? [];
  if (group === undefined) return pattern.split("|");
  return group.split("|").map((one) => `${before}${one}${after}`);
}
