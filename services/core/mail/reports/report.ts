/**
 * What receivers report about a sender domain: DMARC aggregates (RFC 7489 appendix C, RFC 9990) and reports about TLS
 * (RFC 8460). All of it is claimed by strangers.
 */

/** What both kinds of reports say of themselves. */
export interface ReportHead {
  /** Who reports, as it calls itself. */
  readonly reporter: string;
  /** Where it is to be reached, as it says. */
  readonly contact: string;
  /** Its own name of the report; the same one again is the same report. */
  readonly reportId: string;
  readonly beginsAt: Date;
  readonly endsAt: Date;
}

export const DISPOSITIONS = ["none", "quarantine", "reject"] as const;
/** What a receiver did with messages; `pass` of RFC 9990 counts as `none`. */
type Disposition = (typeof DISPOSITIONS)[number];

/** What the domain's DMARC record said to the receiver; empty where it did not say. */
export interface PublishedPolicy {
  readonly domain: string;
  readonly p: string;
  readonly sp: string;
  readonly adkim: string;
  readonly aspf: string;
  /** `y`: the policy is only tried (RFC 9989 §4.7). */
  readonly testing: string;
}

/** Messages of one source that fared alike. */
export interface DmarcRow {
  /** IPv4 or IPv6 address in its canonical form. */
  readonly source: string;
  readonly messages: number;
  readonly headerFrom: string;
  /** Whether an aligned signature, or aligned SPF, passed. DMARC passes when one of them does. */
  readonly dkim: boolean;
  readonly spf: boolean;
  readonly disposition: Disposition;
  /** Why the receiver did not do what the policy asks, such as `mailing_list`; empty: it did. */
  readonly overridden: string;
  /** The domain of the signature and of SPF that the row tells of, those that passed first; they tell who sends. */
  readonly dkimDomain: string;
  readonly spfDomain: string;
}

export interface DmarcReport extends ReportHead {
  readonly kind: "dmarc";
  readonly policy: PublishedPolicy;
  readonly rows: readonly DmarcRow[];
}

/** Sessions to one exchanger that ended alike. */
export interface TlsRow {
  readonly policyDomain: string;
  readonly policyType: string;
  /** Empty where the report does not say. */
  readonly exchanger: string;
  /** A result type of RFC 8460 §4.3; empty: they succeeded. */
  readonly result: string;
  readonly sessions: number;
}

export interface TlsReport extends ReportHead {
  readonly kind: "tls";
  readonly rows: readonly TlsRow[];
}

export type SenderReport = DmarcReport | TlsReport;

/** Why a report counts for nothing: the metric's `reason`. */
export type ReportRefusal =
  | "no-report"
  | "too-large"
  /** It takes too long to read. */
  | "too-slow"
  | "nested-archive"
  | "corrupt-archive"
  | "document-type"
  | "too-deep"
  | "too-many-records"
  | "malformed"
  | "bad-period"
  | "other-domain"
  | "duplicate"
  | "too-many-reports"
  | "unknown-domain";

export const REPORT_LIMITS = {
  /** Of a report, unpacked. */
  octets: 16 * 2 ** 20,
  /** Of XML; a report with all the records that it may have has about half as many. */
  elements: 1_000_000,
  /** Of reading, the turns of others not counted. */
  readingMs: 10_000,
  depth: 12,
  records: 20_000,
  /** Of what stands in one element; the rest is left out. */
  characters: 512,
  /** Of one row; who says more is not believed. */
  messages: 1_000_000_000,
  /** How long a report may be about, and how long ago it may have ended. */
  periodDays: 8,
  ageDays: 60,
} as const;

/** What is left to be spent on a message, whatever number of attachments it has. */
export interface ReadingBudget {
  octets: number;
  elements: number;
  readingMs: number;
}

export function fullBudget(): ReadingBudget {
  const { octets, elements, readingMs } = REPORT_LIMITS;
  return { octets, elements, readingMs };
}

const MS_PER_DAY = 86_400_000;

/** The time that a report is about; undefined where it cannot be. */
export function readPeriod(begin: Date, end: Date, now: Date): Pick<ReportHead, "beginsAt" | "endsAt"> | undefined {
  const [from, to] = [begin.getTime(), end.getTime()];
  const { periodDays, ageDays } = REPORT_LIMITS;
  const isSane =
    from <= to &&
    to - from <= periodDays * MS_PER_DAY &&
    from >= now.getTime() - ageDays * MS_PER_DAY &&
    to <= now.getTime() + 2 * MS_PER_DAY;
  return isSane ? { beginsAt: begin, endsAt: end } : undefined;
}

/** The UTC day that a report counts for: the one in the middle of its time. */
export function dayOf({ beginsAt, endsAt }: Pick<ReportHead, "beginsAt" | "endsAt">): string {
  return new Date((beginsAt.getTime() + endsAt.getTime()) / 2).toISOString().slice(0, 10);
}

/** Words of a stranger on one line, without what PostgreSQL has no text for. */
export function plainWords(text: unknown): string {
  if (typeof text !== "string") return "";
  const line = text.replace(/[\p{Cc}\p{Cs}]+/gu, " ").trim();
  // A character of two units may have been cut in two.
  return line.slice(0, 255).replace(/\p{Cs}$/u, "");
}
