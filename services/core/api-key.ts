import { createHmac, randomBytes } from "node:crypto";
import type { ApiKeyKind } from "./key-purposes.ts";
import type { KeyRing } from "./key-ring.ts";

/**
 * A new key for somebody to call with: 256 random bits, printable, without spaces, commas or semicolons, and no hyphen
 * in front: as an argument of a program it would be taken for an option.
 */
export function makeApiKey(): string {
  const key = randomBytes(32).toString("base64url");
  return key.startsWith("-") ? makeApiKey() : key;
}

/**
 * What is stored of a key, and what it is looked up by: HMAC-SHA256 under a key of the deployment, so that the
 * database alone gives nothing away, not even of a key that its owner chose badly. Looking up by the digest also
 * makes the comparison independent of how much of a guess is right. Each kind of key has a digest key of its own.
 */
export function hashApiKey(keyRing: KeyRing, kind: ApiKeyKind, key: string): Buffer {
  return createHmac("sha256", keyRing.digestKey(kind)).update(key, "utf8").digest();
}
