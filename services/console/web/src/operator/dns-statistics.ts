/** What the name server did lately. */
export interface DnsStatistics {
  readonly queries_per_second: number;
  /** Answers by code; null for whoever is confined to some zones. */
  readonly rcodes: Readonly<Record<string, number>> | null;
  readonly top_zones: readonly { readonly domain: string; readonly queries: number }[];
  /** Queries per second over time, oldest first; null where no server told. */
  readonly series: readonly { readonly timestamp: string; readonly queries_per_second: number | null }[];
}
