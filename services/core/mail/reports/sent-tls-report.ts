/** The reports about TLS that this deployment sends (RFC 8460): of a day, to a domain, about sessions with its exchangers. */
import { createHash } from "node:crypto";
import { registrableDomain } from "../../dns/public-suffix.ts";
import { type EmailAddress, validateAddress } from "../address.ts";
import { parseTags, tagValue } from "../domain-setup/tag-list.ts";
import { headerDate, mailboxField, plainField, textField } from "../headers.ts";
import { attachmentPart } from "../mime.ts";
import type { TlsSession } from "./tls-session.ts";

/** Where a report goes. `target`: what it burdens, the registrable domain of the host or of the mail domain. */
export type ReportPlace =
  | { readonly kind: "mail"; readonly uri: string; readonly target: string; readonly address: EmailAddress }
  | { readonly kind: "https"; readonly uri: string; readonly target: string };

const MOST_PLACES = 4;
const MOST_URI_CHARACTERS = 1_000;

/**
 * Where a domain wants its reports (RFC 8460 §3), by the texts at `_smtp._tls` of it: nowhere, unless exactly one of them is
 * such a record. Places of other kinds, and more than four, are left out.
 */
export function readReportPlaces(texts: readonly string[]): ReportPlace[] {
  const records = texts.filter((text) => /^v=TLSRPTv1\s*;/.test(text));
  if (records.length !== 1) return [];
  const uris = (tagValue(parseTags(records[0]!), "rua") ?? "").split(",").map((uri) => uri.trim());
  return [...new Set(uris)].flatMap((uri) => readReportPlace(uri) ?? []).slice(0, MOST_PLACES);
}

