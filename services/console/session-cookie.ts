import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import type { TLSSocket } from "node:tls";

/** The cookie that has the session token. */
export const SESSION_COOKIE = "palomar_session";

/** The session token that a request carries. */
export function readSessionToken(headers: IncomingHttpHeaders): string | undefined {
  for (const pair of (headers.cookie ?? "").split(";")) {
    const [name, value] = pair.trim().split("=", 2);
    if (name === SESSION_COOKIE && value !== undefined && /^[A-Za-z0-9_-]{43}$/.test(value)) return value;
  }
  return undefined;
}

/** A Set-Cookie field: out of reach of scripts and of other sites, and of plain HTTP where the visitor used TLS. */
export function sessionCookie(token: string, maxAgeSeconds: number, overTls: boolean): string {
  const secure = overTls ? "; Secure" : "";
  return `${SESSION_COOKIE}=${token}; Path=/; Max-Age=${maxAgeSeconds}; HttpOnly; SameSite=Strict${secure}`;
}

export function endedSessionCookie(overTls: boolean): string {
  return sessionCookie("", 0, overTls);
}

/** Whether the visitor came by TLS, here or at a proxy; who makes that up only keeps a cookie from being sent. */
export function cameOverTls(request: IncomingMessage): boolean {
  return (request.socket as Partial<TLSSocket>).encrypted === true || request.headers["x-forwarded-proto"] === "https";
}

/** What is stored of a session token: 256 random bits need no salt. */
export function hashSessionToken(token: string): Buffer {
  return createHash("sha256").update(token, "latin1").digest();
}

/** The CSRF token that belongs to a session: whoever can read it could read the session's pages anyway. */
export function csrfTokenOf(sessionToken: string): string {
  return createHmac("sha256", sessionToken).update("csrf").digest("base64url");
}

export function csrfTokenMatches(expected: string, given: string | string[] | undefined): boolean {
  if (typeof given !== "string") return false;
  const [a, b] = [Buffer.from(expected), Buffer.from(given)];
  return a.length === b.length && timingSafeEqual(a, b);
}
