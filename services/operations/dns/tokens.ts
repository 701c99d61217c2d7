import { randomBytes } from "node:crypto";
import { hashApiKey, makeApiKey } from "../../core/api-key.ts";
import type { AccessPolicy, PolicyText } from "../../core/dns/access-policy.ts";
import { readPolicy } from "../../core/dns/access-policy.ts";
import { readTsigKey, type TsigKeyParts } from "../../core/dns/acl-input.ts";
import { type QuotaHolder, quotaExceeded } from "../../core/dns/quotas.ts";
import type { KeyRing } from "../../core/key-ring.ts";
import { parseMoment } from "../../core/moment.ts";
import { invalidField, missingField, notFound, type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import type { Db, Transaction } from "../../platform/postgres/db.ts";
import { countTokens, lockQuotas, type QuotaOwner } from "../../store/dns/quota-settings.ts";
import { deleteToken, findToken, insertToken, type ListedToken } from "../../store/dns/tokens.ts";
import { addTsigKey, deleteTokenKey } from "../../store/dns/tsig-keys.ts";
import { rotateTokenSecret } from "../../store/key-rotation.ts";
import { inTransaction } from "../../store/transactions.ts";

/** How tokens begin, so that they are known for what they are wherever they turn up. */
export const TOKEN_PREFIX = "palomar_";

/** A token as somebody wants it. */
export interface WantedToken {
  readonly name: string;
  readonly policy: PolicyText;
  /** RFC 3339; never when absent. */
  readonly expires?: string | null | undefined;
  /** A TSIG key of this algorithm goes with it. */
  readonly tsig?: string | null | undefined;
  /** Whether the token opens the API; where it does not, it is but its TSIG key. */
  readonly api: boolean;
}

/** Whose a token is to be, and who makes it. */
export interface TokenMaker {
  readonly owner: QuotaOwner;
  readonly holder: QuotaHolder;
  /** As the history names callers. */
  readonly actor: string;
  readonly login: string | null;
}

/** A token with its secrets, which are told this once. */
export interface MadeToken {
  readonly listed: ListedToken;
  readonly secret: string | null;
  readonly tsig: TsigKeyParts | null;
}

/** A token with its new secrets. */
export interface RotatedToken extends MadeToken {
  /** As of `ReplacedKey`. */
  readonly olderUntil: Date | null;
}

interface Surroundings {
  readonly db: Db;
  readonly keyRing: KeyRing;
}

/** Makes a token. Refuses a name that the owner has, a policy that is none, and one token more than the owner may have. */
export async function makeToken(
  { db, keyRing }: Surroundings,
  maker: TokenMaker,
  wanted: WantedToken,
  now: Date,
): Promise<Result<MadeToken, Refusal>> {
  const read = readWanted(wanted, now);
  if (!read.ok) return read;
  const { policy, expiresAt, tsig } = read.value;
  const secret = wanted.api ? newSecret() : null;
  return inTransaction(db, async (transaction): Promise<Result<MadeToken, Refusal>> => {
    const tooMany = await checkTokenQuota(transaction, maker);
    if (tooMany) return refuse(tooMany);
    if (await findToken(transaction, maker.owner, wanted.name)) return refuse(tokenExists(wanted.name));
    const id = await insertToken(transaction, {
      ...{ owner: maker.owner, name: wanted.name, policy, madeBy: maker.actor, madeByLogin: maker.login },
      tokenHash: secret === null ? null : hashToken(keyRing, secret),
      ...{ createdAt: now, expiresAt },
    });
    if (id === undefined) return refuse(tokenExists(wanted.name));
    if (tsig && (await addTsigKey(transaction, keyRing, tsig, id)) === undefined) {
      return refuse(unacceptable("tsig-key-exists", { name: tsig.name }));
    }
    const listed = await findToken(transaction, maker.owner, wanted.name);
    return listed ? ok({ listed, secret, tsig }) : refuse(tokenDoesNotExist(wanted.name));
  });
}

/**
 * Replaces the secrets of a token: what opens the API, which may be accepted for a while longer, and the TSIG secret at once.
 * @param graceUntil until when the former one opens the API as well; null: no longer
 */
export async function rotateToken(
  { db, keyRing }: Surroundings,
  owner: QuotaOwner,
  name: string,
  graceUntil: Date | null,
): Promise<Result<RotatedToken, Refusal>> {
  return inTransaction(db, async (transaction): Promise<Result<RotatedToken, Refusal>> => {
    const listed = await findToken(transaction, owner, name);
    if (!listed) return refuse(tokenDoesNotExist(name));
    const secret = listed.hasSecret ? newSecret() : null;
    const newKey = secret === null ? undefined : { keyHash: hashToken(keyRing, secret), graceUntil };
    const replaced = newKey && (await rotateTokenSecret(transaction, listed.id, newKey));
    const key = listed.tsig && readTsigKey(listed.tsig);
    if (key?.ok) {
      await deleteTokenKey(transaction, listed.id);
      await addTsigKey(transaction, keyRing, key.value, listed.id);
    }
    return ok({ listed, secret, tsig: key?.ok ? key.value : null, olderUntil: replaced?.olderUntil ?? null });
  });
}

/** Takes a token away, and its TSIG key with it. */
export async function removeToken(db: Db, owner: QuotaOwner, name: string): Promise<Result<void, Refusal>> {
  const listed = await findToken(db, owner, name);
  if (!listed) return refuse(tokenDoesNotExist(name));
  await deleteToken(db, listed.id);
  return ok(undefined);
}

export function hashToken(keyRing: KeyRing, token: string): Buffer {
  return hashApiKey(keyRing, "dns", token);
}

export function tokenDoesNotExist(name: string): Refusal {
  return notFound("token-unknown", { name });
}

function tokenExists(name: string): Refusal {
  return unacceptable("token-exists", { name });
}

function newSecret(): string {
  return TOKEN_PREFIX + makeApiKey();
}

interface ReadToken {
  readonly policy: AccessPolicy;
  readonly expiresAt: Date | null;
  readonly tsig: TsigKeyParts | null;
}

function readWanted({ name, policy, expires, tsig, api }: WantedToken, now: Date): Result<ReadToken, Refusal> {
  if (!/^[A-Za-z0-9][\w.-]{0,63}$/.test(name)) return refuse(invalidField("name", "token-name-form"));
  const read = readPolicy(policy);
  if (!read.ok) return read;
  const expiresAt = expires === null || expires === undefined ? null : parseMoment(expires);
  if (expiresAt === undefined || (expiresAt && expiresAt <= now))
    return refuse(invalidField("expires", "token-expiry-form"));
  if (tsig === null || tsig === undefined) {
    return api ? ok({ policy: read.value, expiresAt, tsig: null }) : refuse(missingField("tsig"));
  }
  const key = readTsigKey({ name: keyNameOf(name), algorithm: tsig });
  return key.ok ? ok({ policy: read.value, expiresAt, tsig: key.value }) : key;
}

/** Names of keys are those of the whole deployment: this one is nobody else's, and nobody can take another's. */
function keyNameOf(tokenName: string): string {
  const label = tokenName.toLowerCase().replace(/[^a-z0-9-]+/g, "-");
  return `${label.slice(0, 40)}-${randomBytes(6).toString("hex")}`;
}

async function checkTokenQuota(transaction: Transaction, { owner, holder }: TokenMaker): Promise<Refusal | undefined> {
  const { tokens: allowed } = await lockQuotas(transaction, owner);
  const used = await countTokens(transaction, owner);
  if (allowed === undefined || used < allowed) return undefined;
  return quotaExceeded(holder, "tokens", { allowed, used, wanted: 1 });
}
