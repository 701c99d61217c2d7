/** What came of TLS in a session with an exchanger, in the terms of reports about TLS (RFC 8460 §4.3). */
import type { DaneRequirement } from "../dane.ts";

/** What a session showed of TLS. */
export type TlsEvidence =
  /** `certificate`: `valid`, `dane` where TLSA records vouch for it, or a code for what is wrong with it. */
  | { readonly kind: "encrypted"; readonly certificate: string }
  | { readonly kind: "not-offered" }
  /** The handshake failed, or its outcome was not accepted: by node's code where there is one. */
  | { readonly kind: "failed"; readonly code: string };

/** Why the policy that a domain announces could not be had (RFC 8460 §4.3.2.2). */
export type StsFailure = "sts-policy-fetch-error" | "sts-policy-invalid" | "sts-webpki-invalid";

/** An MTA-STS policy as it was applied. */
export interface AppliedSts {
  readonly mode: "enforce" | "testing" | "none";
  readonly mx: readonly string[];
  /** There is none, although the domain announces one. */
  readonly failure?: StsFailure | undefined;
}

/** What a domain demands of sessions to one of its exchangers. DANE comes first (RFC 8461 §2). */
export interface TlsDemand {
  readonly dane?: DaneRequirement | undefined;
  readonly sts?: AppliedSts | undefined;
  /** Whether the exchanger is one of the MTA-STS policy's. */
  readonly isListed: boolean;
}

/** A session as it is counted. */
export interface TlsSession {
  /** Domain of the recipients. */
  readonly destination: string;
  readonly policyType: "tlsa" | "sts" | "no-policy-found";
  /** TLSA records, or the lines of an MTA-STS policy. */
  readonly policy: readonly string[];
  /** Exchangers that the MTA-STS policy names. */
  readonly policyExchangers: readonly string[];
  readonly exchanger: string;
  /** The exchanger's address, and ours. */
  readonly address: string;
  readonly source: string;
  /** A result type; empty: success. */
  readonly result: string;
  /** What says more; empty where nothing does. */
  readonly reason: string;
}

/** Names and records of a policy that are told. */
const MOST_STRINGS = 32;
const MOST_CHARACTERS = 255;
/** In hexadecimal: a record may hold a whole certificate. */
const MOST_DIGITS = 160;

/** The policy that sessions are counted under. */
export function tlsPolicyOf({ dane, sts }: TlsDemand): Pick<TlsSession, "policyType" | "policy" | "policyExchangers"> {
  if (dane !== undefined) {
    return { policyType: "tlsa", policy: dane.records.slice(0, MOST_STRINGS).map(tlsaText), policyExchangers: [] };
  }
  if (sts?.failure !== undefined) return { policyType: "sts", policy: [], policyExchangers: [] };
  if (sts === undefined || sts.mode === "none") {
    return { policyType: "no-policy-found", policy: [], policyExchangers: [] };
  }
  const policyExchangers = sts.mx.slice(0, MOST_STRINGS).map((name) => name.slice(0, MOST_CHARACTERS));
  const policy = ["version: STSv1", `mode: ${sts.mode}`, ...policyExchangers.map((name) => `mx: ${name}`)];
  return { policyType: "sts", policy, policyExchangers };
}

function tlsaText({ usage, selector, matchingType, association }: DaneRequirement["records"][number]): string {
  const digits = Buffer.from(association).toString("hex");
  return `${usage} ${selector} ${matchingType} ${digits.slice(0, MOST_DIGITS)}`;
}

/** What a session comes to, by what was demanded of it; a policy that is only tried is judged as if it were in force. */
export function judgeTls(demand: TlsDemand, evidence: TlsEvidence): Pick<TlsSession, "result" | "reason"> {
  const { dane, sts, isListed } = demand;
  const isTried = dane === undefined && sts !== undefined && sts.mode !== "none";
  if (dane === undefined && sts?.failure !== undefined) return { result: sts.failure, reason: "" };
  if (isTried && !isListed) return { result: "validation-failure", reason: "mx-not-in-policy" };
  switch (evidence.kind) {
    case "not-offered":
      return { result: "starttls-not-supported", reason: "" };
    case "failed":
      return failure(evidence.code);
    case "encrypted":
      return isTried && evidence.certificate !== "valid" ? failure(evidence.certificate) : { result: "", reason: "" };
  }
}

function failure(code: string): Pick<TlsSession, "result" | "reason"> {
  const reason = code.replace(/[^\x20-\x7e]+/g, " ").slice(0, MOST_CHARACTERS);
  if (code === "ERR_TLS_CERT_ALTNAME_INVALID") return { result: "certificate-host-mismatch", reason };
  if (code === "CERT_HAS_EXPIRED") return { result: "certificate-expired", reason };
  const isUntrusted = /^(CERT_|UNABLE_TO_|SELF_SIGNED|DEPTH_ZERO|INVALID_CA|HOSTNAME_MISMATCH)/.test(code);
  return { result: isUntrusted ? "certificate-not-trusted" : "validation-failure", reason };
}
