import { decodeMessage } from "../../core/dns/message.ts";
import { RCODE } from "../../core/dns/rr-types.ts";
import { MOST_HEADER_FIELDS } from "../../platform/http/broken-requests.ts";

/** Where the server takes queries, and in what form (RFC 8484 §4.1, §6). */
export const DNS_PATH = "/dns-query";
export const DNS_MEDIA_TYPE = "application/dns-message";

/** No query is longer, so that clients cannot fill the memory with what they never finish. */
export const MOST_QUERY_OCTETS = 4_096;

/** The head of a request, as far as it matters. */
export interface HttpsRequestHead {
  readonly method: string;
  /** Path and query string. */
  readonly url: string;
  readonly contentType: string | undefined;
  readonly contentLength: string | undefined;
}

/** What a request's head says: the query itself, that it is in the body, or why there is none. */
export type HttpsQuery =
  | { readonly kind: "query"; readonly octets: Uint8Array }
  | { readonly kind: "in-body" }
  | HttpsRefusal;

/** An answer of HTTP rather than of DNS. */
export interface HttpsRefusal {
  readonly kind: "refused";
  readonly status: number;
  readonly text: string;
  readonly headers?: Readonly<Record<string, string>>;
}

const METHODS = "GET, HEAD, POST";

/** Reads the head of a request (RFC 8484 §4.1): GET and HEAD have the query in their URL, POST in its body. */
export function readRequestHead({ method, url, contentType, contentLength }: HttpsRequestHead): HttpsQuery {
  // RFC 9112 §3.2.2: a request may name the server once more.
  const [path, ...search] = url.replace(/^https:\/\/[^/]*/i, "").split("?");
  if (path !== DNS_PATH) return refused(404, `queries are taken at ${DNS_PATH}`);
  if (method === "POST") {
    const mediaType = contentType?.split(";")[0]?.trim().toLowerCase();
    if (mediaType !== DNS_MEDIA_TYPE) return refused(415, `the body must be ${DNS_MEDIA_TYPE}`);
    return Number(contentLength ?? 0) > MOST_QUERY_OCTETS ? TOO_LARGE : { kind: "in-body" };
  }
  if (method !== "GET" && method !== "HEAD") return refused(405, `use ${METHODS}`, { allow: METHODS });
  const [text, ...others] = new URLSearchParams(search.join("?")).getAll("dns");
  if (text === undefined || others.length > 0) return refused(400, "the URL must have one parameter dns");
  // RFC 8484 §6: base64url without padding. Node passes over what is none of it.
  const octets = Buffer.from(text, "base64url");
  if (octets.toString("base64url") !== text) return refused(400, "the parameter dns is not base64url without padding");
  return octets.length > MOST_QUERY_OCTETS ? refused(414, "the query is too long") : { kind: "query", octets };
}

/** For a body that is longer than any query. */
export const TOO_LARGE = refused(413, `a query has at most ${MOST_QUERY_OCTETS} octets`);

/** For a head that nothing else is read of. */
export const TOO_MANY_FIELDS = refused(431, `a request has at most ${MOST_HEADER_FIELDS} header fields`);

/** For octets that are no query at all, and get no answer of DNS. */
export const NO_QUERY = refused(400, "this is not a DNS query");

/** For a query whose answer could not be made. */
export const NO_ANSWER = refused(500, "there is no answer");

/**
 * How long a response may be kept, as a Cache-Control header: as long as its shortest-lived record, among them the SOA
 * of a negative answer, whose TTL is that of the answer (RFC 8484 §5.1, RFC 2308 §5). What has none is not kept.
 * @param response a message of our own making
 */
export function cacheControlOf(response: Uint8Array): string {
  const message = decodeMessage(response);
  // A zone may hold records of a known type in a form that we ourselves cannot read.
  if (!message.ok) return NOT_KEPT;
  const { rcode, answers, authorities } = message.value;
  const isAnswer = rcode === RCODE.NOERROR || rcode === RCODE.NXDOMAIN;
  const ttls = isAnswer ? [...answers, ...authorities].map(({ ttl }) => ttl) : [];
  return ttls.length > 0 ? `max-age=${Math.min(...ttls)}` : NOT_KEPT;
}

/** Of answers that others would get otherwise. */
export const NOT_KEPT = "no-store";

function refused(status: number, text: string, headers?: Readonly<Record<string, string>>): HttpsRefusal {
  return { kind: "refused", status, text, ...(headers && { headers }) };
}
