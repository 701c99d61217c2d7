import { type DomainName, withAncestors } from "../../core/dns/name.ts";
import type { KeyRing } from "../../core/key-ring.ts";
import { type Db, queryRows } from "../../platform/postgres/db.ts";
import { inSnapshot } from "../transactions.ts";
import { listTsigKeys, type StoredTsigKey } from "./tsig-keys.ts";
import { zoneName } from "./zones.ts";

/** An ACL as a server applies it. */
export interface TransferGrant {
  readonly resellerId: string;
  /** Of the ACL, among the reseller's. */
  readonly name: string;
  /** CIDR form. */
  readonly blocks: readonly string[];
  /** Name of its TSIG key, as of `StoredTsigKey`. */
  readonly keyName: string | null;
  /** Names as of zones; null: all that the reseller may transfer. */
  readonly zones: readonly string[] | null;
  /** `host:port` of servers to tell of changes. */
  readonly notify: readonly string[];
}

/** A zone that not everybody may ask: a feed or a catalog. */
export interface RestrictedZone {
  /** Wire form, lower case. */
  readonly apex: Uint8Array;
  /** The resellers whose ACLs are for it: those that have the feed active and a licence, or the catalog's own. */
  readonly resellerIds: readonly string[];
}

/** All that decides who may transfer what. */
export interface TransferAccess {
  readonly version: number;
  readonly keys: readonly StoredTsigKey[];
  /** Names of keys whose secrets cannot be opened: they were sealed by another PALOMAR_SECRET. */
  readonly unopenedKeys: readonly string[];
  readonly grants: readonly TransferGrant[];
  readonly restricted: readonly RestrictedZone[];
}

/** The count of changes so far: as long as it stays, so does the access. */
export async function readTransferAccessVersion(db: Db): Promise<number> {
  const [row] = await queryRows<{ version: number }>(db, "select version from transfer_access_version", [], {
    name: "transfer-access-version",
  });
  if (!row) throw new Error("transfer_access_version has no row");
  return row.version;
}

/** Reads all of it in one snapshot. */
export function readTransferAccess(db: Db, keyRing: KeyRing): Promise<TransferAccess> {
  return inSnapshot(db, async (snapshot) => {
    const version = await readTransferAccessVersion(snapshot);
    const { keys, unopened } = await listTsigKeys(snapshot, keyRing);
    const grants = await queryRows<GrantRow>(
      snapshot,
      `select a.reseller_id, a.name, a.blocks::text[] as blocks, k.name as key_name, a.zones, a.notify
         from acls a left join tsig_keys k on k.id = a.tsig_key_id order by a.id`,
      [],
    );
    const restricted = await queryRows<RestrictedRow>(
      snapshot,
      `select z.apex, case z.kind when 'catalog' then array[z.reseller_id] else array(
                select r.id from rpz_activations a join resellers r on r.id = a.reseller_id
                 where a.zone_id = z.id and r.rpz_licence order by r.id) end as reseller_ids
         from zones z where z.kind <> 'primary'`,
      [],
    );
    return {
      version,
      keys,
      unopenedKeys: unopened,
      grants: grants.map((row) => ({
        resellerId: row.reseller_id,
        name: row.name,
        blocks: row.blocks,
        keyName: row.key_name,
        zones: row.zones,
        notify: row.notify,
      })),
      restricted: restricted.map((row) => ({ apex: row.apex, resellerIds: row.reseller_ids })),
    };
  });
}

/**
 * Whether a name lies in a feed or a catalog that somebody may not ask: whose data is nobody's but of those that an ACL is
 * for. A name in a public zone below such a zone counts as lying in it.
 * @param resellerId whose ACLs may let it be asked; undefined: nobody's do
 */
export async function isInForbiddenZone(db: Db, name: DomainName, resellerId: string | undefined): Promise<boolean> {
  const found = await queryRows(
    db,
    `select 1 from zones z where z.name = any($1::text[]) and z.kind <> 'primary' and not (
        exists (select 1 from acls a where a.reseller_id = $2 and (a.zones is null or z.name = any(a.zones)))
        and case z.kind when 'catalog' then z.reseller_id = $3 else exists (
              select 1 from rpz_activations a join resellers r on r.id = a.reseller_id
               where a.zone_id = z.id and a.reseller_id = $4 and r.rpz_licence) end)
      limit 1`,
    [withAncestors(name).map(zoneName), resellerId ?? null, resellerId ?? null, resellerId ?? null],
  );
  return found.length > 0;
}

interface GrantRow {
  readonly reseller_id: string;
  readonly name: string;
  readonly blocks: readonly string[];
  readonly key_name: string | null;
  readonly zones: readonly string[] | null;
  readonly notify: readonly string[];
}

interface RestrictedRow {
  readonly apex: Buffer;
  readonly reseller_ids: readonly string[];
}
