import { type Refusal, sentenceOf } from "../core/refusal.ts";

/** How the console words a refusal. */
export function refusalText(refusal: Refusal): string {
  if (refusal.kind === "unauthenticated") return "sign in first: login or password is missing or wrong";
  if (refusal.kind === "rate-limited" && refusal.code === undefined) {
    return `too many requests, try again in ${refusal.retryAfterSeconds} s`;
  }
  return sentenceOf(refusal).message;
}
