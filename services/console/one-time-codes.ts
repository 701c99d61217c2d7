import { createHash, randomBytes } from "node:crypto";
import { Secret, TOTP } from "otpauth";

const ISSUER = "Palomar";
/** RFC 4226 §4 R6 recommends 160 bits. */
const SECRET_OCTETS = 20;
const PERIOD_SECONDS = 30;
/** RFC 6238 §5.2: one step either way allows for clocks and slow fingers. */
const STEPS_EITHER_WAY = 1;
const RECOVERY_CODES = 10;
const RECOVERY_OCTETS = 10;

/** A new secret in base32, and the URI that authenticator apps read. */
export function makeTotp(login: string): { readonly secret: string; readonly uri: string } {
  const secret = new Secret({ buffer: new Uint8Array(randomBytes(SECRET_OCTETS)).buffer });
  return { secret: secret.base32, uri: totpOf(secret, login).toString() };
}

/** The time step that a code belongs to; undefined when it is none of the current ones (RFC 6238). */
export function totpStepOf(secretBase32: string, code: string, nowMs: number): number | undefined {
  if (!/^\d{6}$/.test(code)) return undefined;
  const totp = totpOf(Secret.fromBase32(secretBase32), "");
  const delta = totp.validate({ token: code, timestamp: nowMs, window: STEPS_EITHER_WAY });
  return delta === null ? undefined : Math.floor(nowMs / 1_000 / PERIOD_SECONDS) + delta;
}

/** Codes that each stand in once for a lost device: 80 random bits in four groups. */
export function makeRecoveryCodes(): string[] {
  return Array.from({ length: RECOVERY_CODES }, () =>
    randomBytes(RECOVERY_OCTETS).toString("hex").match(/.{5}/g)!.join("-"),
  );
}

/** What is stored of a recovery code, whose 80 random bits need no salt; undefined for what cannot be one. */
export function hashRecoveryCode(code: string): Buffer | undefined {
  const plain = code.toLowerCase().replace(/[-\s]/g, "");
  if (!/^[0-9a-f]{20}$/.test(plain)) return undefined;
  return createHash("sha256").update(plain, "latin1").digest();
}

function totpOf(secret: Secret, login: string): TOTP {
  return new TOTP({ issuer: ISSUER, label: login, secret, digits: 6, period: PERIOD_SECONDS, algorithm: "SHA1" });
}
