import { createHmac } from "node:crypto";

/** Carries the signature: `t=<seconds since the epoch>,v1=<hexadecimal HMAC-SHA256 of "<t>.<body>">`. */
export const SIGNATURE_HEADER = "Palomar-Signature";

/** The time stamp is signed as well, so that a request that was overheard cannot be repeated later. */
export function signWebhook(signingSecret: string, body: string, now: Date): string {
  const seconds = Math.floor(now.getTime() / 1000);
  const mac = createHmac("sha256", signingSecret).update(`${seconds}.${body}`).digest("hex");
  return `t=${seconds},v1=${mac}`;
}
