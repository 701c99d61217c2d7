import type { KeyRing } from "../../key-ring.ts";
import type { ExpectedRecord } from "../sender-records.ts";
import { makeReportLocalPart, makeReportToken } from "../tokens.ts";

/** Where reports about a sender domain come. */
interface ReportAddresses {
  /** For `rua=` of its DMARC record. */
  readonly dmarc: string;
  /** For `rua=` of its TLS reporting record; either of them, or both. */
  readonly tls: string;
  readonly tlsHttps: string;
}

/** @param tracking public base of the tracking service's URLs */
export function reportAddresses(
  keyRing: KeyRing,
  sender: { readonly instanceId: number; readonly domain: string },
  { bounceDomain, tracking }: { readonly bounceDomain: string; readonly tracking: string },
): ReportAddresses {
  const token = makeReportToken(keyRing, sender);
  return {
    dmarc: `mailto:${makeReportLocalPart("dmarc", token)}@${bounceDomain}`,
    tls: `mailto:${makeReportLocalPart("tlsrpt", token)}@${bounceDomain}`,
    tlsHttps: `${tracking.replace(/\/$/, "")}/r/${token}`,
  };
}

/** With it the bounce domain agrees to have reports about the domain: without it, none are sent (RFC 9990 §4). */
export function expectedReportConsent(domain: string, bounceDomain: string): ExpectedRecord {
  return { name: `${domain}._report._dmarc.${bounceDomain}`, type: "TXT", value: "v=DMARC1" };
}

/** RFC 8460 §3 */
export function expectedTlsReporting(domain: string, { tls }: ReportAddresses): ExpectedRecord {
  return { name: `_smtp._tls.${domain}`, type: "TXT", value: `v=TLSRPTv1; rua=${tls}` };
}
