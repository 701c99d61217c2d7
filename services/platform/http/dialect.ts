import { createHmac, randomBytes } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import type { ZodObject } from "zod";
import type { Refusal } from "../../core/refusal.ts";
import type { Result } from "../../core/result.ts";
import type { KeyAttempt } from "../guesses/key-guesses.ts";

/** What tells one API from another: who calls, and how a refusal reads. */
export interface Dialect<Caller> {
  readonly title: string;
  readonly description: string;
  /** The API's own version; that of the product when absent. */
  readonly version?: string;
  /** Path prefix of every endpoint, such as `/api/v1`. */
  readonly base: string;
  /** The ways to say who calls, for the OpenAPI document. */
  readonly credentials: readonly Credentials[];
  /** Content-Type of JSON where a client of this API wants nothing but its media type, without a charset. */
  readonly jsonType?: string;
  /** Fields of GET and DELETE may come in the query string. */
  readonly queryFields: boolean;
  /** Fields whose text the operations judge by themselves, NUL and all, because their refusals have words of their own. */
  readonly judgedFields?: ReadonlySet<string>;
  authenticate(headers: IncomingHttpHeaders, clientAddress: string): Promise<Result<Caller, Refusal>>;
  /** The key that a request brings, as {@link KeyGuesses} counts it; undefined where it brings none, or none that can be guessed. */
  keyOf?(headers: IncomingHttpHeaders): Pick<KeyAttempt, "digest" | "target"> | undefined;
  /** A name for the caller that limits and shares are counted by. */
  callerKey(caller: Caller): string;
  /** A name for those whose shares are counted together with the caller's, see `Sharer`; only the caller's are when absent. */
  groupKey?(caller: Caller): string;
  /** A refusal in this API's documented words. */
  say(refusal: Refusal): string;
  toHttp(refusal: Refusal): HttpRefusal;
  /** What the bodies of refusals have, where it is not the same for all of them. */
  readonly refusal?: ZodObject;
}

/** What a request has to say who sends it, all of it together: security schemes of OpenAPI by their names. */
export type Credentials = Readonly<Record<string, SecurityScheme>>;

/** As OpenAPI 3.1 §4.8.27 has it. */
type SecurityScheme =
  | { readonly type: "apiKey"; readonly in: "header" | "cookie"; readonly name: string }
  | { readonly type: "http"; readonly scheme: "basic" };

/** Credentials that are header fields. */
export function inHeaders(...names: readonly string[]): Credentials {
  return Object.fromEntries(names.map((name) => [name, { type: "apiKey", in: "header", name }]));
}

export interface HttpRefusal {
  readonly status: number;
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The key of an Authorization header: bare, or after `Bearer `. */
export function readAuthorization(headers: IncomingHttpHeaders): string | undefined {
  const key = headers.authorization?.replace(/^Bearer +/i, "").trim();
  return key === "" ? undefined : key;
}

/** Makes digests by which attempts are told apart, under a key of this process: of a stolen memory nobody reads keys. */
export function makeAttemptDigest(): (...parts: readonly string[]) => string {
  const key = randomBytes(32);
  return (...parts) => createHmac("sha256", key).update(parts.join("\0"), "utf8").digest("base64");
}

/** The status codes that all APIs share. */
export function statusOf(refusal: Refusal): number {
  switch (refusal.kind) {
    case "unauthenticated":
    case "forbidden":
      return 403;
    case "unknown-path":
    case "not-found":
      return 404;
    case "wrong-method":
      return 405;
    case "malformed-json":
    case "missing-field":
    case "invalid-field":
    case "unacceptable":
      return 400;
    case "conflict":
      return 409;
    case "too-large":
      return 413;
    case "unknown-coding":
      return 415;
    case "rate-limited":
      return 429;
    case "unavailable":
      return 503;
    case "internal":
      return 500;
  }
}
