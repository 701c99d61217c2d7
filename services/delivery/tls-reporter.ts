import { setMaxListeners } from "node:events";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { Counts } from "../core/counts.ts";
import type { KeyRing } from "../core/key-ring.ts";
import { DkimSigner } from "../core/mail/dkim.ts";
import type { Envelope } from "../core/mail/envelope.ts";
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
import { unlessAborted, withTime } from "../platform/deadline.ts";
import type { Observe } from "../platform/observability/observation.ts";
import type { Db } from "../platform/postgres/db.ts";
import { RepeatedWork } from "../platform/repeated-work.ts";
import { openSmtpSession, type SmtpFailure, type SmtpPeer } from "../platform/smtp/client.ts";
import {
  giveBackTlsReport,
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
  /** Nobody's report takes longer: a minute, but in tests. */
  readonly reportMs?: number;
  /** @returns the status; the signal ends it */
  readonly post: (
    url: string,
    message: { readonly body: Buffer; readonly headers: Readonly<Record<string, string>> },
    signal: AbortSignal,
  ) => Promise<Result<number, Sentence>>;
}

const POLL_MS = 10_000;
const PLAN_MS = 600_000;
const AFTER_FAILURE_MS = 30_000;
/** Questions where a report goes, under way at once. */
const QUESTIONS_AT_ONCE = 8;
/** Reports under way at once. */
const REPORTS_AT_ONCE = 16;
/** Reports under way for one registrable domain, and by mail at one server: a slow one holds up nobody else's. */
const FOR_ONE = 3;
/** What finds its server so busy comes again after so long. */
const BUSY_SECONDS = 15;
/** Ways in which the sessions of a day differ. */
const MOST_ROWS = 5_000;

/** What takes longer with a step gets its report another time. */
const TIMEOUTS = { connectMs: 15_000, greetingMs: 15_000, commandMs: 30_000 };
/** For a whole report: all of it is over before it is due again. */
const REPORT_MS = 60_000;
const MOST_PEERS = 2;

const pack = promisify(gzip);

/** How an attempt ended. `tryAgain`: it may go another time. */
type Told = { readonly isTaken: boolean; readonly tryAgain: boolean; readonly reply: string };

/**
 * Reports to domains that ask for it what came of TLS in yesterday's sessions with them (RFC 8460). Any number of processes
 * share the reports of a day; each has one name, whoever sends it. As soon as one is done another one is begun.
 */
export function startTlsReporter(options: TlsReporterOptions): { stop(): Promise<void> } {
  const { db, observe, policy } = options;
  const { perMinute, retrySeconds } = policy;
  let plannedAtMs = Number.NEGATIVE_INFINITY;
  const inHand = new Map<TlsReportSending, Promise<void>>();
  const servers = new BusyServers();
  const stopping = new AbortController();
  setMaxListeners(0, stopping.signal);
  const begin = (sending: TlsReportSending) => {
    const done = proceed(options, sending, { servers, stopping: stopping.signal })
      .catch((err: unknown) => observe({ kind: "reports-not-sent", level: "error", err }))
      .finally(() => {
        inHand.delete(sending);
        work.wake();
      });
    inHand.set(sending, done);
  };
  const work = new RepeatedWork({
    take: async () => {
      if (performance.now() - plannedAtMs > PLAN_MS) {
        await planTlsReports(db, policy);
        await purgeTlsSessions(db);
        plannedAtMs = performance.now();
      }
      const targetsInHand = [...inHand.keys()].flatMap(({ uri, target }) => (uri === "" ? [] : [target]));
      const due = await takeDueTlsReports(db, {
        ...{ perMinute, retrySeconds, targetsInHand, perTarget: FOR_ONE },
        questions: QUESTIONS_AT_ONCE - (inHand.size - targetsInHand.length),
        reports: REPORTS_AT_ONCE - targetsInHand.length,
      });
      for (const sending of due) begin(sending);
      return POLL_MS;
    },
    failed: (err) => {
      observe({ kind: "reports-not-sent", level: "error", err });
      return AFTER_FAILURE_MS;
    },
  });
  return {
    stop: async () => {
      stopping.abort();
      await work.stop();
      await Promise.all(inHand.values());
    },
  };
}

/** Servers that reports go to by mail at this moment. */
class BusyServers {
  readonly #counts = new Counts<string>();

