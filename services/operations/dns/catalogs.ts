import { type DomainName, labelsOf, MAX_NAME_OCTETS, nameFromLabels } from "../../core/dns/name.ts";
import type { ResourceRecord } from "../../core/dns/record.ts";
import { TYPE } from "../../core/dns/rr-types.ts";
import { addSerial } from "../../core/dns/serial.ts";
import type { StoredRecord } from "../../core/dns/zone-edit.ts";
import type { ZoneMaker } from "../../core/dns/zone-tenancy.ts";
import { type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import type { Db, Transaction } from "../../platform/postgres/db.ts";
import {
  countCatalogs,
  insertMembers,
  listUnlistedZones,
  lockCatalog,
  readFormerMembers,
  type UnlistedZone,
} from "../../store/dns/catalogs.ts";
import { findReseller } from "../../store/dns/resellers.ts";
import { deleteZonesWhere, findAnyZone, type Zone, zoneName } from "../../store/dns/zones.ts";
import { inTransaction } from "../../store/transactions.ts";
import { checkOperatorZoneName, insertOperatorZone, topLevelName } from "./operator-zones.ts";
import { changeZone } from "./zone-changes.ts";
import type { ZoneCreated } from "./zone-creation.ts";

/** A catalog's records are data for servers, asked for by nobody. */
const CATALOG_TTL_SECONDS = 0;
const REFRESH_SECONDS = 60;
const EXPIRE_SECONDS = 30 * 86_400;
/** Schema version (RFC 9432 §4.2.1). */
const SCHEMA_VERSION = "2";

/** Of a reseller: each new zone is written into all of them. */
const MOST_CATALOGS = 10;

/** What leaves room for the labels of a member: `z`, the digits of an id, and `zones`. */
const MOST_APEX_OCTETS = MAX_NAME_OCTETS - (1 + 1 + 19) - (1 + 5);

/**
 * Makes a catalog zone (RFC 9432) that lists the reseller's active zones.
 * Refuses an unknown reseller, more catalogs than one may have, names that no such zone may have, and those that
 * `core/dns/zone-tenancy.ts` refuses: below another reseller's zone it would answer in that one's place.
 * @param by who asks: the operator may give a catalog any public suffix or single label
 */
export function addCatalog(
  db: Db,
  resellerId: string,
  apex: DomainName,
  by: { readonly actor: string; readonly maker: Exclude<ZoneMaker, "company"> },
): Promise<Result<ZoneCreated, Refusal>> {
  const lawful = checkOperatorZoneName(apex, MOST_APEX_OCTETS);
  if (!lawful.ok) return Promise.resolve(lawful);
  return inTransaction(db, async (transaction) => {
    if (!(await findReseller(transaction, resellerId)))
      return refuse(unacceptable("reseller-unknown", { id: resellerId }));
    if ((await countCatalogs(transaction, resellerId)) >= MOST_CATALOGS) {
      return refuse(unacceptable("catalogs-too-many", { id: resellerId, most: MOST_CATALOGS }));
    }
    const times = { refresh: REFRESH_SECONDS, retry: REFRESH_SECONDS, expire: EXPIRE_SECONDS, minimum: 0 };
    const soa = { mname: INVALID, rname: INVALID, serial: 1, ...times };
    const ttl = CATALOG_TTL_SECONDS;
    const zone = { apex, kind: "catalog" as const, resellerId, maker: by.maker, soa, ttl, records: frameOf(apex) };
    const added = await insertOperatorZone(transaction, zone, by.actor);
    if (!added.ok) return added;
    const { id, warnings } = added.value;
    await refreshCatalog(transaction, id, by.actor);
    return ok({ zone: (await findAnyZone(transaction, apex)) as Zone, warnings });
  });
}

/** Removes a catalog; the zones that it lists stay. @returns its id */
export async function removeCatalog(db: Db, resellerId: string, apex: DomainName): Promise<Result<number, Refusal>> {
  const condition = "name = $1 and reseller_id = $2 and kind = 'catalog'";
  const [id] = await deleteZonesWhere(db, condition, [zoneName(apex), resellerId]);
  return id === undefined ? refuse(unacceptable("catalog-unknown", { zone: zoneName(apex) })) : ok(id);
}

/**
 * Brings a catalog to list just the reseller's active zones, as one change.
 * @param sinceXid looks at zones alone that have changed since (`lookForZoneChanges`), where the catalog was right then; else
 *   null
 * @returns whether that changed anything
 */
export async function refreshCatalog(
  db: Db,
  catalogId: number,
  actor: string,
  sinceXid: string | null = null,
): Promise<boolean> {
  return inTransaction(db, async (transaction) => {
    const catalog = await lockCatalog(transaction, catalogId);
    if (!catalog) return false;
    const appeared = await listUnlistedZones(transaction, catalogId, sinceXid);
    const gone = await readFormerMembers(transaction, catalogId, sinceXid);
    if (appeared.length + gone.length === 0) return false;
    await writeDifference(transaction, catalog, { appeared, gone }, actor);
    return true;
  });
}

async function writeDifference(
  transaction: Transaction,
  catalog: Zone,
  { appeared, gone }: { readonly appeared: readonly UnlistedZone[]; readonly gone: readonly StoredRecord[] },
  actor: string,
): Promise<void> {
  const created = appeared.map(({ id, apex }) => memberRecord(catalog.apex, id, apex));
  const change = {
    soa: { ...catalog.soa, serial: addSerial(catalog.soa.serial, 1) },
    ttl: catalog.ttl,
    rows: { created, updated: [], deletedIds: gone.map(({ id }) => id) },
    difference: { deleted: gone, added: created },
  };
  const target = { scope: {}, apex: catalog.apex, domain: catalog.name, actor };
  const changed = await changeZone(transaction, target, async () => ok({ zone: catalog, change, warnings: [] }));
  if (!changed.ok) throw new Error(`a locked catalog could not be changed: ${JSON.stringify(changed.error)}`);
  const ids = appeared.map(({ id }) => id);
  await insertMembers(transaction, catalog.id, ids, changed.value.createdIds);
}

/** NS and schema version (RFC 9432 §4.1, §4.2.1). */
function frameOf(apex: DomainName): ResourceRecord[] {
  const version = Buffer.from(SCHEMA_VERSION);
  return [
    { owner: apex, type: TYPE.NS, ttl: CATALOG_TTL_SECONDS, rdata: INVALID.wire },
    {
      owner: below(apex, "version"),
      type: TYPE.TXT,
      ttl: CATALOG_TTL_SECONDS,
      rdata: Uint8Array.of(version.length, ...version),
    },
  ];
}

/** RFC 9432 §4.1: the label is the zone's as long as it exists, so that one made anew under its name counts as another. */
function memberRecord(catalog: DomainName, zoneId: number, apex: Uint8Array): ResourceRecord {
  return { owner: below(catalog, `z${zoneId}`, "zones"), type: TYPE.PTR, ttl: CATALOG_TTL_SECONDS, rdata: apex };
}

function below(apex: DomainName, ...labels: readonly string[]): DomainName {
  const name = nameFromLabels([...labels.map((label) => Buffer.from(label, "latin1")), ...labelsOf(apex)]);
  if (!name.ok) throw new Error(`the catalog's name is too long: ${name.error.message}`);
  return name.value;
}

/** RFC 9432 §4.1: nobody is to ask for the catalog's servers. */
const INVALID = topLevelName("invalid");
