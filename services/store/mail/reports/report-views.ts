import { type Db, queryRows } from "../../../platform/postgres/db.ts";
import type { ReportedDomain, ReportWeight } from "./dmarc-reports.ts";
import { TODAY } from "./utc-day.ts";

/** The last so many days of reports about a domain. */
export interface ReportPeriod extends ReportedDomain {
  readonly days: number;
}

/** What was reported of a source. */
export interface SourceCounts {
  readonly source: string;
  readonly messages: number;
  /** Of them: with aligned DKIM, with aligned SPF, with either. */
  readonly dkim: number;
  readonly spf: number;
  readonly passing: number;
  /** Failing, and taken all the same although the policy says otherwise. */
  readonly overridden: number;
  /** Of reports that count: all, and those failing that were not taken all the same. */
  readonly counted: number;
  readonly countedFailing: number;
  /** What became of those that failed, as receivers say. */
  readonly quarantined: number;
  readonly rejected: number;
  readonly dkimDomain: string;
  readonly spfDomain: string;
  readonly firstDay: string;
  readonly lastDay: string;
  /** It has passed at some time. */
  readonly hasPassed: boolean;
}

/** Sources that are told apart; the others of a domain that somebody abuses are in no view. */
const MOST_SOURCES = 10_000;

/** Those of reports that count first, so that what strangers write hides nobody; then the most frequent. */
export async function readSources(db: Db, { instanceId, domain, days }: ReportPeriod): Promise<SourceCounts[]> {
  return queryRows<SourceCounts>(
    db,
    `select host(d.source) as source, d.messages, d.dkim, d.spf, d.passing, d.overridden, d.counted, d."countedFailing", d.quarantined, d.rejected,
            s.dkim_domain as "dkimDomain", s.spf_domain as "spfDomain", s.first_day::text as "firstDay", s.last_day::text as "lastDay",
            s.last_pass is not null as "hasPassed"
       from (select source, sum(messages)::float8 as messages,
                    coalesce(sum(messages) filter (where dkim), 0)::float8 as dkim,
                    coalesce(sum(messages) filter (where spf), 0)::float8 as spf,
                    coalesce(sum(messages) filter (where dkim or spf), 0)::float8 as passing,
                    coalesce(sum(messages) filter (where not (dkim or spf) and overridden), 0)::float8 as overridden,
                    coalesce(sum(messages) filter (where counts), 0)::float8 as counted,
                    coalesce(sum(messages) filter (where counts and not (dkim or spf or overridden)), 0)::float8 as "countedFailing",
                    coalesce(sum(messages) filter (where disposition = 'quarantine'), 0)::float8 as quarantined,
                    coalesce(sum(messages) filter (where disposition = 'reject'), 0)::float8 as rejected
               from dmarc_days where instance_id = $1 and domain = $2 and day > ${TODAY} - $3::int group by source) d
       join dmarc_sources s on s.instance_id = $1 and s.domain = $2 and s.source = d.source
      order by d.counted = 0, d.messages desc, d.source limit $4`,
    [instanceId, domain, days, MOST_SOURCES],
  );
}

/** Who reported, and since when. */
export interface ReportCounts {
  readonly reports: number;
  readonly reporters: number;
  /** Days that were reported about. */
  readonly days: number;
}

export async function countReports(
  db: Db,
  table: "dmarc_reports" | "tls_reports",
  { instanceId, domain, days }: ReportPeriod,
): Promise<ReportCounts> {
  const [row] = await queryRows<ReportCounts>(
    db,
    `select count(*)::int as reports, count(distinct reporter)::int as reporters, count(distinct day)::int as days
       from ${table} where instance_id = $1 and domain = $2 and day > ${TODAY} - $3::int`,
    [instanceId, domain, days],
  );
  return row!;
}

/** DMARC reports that count, and days that they are about. */
export async function countCountedReports(
  db: Db,
  { instanceId, domain, days }: ReportPeriod,
): Promise<Pick<ReportCounts, "reports" | "days">> {
  const [row] = await queryRows<Pick<ReportCounts, "reports" | "days">>(
    db,
    `select count(*)::int as reports, count(distinct day)::int as days from dmarc_reports
      where instance_id = $1 and domain = $2 and counts and day > ${TODAY} - $3::int`,
    [instanceId, domain, days],
  );
  return row!;
}

/** A DMARC report as it came. */
export interface ReceivedReport extends ReportWeight {
  readonly reporter: string;
  /** That it is about. */
  readonly day: string;
  readonly receivedAt: Date;
  readonly messages: number;
}

const MOST_REPORTS = 100;

/** The newest first. */
export async function listDmarcReports(db: Db, { instanceId, domain, days }: ReportPeriod): Promise<ReceivedReport[]> {
  return queryRows<ReceivedReport>(
    db,
    `select reporter, day::text as day, received_at as "receivedAt", messages::float8 as messages, signed_by as "signedBy", counts
       from dmarc_reports where instance_id = $1 and domain = $2 and day > ${TODAY} - $3::int
      order by received_at desc, id desc limit $4`,
    [instanceId, domain, days, MOST_REPORTS],
  );
}

/** `p` of the domain's record as the newest report has it, of those that count if there are any; empty: there is none. */
export async function readReportedPolicy(db: Db, { instanceId, domain }: ReportedDomain): Promise<string> {
  const [row] = await queryRows<{ p: string }>(
    db,
    `select policy ->> 'p' as p from dmarc_reports where instance_id = $1 and domain = $2 order by counts desc, ends_at desc limit 1`,
    [instanceId, domain],
  );
  return row?.p ?? "";
}

/** Sessions by exchanger and outcome. */
export interface TlsCounts {
  readonly policyType: string;
  readonly exchanger: string;
  readonly result: string;
  readonly sessions: number;
}

const MOST_TLS_ROWS = 500;

/** The most frequent first. */
export async function readTlsCounts(db: Db, { instanceId, domain, days }: ReportPeriod): Promise<TlsCounts[]> {
  return queryRows<TlsCounts>(
    db,
    `select policy_type as "policyType", exchanger, result, sum(sessions)::float8 as sessions
       from tls_days where instance_id = $1 and domain = $2 and day > ${TODAY} - $3::int
      group by 1, 2, 3 order by 4 desc, 2, 3 limit $4`,
    [instanceId, domain, days, MOST_TLS_ROWS],
  );
}