  /** @returns false where it has as many as it may have */
  enter({ host, port }: SmtpPeer): boolean {
    const server = `${host} ${port}`;
    if (this.#counts.of(server) >= FOR_ONE) return false;
    this.#counts.add(server, 1);
    return true;
  }

  leave({ host, port }: SmtpPeer): void {
    this.#counts.add(`${host} ${port}`, -1);
  }
}

/** What the reports of a process have in common. */
interface Reporting {
  readonly servers: BusyServers;
  /** What is in hand is given back: somebody begins it again. */
  readonly stopping: AbortSignal;
}

async function proceed(
  options: TlsReporterOptions,
  sending: TlsReportSending,
  { servers, stopping }: Reporting,
): Promise<void> {
  const { db, policy, observe } = options;
  const place = sending.uri === "" ? undefined : readReportPlace(sending.uri);
  if (place === undefined) return ask(options, sending, stopping);
  const told = await withTime({ limitMs: options.reportMs ?? REPORT_MS, stop: stopping }, (time) =>
    unlessAborted(tell(options, { sending, place, servers, time }), time, () => TOO_LONG),
  );
  if (stopping.aborted && (told === "busy" || !told.isTaken)) return giveBackTlsReport(db, sending, 0);
  if (told === "busy") return giveBackTlsReport(db, sending, BUSY_SECONDS);
  const isOver = !told.tryAgain || sending.attempts >= policy.mostAttempts;
  const state = told.isTaken ? "sent" : isOver ? "failed" : "due";
  await noteTlsReport(db, sending, { state, reply: told.reply });
  const level = state === "sent" ? "debug" : "info";
  const { destination } = sending;
  observe({ kind: "tls-report", level, destination, by: place.kind, outcome: state, reply: told.reply });
}

/** Finds out where the report goes. Who cannot be asked is asked again. */
async function ask(
  { db, policy, lookUpTexts }: TlsReporterOptions,
  sending: TlsReportSending,
  stopping: AbortSignal,
): Promise<void> {
  const asked = lookUpTexts(`_smtp._tls.${sending.destination}`);
  const texts = await unlessAborted(asked, stopping, () => undefined);
  if (texts === undefined && stopping.aborted) return giveBackTlsReport(db, sending, 0);
  if (texts === undefined && sending.attempts < policy.mostAttempts) return;
  const places = readReportPlaces(texts ?? []);
  await inTransaction(db, (transaction) => noteTlsReportPlaces(transaction, sending, places, policy.perTargetAndDay));
}

/** A report on its way. */
interface ReportTrip {
  readonly sending: TlsReportSending;
  readonly place: ReportPlace;
  readonly servers: BusyServers;
  /** Aborted when there is no more of it. */
  readonly time: AbortSignal;
}

async function tell(options: TlsReporterOptions, trip: ReportTrip): Promise<Told | "busy"> {
  const { db, bounceDomain, post } = options;
  const { sending, place } = trip;
  const subject = { day: sending.day, destination: sending.destination, submitter: bounceDomain };
  const rows = await readTlsSessions(db, sending, MOST_ROWS);
  const packed = await pack(Buffer.from(JSON.stringify(tlsReportDocument(subject, rows))));
  if (place.kind === "mail") return mail(options, trip, { subject, packed, address: place.address });
  const message = { body: packed, headers: { "content-type": PACKED_REPORT_TYPE } };
  const posted = await post(place.uri, message, trip.time);
  if (!posted.ok) return { isTaken: false, tryAgain: true, reply: posted.error.message };
  // RFC 8460 §3: any 2xx; the others but errors of the server are for good.
  const status = posted.value;
  return { isTaken: status >= 200 && status < 300, tryAgain: status >= 500 || status === 429, reply: String(status) };
}

interface MadeReport {
  readonly subject: { readonly day: string; readonly destination: string; readonly submitter: string };
  readonly packed: Buffer;
  readonly address: Extract<ReportPlace, { kind: "mail" }>["address"];
}

async function mail(
  { db, keyRing, clock, bounceDomain, hostname, findRoute }: TlsReporterOptions,
  { servers, time }: ReportTrip,
  { subject, packed, address }: MadeReport,
): Promise<Told | "busy"> {
  const keys = await readDeploymentKeys(db, keyRing, bounceDomain);
  if (keys.length === 0) return failed(`${bounceDomain} is no sender domain: nothing signs for it`);
  const date = new Date(clock.nowMs());
  const message = tlsReportMessage(subject, { to: address, packed, date });
  const octets = Buffer.concat([await new DkimSigner(keys).signInPool(message, date), message]);
  const route = await findRoute(address.asciiDomain);
  if (!route.ok) return failed(describeSmtpReply(route.error), route.error.code < 500);
  // Nobody is to answer it: RFC 5321 §4.5.5.
  const envelope = { mailFrom: "", rcptTo: [address.asGiven], needsSmtputf8: false };
  let last: Told | "busy" = failed("no server");
  for (const peer of route.value.peers.slice(0, MOST_PEERS)) {
    if (time.aborted) return last;
    if (!servers.enter(peer)) {
      last = "busy";
      continue;
    }
    try {
      const sent = await sendTo(peer, { hostname, envelope, octets, time });
      if (sent.isOpened) return sent.told;
      last = sent.told;
    } finally {
      servers.leave(peer);
    }
  }
  return last;
}

interface MailedReport {
  readonly hostname: string;
  readonly envelope: Envelope;
  readonly octets: Buffer;
  readonly time: AbortSignal;
}

/** @returns `isOpened` where there was a session: what was said in it is the last word */
async function sendTo(
  peer: SmtpPeer,
  { hostname, envelope, octets, time }: MailedReport,
): Promise<{ readonly isOpened: boolean; readonly told: Told }> {
  const opened = await openSmtpSession(peer, { hostname, timeouts: TIMEOUTS });
  if (!opened.ok) return { isOpened: false, told: describe(opened.error) };
  const session = opened.value;
  const end = () => session.close();
  time.addEventListener("abort", end);
  try {
    if (time.aborted) return { isOpened: true, told: TOO_LONG };
    const sent = await session.send(envelope, octets);
    if (!sent.ok) return { isOpened: true, told: describe(sent.error) };
    return { isOpened: true, told: { isTaken: true, tryAgain: false, reply: describeSmtpReply(sent.value) } };
  } finally {
    time.removeEventListener("abort", end);
    end();
  }
}

function failed(reply: string, tryAgain = true): Told {
  return { isTaken: false, tryAgain, reply };
}

const TOO_LONG = failed("it took too long");

function describe(failure: SmtpFailure): Told {
  if (failure.kind === "broken") return failed(failure.text);
  return failed(describeSmtpReply(failure.reply), failure.kind === "reply" && failure.reply.code < 500);
}
