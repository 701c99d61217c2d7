import { type Sentence, sentence } from "../../core/sentences.ts";
import { type Db, queryRows } from "../../platform/postgres/db.ts";

/** A server that has said nothing for so long is not believed any more. */
const BELIEVED_SECONDS = 120;

/** What a zone is on those servers that have no memory for it: all SERVFAIL on one of them, or at least outdated. */
export type LeftOut = "withheld" | "outdated";

/** The `LeftOut` of the zone `z`, null where all servers answer for it as it is, as SQL. */
export const LEFT_OUT = `(select case when bool_or(l.served_version is null) then 'withheld'
    when count(*) > 0 then 'outdated' end
  from zones_left_out l where l.zone_id = z.id and l.seen > now() - make_interval(secs => ${BELIEVED_SECONDS}))`;

/** A zone that a server has no memory for, as it reports it. */
export interface LeftOutReport {
  readonly zoneId: number;
  /** The version that it answers meanwhile; null where all of the zone is SERVFAIL. */
  readonly servedVersion: number | null;
  readonly since: Date;
  /** Octets that the zone had taken when there was no room for more. */
  readonly takenOctets: number;
}

/** Puts what a node says in the place of what it said before. */
export async function reportLeftOut(db: Db, node: string, zones: readonly LeftOutReport[]): Promise<void> {
  await queryRows(
    db,
    `with gone as (
       delete from zones_left_out where node = $1 and zone_id <> all ($2::bigint[])
     )
     insert into zones_left_out (node, zone_id, served_version, since, taken_octets)
     select $3, * from unnest($4::bigint[], $5::bigint[], $6::timestamptz[], $7::bigint[])
     on conflict (node, zone_id) do update set served_version = excluded.served_version, since = excluded.since,
       taken_octets = excluded.taken_octets, seen = now()`,
    [
      node,
      zones.map(({ zoneId }) => zoneId),
      node,
      zones.map(({ zoneId }) => zoneId),
      zones.map(({ servedVersion }) => servedVersion),
      zones.map(({ since }) => since.toISOString()),
      zones.map(({ takenOctets }) => takenOctets),
    ],
  );
}

/** A server that stops says nothing any more. */
export async function removeLeftOut(db: Db, node: string): Promise<void> {
  await queryRows(db, "delete from zones_left_out where node = $1", [node]);
}

/** On how many servers a zone does not fit: all of it, or its latest version. */
export interface LeftOutCounts {
  readonly withheld: number;
  readonly outdated: number;
}

export async function countLeftOut(db: Db, zoneId: number): Promise<LeftOutCounts> {
  const [row] = await queryRows<LeftOutCounts>(
    db,
    `select count(*) filter (where served_version is null)::int as withheld,
            count(*) filter (where served_version is not null)::int as outdated
       from zones_left_out where zone_id = $1 and seen > now() - make_interval(secs => $2)`,
    [zoneId, BELIEVED_SECONDS],
  );
  return row!;
}

/** The counts of the zone `z`, as SQL: null where all servers answer for it as it is. */
export const LEFT_OUT_COUNTS = `(select nullif(array[count(*) filter (where l.served_version is null),
    count(*) filter (where l.served_version is not null)]::int[], '{0,0}')
  from zones_left_out l where l.zone_id = z.id and l.seen > now() - make_interval(secs => ${BELIEVED_SECONDS}))`;

/** Reads a column of {@link LEFT_OUT_COUNTS}. */
export function leftOutOf(counts: readonly number[] | null): LeftOutCounts {
  const [withheld = 0, outdated = 0] = counts ?? [];
  return { withheld, outdated };
}

/** What tells a zone's owner; empty where the zone is answered everywhere as it ought to be. */
export function leftOutWarnings({ withheld, outdated }: LeftOutCounts): Sentence[] {
  return [
    ...(withheld > 0 ? [sentence(withheld > 1 ? "zone-left-out" : "zone-left-out-of-one", { count: withheld })] : []),
    ...(outdated > 0 ? [sentence(outdated > 1 ? "zone-outdated" : "zone-outdated-on-one", { count: outdated })] : []),
  ];
}

/** A zone that does not fit, as an operator reads of it. */
export interface LeftOutZoneStatus {
  readonly node: string;
  readonly zone: string;
  readonly outdated: boolean;
  readonly takenOctets: number;
}

/** What all servers report, the zones that need most first. */
export async function listLeftOut(db: Db, limit: number): Promise<LeftOutZoneStatus[]> {
  return queryRows<LeftOutZoneStatus>(
    db,
    `select l.node, z.name as zone, l.served_version is not null as outdated, l.taken_octets as "takenOctets"
       from zones_left_out l join zones z on z.id = l.zone_id
      where l.seen > now() - make_interval(secs => $1) order by l.taken_octets desc, l.node, z.name limit $2`,
    [BELIEVED_SECONDS, limit],
  );
}
