import type pg from "pg";
import { copyMessages, copyOut, type TakeMessages } from "../copy-out.ts";
import { isSelected, type ZoneSelection } from "./zone-selection.ts";
import { IS_PUBLISHED, IS_SUSPENDED, ZONE_STATE_COLUMNS, type ZoneState, zoneStateMaker } from "./zone-state-rows.ts";
import type { SoaRow } from "./zones.ts";

export type { ZoneState, ZoneSummary } from "./zone-state-rows.ts";

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
export function readAllZones(client: pg.Client, scope: ZoneScope, limit: number): AsyncGenerator<readonly ZoneState[]> {
  return readZonesThat(client, isInScope(client, scope), limit);
}

/** As {@link readAllZones}, of those that are suspended. */
export function readSuspendedZones(
  client: pg.Client,
  scope: ZoneScope,
  limit: number,
): AsyncGenerator<readonly ZoneState[]> {
  return readZonesThat(client, `${IS_SUSPENDED} and ${isInScope(client, scope)}`, limit);
}

async function* readZonesThat(
  client: pg.Client,
  condition: string,
  limit: number,
): AsyncGenerator<readonly ZoneState[]> {
  for (let after = 0; ; ) {
    // COPY takes no parameters; these are numbers, and names that are escaped.
    const place = `id > ${Number(after)} and ${condition} order by id limit ${Number(limit)}`;
    const zones: ZoneState[] = [];
    const makeZone = zoneStateMaker();
    await copyOut(client, `select ${ZONE_STATE_COLUMNS} from zones where ${place}`, (row) => zones.push(makeZone(row)));
    if (zones.length > 0) yield zones;
    if (zones.length < limit) return;
    after = zones.at(-1)!.id;
  }
}

/** Streams the ids of all zones of a scope, in ascending order. */
export function streamZoneIds(client: pg.Client, scope: ZoneScope, onId: (id: number) => void): Promise<void> {
  const query = `select id from zones where ${isInScope(client, scope)} order by id`;
  return copyOut(client, query, (row) => onId(row.int8(0)));
}

/** As {@link streamZoneIds}, with the apex of each in wire form. */
export function streamZoneApexes(
  client: pg.Client,
  scope: ZoneScope,
  onZone: (id: number, apex: Uint8Array) => void,
): Promise<void> {
  const query = `select id, apex from zones where ${isInScope(client, scope)} order by id`;
  return copyOut(client, query, (row) => onZone(row.int8(0), row.bytes(1)));
}

/** Brings the rows of those zones of a scope that are to be seen, by ascending id, to be read by `zoneStateMaker`. */
export function copyPublishedZones(
  client: pg.Client,
  zones: ZoneSelection,
  scope: ZoneScope,
  onMessages: TakeMessages,
): Promise<void> {
  const condition = `${isSelected("id", zones)} and ${isInScope(client, scope)} and ${IS_PUBLISHED}`;
  return copyMessages(client, `select ${ZONE_STATE_COLUMNS} from zones where ${condition} order by id`, onMessages);
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

interface ZoneStateRow extends SoaRow {
  readonly id: number;
  readonly apex: Buffer;
  readonly published: boolean;
  readonly version: number;
  readonly ttl: number;
  readonly reseller_id: string | null;
  readonly restricted: boolean;
}

/** The SOA's RDATA, with what stands for its names as it is: one zone that has none must not keep others from being read. */
function soaRdataOf({ mname, rname, serial, refresh, retry, expire, minimum }: SoaRow): Uint8Array {
  const numbers = [serial, refresh, retry, expire, minimum];
  const octets = Buffer.alloc(4 * numbers.length);
  // As COPY brings them, the lower half of a bigint.
  for (const [index, number] of numbers.entries()) octets.writeUInt32BE(number >>> 0, 4 * index);
  return Buffer.concat([mname, rname, octets]);
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
    soaRdata: soaRdataOf(row),
  };
}