/** @returns undefined where it is neither an address nor an HTTPS URL */
export function readReportPlace(uri: string): ReportPlace | undefined {
  if (uri.length > MOST_URI_CHARACTERS || !/^[\x21-\x7e]+$/.test(uri)) return undefined;
  const mailto = /^mailto:([^?!]+)/i.exec(uri)?.[1];
  if (mailto !== undefined) {
    const address = validateAddress(decoded(mailto), { allowSmtputf8: false });
    return address.ok
      ? { kind: "mail", uri, target: targetOf(address.value.asciiDomain), address: address.value }
      : undefined;
  }
  if (!/^https:\/\//i.test(uri) || !URL.canParse(uri)) return undefined;
  const { hostname, username, password } = new URL(uri);
  return username === "" && password === "" ? { kind: "https", uri, target: targetOf(hostname) } : undefined;
}

/** Names below a registrable domain are one party's, however many it makes. A literal address has none. */
function targetOf(host: string): string {
  return registrableDomain(host) ?? host;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}

/** Sessions that fared alike. */
export type SessionRow = Omit<TlsSession, "destination"> & { readonly sessions: number };

/** What a report is about, and who sends it. */
interface ReportSubject {
  /** `2026-01-31`, of UTC. */
  readonly day: string;
  /** Domain of the recipients. */
  readonly destination: string;
  /** The bounce domain: the deployment's name in public. */
  readonly submitter: string;
}

/** The local part that reports come from. */
const REPORTER = "tls-reports";
/** Failures that are told one by one; the sums have all. */
const MOST_DETAILS = 500;
/** Policies that are told with their words: who changes his all the time gets the others as one. */
const MOST_POLICIES = 20;

/** Equal for the same day and domain, whoever makes the report and how often. */
export function reportIdOf({ day, destination, submitter }: ReportSubject): string {
  return createHash("sha256").update(`${submitter} ${destination} ${day}`).digest("hex").slice(0, 32);
}

/** The report (RFC 8460 §4.4). @param rows the most frequent first */
export function tlsReportDocument(subject: ReportSubject, rows: readonly SessionRow[]): object {
  const { day, destination, submitter } = subject;
  const policies = new Map<string, SessionRow[]>();
  for (const row of rows) {
    const key = JSON.stringify([row.policyType, row.policy]);
    const shared = policies.has(key) || policies.size < MOST_POLICIES ? key : JSON.stringify([row.policyType]);
    policies.set(shared, [...(policies.get(shared) ?? []), row]);
  }
  let room = MOST_DETAILS;
  return {
    "organization-name": submitter,
    "date-range": { "start-datetime": `${day}T00:00:00Z`, "end-datetime": `${day}T23:59:59Z` },
    "contact-info": `postmaster@${submitter}`,
    "report-id": `${reportIdOf(subject)}@${submitter}`,
    policies: [...policies.values()].map((of) => {
      const failures = of.filter(({ result }) => result !== "");
      const told = failures.slice(0, room);
      room -= told.length;
      return {
        policy: describePolicy(of[0]!, destination),
        summary: {
          "total-successful-session-count": sum(of) - sum(failures),
          "total-failure-session-count": sum(failures),
        },
        "failure-details": told.map(describeFailure),
      };
    }),
  };
}

function describePolicy({ policyType, policy, policyExchangers }: SessionRow, destination: string): object {
  return {
    "policy-type": policyType,
    ...(policy.length > 0 ? { "policy-string": policy } : {}),
    "policy-domain": destination,
    ...(policyExchangers.length > 0 ? { "mx-host": policyExchangers } : {}),
  };
}

function describeFailure({ result, source, exchanger, address, sessions, reason }: SessionRow): object {
  return {
    "result-type": result,
    ...(source === "" ? {} : { "sending-mta-ip": source }),
    "receiving-mx-hostname": exchanger,
    ...(address === "" ? {} : { "receiving-ip": address }),
    "failed-session-count": sessions,
    ...(reason === "" ? {} : { "failure-reason-code": reason }),
  };
}

function sum(rows: readonly SessionRow[]): number {
  return rows.reduce((total, { sessions }) => total + sessions, 0);
}

/** The media type of a packed report (RFC 8460 §6.5). */
export const PACKED_REPORT_TYPE = "application/tlsrpt+gzip";

/**
 * The message that carries a report (RFC 8460 §5.3), to be signed: CRLF lines of 7 bits. It asks for no TLS, as it is what
 * tells of the want of it (RFC 8689 §5).
 */
export function tlsReportMessage(
  subject: ReportSubject,
  { to, packed, date }: { readonly to: EmailAddress; readonly packed: Buffer; readonly date: Date },
): Buffer {
  const { day, destination, submitter } = subject;
  const id = reportIdOf(subject);
  const from = validateAddress(`${REPORTER}@${submitter}`, { allowSmtputf8: false });
  if (!from.ok) throw new Error(`no address for reports at ${submitter}`);
  const begin = Date.parse(`${day}T00:00:00Z`) / 1_000;
  const boundary = `=_tls_${id}`;
  const header = [
    mailboxField("From", [{ name: "TLS reports", address: from.value }]),
    mailboxField("To", [{ name: "", address: to }]),
    textField("Subject", `Report Domain: ${destination} Submitter: ${submitter} Report-ID: <${id}@${submitter}>`),
    plainField("Date", headerDate(date)),
    plainField("Message-ID", `<${id}@${submitter}>`),
    plainField("TLS-Report-Domain", destination),
    plainField("TLS-Report-Submitter", submitter),
    plainField("TLS-Required", "No"),
    plainField("Auto-Submitted", "auto-generated"), // RFC 3834 §5
    plainField("MIME-Version", "1.0"),
    plainField("Content-Type", `multipart/report; report-type="tlsrpt"; boundary="${boundary}"`),
  ].join("");
  const words = [
    `This is a report about TLS in sessions with the mail exchangers of ${destination} on ${day} (UTC),`,
    "as its record asks for (RFC 8460).",
  ];
  return Buffer.concat([
    Buffer.from(
      `${header}\r\n--${boundary}\r\nContent-Type: text/plain; charset=us-ascii\r\n\r\n${words.join("\r\n")}\r\n`,
    ),
    Buffer.from(`\r\n--${boundary}\r\n`),
    attachmentPart({
      filename: `${submitter}!${destination}!${begin}!${begin + 86_399}!${id}.json.gz`,
      contentType: PACKED_REPORT_TYPE,
      content: packed,
    }),
    Buffer.from(`\r\n--${boundary}--\r\n`),
  ]);
}
