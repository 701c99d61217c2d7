import { createHmac, randomBytes } from "node:crypto";
import { deriveKey } from "./secret-box.ts";

/** A new key for somebody to call with: 256 random bits, printable, without spaces, commas or semicolons. */
export function makeApiKey(): string {
  return randomBytes(32).toString("base64url");
}

/**
 * What is stored of a key, and what it is looked up by: HMAC-SHA256 under a key of the deployment, so that the
 * database alone gives nothing away, not even of a key that its owner chose badly. Looking up by the digest also
 * makes the comparison independent of how much of a guess is right.
 */
export function hashApiKey(secret: string, key: string): Buffer {
  return createHmac("sha256", deriveKey(secret, "api-key")).update(key, "utf8").digest();
}
