import { Counter, Gauge } from "prom-client";
import { registry } from "../../platform/observability/metrics.ts";
import { RCODE_COUNTERS, STATISTIC, type Statistics } from "./statistics.ts";

const TRANSPORTS = [
  ["udp", STATISTIC.UDP],
  ["tcp", STATISTIC.TCP],
  ["tls", STATISTIC.TLS],
  ["https", STATISTIC.HTTPS],
] as const;

/** Zones of the zone database and the memory that they take. */
export interface ZoneDatabaseSize {
  readonly zoneCount: number;
  readonly usedOctets: number;
  readonly totalOctets: number;
}

/** What ought to be answered, and is not for want of memory. */
export interface ZoneCompleteness {
  /** Whether zones have been loaded at all. */
  readonly isLoaded: () => boolean;
  readonly expectedCount: () => number;
  /** Those that need least first. */
  readonly leftOut: () => readonly {
    readonly zone: string;
    readonly servesLastVersion: boolean;
    readonly takenOctets: number;
  }[];
}

/** What the database has, and nobody can read. */
export interface Unreadable {
  /** Zones whose latest versions cannot be read. */
  readonly zones: () => readonly string[];
  /** What of the transfer access cannot be, a line each. */
  readonly access: () => readonly string[];
}

/** Response codes up to this one are shown before there are any (RFC 1035 §4.1.1): an increase is of two values. */
const REFUSED = 5;
/** So many of a kind are named. */
const MOST_NAMED = 20;

/**
 * Shows the threads' counters and the zone database's size among this process' metrics.
 * @returns takes them off again
 */
export function exportStatistics(
  statistics: Statistics,
  zoneDatabase: ZoneDatabaseSize,
  { isLoaded, expectedCount, leftOut }: ZoneCompleteness,
  unreadable: Unreadable,
): () => void {
  const made = [
    new Counter({
      name: "palomar_dns_queries_total",
      help: "DNS packets received, by transport",
      labelNames: ["transport"],
      registers: [registry],
      collect() {
        for (const [transport, statistic] of TRANSPORTS) this.inc({ transport }, statistics.takeIncrease(statistic));
      },
    }),
    new Counter({
      name: "palomar_dns_responses_total",
      help: "DNS responses by response code",
      labelNames: ["rcode"],
      registers: [registry],
      collect() {
        for (let rcode = 0; rcode < RCODE_COUNTERS; rcode += 1) {
          const increase = statistics.takeIncrease(STATISTIC.RCODE + rcode);
          if (increase > 0 || rcode <= REFUSED) this.inc({ rcode: String(rcode) }, increase);
        }
      },
    }),
    simpleCounter("palomar_dns_dropped_total", "DNS packets without an answer", STATISTIC.DROPPED),
    simpleCounter(
      "palomar_dns_repeated_total",
      "DNS answers by UDP that were given before and given again",
      STATISTIC.REPEATED,
    ),
    simpleCounter("palomar_dns_truncated_total", "DNS responses with TC", STATISTIC.TRUNCATED),
    simpleCounter(
      "palomar_dns_rate_dropped_total",
      "DNS answers that the rate limit held back",
      STATISTIC.RATE_DROPPED,
    ),
    simpleCounter(
      "palomar_dns_rate_slipped_total",
      "DNS answers that the rate limit truncated",
      STATISTIC.RATE_SLIPPED,
    ),
    gauge("palomar_dns_zones", "Zones that are answered for", () => zoneDatabase.zoneCount),
    gauge("palomar_dns_zones_loaded", "1 when the zones have been loaded, 0 before", () => Number(isLoaded())),
    gauge("palomar_dns_zones_expected", "Zones that ought to be answered for", expectedCount),
    gauge(
      "palomar_dns_zones_left_out",
      "Zones that are SERVFAIL because there is no memory for them",
      () => leftOut().filter(({ servesLastVersion }) => !servesLastVersion).length,
    ),
    gauge(
      "palomar_dns_zones_outdated",
      "Zones that are answered as they were because there is no memory for what they are",
      () => leftOut().filter(({ servesLastVersion }) => servesLastVersion).length,
    ),
    new Gauge({
      name: "palomar_dns_zone_left_out_octets",
      help: "Octets that a zone had taken when there was no memory left for it: it needs more; the first 20 zones",
      labelNames: ["zone", "answer"],
      registers: [registry],
      collect() {
        this.reset();
        for (const { zone, servesLastVersion, takenOctets } of leftOut().slice(0, MOST_NAMED)) {
          this.set({ zone, answer: servesLastVersion ? "outdated" : "servfail" }, takenOctets);
        }
      },
    }),
    new Gauge({
      name: "palomar_dns_zone_unreadable",
      help: "1 for each zone that the database has in a form that cannot be read; the first 20",
      labelNames: ["zone"],
      registers: [registry],
      collect() {
        setEach(this, "zone", unreadable.zones());
      },
    }),
    new Gauge({
      name: "palomar_dns_transfer_access_unreadable",
      help: "1 for each ACL, TSIG key, feed or catalog that cannot be read, and so lets nobody transfer; the first 20",
      labelNames: ["what"],
      registers: [registry],
      collect() {
        setEach(this, "what", unreadable.access());
      },
    }),
    gauge("palomar_dns_zone_database_octets", "Memory that the zones take", () => zoneDatabase.usedOctets),
    gauge("palomar_dns_zone_database_limit_octets", "Memory that the zones may take", () => zoneDatabase.totalOctets),
  ];
  return () => {
    for (const { name } of made as unknown as { name: string }[]) registry.removeSingleMetric(name);
  };

  function simpleCounter(name: string, help: string, statistic: number): Counter {
    return new Counter({
      name,
      help,
      registers: [registry],
      collect() {
        this.inc(statistics.takeIncrease(statistic));
      },
    });
  }
}

function gauge(name: string, help: string, value: () => number): Gauge {
  return new Gauge({
    name,
    help,
    registers: [registry],
    collect() {
      this.set(value());
    },
  });
}

/** 1 for each of the first of many. */
function setEach<Label extends string>(shown: Gauge<Label>, label: Label, values: readonly string[]): void {
  shown.reset();
  for (const value of values.slice(0, MOST_NAMED)) shown.set({ [label]: value } as Record<Label, string>, 1);
}
