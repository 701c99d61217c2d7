import { type DmarcReport, type DmarcRow, dayOf, type SenderReport } from "../../../core/mail/reports/report.ts";
import { queryRows, type Transaction } from "../../../platform/postgres/db.ts";

/** A sender domain of an instance. */
export interface ReportedDomain {
  readonly instanceId: number;
  readonly domain: string;
}

/** Who answers for a report: the known reporter that signed its message, or, of an unsigned one, whoever it claims to be of. */
type ReportOrigin = { readonly signedBy: string } | { readonly reporter: string };

/** What was taken about a domain within a day of the signed reports, or of the unsigned ones: of all, and of one origin. */
interface TakenReports {
  readonly reports: number;
  readonly ofReporter: number;
  readonly rows: number;
}

/** Holds up whoever else counts a report about the domain, until the transaction ends. */
export async function lockReportedDomain(
  transaction: Transaction,
  { instanceId, domain }: ReportedDomain,
): Promise<void> {
  await queryRows(transaction, "select pg_advisory_xact_lock(hashtextextended($1, 0))", [
    `reports ${instanceId} ${domain}`,
  ]);
}

/** Reports about TLS are never signed by a known reporter. */
export async function countTakenReports(
  transaction: Transaction,
  kind: SenderReport["kind"],
  { instanceId, domain }: ReportedDomain,
  origin: ReportOrigin,
): Promise<TakenReports> {
  const [isOfOrigin, name] =
    "signedBy" in origin ? ["signed_by = $3", origin.signedBy] : ["reporter = $3", origin.reporter.toLowerCase()];
  const isAlike = kind === "tls" ? "true" : "signedBy" in origin ? "signed_by <> ''" : "signed_by = ''";
  const [row] = await queryRows<TakenReports>(
    transaction,
    `select count(*)::int as reports, count(*) filter (where ${isOfOrigin})::int as "ofReporter", coalesce(sum(rows), 0)::int as rows
       from ${kind === "tls" ? "tls_reports" : "dmarc_reports"}
      where instance_id = $1 and domain = $2 and received_at > now() - interval '1 day' and ${isAlike}`,
    [instanceId, domain, name],
  );
  return row!;
}

/** Whether a report counts, or is only shown. */
export interface ReportWeight {
  /** The domain of a known reporter that signed the message; empty: none. */
  readonly signedBy: string;
  readonly counts: boolean;
}

/**
 * For a transaction that holds the domain ({@link lockReportedDomain}).
 * @param report.leftOut messages that it told of other domains
 * @returns its id; undefined: it is there already, an unsigned one also where a signed one of that name is
 */
export async function addDmarcReport(
  transaction: Transaction,
  { instanceId, domain }: ReportedDomain,
  report: DmarcReport & ReportWeight & { readonly leftOut: number },
): Promise<number | undefined> {
  const name = {
    ...{ instance_id: instanceId, domain, reporter: report.reporter.toLowerCase(), report_id: report.reportId },
  };
  if (report.signedBy === "" && (await transaction("dmarc_reports").where(name).first("id"))) return undefined;
  const [row] = await transaction("dmarc_reports")
    .insert({
      ...name,
      contact: report.contact,
      policy_domain: report.policy.domain,
      policy: JSON.stringify(report.policy),
      begins_at: report.beginsAt,
      ends_at: report.endsAt,
      day: dayOf(report),
      rows: report.rows.length,
      messages: report.rows.reduce((sum, { messages }) => sum + messages, 0),
      left_out: report.leftOut,
      signed_by: report.signedBy,
      counts: report.counts,
    })
    .onConflict(["instance_id", "domain", "reporter", "report_id", "signed_by"])
    .ignore()
    .returning("id");
  return row?.id;
}

