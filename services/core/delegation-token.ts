import { createHmac, type KeyObject, timingSafeEqual } from "node:crypto";
import type { TokenPurpose } from "./key-purposes.ts";
import type { KeyRing } from "./key-ring.ts";
import { ok, type Result, refuse } from "./result.ts";

/**
 * What the console may do at an API for a moment, in the name of the user who is signed in there:
 * manage a reseller's or a company's zones, or an instance's mail.
 */
export type Delegation =
  | { readonly audience: "dns"; readonly login: string; readonly resellerId: string; readonly crmId?: string }
  | { readonly audience: "mail"; readonly login: string; readonly instance: string };

/** The scheme of the Authorization header that carries a token. */
export const DELEGATION_SCHEME = "Console";

export const DELEGATION_SECONDS = 60;

/** Each API checks with a key of its own, so that neither can make tokens for the other. */
const PURPOSES = { dns: "console-token-dns", mail: "console-token-mail" } as const satisfies {
  [audience in Delegation["audience"]]: TokenPurpose;
};

/** Base64url of the claims, a dot, and base64url of their HMAC-SHA256; valid for a minute. */
export function makeDelegationToken(keyRing: KeyRing, delegation: Delegation, nowMs: number): string {
  const claims = { ...delegation, expiresMs: nowMs + DELEGATION_SECONDS * 1_000 };
  const payload = Buffer.from(JSON.stringify(claims), "utf8").toString("base64url");
  return `${payload}.${macOf(keyRing.keyFor(PURPOSES[delegation.audience]), payload).toString("base64url")}`;
}

/**
 * What a token stands for at the API of `audience`.
 * @returns refused as `malformed`, `forged` (another deployment's or API's, or altered), or `expired`
 */
export function readDelegationToken<Audience extends Delegation["audience"]>(
  keyRing: KeyRing,
  audience: Audience,
  token: string,
  nowMs: number,
): Result<Delegation & { readonly audience: Audience }, "malformed" | "forged" | "expired"> {
  const [payload = "", mac = "", ...more] = token.split(".");
  if (payload === "" || mac === "" || more.length > 0) return refuse("malformed");
  const given = Buffer.from(mac, "base64url");
  const isOurs = keyRing.keysFor(PURPOSES[audience]).some((one) => {
    const expected = macOf(one, payload);
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
  if (!isOurs) return refuse("forged");
  // Only what this function's counterpart wrote gets here.
  const claims = JSON.parse(Buffer.from(payload, "base64url").toString("utf8")) as Delegation & { expiresMs: number };
  if (claims.expiresMs <= nowMs) return refuse("expired");
  return isFor(audience, claims) ? ok(claims) : refuse("forged");
}

/** The token of an Authorization header with our scheme. */
export function delegationTokenOf(authorization: string | undefined): string | undefined {
  const [scheme, token, ...more] = (authorization ?? "").trim().split(/ +/);
  return scheme === DELEGATION_SCHEME && token !== undefined && more.length === 0 ? token : undefined;
}

function isFor<Audience extends Delegation["audience"]>(
  audience: Audience,
  claims: Delegation,
): claims is Delegation & { readonly audience: Audience } {
  return claims.audience === audience;
}

function macOf(key: KeyObject, payload: string): Buffer {
  return createHmac("sha256", key).update(payload, "latin1").digest();
}
