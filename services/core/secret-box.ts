/**
 * Keys derived from the deployment's secret, and authenticated encryption for
 * secrets that must be stored (DKIM private keys, TSIG secrets, webhook secrets).
 *
 * While a secret is being replaced there are several. They travel as one text, the keyring, in the place of the one:
 * the secret in force on the first line, those before it on the next ones. What is made is made with the first;
 * what is read may have been made with any.
 */
import { createCipheriv, createDecipheriv, createSecretKey, hkdfSync, type KeyObject, randomBytes } from "node:crypto";
import { ok, type Result, refuse } from "./result.ts";

/** Why sealed text could not be opened: not in our format, or made with another key or altered. */
export type OpenRefusal = "malformed" | "forged";

const KEY_OCTETS = 32;
const FORMAT_VERSION = 1;
const NONCE_OCTETS = 12;
const TAG_OCTETS = 16;

const derivedKeys = new Map<string, KeyObject>();
/** Begins the line of the keyring that is for API keys alone; a secret does not begin with white space. */
const API_KEY_MARK = "\t";

/**
 * @param secrets the one in force, then those before it
 * @param apiKeySecret what digests of API keys are made with, where that is none of them any more
 */
export function makeKeyring(secrets: readonly string[], apiKeySecret?: string): string {
  return [...secrets, ...(apiKeySecret === undefined ? [] : [API_KEY_MARK + apiKeySecret])].join("\n");
}

/** The secrets of a keyring, the one in force first. */
export function secretsOf(keyring: string): readonly [string, ...string[]] {
  const [current, ...others] = keyring.split("\n");
  return [current as string, ...others.filter((line) => !line.startsWith(API_KEY_MARK))];
}

/**
 * What digests of API keys are made with. A digest cannot be made anew without the key, which only its holder has, so
 * this is the deployment's first secret for as long as there are such digests.
 */
export function apiKeySecretOf(keyring: string): string {
  const lines = keyring.split("\n");
  const marked = lines.find((line) => line.startsWith(API_KEY_MARK));
  return marked === undefined ? (lines.at(-1) as string) : marked.slice(API_KEY_MARK.length);
}

/**
 * Key for one purpose, derived from the deployment's secret; the same inputs always give the same key.
 * Distinct purposes give unrelated keys, so that a token of one kind never passes as another.
 * @param secret PALOMAR_SECRET, or a keyring, of which the first counts
 * @param purpose a constant such as "bounce-token"; keys are kept in memory per secret and purpose
 * @see RFC 5869 (HKDF with SHA-256)
 */
export function deriveKey(secret: string, purpose: string): KeyObject {
  const cacheKey = `${purpose}\0${secret}`;
  const known = derivedKeys.get(cacheKey);
  if (known !== undefined) return known;
  const [current] = secretsOf(secret);
  const key = createSecretKey(Buffer.from(hkdfSync("sha256", current, "palomar", purpose, KEY_OCTETS)));
  derivedKeys.set(cacheKey, key);
  return key;
}

/**
 * Encrypt a secret for storage with AES-256-GCM under a random nonce.
 * @returns base64url of version, nonce, ciphertext and tag
 */
export function seal(secret: string, purpose: string, plaintext: string | Uint8Array): string {
  const nonce = randomBytes(NONCE_OCTETS);
  const cipher = createCipheriv("aes-256-gcm", deriveKey(secret, sealPurpose(purpose)), nonce);
  const octets = typeof plaintext === "string" ? Buffer.from(plaintext, "utf8") : plaintext;
  const ciphertext = Buffer.concat([cipher.update(octets), cipher.final()]);
  return Buffer.concat([Buffer.of(FORMAT_VERSION), nonce, ciphertext, cipher.getAuthTag()]).toString("base64url");
}

/** Decrypt what `seal` made with the same secret, or another of the keyring, and the same purpose. */
export function open(keyring: string, purpose: string, sealed: string): Result<Buffer, OpenRefusal> {
  const [current, ...previous] = secretsOf(keyring);
  let opened = openWith(current, purpose, sealed);
  for (const secret of previous) {
    if (opened.ok || opened.error !== "forged") break;
    opened = openWith(secret, purpose, sealed);
  }
  return opened;
}

function openWith(secret: string, purpose: string, sealed: string): Result<Buffer, OpenRefusal> {
  const octets = Buffer.from(sealed, "base64url");
  const isOneSpelling = octets.toString("base64url") === sealed; // decoding skips what it does not know
  if (!isOneSpelling || octets.length < 1 + NONCE_OCTETS + TAG_OCTETS || octets[0] !== FORMAT_VERSION) {
    return refuse("malformed");
  }

  const nonce = octets.subarray(1, 1 + NONCE_OCTETS);
  const ciphertext = octets.subarray(1 + NONCE_OCTETS, -TAG_OCTETS);
  const decipher = createDecipheriv("aes-256-gcm", deriveKey(secret, sealPurpose(purpose)), nonce, {
    authTagLength: TAG_OCTETS,
  });
  decipher.setAuthTag(octets.subarray(-TAG_OCTETS));
  const plaintext = decipher.update(ciphertext);
  try {
    return ok(Buffer.concat([plaintext, decipher.final()]));
  } catch {
    return refuse("forged"); // final() throws exactly when the tag does not match
  }
}

function sealPurpose(purpose: string): string {
  return `seal:${purpose}`;
}
