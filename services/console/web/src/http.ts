import { ok, type Result, refuse } from "../../../core/result.ts";
import type { Sentence, SentenceCode } from "../../../core/sentences.ts";

/** What the console's HTTP refused, or why it could not be asked. */
export interface Problem {
  /** The HTTP status; 0 when no answer came. */
  readonly status: number;
  /** The server's own sentence; empty when there is none. */
  readonly message: string;
  /** Which refusal it is, where it came as a problem (RFC 9457): the reader's language has words for it. */
  readonly code?: SentenceCode;
  /** What fills the gaps of those words. */
  readonly values: Sentence["values"];
  /** The field that the sentence is about, where it is about one. */
  readonly field?: string;
  /** Seconds to wait before the next attempt, where the server says so. */
  readonly retryAfterSeconds?: number;
  /** The whole body, for refusals that carry more than a sentence. */
  readonly body: unknown;
}

export type Answer<T> = Result<T, Problem>;

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

export interface RequestOptions {
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Sent as it is: a master file, CSV. */
  readonly text?: string | Blob;
  readonly signal?: AbortSignal;
}

/** Where all of the console's HTTP lives. */
export const API = "/admin/v1";

/** The session's token, sent with every change; `session.ts` sets it. */
let csrfToken = "";
/** Told when the server no longer knows the session. */
let whenSignedOut = () => {};

export function useCredentials(csrf: string, signedOut: () => void): void {
  csrfToken = csrf;
  whenSignedOut = signedOut;
}

/**
 * Asks the console's HTTP.
 * @param path below `/admin/v1`, its segments percent-encoded (see `pathOf`)
 * @returns the parsed body (text where the answer is no JSON, octets of a message), or the problem; never throws but for an abort
 */
export async function request<T>(method: Method, path: string, options: RequestOptions = {}): Promise<Answer<T>> {
  const headers: Record<string, string> = { Accept: "application/json, application/problem+json" };
  // With reads too: some GETs of the mail API change something.
  if (csrfToken !== "") headers["X-CSRF-Token"] = csrfToken;
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  else if (options.text !== undefined) headers["Content-Type"] = "text/plain; charset=utf-8";
  const body = options.body === undefined ? options.text : JSON.stringify(options.body);
  let response: Response;
  let content: unknown;
  try {
    response = await fetch(API + path, {
      method,
      headers,
      credentials: "same-origin",
      ...(body === undefined ? {} : { body }),
      ...(options.signal ? { signal: options.signal } : {}),
    });
    // The connection may break in the middle of it.
    content = await readBody(response);
  } catch (error) {
    if ((error as Error).name === "AbortError") throw error;
    return refuse({ status: 0, message: "", values: {}, body: undefined });
  }
  if (response.ok) return ok(content as T);
  if (response.status === 401 && path !== "/session") whenSignedOut();
  return refuse(problemOf(response, content));
}

/** Joins path segments, each percent-encoded: `pathOf("dns", reseller, "rr", domain)`. */
export function pathOf(...segments: readonly (string | number)[]): string {
  return segments.map((segment) => `/${encodeURIComponent(segment)}`).join("");
}

/** A query string of the values that are there: `?a=1&b=2`, or nothing. */
export function queryOf(values: Readonly<Record<string, string | number | boolean | undefined>>): string {
  const pairs = Object.entries(values).filter(([, value]) => value !== undefined && value !== "" && value !== false);
  const given = Object.fromEntries(pairs.map(([key, value]) => [key, String(value)]));
  return pairs.length === 0 ? "" : `?${new URLSearchParams(given)}`;
}

async function readBody(response: Response): Promise<unknown> {
  const type = response.headers.get("Content-Type") ?? "";
  // Each part of a message has a charset of its own.
  if (type.startsWith("message/rfc822")) return new Uint8Array(await response.arrayBuffer());
  const text = await response.text();
  if (!type.includes("json")) return text;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Problems bring their code; what stands between us and the server may refuse in words of its own. */
function problemOf(response: Response, body: unknown): Problem {
  const told = (typeof body === "object" && body !== null ? body : {}) as RefusedBody;
  const { detail, msg, code, values = {} } = told;
  const named = typeof values.field === "string" ? values.field : undefined;
  const field = named ?? (code === undefined ? undefined : FIELDS[code]);
  const retryAfterSeconds = Number(response.headers.get("Retry-After"));
  return {
    status: response.status,
    message: detail ?? msg ?? "",
    values,
    body,
    ...(code === undefined ? {} : { code }),
    ...(field === undefined ? {} : { field }),
    ...(retryAfterSeconds > 0 ? { retryAfterSeconds } : {}),
  };
}

/** A problem (RFC 9457), or an answer of a sign-in (`msg`). */
interface RefusedBody extends Partial<Pick<Sentence, "code" | "values">> {
  readonly detail?: string;
  readonly msg?: string;
}

/** The field that a refusal is about which names none, by the refusal's code. */
const FIELDS: { readonly [C in SentenceCode]?: string } = {
  "acl-exists": "name",
  "company-exists": "crm_id",
  "company-key-taken": "apikey",
  "email-invalid": "email",
  "filter-exists": "nombre",
  "instance-host-taken": "host",
  "instance-name-taken": "name",
  "public-suffix": "fqdn",
  "reseller-exists": "reseller_id",
  "sender-domain-exists": "domain",
  "serial-behind": "serial",
  "user-exists": "login",
  "zone-exists": "fqdn",
};
