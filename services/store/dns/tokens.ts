import { type AccessPolicy, type PolicyText, parsePolicy, showPolicy } from "../../core/dns/access-policy.ts";
import type { TsigAlgorithm } from "../../core/dns/tsig.ts";
import { sentenceOf } from "../../core/refusal.ts";
import { type Db, isUniqueViolation, queryRows } from "../../platform/postgres/db.ts";
import { callerOf, type DnsCaller, type ResellerOrCompanyRow } from "./dns-callers.ts";
import type { QuotaOwner } from "./quota-settings.ts";

/** A token as its owner sees it. */
export interface ListedToken {
  readonly id: number;
  readonly name: string;
  /** The company whose it is; null for the reseller's own. */
  readonly crmId: string | null;
  /** As it is stored, which is how `showPolicy` writes it. */
  readonly policy: Required<PolicyText>;
  readonly madeBy: string;
  readonly createdAt: Date;
  readonly expiresAt: Date | null;
  /** To the minute. */
  readonly lastUsedAt: Date | null;
  readonly lastUsedFrom: string | null;
  /** Whether it opens the API; else it is but a TSIG key. */
  readonly hasSecret: boolean;
  readonly tsig: { readonly name: string; readonly algorithm: TsigAlgorithm } | null;
}

export interface NewToken {
  readonly owner: QuotaOwner;
  readonly name: string;
  readonly policy: AccessPolicy;
  readonly madeBy: string;
  /** Who was signed in at the console; the token goes with the account. */
  readonly madeByLogin: string | null;
  readonly tokenHash: Uint8Array | null;
  readonly createdAt: Date;
  readonly expiresAt: Date | null;
}

/** @returns its id; undefined when the owner has one of this name */
export async function insertToken(db: Db, token: NewToken): Promise<number | undefined> {
  const { owner, name, policy } = token;
  try {
    const [row] = await queryRows<{ id: number }>(
      db,
      `insert into dns_tokens (reseller_id, company_id, name, policy, made_by, made_by_login, token_hash, created_at, expires_at)
       values ($1, $2, $3, $4::jsonb, $5, $6, $7, $8::timestamptz, $9::timestamptz) returning id`,
      [
        ...[owner.resellerId, owner.companyId ?? null, name, JSON.stringify(showPolicy(policy))],
        ...[token.madeBy, token.madeByLogin, token.tokenHash],
        ...[token.createdAt.toISOString(), token.expiresAt?.toISOString() ?? null],
      ],
    );
    return row!.id;
  } catch (error) {
    if (isUniqueViolation(error)) return undefined;
    throw error;
  }
}

/** Tokens of one statement: a policy may have some kilobytes. */
const PAGE = 50;

/** The tokens of an owner by name: a company's own; a reseller's with those of all its companies, or of one. */
export async function* tokenPages(db: Db, owner: QuotaOwner): AsyncGenerator<readonly ListedToken[]> {
  for (let last: ListedToken | undefined; ; ) {
    const rows: TokenRow[] = await queryRows<TokenRow>(
      db,
      `select ${TOKEN_COLUMNS} where ${OF_OWNER} and (coalesce(c.crm_id, ''), t.name) > ($3, $4)
        order by coalesce(c.crm_id, ''), t.name limit ${PAGE}`,
      [...ownerValues(owner), last?.crmId ?? "", last?.name ?? ""],
    );
    const page = rows.map(listedToken);
    yield page;
    if (page.length < PAGE) return;
    last = page.at(-1);
  }
}

/** A token's TSIG key, and whether the token is good for more. */
export interface TokenKey extends NonNullable<ListedToken["tsig"]> {
  readonly tokenId: number;
  readonly tokenName: string;
  readonly hasSecret: boolean;
}

/** The TSIG keys of an owner's tokens by their names, or the one of a name. */
export async function listTokenKeys(db: Db, owner: QuotaOwner, name?: string): Promise<TokenKey[]> {
  return queryRows<TokenKey>(
    db,
    `select k.name, k.algorithm, t.id as "tokenId", t.name as "tokenName", t.token_hash is not null as "hasSecret"
       from dns_tokens t join tsig_keys k on k.token_id = t.id
      where ${OF_OWNER} and k.name = coalesce($3, k.name) order by k.name`,
    [...ownerValues(owner), name ?? null],
  );
}

const OF_OWNER = "t.reseller_id = $1 and ($2::bigint is null or t.company_id = $2)";

function ownerValues({ resellerId, companyId }: QuotaOwner) {
  return [resellerId, companyId ?? null];
}

/** The token of this name that is the owner's own. */
export async function findToken(
  db: Db,
  { resellerId, companyId }: QuotaOwner,
  name: string,
): Promise<ListedToken | undefined> {
  const [row] = await queryRows<TokenRow>(
    db,
    `select ${TOKEN_COLUMNS} where t.reseller_id = $1 and t.company_id is not distinct from $2 and t.name = $3`,
    [resellerId, companyId ?? null, name],
  );
  return row && listedToken(row);
}

