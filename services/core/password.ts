import { randomBytes, scrypt, timingSafeEqual } from "node:crypto";

interface Cost {
  readonly N: number;
  readonly r: number;
  readonly p: number;
}

/** About 50 ms and 32 MiB for each attempt. */
const COST: Cost = { N: 2 ** 15, r: 8, p: 1 };
const HASH_OCTETS = 32;
/** Codes of errors about a cost that there cannot be, or that takes too much memory. */
const NO_COST: readonly (string | undefined)[] = ["ERR_OUT_OF_RANGE", "ERR_CRYPTO_INVALID_SCRYPT_PARAMS"];

/** @returns `scrypt$N$r$p$salt$hash`, so that the cost may rise later without losing anybody (RFC 7914) */
export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(16);
  const hash = await derive(password, salt, COST);
  return ["scrypt", COST.N, COST.r, COST.p, salt.toString("base64url"), hash.toString("base64url")].join("$");
}

/** A password of 120 random bits. */
export function makePassword(): string {
  return randomBytes(15).toString("base64url");
}

/** Compares in constant time. An unreadable stored hash matches nothing. */
export async function passwordMatches(password: string, stored: string): Promise<boolean> {
  const [scheme, N, r, p, salt = "", hash = ""] = stored.split("$");
  const expected = Buffer.from(hash, "base64url");
  if (scheme !== "scrypt" || expected.length !== HASH_OCTETS) return false;
  try {
    const derived = await derive(password, Buffer.from(salt, "base64url"), {
      N: Number(N),
      r: Number(r),
      p: Number(p),
    });
    return timingSafeEqual(derived, expected);
  } catch (error) {
    if (NO_COST.includes((error as NodeJS.ErrnoException).code)) return false;
    throw error;
  }
}

function derive(password: string, salt: Buffer, cost: Cost): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    scrypt(password.normalize("NFC"), salt, HASH_OCTETS, { ...cost, maxmem: 2 ** 28 }, (error, hash) =>
      error ? reject(error) : resolve(hash),
    );
  });
}
