import { isDomainWithin } from "../../../core/mail/reports/domain-within.ts";
import { findKnownSender } from "../../../core/mail/reports/known-senders.ts";
import { type PolicyProposal, proposePolicy } from "../../../core/mail/reports/policy-proposal.ts";
import type { Db } from "../../../platform/postgres/db.ts";
import {
  countCountedReports,
  countReports,
  listDmarcReports,
  type ReceivedReport,
  type ReportCounts,
  type ReportPeriod,
  readReportedPolicy,
  readSources,
  readTlsCounts,
  type SourceCounts,
  type TlsCounts,
} from "../../../store/mail/reports/report-views.ts";

/** Somebody who sends in the name of a domain. */
interface SourceView extends SourceCounts {
  /** The service behind it; undefined: nobody knows. */
  readonly sender: string | undefined;
  /** What the domain's SPF policy includes when it sends with that service. */
  readonly include: string | undefined;
  /** It is this deployment. */
  readonly own: boolean;
  /** It has sent with success, as reports that count say, or is known: what of it fails is mail that somebody wants. */
  readonly isSender: boolean;
}

/** A report as it came. */
interface ReportView extends ReceivedReport {
  /** Why it does not count: no known receiver signed it, or it came too late; undefined: it counts. */
  readonly whyNot: "unsigned" | "late" | undefined;
}

/** What receivers said about a sender domain. */
export interface SenderReportsView {
  readonly dmarc: ReportCounts & {
    /** `p` that they saw last; empty: none. */
    readonly policy: string;
    readonly messages: number;
    /** Of them, in reports that count: a known receiver signed them. Only by those something is proposed. */
    readonly counted: number;
    readonly countedReports: number;
    readonly passing: number;
    /**
     * Failing messages that `quarantine` would have put aside and `reject` turned away: of the domain's senders, and of
     * everybody else. What receivers take all the same is not among them.
     */
    readonly lostOfSenders: number;
    readonly lostOfOthers: number;
    readonly overridden: number;
    readonly proposal: PolicyProposal;
    readonly sources: readonly SourceView[];
    /** The newest of the reports. */
    readonly received: readonly ReportView[];
  };
  readonly tls: ReportCounts & {
    readonly successes: number;
    readonly failures: readonly TlsCounts[];
  };
}

/** Names of addresses that are confirmed: the name leads back to the address. */
export type LookUpNames = (addresses: readonly string[]) => Promise<ReadonlyMap<string, string>>;

/** Sources whose names are looked up: the most frequent that nothing else names. */
const MOST_NAMED_BY_DNS = 20;
const MOST_SHOWN = 200;

/** @param options.bounceDomain what mail of this deployment has in its return path */
export async function readSenderReports(
  db: Db,
  period: ReportPeriod,
  { bounceDomain, names }: { readonly bounceDomain: string; readonly names: LookUpNames },
): Promise<SenderReportsView> {
  const [counts, ofCounted, policy, found, received, tlsCounts, tls] = await Promise.all([
    countReports(db, "dmarc_reports", period),
    countCountedReports(db, period),
    readReportedPolicy(db, period),
    readSources(db, period),
    listDmarcReports(db, period),
    countReports(db, "tls_reports", period),
    readTlsCounts(db, period),
  ]);
  const unnamed = found.filter((source) => findKnownSender([source.dkimDomain, source.spfDomain]) === undefined);
  const byDns = await names(unnamed.slice(0, MOST_NAMED_BY_DNS).map(({ source }) => source));
  const sources = found.map((source) => viewOf(source, bounceDomain, byDns.get(source.source) ?? ""));
  const sum = (of: (source: SourceView) => number) => sources.reduce((total, source) => total + of(source), 0);
  const lost = (ofSenders: boolean) =>
    sum(({ isSender, messages, passing, overridden }) =>
      isSender === ofSenders ? messages - passing - overridden : 0,
    );
  const counted = sum((source) => source.counted);
  const failingOfSenders = sum(({ isSender, countedFailing }) => (isSender ? countedFailing : 0));
  return {
    dmarc: {
      ...counts,
      policy,
      messages: sum((source) => source.messages),
      counted,
      countedReports: ofCounted.reports,
      passing: sum(({ passing }) => passing),
      lostOfSenders: lost(true),
      lostOfOthers: lost(false),
      overridden: sum(({ overridden }) => overridden),
      proposal: proposePolicy({ policy, days: ofCounted.days, messages: counted, failingOfSenders }),
      sources: sources.slice(0, MOST_SHOWN),
      received: received.map((report) => ({ ...report, whyNot: whyNotCounted(report) })),
    },
    tls: {
      ...tlsCounts,
      successes: tls.filter(({ result }) => result === "").reduce((total, { sessions }) => total + sessions, 0),
      failures: tls.filter(({ result }) => result !== ""),
    },
  };
}

/** As a report is weighed where it comes in: signed by a known receiver, and in time. */
function whyNotCounted({ counts, signedBy }: ReceivedReport): ReportView["whyNot"] {
  if (counts) return undefined;
  return signedBy === "" ? "unsigned" : "late";
}

function viewOf(source: SourceCounts, bounceDomain: string, name: string): SourceView {
  const known = findKnownSender([source.dkimDomain, source.spfDomain, name]);
  const own = source.spfDomain !== "" && isDomainWithin(source.spfDomain, bounceDomain);
  const isSender = own || source.hasPassed || known !== undefined;
  return { ...source, sender: known?.name ?? (name || undefined), include: known?.include, own, isSender };
}
