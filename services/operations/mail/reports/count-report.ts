import { isDomainWithin } from "../../../core/mail/reports/domain-within.ts";
import {
  type DmarcReport,
  type DmarcRow,
  dayOf,
  type ReportRefusal,
  type SenderReport,
  type TlsReport,
} from "../../../core/mail/reports/report.ts";
import { domainDigest, type ReportTokenClaims } from "../../../core/mail/tokens.ts";
import { ok, type Result, refuse } from "../../../core/result.ts";
import type { Transaction } from "../../../platform/postgres/db.ts";
import { TOLD_KINDS } from "../../../store/mail/events/event-kinds.ts";
import { allowedDomains } from "../../../store/mail/instances/instances.ts";
import {
  addDmarcReport,
  addDmarcRows,
  countTakenReports,
  lockReportedDomain,
  noteSources,
  type ReportedDomain,
  type ReportWeight,
  type SourceNews,
  type SourceSeen,
} from "../../../store/mail/reports/dmarc-reports.ts";
import { addTlsReport } from "../../../store/mail/reports/tls-reports.ts";
import { type ToldSource, tellSources } from "../../../store/mail/tracking/event-feed.ts";

/**
 * What is taken about one sender domain within a day, of signed reports and of unsigned ones apart: anybody may read its
 * address in the DNS and write in another's name, which must not keep out what that one signs.
 */
export const TAKEN_WITHIN_A_DAY = { reports: 2_000, ofReporter: 100, rows: 100_000 } as const;

/** A report that counts. */
export interface CountedReport extends ReportedDomain {
  readonly kind: SenderReport["kind"];
  readonly reporter: string;
  /** Messages, or sessions. */
  readonly count: number;
  /** Sources that passed, or failed, for the first time. */
  readonly newlyPassing: readonly string[];
  readonly newlyFailing: readonly string[];
}

/** How a report came. */
interface ReportMail {
  readonly receivedAt: Date;
  /** The domain of a known reporter that signed the message; empty: none. */
  readonly signedBy: string;
}

/** A report that comes later after the time that it is about is shown, and nothing is concluded from it. */
const MOST_LATE_MS = 4 * 86_400_000;

function weightOf({ endsAt }: SenderReport, { receivedAt, signedBy }: ReportMail): ReportWeight {
  return { signedBy, counts: signedBy !== "" && receivedAt.getTime() - endsAt.getTime() <= MOST_LATE_MS };
}

/**
 * Counts a report for the sender domain whose address it came to, once, in the transaction that ends its way. What it
 * says of other domains counts for nothing.
 */
export async function countReport(
  transaction: Transaction,
  to: ReportTokenClaims,
  report: SenderReport,
  mail: ReportMail,
): Promise<Result<CountedReport, ReportRefusal>> {
  const domains = await allowedDomains(transaction, to.instanceId);
  const domain = domains.find((one) => domainDigest(one) === to.domainDigest);
  if (domain === undefined) return refuse("unknown-domain");
  const about = { instanceId: to.instanceId, domain };
  await lockReportedDomain(transaction, about);
  const origin = mail.signedBy === "" ? { reporter: report.reporter } : { signedBy: mail.signedBy };
  const taken = await countTakenReports(transaction, report.kind, about, origin);
  const isTooMuch =
    taken.reports >= TAKEN_WITHIN_A_DAY.reports ||
    taken.ofReporter >= TAKEN_WITHIN_A_DAY.ofReporter ||
    taken.rows + report.rows.length > TAKEN_WITHIN_A_DAY.rows;
  if (isTooMuch) return refuse("too-many-reports");
  return report.kind === "dmarc"
    ? countDmarc(transaction, about, { ...report, ...weightOf(report, mail) })
    : countTls(transaction, about, report);
}

async function countDmarc(
  transaction: Transaction,
  about: ReportedDomain,
  report: DmarcReport & ReportWeight,
): Promise<Result<CountedReport, ReportRefusal>> {
  if (!isDomainWithin(report.policy.domain, about.domain)) return refuse("other-domain");
  const rows = report.rows.filter(({ headerFrom }) => isDomainWithin(headerFrom, about.domain));
  const leftOut = messagesOf(report.rows) - messagesOf(rows);
  const id = await addDmarcReport(transaction, about, { ...report, rows, leftOut });
  if (id === undefined) return refuse("duplicate");
  const day = dayOf(report);
  await addDmarcRows(transaction, about, { id, day, rows, counts: report.counts });
  const seen = sourcesOf(rows);
  const news = await noteSources(transaction, about, day, report.counts ? seen : seen.map(withoutClaims));
  await tellSources(transaction, about, toldOf(news, report.reporter));
  return ok({
    ...about,
    kind: "dmarc",
    reporter: report.reporter,
    count: messagesOf(rows),
    newlyPassing: news.filter(({ firstPass }) => firstPass).map(({ source }) => source),
    newlyFailing: news.filter(({ firstFail }) => firstFail).map(({ source }) => source),
  });
}

async function countTls(
  transaction: Transaction,
  about: ReportedDomain,
  report: TlsReport,
): Promise<Result<CountedReport, ReportRefusal>> {
  const rows = report.rows.filter(({ policyDomain }) => isDomainWithin(policyDomain, about.domain));
  if (rows.length === 0 && report.rows.length > 0) return refuse("other-domain");
  if ((await addTlsReport(transaction, about, { ...report, rows })) === undefined) return refuse("duplicate");
  const count = rows.reduce((sum, { sessions }) => sum + sessions, 0);
  return ok({ ...about, kind: "tls", reporter: report.reporter, count, newlyPassing: [], newlyFailing: [] });
}

function messagesOf(rows: readonly DmarcRow[]): number {
  return rows.reduce((sum, { messages }) => sum + messages, 0);
}

/** What an instance is told of sources that did something for the first time. */
function toldOf(news: readonly SourceNews[], reporter: string): ToldSource[] {
  return news.flatMap(({ firstPass, firstFail, ...source }) => {
    const detail = { ...source, reporter };
    return [
      ...(firstPass ? [{ kind: TOLD_KINDS["source-passes"], detail }] : []),
      ...(firstFail ? [{ kind: TOLD_KINDS["source-fails"], detail }] : []),
    ];
  });
}

/** Of a report that does not count: that the source was seen. */
function withoutClaims({ source }: SourceSeen): SourceSeen {
  return { source, passes: false, fails: false, dkimDomain: "", spfDomain: "" };
}

/** What a report says of each source, all its rows together. */
function sourcesOf(rows: readonly DmarcRow[]): SourceSeen[] {
  const sources = new Map<string, SourceSeen>();
  for (const { source, dkim, spf, dkimDomain, spfDomain } of rows) {
    const known = sources.get(source);
    sources.set(source, {
      source,
      passes: known?.passes === true || dkim || spf,
      fails: known?.fails === true || !(dkim || spf),
      dkimDomain: known?.dkimDomain || dkimDomain,
      spfDomain: known?.spfDomain || spfDomain,
    });
  }
  return [...sources.values()];
}