/** Deletes a token, and its TSIG key with it. */
export async function deleteToken(db: Db, id: number): Promise<void> {
  await queryRows(db, "delete from dns_tokens where id = $1", [id]);
}

/** A caller that came with a token, and until when the token is good. */
export interface TokenCaller {
  readonly caller: DnsCaller & Required<Pick<DnsCaller, "token">>;
  readonly expiresAt: Date | null;
}

/** Finds who calls by the digest of a token; a former one counts until its grace ends. */
export async function findTokenCaller(db: Db, tokenHash: Uint8Array): Promise<TokenCaller | undefined> {
  return findCallerWhere(
    db,
    "find-token-caller",
    "t.token_hash = $1 or t.previous_hash = $1 and t.previous_until > now()",
    [tokenHash],
  );
}

/** Finds whose token has a TSIG key. @param keyName as of `StoredTsigKey` */
export async function findTsigCaller(db: Db, keyName: string): Promise<TokenCaller | undefined> {
  return findCallerWhere(db, "find-tsig-caller", "t.id = (select token_id from tsig_keys where name = $1)", [keyName]);
}

async function findCallerWhere(
  db: Db,
  name: string,
  condition: string,
  bindings: readonly (string | Uint8Array)[],
): Promise<TokenCaller | undefined> {
  const [row] = await queryRows<CallerRow>(
    db,
    `select t.id, t.name, t.policy, t.expires_at, t.reseller_id, t.company_id, c.crm_id, r.rpz_licence
       from dns_tokens t join resellers r on r.id = t.reseller_id left join companies c on c.id = t.company_id
      where ${condition}`,
    bindings,
    { name },
  );
  if (!row) return undefined;
  const { id, expires_at: expiresAt } = row;
  const who: ResellerOrCompanyRow =
    row.company_id === null || row.crm_id === null
      ? { mode: "reseller", rpz_licence: row.rpz_licence }
      : { mode: "company", company_id: row.company_id, crm_id: row.crm_id };
  return {
    caller: { ...callerOf(row.reseller_id, who), token: { id, name: row.name, policy: storedPolicy(row) } },
    expiresAt,
  };
}

/** Notes that a token was used, at most once a minute. */
export async function noteUse(db: Db, id: number, address: string, now: Date): Promise<void> {
  const at = now.toISOString();
  await queryRows(
    db,
    `update dns_tokens set last_used_at = date_trunc('minute', $1::timestamptz), last_used_from = $2
      where id = $3 and (last_used_at is null or last_used_at <= $4::timestamptz - interval '1 minute')`,
    [at, address, id, at],
  );
}

interface TokenRow {
  readonly id: number;
  readonly name: string;
  readonly crm_id: string | null;
  readonly policy: Required<PolicyText>;
  readonly made_by: string;
  readonly created_at: Date;
  readonly expires_at: Date | null;
  readonly last_used_at: Date | null;
  readonly last_used_from: string | null;
  readonly has_secret: boolean;
  readonly key_name: string | null;
  readonly algorithm: TsigAlgorithm | null;
}

interface CallerRow {
  readonly id: number;
  readonly name: string;
  readonly policy: PolicyText;
  readonly expires_at: Date | null;
  readonly reseller_id: string;
  readonly company_id: number | null;
  readonly crm_id: string | null;
  readonly rpz_licence: boolean;
}

const TOKEN_COLUMNS = `t.id, t.name, c.crm_id, t.policy, t.made_by, t.created_at, t.expires_at, t.last_used_at,
  t.last_used_from, t.token_hash is not null as has_secret, k.name as key_name, k.algorithm
  from dns_tokens t left join companies c on c.id = t.company_id left join tsig_keys k on k.token_id = t.id`;

function listedToken(row: TokenRow): ListedToken {
  return {
    id: row.id,
    name: row.name,
    crmId: row.crm_id,
    policy: row.policy,
    madeBy: row.made_by,
    createdAt: row.created_at,
    expiresAt: row.expires_at,
    lastUsedAt: row.last_used_at,
    lastUsedFrom: row.last_used_from,
    hasSecret: row.has_secret,
    tsig: row.key_name === null || row.algorithm === null ? null : { name: row.key_name, algorithm: row.algorithm },
  };
}

/** @throws when it is none: the store is corrupt */
function storedPolicy({ name, policy }: Pick<CallerRow, "name" | "policy">): AccessPolicy {
  const read = parsePolicy(policy);
  if (!read.ok) throw new Error(`the stored policy of token ${name} is none: ${sentenceOf(read.error).message}`);
  return read.value;
}
