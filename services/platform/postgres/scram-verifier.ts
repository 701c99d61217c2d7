import { createHash, createHmac, pbkdf2Sync, randomBytes } from "node:crypto";

const ITERATIONS = 4_096;
const SALT_OCTETS = 16;
const KEY_OCTETS = 32;

/** RFC 3454 tables C.1.2 and B.1: what is a blank, and what is nothing. */
const BLANKS = /[\u00A0\u1680\u2000-\u200B\u202F\u205F\u3000]/g;
const NOTHING = /\u00AD|\u034F|\u1806|[\u180B-\u180D]|\u200C|\u200D|\u2060|[\uFE00-\uFE0F]|\uFEFF/g;

/**
 * What PostgreSQL stores of a password. Given in its place to `create role`, the password itself is neither in an error,
 * nor in the server's log or statistics.
 * @see RFC 5803 §3, RFC 7677; RFC 4013 for what is made of the password first
 */
export function makeScramVerifier(password: string, salt: Uint8Array = randomBytes(SALT_OCTETS)): string {
  const prepared = password.replace(BLANKS, " ").replace(NOTHING, "").normalize("NFKC");
  const salted = pbkdf2Sync(prepared, salt, ITERATIONS, KEY_OCTETS, "sha256");
  const keyOf = (purpose: string) => createHmac("sha256", salted).update(purpose).digest();
  const storedKey = createHash("sha256").update(keyOf("Client Key")).digest("base64");
  const serverKey = keyOf("Server Key").toString("base64");
  return `SCRAM-SHA-256$${ITERATIONS}:${Buffer.from(salt).toString("base64")}$${storedKey}:${serverKey}`;
}
