import { type DomainName, nameSortKey } from "../core/dns/name.ts";
import type { ResourceRecord } from "../core/dns/record.ts";
import { nextSerial } from "../core/dns/serial.ts";
import { findWarnings, surroundingsOf } from "../core/dns/zone-checks.ts";
import { type Refusal, unacceptable } from "../core/refusal.ts";
import { ok, type Result, refuse } from "../core/result.ts";
import { type Db, queryRows } from "../platform/db.ts";
import { readRecordsAt, readRecordsBelow, recordOf } from "./records.ts";
import { changeZone, type ZoneChanged, type ZonePlan, type ZoneTarget } from "./zone-changes.ts";
import { editRecords, type RecordEdits, type StoredRecord } from "./zone-edit.ts";
import { ZONE_COLUMNS, type Zone, type ZoneRow, zoneDoesNotExist, zoneName, zoneOf } from "./zones.ts";

/** A zone, and all records at some of its names. */
interface ZoneExcerpt {
  readonly zone: Zone;
  readonly records: readonly StoredRecord[];
}

/** So many records below a new zone cut are enough to warn of them. */
const RECORDS_BELOW = 10;

/** Applies edits to a zone's records; the serial increases once for each record created, modified or deleted. */
export function changeRecords(
  db: Db,
  target: ZoneTarget,
  edits: RecordEdits,
  now: Date,
): Promise<Result<ZoneChanged, Refusal>> {
  const names = knownNames(target.apex, edits);
  const ids = [...edits.deletionIds, ...edits.modifications.map(({ id }) => id)];
  return changeZone(db, target, async (on): Promise<Result<ZonePlan, Refusal>> => {
    const excerpt = await readExcerpt(on, target, names, ids);
    if (!excerpt) return refuse(zoneDoesNotExist(target.domain));
    const { zone } = excerpt;
    const edited = editRecords(zone, excerpt.records, edits);
    if (!edited.ok) return edited;
    const { changeCount, changed, touched, rows, difference } = edited.value;
    if (changeCount === 0) return ok({ zone, warnings: [] });
    const serial = nextSerial(zone.soa.serial, zone.serialType, now, changeCount);
    if (!serial.ok) return refuse(unacceptable(serial.error.message));
    const known = new Map([...byOwner(names, excerpt.records), ...touched]);
    const warnings = await warningsOf(on, zone, { changed, known });
    const soa = { ...zone.soa, serial: serial.value };
    return ok({ zone, change: { soa, ttl: zone.ttl, rows, difference }, warnings });
  });
}

/**
 * What is doubtful about a change.
 * @param what.changed records that are new or modified
 * @param what.known all records at some names, as they will be; others are read
 * @param what.mname the primary server, when it is new
 */
export async function warningsOf(
  db: Db,
  zone: Pick<Zone, "id" | "apex">,
  what: {
    readonly changed: readonly ResourceRecord[];
    readonly known: ReadonlyMap<string, readonly ResourceRecord[]>;
    readonly mname?: DomainName;
  },
): Promise<string[]> {
  const { names, subtrees } = surroundingsOf(zone.apex, what.changed, what.mname);
  const unread = names.filter(({ key }) => !what.known.has(key));
  const around = byOwner(unread, await readRecordsAt(db, zone.id, unread));
  const below = new Map<string, ResourceRecord[]>();
  for (const name of subtrees) below.set(name.key, await readRecordsBelow(db, zone.id, name, RECORDS_BELOW));
  const view = {
    recordsAt: ({ key }: DomainName) => what.known.get(key) ?? around.get(key) ?? [],
    recordsBelow: ({ key }: DomainName) => below.get(key) ?? [],
  };
  return findWarnings(zone.apex, what.changed, view, what.mname);
}

/** The names that the edits show by themselves to be needed, so that one query reads the records of most changes. */
function knownNames(apex: DomainName, edits: RecordEdits): DomainName[] {
  const created = edits.creations.map((draft) => ({ ...draft, ttl: 0 }));
  const moved = edits.modifications.flatMap(({ newOwner }) => newOwner ?? []);
  const names = [apex, ...created.map(({ owner }) => owner), ...moved, ...surroundingsOf(apex, created).names];
  return [...new Map(names.map((name) => [name.key, name])).values()];
}

/** Reads the zone and, in the same snapshot, all records at the names and at the owners of the ids. */
async function readExcerpt(
  db: Db,
  { apex, scope }: ZoneTarget,
  names: readonly DomainName[],
  ids: readonly number[],
): Promise<ZoneExcerpt | undefined> {
  const rows = await queryRows<ExcerptRow>(
    db,
    READ_EXCERPT,
    [
      ...[zoneName(apex), scope.resellerId ?? null, scope.companyId ?? null],
      ...[names.map(({ wire }) => nameSortKey(wire)), ids],
    ],
    { name: "read-zone-excerpt" },
  );
  const [first] = rows;
  if (!first) return undefined;
  return {
    zone: zoneOf(first),
    records: rows.flatMap(({ record_id, owner, type, record_ttl, rdata }) =>
      record_id === null ? [] : recordOf([record_id, owner, type, record_ttl, rdata]),
    ),
  };
}

interface ExcerptRow extends ZoneRow {
  readonly record_id: number | null;
  readonly owner: Buffer;
  readonly type: number;
  readonly record_ttl: number;
  readonly rdata: Buffer;
}

/**
 * Whatever the planner believes of the size of zones, this must never walk through one: `offset 0` keeps both columns of
 * the index in use for each name, and `+ 0` keeps the look-up of ids to the primary key.
 */
const READ_EXCERPT = `
  select ${ZONE_COLUMNS}, r.id as record_id, r.owner, r.type, r.ttl as record_ttl, r.rdata
    from (select * from zones
           where name = ? and reseller_id = coalesce(?, reseller_id) and company_id = coalesce(?, company_id)) z
    join companies c on c.id = z.company_id
    left join lateral (
      select found.* from (
        select unnest(?::bytea[]) as owner_key
        union
        select (select records.owner_key from records where records.id = wanted.id and records.zone_id + 0 = z.id)
          from unnest(?::bigint[]) as wanted (id)
      ) names cross join lateral (
        select * from records where records.zone_id = z.id and records.owner_key = names.owner_key offset 0
      ) found
    ) r on true`;

function byOwner(
  names: readonly DomainName[],
  records: readonly ResourceRecord[],
): Map<string, readonly ResourceRecord[]> {
  const grouped = new Map<string, ResourceRecord[]>(names.map(({ key }) => [key, []]));
  for (const record of records) {
    const siblings = grouped.get(record.owner.key);
    if (siblings) siblings.push(record);
    else grouped.set(record.owner.key, [record]);
  }
  return grouped;
}
