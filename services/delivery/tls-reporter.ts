import { promisify } from "node:util";
import { gzip } from "node:zlib";
import type { KeyRing } from "../core/key-ring.ts";
import { DkimSigner } from "../core/mail/dkim.ts";
import {
  PACKED_REPORT_TYPE,
  type ReportPlace,
  readReportPlace,
  readReportPlaces,
  tlsReportDocument,
  tlsReportMessage,
} from "../core/mail/reports/sent-tls-report.ts";
import { describeSmtpReply } from "../core/mail/smtp-reply.ts";
import type { Result } from "../core/result.ts";
import type { Sentence } from "../core/sentences.ts";
import type { Clock } from "../platform/clock.ts";
import type { Observe } from "../platform/observability/observation.ts";
import type { Db } from "../platform/postgres/db.ts";
import { RepeatedWork } from "../platform/repeated-work.ts";
import { openSmtpSession, type SmtpFailure } from "../platform/smtp/client.ts";
import {
  noteTlsReport,
  noteTlsReportPlaces,
  planTlsReports,
  purgeTlsSessions,
  readTlsSessions,
  type TlsReportSending,
  takeDueTlsReports,
} from "../store/mail/reports/sent-tls-reports.ts";
import { inTransaction } from "../store/transactions.ts";
import type { DeliveryPolicy } from "./policy.ts";
import type { FindRoute } from "./routing/route.ts";
import { readDeploymentKeys } from "./signers.ts";

export interface TlsReporterOptions {
  readonly db: Db;
  readonly keyRing: KeyRing;
  readonly clock: Clock;
  readonly observe: Observe;
  /** Who reports, and whose keys sign. */
  readonly bounceDomain: string;
  readonly policy: DeliveryPolicy["tlsReports"];
  /** What EHLO says. */
  readonly hostname: string;
  /** Without what domains demand of TLS: a report about the want of it arrives all the same (RFC 8460 §3). */
  readonly findRoute: FindRoute;
  /** Texts at a name, joined; undefined where nobody can say. */
  readonly lookUpTexts: (name: string) => Promise<readonly string[] | undefined>;
  /** @returns the status */
  readonly post: (
    url: string,
    message: { readonly body: Buffer; readonly headers: Readonly<Record<string, string>> },
  ) => Promise<Result<number, Sentence>>;
}

const POLL_MS = 10_000;
const PLAN_MS = 600_000;
const AFTER_FAILURE_MS = 30_000;
const AT_ONCE = 16;
/** Ways in which the sessions of a day differ. */
const MOST_ROWS = 5_000;

/** Whoever takes longer gets the report another time: all of it is over before it is due again. */
const TIMEOUTS = { connectMs: 15_000, greetingMs: 15_000, commandMs: 30_000 };
const MOST_PEERS = 2;

const pack = promisify(gzip);

/** How an attempt ended. `tryAgain`: it may go another time. */
type Told = { readonly isTaken: boolean; readonly tryAgain: boolean; readonly reply: string };

/**
 * Reports to domains that ask for it what came of TLS in yesterday's sessions with them (RFC 8460). Any number of processes
 * share the reports of a day; each has one name, whoever sends it.
 */
export function startTlsReporter(options: TlsReporterOptions): RepeatedWork {
  const { db, observe, policy } = options;
  const { perMinute, retrySeconds } = policy;
  let plannedAtMs = Number.NEGATIVE_INFINITY;
  return new RepeatedWork({
    take: async (signal) => {
      if (performance.now() - plannedAtMs > PLAN_MS) {
        await planTlsReports(db, policy);
        await purgeTlsSessions(db);
        plannedAtMs = performance.now();
      }
      const due = await takeDueTlsReports(db, { perMinute, retrySeconds, limit: AT_ONCE });
      await Promise.all(due.map((sending) => proceed(options, sending)));
      return due.length > 0 && !signal.aborted ? 0 : POLL_MS;
    },
    failed: (err) => {
      observe({ kind: "reports-not-sent", level: "error", err });
      return AFTER_FAILURE_MS;
    },
  });
}

