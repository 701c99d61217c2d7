import { type Db, queryRows } from "../platform/db.ts";

/** Who a pair of reseller id and key stands for. The key decides the mode. */
export type DnsCaller =
  | { readonly mode: "reseller"; readonly resellerId: string; readonly rpzLicence: boolean }
  | { readonly mode: "company"; readonly resellerId: string; readonly companyId: number; readonly crmId: string };

/**
 * Finds a caller by the digest of its key. The digest is an HMAC, so how long the comparison takes says nothing
 * about the key (see core/api-key.ts).
 */
export async function findDnsCaller(db: Db, resellerId: string, keyHash: Buffer): Promise<DnsCaller | undefined> {
  const [row] = await queryRows<CallerRow>(
    db,
    `select 'reseller' as mode, rpz_licence, null::bigint as company_id, null as crm_id
       from resellers where id = ? and key_hash = ?
     union all
     select 'company', null, id, crm_id from companies where reseller_id = ? and apikey_hash = ?`,
    [resellerId, keyHash, resellerId, keyHash],
    { name: "find-dns-caller" },
  );
  if (row === undefined) return undefined;
  return row.mode === "reseller"
    ? { mode: "reseller", resellerId, rpzLicence: row.rpz_licence }
    : { mode: "company", resellerId, companyId: row.company_id, crmId: row.crm_id };
}

type CallerRow =
  | { readonly mode: "reseller"; readonly rpz_licence: boolean }
  | { readonly mode: "company"; readonly company_id: number; readonly crm_id: string };
