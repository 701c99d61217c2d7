import { type AclEntries, MOST_ENTRIES_OF_RESELLER } from "../../core/dns/acl-input.ts";
import { quotaExceeded } from "../../core/dns/quotas.ts";
import type { TsigAlgorithm } from "../../core/dns/tsig.ts";
import type { KeyRing } from "../../core/key-ring.ts";
import { invalidField, type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { type Db, isUniqueViolation, queryRows, type Transaction } from "../../platform/postgres/db.ts";
import { countAcls, lockQuotas } from "./quota-settings.ts";
import { addTsigKey, type StoredTsigKey, tsigKeyOf } from "./tsig-keys.ts";

/** Who may transfer a reseller's zones: the listed sources, and any holder of the key. */
export interface Acl {
  readonly name: string;
  /** CIDR form, host bits zero. */
  readonly blocks: readonly string[];
  readonly tsig: { readonly name: string; readonly algorithm: TsigAlgorithm } | null;
  /** Names as of zones; null: all zones of the reseller. */
  readonly zones: readonly string[] | null;
  /** `host:port` of servers that are told of changes. */
  readonly notify: readonly string[];
}

export interface NewAcl extends Omit<Acl, "tsig"> {
  readonly resellerId: string;
  readonly tsig: StoredTsigKey | null;
}

export async function listAcls(db: Db, resellerId: string): Promise<Acl[]> {
  const rows = await selectAcls(db).where({ reseller_id: resellerId }).orderBy("acls.name");
  return rows.map((row) => ({
    ...aclOf(row),
    tsig: row.key_name === null ? null : { name: row.key_name, algorithm: row.algorithm },
  }));
}

/** An ACL with its key's secret, for whoever configures the other side. */
export async function findAcl(
  db: Db,
  keyRing: KeyRing,
  resellerId: string,
  name: string,
): Promise<(Omit<Acl, "tsig"> & { readonly tsig: StoredTsigKey | null }) | undefined> {
  const row = await selectAcls(db).where({ reseller_id: resellerId, "acls.name": name }).first();
  return (
    row && { ...aclOf(row), tsig: row.key_name === null ? null : tsigKeyOf(keyRing, { ...row, name: row.key_name }) }
  );
}

/**
 * Adds an ACL, and its key when it has one; both or neither. Refuses names that are taken, unknown resellers, one ACL
 * more than the reseller may have, and entries beyond those that all of its ACLs may.
 */
export async function addAcl(db: Db, keyRing: KeyRing, added: NewAcl): Promise<Result<void, Refusal>> {
  const known = await db("resellers").where({ id: added.resellerId }).first("id");
  if (!known) return refuse(unacceptable("reseller-unknown", { id: added.resellerId }));
  try {
    return await db.transaction(async (transaction) => {
      const tooMany = (await checkAclQuota(transaction, added.resellerId)) ?? (await checkEntries(transaction, added));
      if (tooMany) return refuse(tooMany);
      const keyId = added.tsig && (await addTsigKey(transaction, keyRing, added.tsig));
      if (keyId === undefined) return refuse(unacceptable("tsig-key-exists", { name: `${added.tsig?.name}` }));
      await transaction("acls").insert({
        reseller_id: added.resellerId,
        name: added.name,
        blocks: added.blocks,
        tsig_key_id: keyId,
        zones: added.zones,
        notify: added.notify,
      });
      return ok(undefined);
    });
  } catch (error) {
    if (isUniqueViolation(error)) return refuse(unacceptable("acl-exists", { name: added.name }));
    throw error;
  }
}

/** Removes an ACL, and its key when no other ACL has it. @returns false when the reseller has none of this name */
export async function removeAcl(db: Db, resellerId: string, name: string): Promise<boolean> {
  return db.transaction(async (transaction) => {
    const [removed] = await transaction("acls")
      .where({ reseller_id: resellerId, name })
      .delete()
      .returning("tsig_key_id");
    if (!removed) return false;
    const { tsig_key_id: keyId } = removed;
    if (keyId !== null && !(await transaction("acls").where({ tsig_key_id: keyId }).first("id"))) {
      await transaction("tsig_keys").where({ id: keyId }).delete();
    }
    return true;
  });
}

function aclOf({ name, blocks, zones, notify }: Omit<Acl, "tsig">): Omit<Acl, "tsig"> {
  return { name, blocks, zones, notify };
}

function selectAcls(db: Db) {
  return db("acls")
    .leftJoin("tsig_keys", "tsig_keys.id", "acls.tsig_key_id")
    .select(
      "acls.name",
      db.raw("acls.blocks::text[] as blocks"),
      "acls.zones",
      "acls.notify",
      "tsig_keys.name as key_name",
      "tsig_keys.algorithm",
      "tsig_keys.secret_sealed",
    );
}

/** What the reseller's ACLs name already, and this one; the reseller's quotas are locked. */
async function checkEntries(transaction: Transaction, added: NewAcl): Promise<Refusal | undefined> {
  const [used] = await queryRows<Record<AclEntries, number>>(
    transaction,
    `select coalesce(sum(cardinality(blocks)), 0)::int as blocks, coalesce(sum(cardinality(zones)), 0)::int as zones,
            coalesce(sum(cardinality(notify)), 0)::int as notify from acls where reseller_id = $1`,
    [added.resellerId],
  );
  for (const field of ["blocks", "zones", "notify"] as const) {
    const most = MOST_ENTRIES_OF_RESELLER[field];
    if (used![field] + (added[field]?.length ?? 0) > most) return invalidField(field, "acl-entries-of-all", { most });
  }
  return undefined;
}

async function checkAclQuota(transaction: Transaction, resellerId: string): Promise<Refusal | undefined> {
  const { acls: allowed } = await lockQuotas(transaction, { resellerId });
  const used = await countAcls(transaction, resellerId);
  if (allowed === undefined || used < allowed) return undefined;
  return quotaExceeded({ reseller: resellerId }, "acls", { allowed, used, wanted: 1 });
}
