/** Authenticated encryption for secrets that must be stored: DKIM private keys, TSIG secrets, webhook secrets. */
import { createCipheriv, createDecipheriv, type KeyObject, randomBytes } from "node:crypto";
import type { SealPurpose } from "./key-purposes.ts";
import type { KeyRing } from "./key-ring.ts";
import { ok, type Result, refuse } from "./result.ts";

/** Why sealed text could not be opened: not in our format, or made with another key or altered. */
export type OpenRefusal = "malformed" | "forged";

const FORMAT_VERSION = 1;
const NONCE_OCTETS = 12;
const TAG_OCTETS = 16;

/**
 * Encrypt a secret for storage with AES-256-GCM under a random nonce.
 * @returns base64url of version, nonce, ciphertext and tag
 */
export function seal(keyRing: KeyRing, purpose: SealPurpose, plaintext: string | Uint8Array): string {
  const nonce = randomBytes(NONCE_OCTETS);
  const cipher = createCipheriv("aes-256-gcm", keyRing.keyFor(purpose), nonce);
  const octets = typeof plaintext === "string" ? Buffer.from(plaintext, "utf8") : plaintext;
  const ciphertext = Buffer.concat([cipher.update(octets), cipher.final()]);
  return Buffer.concat([Buffer.of(FORMAT_VERSION), nonce, ciphertext, cipher.getAuthTag()]).toString("base64url");
}

/** Decrypt what `seal` made for the same purpose, with the key in force or one before it. */
export function open(keyRing: KeyRing, purpose: SealPurpose, sealed: string): Result<Buffer, OpenRefusal> {
  const [current, ...previous] = keyRing.keysFor(purpose);
  let opened = openWith(current, sealed);
  for (const key of previous) {
    if (opened.ok || opened.error !== "forged") break;
    opened = openWith(key, sealed);
  }
  return opened;
}

function openWith(key: KeyObject, sealed: string): Result<Buffer, OpenRefusal> {
  const octets = Buffer.from(sealed, "base64url");
  const isOneSpelling = octets.toString("base64url") === sealed; // decoding skips what it does not know
  if (!isOneSpelling || octets.length < 1 + NONCE_OCTETS + TAG_OCTETS || octets[0] !== FORMAT_VERSION) {
    return refuse("malformed");
  }

  const nonce = octets.subarray(1, 1 + NONCE_OCTETS);
  const ciphertext = octets.subarray(1 + NONCE_OCTETS, -TAG_OCTETS);
  const decipher = createDecipheriv("aes-256-gcm", key, nonce, { authTagLength: TAG_OCTETS });
  decipher.setAuthTag(octets.subarray(-TAG_OCTETS));
  const plaintext = decipher.update(ciphertext);
  try {
    return ok(Buffer.concat([plaintext, decipher.final()]));
  } catch {
    return refuse("forged"); // final() throws exactly when the tag does not match
  }
}
