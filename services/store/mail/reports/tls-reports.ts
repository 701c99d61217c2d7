import { dayOf, type TlsReport } from "../../../core/mail/reports/report.ts";
import { queryRows, type Transaction } from "../../../platform/postgres/db.ts";
import type { ReportedDomain } from "./dmarc-reports.ts";

/** Stores a report, and adds its sessions to those of its day. @returns its id; undefined: it is there already */
export async function addTlsReport(
  transaction: Transaction,
  { instanceId, domain }: ReportedDomain,
  report: TlsReport,
): Promise<number | undefined> {
  const { rows } = report;
  const [row] = await transaction("tls_reports")
    .insert({
      instance_id: instanceId,
      domain,
      reporter: report.reporter.toLowerCase(),
      contact: report.contact,
      report_id: report.reportId,
      begins_at: report.beginsAt,
      ends_at: report.endsAt,
      day: dayOf(report),
      rows: rows.length,
      sessions: rows.reduce((sum, { sessions }) => sum + sessions, 0),
    })
    .onConflict(["instance_id", "domain", "reporter", "report_id"])
    .ignore()
    .returning("id");
  if (row === undefined) return undefined;
  await queryRows(
    transaction,
    `insert into tls_days as known (instance_id, domain, day, policy_type, exchanger, result, sessions)
     select $1, $2, $3, policy_type, exchanger, result, sum(sessions)
       from unnest($4::text[], $5::text[], $6::text[], $7::bigint[]) as given (policy_type, exchanger, result, sessions) group by 4, 5, 6
     on conflict (instance_id, domain, day, policy_type, exchanger, result) do update set sessions = known.sessions + excluded.sessions`,
    [
      ...[instanceId, domain, dayOf(report)],
      ...[rows.map(({ policyType }) => policyType), rows.map(({ exchanger }) => exchanger)],
      ...[rows.map(({ result }) => result), rows.map(({ sessions }) => sessions)],
    ],
  );
  return row.id;
}
