import type pg from "pg";
import { encodeSoaRdata } from "../../core/dns/soa.ts";
import { type CopyRow, copyOut } from "../copy-out.ts";
import { type SoaRow, soaOf } from "./zones.ts";

/** What a server has to know of a zone beside its content. */
export interface ZoneSummary {
  readonly id: number;
  /** Wire form, lower case. */
  readonly apex: Uint8Array;
  readonly version: number;
  /** TTL of negative answers (RFC 2308 §5). */
  readonly negativeTtlSeconds: number;
  /** How long a secondary may answer without news (RFC 1034 §4.3.5). */
  readonly expireSeconds: number;
  /** Null for a feed, which is no reseller's. */
  readonly resellerId: string | null;
  /** Whether only those may ask whom an ACL lets: feeds and catalogs. */
  readonly restricted: boolean;
}

/** A zone as a server needs it: whether it is to be seen, and its SOA. */
export interface ZoneState extends ZoneSummary {
  /** Neither the zone nor its company is suspended. */
  readonly published: boolean;
  readonly soaTtlSeconds: number;
  /** RDATA of the SOA in wire form. */
  readonly soaRdata: Uint8Array;
}

/**
 * The zones that changed since an earlier snapshot, some of them perhaps seen before; their versions tell. A change stands
 * in the journal, or where it has no row there in the zone's own `changed_xid`.
 * @param sinceXid that snapshot's xmin
 */
export async function readChangedZones(client: pg.Client, sinceXid: string): Promise<ZoneState[]> {
  const { rows } = await client.query<ZoneStateRow>(
    `select ${ZONE_STATE_COLUMNS} from zones where id in (
       select id from zones where changed_xid >= $1::xid8
        union select zone_id from zone_journal where changed_xid >= $1::xid8) order by id`,
    [sinceXid],
  );
  return rows.map(zoneStateOf);
}

/** Whose zones are meant, beside those that are nobody's; null: everybody's. */
export type ZoneScope = readonly string[] | null;

/** All zones of a scope by ascending id, at most `limit` at a time. */
export async function* readAllZones(
  client: pg.Client,
  scope: ZoneScope,
  limit: number,
): AsyncGenerator<readonly ZoneState[]> {
  for (let after = 0; ; ) {
    // COPY takes no parameters; these are numbers, and names that are escaped.
    const place = `id > ${Number(after)} and ${isInScope(client, scope)} order by id limit ${Number(limit)}`;
    const zones: ZoneState[] = [];
    const makeZone = zoneStateMaker();
    await copyOut(client, `select ${ZONE_STATE_COLUMNS} from zones where ${place}`, (row) => zones.push(makeZone(row)));
    if (zones.length > 0) yield zones;
    if (zones.length < limit) return;
    after = zones.at(-1)!.id;
  }
}

/** Streams the ids of all zones of a scope. */
export function streamZoneIds(client: pg.Client, scope: ZoneScope, onId: (id: number) => void): Promise<void> {
  return copyOut(client, `select id from zones where ${isInScope(client, scope)}`, (row) => onId(row.int8(0)));
}

/** A condition with its values in it: COPY takes no parameters. */
function isInScope(client: pg.Client, scope: ZoneScope): string {
  if (scope === null) return "true";
  const ids = ["null", ...scope.map((id) => client.escapeLiteral(id))];
  return `(reseller_id is null or reseller_id in (${ids.join(", ")}))`;
}

/** These zones, as far as they are still there. */
export async function readZones(client: pg.Client, zoneIds: readonly number[]): Promise<ZoneState[]> {
  const { rows } = await client.query<ZoneStateRow>(
    `select ${ZONE_STATE_COLUMNS} from zones where id = any ($1::bigint[]) order by id`,
    [zoneIds],
  );
  return rows.map(zoneStateOf);
}

