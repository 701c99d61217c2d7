import type { Refusal } from "../core/refusal.ts";

/** How the console words a refusal. */
export function refusalText(refusal: Refusal): string {
  switch (refusal.kind) {
    case "unauthenticated":
      return "sign in first: login or password is missing or wrong";
    case "unknown-path":
      return "no such path";
    case "wrong-method":
      return `method not allowed, use ${refusal.allowed.join(", ")}`;
    case "malformed-json":
      return "malformed JSON";
    case "missing-field":
      return `missing field: ${refusal.field}`;
    case "invalid-field":
      return `invalid field: ${refusal.field}: ${refusal.reason}`;
    case "forbidden":
    case "unacceptable":
    case "not-found":
    case "conflict":
      return refusal.text;
    case "too-large":
      return "the request is too large";
    case "rate-limited":
      return `too many requests, try again in ${refusal.retryAfterSeconds} s`;
    case "unavailable":
      return "not available at present, try again";
    case "internal":
      return "internal error";
  }
}
