import type { SealPurpose } from "../core/key-purposes.ts";
import type { KeyRing } from "../core/key-ring.ts";
import { open } from "../core/secret-box.ts";
import { type Db, queryRows } from "../platform/postgres/db.ts";
import { onPresent } from "./mail/machines.ts";

/** Every column that holds something sealed, and the purpose that it is sealed for. */
export const SEALED_COLUMNS: readonly {
  readonly table: string;
  readonly column: string;
  readonly purpose: SealPurpose;
  /** Its rows belong to instances, whose machines may be away. */
  readonly ofInstances?: true;
}[] = [
  { table: "tsig_keys", column: "secret_sealed", purpose: "tsig-key" },
  { table: "companies", column: "apikey_sealed", purpose: "company-apikey" },
  { table: "instance_domains", column: "dkim_key_sealed", purpose: "dkim-key", ofInstances: true },
  { table: "dkim_keys", column: "key_sealed", purpose: "dkim-key", ofInstances: true },
  { table: "host_certificates", column: "key_sealed", purpose: "host-certificate", ofInstances: true },
  { table: "acme_accounts", column: "key_sealed", purpose: "acme-account" },
  { table: "campaigns", column: "apikey_sealed", purpose: "campaign-apikey", ofInstances: true },
  { table: "webhooks", column: "secret_sealed", purpose: "webhook-secret", ofInstances: true },
  { table: "zone_keys", column: "private_key_sealed", purpose: "dnssec-key" },
  { table: "mailboxes", column: "password_sealed", purpose: "mailbox-password" },
  { table: "users", column: "totp_sealed", purpose: "console-totp" },
  { table: "users", column: "totp_pending_sealed", purpose: "console-totp" },
];

/**
 * The columns of which a key ring does not open what is sealed, as far as it has their keys: by one value of each, which is
 * one of those that were changed least lately.
 * @returns them as `table.column`
 */
export async function listUnopened(db: Db, keyRing: KeyRing): Promise<string[]> {
  const unopened: string[] = [];
  for (const { table, column, purpose, ofInstances } of SEALED_COLUMNS) {
    if (!keyRing.holds(purpose)) continue;
    const [row] = await queryRows<{ sealed: string }>(
      db,
      `select ${column} as sealed from ${table} where ${column} is not null and ${ofInstances ? onPresent(db) : "true"} limit 1`,
    );
    if (row && !open(keyRing, purpose, row.sealed).ok) unopened.push(`${table}.${column}`);
  }
  return unopened;
}
