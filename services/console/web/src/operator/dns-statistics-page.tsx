import { BarList } from "../components/bar-list.tsx";
import { Chart } from "../components/chart.tsx";
import { EmptyState } from "../components/empty-state.tsx";
import { Loaded } from "../components/loaded.tsx";
import { Page, Section } from "../components/page.tsx";
import { useFetched } from "../fetched.ts";
import { formatNumber } from "../format.ts";
import { session } from "../session.ts";
import { texts } from "../texts.ts";
import type { DnsStatistics } from "./dns-statistics.ts";

const REFRESH_MS = 5_000;

/** Queries, answers and the most asked zones, as they are now. */
export function DnsStatisticsPage() {
  const { statistics: words } = texts().operator;
  const statistics = useFetched<DnsStatistics>("/dns_statistics", REFRESH_MS);
  return (
    <Page title={words.title}>
      {session.value?.role !== "operator" && <p class="intro">{words.ownZones}</p>}
      <Loaded of={statistics}>{(value) => <Figures of={value} />}</Loaded>
    </Page>
  );
}

function Figures({ of: { queries_per_second, rcodes, top_zones, series } }: { readonly of: DnsStatistics }) {
  const { statistics: words } = texts().operator;
  return (
    <>
      <Section title={words.queries} hint={formatNumber(queries_per_second, 1)}>
        <QueriesChart series={series} />
      </Section>
      <div class="side-by-side">
        {rcodes && (
          <Section title={words.rcodes}>
            {Object.keys(rcodes).length === 0 ? (
              <p class="hint">{words.noZones}</p>
            ) : (
              <BarList bars={Object.entries(rcodes).map(([label, value]) => ({ label, value }))} />
            )}
          </Section>
        )}
        <Section title={words.topZones}>
          {top_zones.length === 0 ? (
            <EmptyState icon="globe" title={words.noZones}>
              <p>{words.noZonesHint}</p>
            </EmptyState>
          ) : (
            <BarList bars={top_zones.map(({ domain, queries }) => ({ label: domain, value: queries }))} />
          )}
        </Section>
      </div>
    </>
  );
}

export function QueriesChart({ series }: { readonly series: DnsStatistics["series"] }) {
  const { statistics: words } = texts().operator;
  return (
    <Chart
      label={words.queries}
      times={series.map(({ timestamp }) => new Date(timestamp).getTime() / 1_000)}
      series={[{ label: words.queries, colour: "--accent", values: series.map((point) => point.queries_per_second) }]}
      fractionDigits={1}
    />
  );
}
