import type { CopyRow } from "../copy-out.ts";

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

/** Whether a zone is to be seen. */
export const IS_PUBLISHED = "not suspended and not company_suspended";
/** And whether not, as the index `zones_suspended` has it. */
export const IS_SUSPENDED = "(suspended or company_suspended)";
/** What `zoneStateMaker` makes zones of. */
export const ZONE_STATE_COLUMNS = `id, apex, ${IS_PUBLISHED} as published, version, serial, ttl,
  mname, rname, refresh, retry, expire, minimum, reseller_id, kind <> 'primary' as restricted`;

/** Places in `ZONE_STATE_COLUMNS`. */
const COLUMN = {
  ...{ ID: 0, APEX: 1, PUBLISHED: 2, VERSION: 3, SERIAL: 4, TTL: 5, MNAME: 6, RNAME: 7, REFRESH: 8, RETRY: 9 },
  ...{ EXPIRE: 10, MINIMUM: 11, RESELLER: 12, RESTRICTED: 13 },
} as const;
const SOA_NUMBERS = [COLUMN.SERIAL, COLUMN.REFRESH, COLUMN.RETRY, COLUMN.EXPIRE, COLUMN.MINIMUM] as const;

/** Makes zones of rows of `ZONE_STATE_COLUMNS`; those of one reseller have one text of its id. */
export function zoneStateMaker(): (row: CopyRow) => ZoneState {
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