/** The zones deleted since an earlier snapshot, by id. */
export async function readDeletedZones(client: pg.Client, sinceXid: string): Promise<number[]> {
  const { rows } = await client.query<{ zone_id: number }>(
    "select zone_id from zone_deletions where changed_xid >= $1::xid8",
    [sinceXid],
  );
  return rows.map((row) => row.zone_id);
}

const ZONE_STATE_COLUMNS = `id, apex, not suspended and not company_suspended as published, version, serial, ttl,
  mname, rname, refresh, retry, expire, minimum, reseller_id, kind <> 'primary' as restricted`;

/** Places in `ZONE_STATE_COLUMNS`. */
const COLUMN = {
  ...{ ID: 0, APEX: 1, PUBLISHED: 2, VERSION: 3, SERIAL: 4, TTL: 5, MNAME: 6, RNAME: 7, REFRESH: 8, RETRY: 9 },
  ...{ EXPIRE: 10, MINIMUM: 11, RESELLER: 12, RESTRICTED: 13 },
} as const;
const SOA_NUMBERS = [COLUMN.SERIAL, COLUMN.REFRESH, COLUMN.RETRY, COLUMN.EXPIRE, COLUMN.MINIMUM] as const;

interface ZoneStateRow extends SoaRow {
  readonly id: number;
  readonly apex: Buffer;
  readonly published: boolean;
  readonly version: number;
  readonly ttl: number;
  readonly reseller_id: string | null;
  readonly restricted: boolean;
}

/** Makes zones of rows of `ZONE_STATE_COLUMNS`; those of one reseller have one text of its id. */
function zoneStateMaker(): (row: CopyRow) => ZoneState {
  let resellerOctets: Uint8Array = new Uint8Array(0);
  let resellerId = "";
  const readReseller = (row: CopyRow): string | null => {
    if (row.lengths[COLUMN.RESELLER]! < 0) return null;
    if (!row.has(COLUMN.RESELLER, resellerOctets)) {
      resellerOctets = row.bytes(COLUMN.RESELLER);
      resellerId = Buffer.from(resellerOctets).toString("utf8");
    }
    return resellerId;
  };
  return (row) => ({
    id: row.int8(COLUMN.ID),
    apex: row.bytes(COLUMN.APEX),
    published: row.bool(COLUMN.PUBLISHED),
    version: row.int8(COLUMN.VERSION),
    soaTtlSeconds: row.int8(COLUMN.TTL),
    negativeTtlSeconds: Math.min(row.int8(COLUMN.TTL), row.int8(COLUMN.MINIMUM)),
    expireSeconds: row.int8(COLUMN.EXPIRE),
    resellerId: readReseller(row),
    restricted: row.bool(COLUMN.RESTRICTED),
    soaRdata: soaRdataIn(row),
  });
}

/** The SOA's RDATA: MNAME, RNAME, then SERIAL, REFRESH, RETRY, EXPIRE and MINIMUM, 32 bits each (RFC 1035 §3.3.13). */
function soaRdataIn(row: CopyRow): Uint8Array {
  const { octets, starts, lengths } = row;
  const rdata = new Uint8Array(lengths[COLUMN.MNAME]! + lengths[COLUMN.RNAME]! + 4 * SOA_NUMBERS.length);
  let position = row.copyTo(rdata, row.copyTo(rdata, 0, COLUMN.MNAME), COLUMN.RNAME);
  for (const column of SOA_NUMBERS) {
    // The lower half of a bigint.
    for (let octet = 4; octet < 8; octet += 1) rdata[position++] = octets[starts[column]! + octet]!;
  }
  return rdata;
}

function zoneStateOf(row: ZoneStateRow): ZoneState {
  return {
    id: row.id,
    apex: row.apex,
    published: row.published,
    version: row.version,
    soaTtlSeconds: row.ttl,
    negativeTtlSeconds: Math.min(row.ttl, row.minimum),
    expireSeconds: row.expire,
    resellerId: row.reseller_id,
    restricted: row.restricted,
    soaRdata: encodeSoaRdata(soaOf(row)),
  };
}
