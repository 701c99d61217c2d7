import { type DomainName, withAncestors } from "../../core/dns/name.ts";
import { type Db, queryRows, StatementValues } from "../../platform/postgres/db.ts";
import { isInScope, type ZoneScope, zoneName } from "./zones.ts";

/** What one server process was asked in some seconds. */
export interface TrafficReport {
  /** The process. */
  readonly source: string;
  readonly at: Date;
  readonly seconds: number;
  readonly queries: number;
  /** Responses by code. */
  readonly rcodes: Readonly<Record<string, number>>;
  /** Queries by the zone's name, estimated. */
  readonly zones: Readonly<Record<string, number>>;
}

/** What all servers were asked, of everything or of some zones. */
export interface TrafficSummary {
  readonly queriesPerSecond: number;
  /** Responses by code; null of some zones, by which they are not counted. */
  readonly rcodes: ReadonlyMap<number, number> | null;
  readonly topZones: readonly { readonly name: string; readonly queries: number }[];
  readonly series: readonly { readonly at: Date; readonly queriesPerSecond: number }[];
}

const KEPT_HOURS = 24;

export async function addTrafficReport(db: Db, report: TrafficReport): Promise<void> {
  await queryRows(
    db,
    `with outdated as (delete from dns_traffic where at < $1::timestamptz - make_interval(hours => $2))
     insert into dns_traffic (source, at, seconds, queries, rcodes, zones) values ($3, $4, $5, $6, $7, $8)`,
    [
      ...[report.at.toISOString(), KEPT_HOURS, report.source, report.at.toISOString()],
      ...[report.seconds, report.queries, JSON.stringify(report.rcodes), JSON.stringify(report.zones)],
    ],
  );
}

/** The zones that names lie in, by `DomainName.key` of the names; the longest where there are several. */
export async function zonesOfNames(db: Db, names: readonly DomainName[]): Promise<ReadonlyMap<string, string>> {
  const candidates = new Map(names.map((name) => [name.key, withAncestors(name).map(zoneName)]));
  const rows = await queryRows<{ name: string }>(db, "select name from zones where name = any($1::text[])", [
    [...new Set([...candidates.values()].flat())],
  ]);
  const known = new Set(rows.map(({ name }) => name));
  const found = new Map<string, string>();
  for (const [key, ancestors] of candidates) {
    const zone = ancestors.find((name) => known.has(name));
    if (zone !== undefined) found.set(key, zone);
  }
  return found;
}

/** Of what time a summary tells. */
export interface TrafficPeriods {
  /** Of the rate at present. */
  readonly nowSeconds: number;
  /** Of codes and zones. */
  readonly lastSeconds: number;
  readonly seriesSeconds: number;
  readonly stepSeconds: number;
  /** How many of the busiest zones are told. */
  readonly topZones: number;
}

/** All that was asked, whatever for. @param now the moment up to which */
export async function readTraffic(db: Db, now: Date, periods: TrafficPeriods): Promise<TrafficSummary> {
  const at = now.toISOString();
  const { nowSeconds, lastSeconds, seriesSeconds, stepSeconds, topZones } = periods;
  const [rate] = await queryRows<{ rate: number | null }>(
    db,
    `select sum(rate) as rate from (
       select sum(queries) / nullif(sum(seconds), 0) as rate from dns_traffic
        where at > $1::timestamptz - make_interval(secs => $2) and at <= $3::timestamptz group by source) each_source`,
    [at, nowSeconds, at],
  );
  const rcodes = await queryRows<{ rcode: string; responses: number }>(
    db,
    `select key as rcode, sum(value::bigint)::bigint as responses from dns_traffic, jsonb_each_text(rcodes)
      where at > $1::timestamptz - make_interval(secs => $2) group by key`,
    [at, lastSeconds],
  );
  const zones = await queryRows<{ name: string; queries: number }>(
    db,
    `select key as name, round(sum(value::numeric))::bigint as queries from dns_traffic, jsonb_each_text(zones)
      where at > $1::timestamptz - make_interval(secs => $2) group by key order by queries desc, key limit $3`,
    [at, lastSeconds, topZones],
  );
  const series = await queryRows<{ at: Date; rate: number }>(
    db,
    `select to_timestamp(floor(extract(epoch from at) / $1) * $2) as at, sum(queries)::float8 / $3 as rate from dns_traffic
      where at > $4::timestamptz - make_interval(secs => $5) group by 1 order by 1`,
    [stepSeconds, stepSeconds, stepSeconds, at, seriesSeconds],
  );
  return {
    queriesPerSecond: Number(rate?.rate ?? 0),
    rcodes: new Map(rcodes.map(({ rcode, responses }) => [Number(rcode), responses])),
    topZones: zones,
    series: series.map(({ at: from, rate: queriesPerSecond }) => ({ at: from, queriesPerSecond })),
  };
}

/** What was asked of the zones of a scope, estimated as the reports are. @param now the moment up to which */
export async function readZoneTraffic(
  db: Db,
  scope: ZoneScope,
  now: Date,
  { nowSeconds, lastSeconds, seriesSeconds, stepSeconds, topZones }: TrafficPeriods,
): Promise<TrafficSummary> {
  const at = now.toISOString();
  const ofRate = new StatementValues(at, nowSeconds);
  const [rate] = await queryRows<{ rate: number | null }>(
    db,
    `select sum(rate)::float8 as rate from (
       select (select sum(own.queries) from dns_traffic told, ${ownZones(scope, ofRate)} own
                where told.source = report.source and told.at > $1::timestamptz - make_interval(secs => $2)
                  and told.at <= $1) / nullif(sum(report.seconds), 0) as rate
         from dns_traffic report
        where at > $1::timestamptz - make_interval(secs => $2) and at <= $1 group by source) each_source`,
    ofRate.all,
  );
  const ofZones = new StatementValues(at, lastSeconds, topZones);
  const zones = await queryRows<{ name: string; queries: number }>(
    db,
    `select own.name, round(sum(own.queries))::bigint as queries from dns_traffic told, ${ownZones(scope, ofZones)} own
      where told.at > $1::timestamptz - make_interval(secs => $2) group by own.name order by queries desc, name limit $3`,
    ofZones.all,
  );
  const ofSeries = new StatementValues(stepSeconds, at, seriesSeconds);
  const series = await queryRows<{ at: Date; rate: number }>(
    db,
    `select to_timestamp(floor(extract(epoch from told.at) / $1::float8) * $1::float8) as at,
            coalesce(sum(own.queries), 0)::float8 / $1::float8 as rate
       from dns_traffic told left join ${ownZones(scope, ofSeries)} own on true
      where told.at > $2::timestamptz - make_interval(secs => $3) group by 1 order by 1`,
    ofSeries.all,
  );
  return {
    queriesPerSecond: rate?.rate ?? 0,
    rcodes: null,
    topZones: zones,
    series: series.map(({ at: from, rate: queriesPerSecond }) => ({ at: from, queriesPerSecond })),
  };
}

/** What a report `told` tells of the customers' zones of a scope. */
function ownZones(scope: ZoneScope, values: StatementValues): string {
  return `lateral (
    select z.name, value::numeric as queries from jsonb_each_text(told.zones) join zones z on z.name = key
     where z.kind = 'primary' and ${isInScope(scope, values)})`;
}
