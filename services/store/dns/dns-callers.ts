import type { Delegation } from "../../core/delegation-token.ts";
import type { Token } from "../../core/dns/token.ts";
import { type Db, queryRows } from "../../platform/postgres/db.ts";

/** Who calls: who a pair of reseller id and key stands for, where the key decides the mode, or whose token it is. */
export type DnsCaller = (
  | { readonly mode: "reseller"; readonly resellerId: string; readonly rpzLicence: boolean }
  | { readonly mode: "company"; readonly resellerId: string; readonly companyId: number; readonly crmId: string }
) & {
  /** Of the user who is signed in at the console, where the request came through it. */
  readonly login?: string;
  /** What the caller may do, where it came with a token: never more than its owner. */
  readonly token?: Token;
};

/**
 * Finds a caller by the digest of its key; a reseller's former key counts until its grace ends. The digest is an HMAC,
 * so how long the comparison takes says nothing about the key (see core/api-key.ts).
 */
export async function findDnsCaller(db: Db, resellerId: string, keyHash: Buffer): Promise<DnsCaller | undefined> {
  const [row] = await queryRows<ResellerOrCompanyRow>(
    db,
    `select 'reseller' as mode, rpz_licence, null::bigint as company_id, null as crm_id
       from resellers where id = $1 and (key_hash = $2 or previous_key_hash = $3 and previous_key_until > now())
     union all
     select 'company', null, id, crm_id from companies where reseller_id = $4 and apikey_hash = $5`,
    [resellerId, keyHash, keyHash, resellerId, keyHash],
    { name: "find-dns-caller" },
  );
  return row && callerOf(resellerId, row);
}

/**
 * Finds a caller by the digest of its key alone, as programs send it that know no resellers.
 * @returns undefined also when several have this key: it then says not whose it is
 */
export async function findCallerByKey(db: Db, keyHash: Buffer): Promise<DnsCaller | undefined> {
  const rows = await queryRows<ResellerOrCompanyRow & { readonly reseller_id: string }>(
    db,
    `select 'reseller' as mode, rpz_licence, null::bigint as company_id, null as crm_id, id as reseller_id
       from resellers where key_hash = $1 or previous_key_hash = $2 and previous_key_until > now()
     union all
     select 'company', null, id, crm_id, reseller_id from companies where apikey_hash = $3
     limit 2`,
    [keyHash, keyHash, keyHash],
    { name: "find-caller-by-key" },
  );
  const [row, another] = rows;
  return row && !another ? callerOf(row.reseller_id, row) : undefined;
}

/** Whom the console speaks for; undefined when the reseller or the company is gone. */
export async function findDelegatedDnsCaller(
  db: Db,
  { login, resellerId, crmId }: Delegation & { readonly audience: "dns" },
): Promise<DnsCaller | undefined> {
  const [row] = await queryRows<ResellerOrCompanyRow>(
    db,
    crmId === undefined
      ? "select 'reseller' as mode, rpz_licence from resellers where id = $1"
      : "select 'company' as mode, id as company_id, crm_id from companies where reseller_id = $1 and crm_id = $2",
    crmId === undefined ? [resellerId] : [resellerId, crmId],
  );
  return row && { ...callerOf(resellerId, row), login };
}

export type ResellerOrCompanyRow =
  | { readonly mode: "reseller"; readonly rpz_licence: boolean }
  | { readonly mode: "company"; readonly company_id: number; readonly crm_id: string };

export function callerOf(resellerId: string, row: ResellerOrCompanyRow): DnsCaller {
  return row.mode === "reseller"
    ? { mode: "reseller", resellerId, rpzLicence: row.rpz_licence }
    : { mode: "company", resellerId, companyId: row.company_id, crmId: row.crm_id };
}