async function proceed(options: TlsReporterOptions, sending: TlsReportSending): Promise<void> {
  const { db, policy, observe } = options;
  const place = sending.uri === "" ? undefined : readReportPlace(sending.uri);
  if (place === undefined) return ask(options, sending);
  const told = await tell(options, sending, place);
  const isOver = !told.tryAgain || sending.attempts >= policy.mostAttempts;
  const state = told.isTaken ? "sent" : isOver ? "failed" : "due";
  await noteTlsReport(db, sending, { state, reply: told.reply });
  const level = state === "sent" ? "debug" : "info";
  const { destination } = sending;
  observe({ kind: "tls-report", level, destination, by: place.kind, outcome: state, reply: told.reply });
}

/** Finds out where the report goes. Who cannot be asked is asked again. */
async function ask({ db, policy, lookUpTexts }: TlsReporterOptions, sending: TlsReportSending): Promise<void> {
  const texts = await lookUpTexts(`_smtp._tls.${sending.destination}`);
  if (texts === undefined && sending.attempts < policy.mostAttempts) return;
  const places = readReportPlaces(texts ?? []);
  await inTransaction(db, (transaction) => noteTlsReportPlaces(transaction, sending, places, policy.perTargetAndDay));
}

async function tell(options: TlsReporterOptions, sending: TlsReportSending, place: ReportPlace): Promise<Told> {
  const { db, bounceDomain, post } = options;
  const subject = { day: sending.day, destination: sending.destination, submitter: bounceDomain };
  const rows = await readTlsSessions(db, sending, MOST_ROWS);
  const packed = await pack(Buffer.from(JSON.stringify(tlsReportDocument(subject, rows))));
  if (place.kind === "mail") return mail(options, place, { subject, packed });
  const posted = await post(place.uri, { body: packed, headers: { "content-type": PACKED_REPORT_TYPE } });
  if (!posted.ok) return { isTaken: false, tryAgain: true, reply: posted.error.message };
  // RFC 8460 §3: any 2xx; the others but errors of the server are for good.
  const status = posted.value;
  return { isTaken: status >= 200 && status < 300, tryAgain: status >= 500 || status === 429, reply: String(status) };
}

interface MadeReport {
  readonly subject: { readonly day: string; readonly destination: string; readonly submitter: string };
  readonly packed: Buffer;
}

async function mail(
  { db, keyRing, clock, bounceDomain, hostname, findRoute }: TlsReporterOptions,
  { address }: Extract<ReportPlace, { kind: "mail" }>,
  { subject, packed }: MadeReport,
): Promise<Told> {
  const keys = await readDeploymentKeys(db, keyRing, bounceDomain);
  if (keys.length === 0) return failed(`${bounceDomain} is no sender domain: nothing signs for it`);
  const date = new Date(clock.nowMs());
  const message = tlsReportMessage(subject, { to: address, packed, date });
  const octets = Buffer.concat([await new DkimSigner(keys).signInPool(message, date), message]);
  const route = await findRoute(address.asciiDomain);
  if (!route.ok) return failed(describeSmtpReply(route.error), route.error.code < 500);
  let last = failed("no server");
  for (const peer of route.value.peers.slice(0, MOST_PEERS)) {
    const session = await openSmtpSession(peer, { hostname, timeouts: TIMEOUTS });
    if (!session.ok) {
      last = describe(session.error);
      continue;
    }
    // Nobody is to answer it: RFC 5321 §4.5.5.
    const envelope = { mailFrom: "", rcptTo: [address.asGiven], needsSmtputf8: false };
    const sent = await session.value.send(envelope, octets);
    session.value.close();
    return sent.ok ? { isTaken: true, tryAgain: false, reply: describeSmtpReply(sent.value) } : describe(sent.error);
  }
  return last;
}

function failed(reply: string, tryAgain = true): Told {
  return { isTaken: false, tryAgain, reply };
}

function describe(failure: SmtpFailure): Told {
  if (failure.kind === "broken") return failed(failure.text);
  return failed(describeSmtpReply(failure.reply), failure.kind === "reply" && failure.reply.code < 500);
}
