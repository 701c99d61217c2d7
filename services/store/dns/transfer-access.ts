import { type Db, queryRows } from "../../platform/db.ts";
import { inSnapshot } from "../transactions.ts";
import { listTsigKeys, type StoredTsigKey } from "./tsig-keys.ts";

/** An ACL as a server applies it. */
export interface TransferGrant {
  readonly resellerId: string;
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

/** Reads all of it in one snapshot. @throws when a key's secret cannot be opened: PALOMAR_SECRET was changed */
export function readTransferAccess(db: Db, secret: string): Promise<TransferAccess> {
  return inSnapshot(db, async (snapshot) => {
    const version = await readTransferAccessVersion(snapshot);
    const keys = await listTsigKeys(snapshot, secret);
    const grants = await queryRows<GrantRow>(
      snapshot,
      `select a.reseller_id, a.blocks::text[] as blocks, k.name as key_name, a.zones, a.notify
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
      keys: [...keys.values()],
      grants: grants.map((row) => ({
        resellerId: row.reseller_id,
        blocks: row.blocks,
        keyName: row.key_name,
        zones: row.zones,
        notify: row.notify,
      })),
      restricted: restricted.map((row) => ({ apex: row.apex, resellerIds: row.reseller_ids })),
    };
  });
}

interface GrantRow {
  readonly reseller_id: string;
  readonly blocks: readonly string[];
  readonly key_name: string | null;
  readonly zones: readonly string[] | null;
  readonly notify: readonly string[];
}

interface RestrictedRow {
  readonly apex: Buffer;
  readonly reseller_ids: readonly string[];
}