/** Stores the rows of a report, and adds them to those of its day. */
export async function addDmarcRows(
  transaction: Transaction,
  { instanceId, domain }: ReportedDomain,
  report: { readonly id: number; readonly day: string; readonly rows: readonly DmarcRow[]; readonly counts: boolean },
): Promise<void> {
  const { id, day, rows, counts } = report;
  await queryRows(
    transaction,
    `with given as (
       select * from unnest($5::inet[], $6::text[], $7::bool[], $8::bool[], $9::text[], $10::text[], $11::text[], $12::text[], $13::bigint[])
         with ordinality as g (source, header_from, dkim, spf, disposition, overridden, dkim_domain, spf_domain, messages, position)
     ), kept as (
       insert into dmarc_rows (dmarc_report, position, instance_id, source, header_from, dkim, spf, disposition, overridden, dkim_domain, spf_domain, messages)
       select $3, position, $1, source, header_from, dkim, spf, disposition, overridden, dkim_domain, spf_domain, messages from given
     )
     insert into dmarc_days as known (instance_id, domain, day, source, header_from, dkim, spf, disposition, overridden, counts, messages)
     select $1, $2, $4, source, header_from, dkim, spf, disposition, overridden <> '', $14, sum(messages) from given group by 4, 5, 6, 7, 8, 9
     on conflict (instance_id, domain, day, source, header_from, dkim, spf, disposition, overridden, counts)
       do update set messages = known.messages + excluded.messages`,
    [
      ...[instanceId, domain, id, day],
      ...[rows.map(({ source }) => source), rows.map(({ headerFrom }) => headerFrom)],
      ...[rows.map(({ dkim }) => dkim), rows.map(({ spf }) => spf)],
      ...[rows.map(({ disposition }) => disposition), rows.map(({ overridden }) => overridden)],
      ...[rows.map(({ dkimDomain }) => dkimDomain), rows.map(({ spfDomain }) => spfDomain)],
      ...[rows.map(({ messages }) => messages), counts],
    ],
  );
}

/** What one report says of a source. */
export interface SourceSeen {
  readonly source: string;
  readonly passes: boolean;
  readonly fails: boolean;
  readonly dkimDomain: string;
  readonly spfDomain: string;
}

/** What a source had never done before. */
export interface SourceNews extends Pick<SourceSeen, "source" | "dkimDomain" | "spfDomain"> {
  readonly firstPass: boolean;
  readonly firstFail: boolean;
}

/**
 * Notes who sent. What was there before is read by a part of its own: Citus runs parts one after another, each of which sees
 * what the last one has changed.
 * @returns the sources that passed, or failed, for the first time
 */
export async function noteSources(
  transaction: Transaction,
  { instanceId, domain }: ReportedDomain,
  day: string,
  seen: readonly SourceSeen[],
): Promise<SourceNews[]> {
  return queryRows<SourceNews>(
    transaction,
    `with given as (
       select * from unnest($4::inet[], $5::bool[], $6::bool[], $7::text[], $8::text[]) as g (source, passes, fails, dkim_domain, spf_domain)
     ), before as materialized (
       select s.source, s.last_pass, s.last_fail from dmarc_sources s join given using (source) where s.instance_id = $1 and s.domain = $2
     ), noted as (
       insert into dmarc_sources as known (instance_id, domain, source, first_day, last_day, last_pass, last_fail, dkim_domain, spf_domain)
       select $1, $2, source, $3::date, $3::date, case when passes then $3::date end, case when fails then $3::date end, dkim_domain, spf_domain
         from given
       on conflict (instance_id, domain, source) do update set
         first_day = least(known.first_day, excluded.first_day), last_day = greatest(known.last_day, excluded.last_day),
         last_pass = greatest(known.last_pass, excluded.last_pass), last_fail = greatest(known.last_fail, excluded.last_fail),
         dkim_domain = coalesce(nullif(excluded.dkim_domain, ''), known.dkim_domain),
         spf_domain = coalesce(nullif(excluded.spf_domain, ''), known.spf_domain)
     )
     select host(given.source) as source, given.dkim_domain as "dkimDomain", given.spf_domain as "spfDomain",
       passes and before.last_pass is null as "firstPass", fails and before.last_fail is null as "firstFail"
       from given left join before using (source)
      where passes and before.last_pass is null or fails and before.last_fail is null`,
    [
      ...[instanceId, domain, day],
      ...[seen.map(({ source }) => source), seen.map(({ passes }) => passes), seen.map(({ fails }) => fails)],
      ...[seen.map(({ dkimDomain }) => dkimDomain), seen.map(({ spfDomain }) => spfDomain)],
    ],
  );
}
