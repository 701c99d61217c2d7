import { Page, Section } from "../components/page.tsx";
import { useFetched } from "../fetched.ts";
import { formatNumber } from "../format.ts";
import { texts } from "../texts.ts";
import type { DnsStatistics } from "./dns-statistics.ts";
import { QueriesChart } from "./dns-statistics-page.tsx";

const REFRESH_MS = 10_000;

/** The state of everything on one page. A part that does not answer leaves its figure empty, not the page. */
export function OperatorOverview() {
  const { overview: words } = texts().operator;
  const dns = useFetched<DnsStatistics>("/dns_statistics", REFRESH_MS);
  const queues = useFetched<{ waiting: number; held: number }>("/queues?limit=1", REFRESH_MS);
  const quarantine = useFetched<{ total: number }>("/quarantine?limit=1", REFRESH_MS);
  const resellers = useFetched<{ resellers: unknown[] }>("/resellers");
  const instances = useFetched<{ instances: unknown[] }>("/instances");
  return (
    <Page title={words.title}>
      <div class="tiles">
        <Tile label={words.queriesPerSecond} value={dns.value?.queries_per_second} href="/operator/dns" digits={1} />
        <Tile label={words.waiting} value={queues.value?.waiting} href="/operator/queues" />
        <Tile label={words.held} value={queues.value?.held} href="/operator/queues" />
        <Tile label={words.quarantined} value={quarantine.value?.total} href="/operator/quarantine" />
        <Tile label={words.resellers} value={resellers.value?.resellers.length} href="/operator/resellers" />
        <Tile label={words.instances} value={instances.value?.instances.length} href="/operator/instances" />
      </div>
      {dns.value && (
        <Section title={words.live}>
          <QueriesChart series={dns.value.series} />
        </Section>
      )}
    </Page>
  );
}

interface TileProps {
  readonly label: string;
  /** undefined: not known yet. */
  readonly value: number | undefined;
  readonly href: string;
  readonly digits?: number;
}

function Tile({ label, value, href, digits = 0 }: TileProps) {
  return (
    <a class="tile" href={href}>
      <span class="tile-label">{label}</span>
      <span class="tile-value">{value === undefined ? "–" : formatNumber(value, digits)}</span>
    </a>
  );
}
