import { type Follower, type StoredFollower, targetsOf } from "../../core/dns/follow/follower.ts";
import { nameSortKey } from "../../core/dns/name.ts";
import type { ResourceRecord } from "../../core/dns/record.ts";
import type { StoredRecord } from "../../core/dns/zone-edit.ts";
import { type Binding, rowsTable, type StatementValues } from "../../platform/postgres/db.ts";
import { DERIVED_COLUMNS, DERIVED_SQL_TYPES, derivedColumns } from "./dnssec-records.ts";

/** One step of the statement that writes a change. */
export interface StatementPart {
  readonly step:
    | "deleted"
    | "updated"
    | "created"
    | "derived_deleted"
    | "derived_created"
    | "followers_deleted"
    | "followers_updated"
    | "followers_created"
    | "reserves"
    | "journal";
  /** Says the same of two parts only if their SQL is the same. Short: PostgreSQL keeps 63 characters of all together. */
  readonly name: string;
  readonly sql: string;
}

/**
 * The statement that changes a zone; its first values are the SOA's, until when caches may have what goes (null: no longer
 * than what stays), what the zone takes more of records and octets, its id and version; then come those of its parts. One
 * statement is one transaction by itself: all of it happens, or with an outdated version none of it. It has the parts
 * that the change needs: most changes need few, and PostgreSQL sets up every part there is.
 * @param options.withinHeld writes only what the zone holds already (quotas.ts)
 */
export function writeChangeSql(parts: readonly StatementPart[], options: { readonly withinHeld: boolean }): string {
  const steps = parts.map(({ step, sql }) => `, ${step} as (${sql})`);
  // A row of the journal tells readers of the change by itself (zone-states.ts). The zone's row then changes in no
  // indexed column, and PostgreSQL writes no index of zones anew.
  const told = parts.some(({ step }) => step === "journal") ? "" : ", changed_xid = pg_current_xact_id()";
  const hasCreated = parts.some(({ step }) => step === "created");
  const hasFollowers = parts.some(({ step }) => step === "followers_created");
  const idsOf = (step: string, has: boolean) => (has ? `array(select id from ${step} order by id)` : "'{}'::bigint[]");
  return `
    with zone as (
      update zones
         set serial = $1, mname = $2, rname = $3, refresh = $4, retry = $5, expire = $6, minimum = $7, ttl = $8,
             cached_until = greatest(cached_until, $9), records = records + $10, octets = octets + $11,
             version = version + 1${told}
       where id = $12 and version = $13${options.withinHeld ? WITHIN_HELD : ""}
      returning id, version, serial, reseller_id, company_id
    )${steps.join("")}
    select ${idsOf("created", hasCreated)} as created_ids,
           ${idsOf("followers_created", hasFollowers)} as follower_ids from zone`;
}

/** Feeds and catalogs are nobody's. */
const WITHIN_HELD = " and (company_id is null or records + $10 <= records_held and octets + $11 <= octets_held)";

/** owner, owner_key, type, ttl, rdata */
export const RECORD_TYPES = ["bytea", "bytea", "integer", "bigint", "bytea"];

export function recordColumns({ owner, type, ttl, rdata }: ResourceRecord): readonly Binding[] {
  return [owner.wire, nameSortKey(owner.wire), type, ttl, rdata];
}

/** Adds records of the zone; ids are given out in their order. @param zone what has the zone's `id`: a step, or a query */
export function insertionOf(records: readonly ResourceRecord[], zone: string, values: StatementValues): StatementPart {
  const table = rowsTable(RECORD_TYPES, records.map(recordColumns), values);
  const sql = `
    insert into records (zone_id, owner, owner_key, type, ttl, rdata)
    select zone.id, r.owner, r.owner_key, r.type, r.ttl, r.rdata
      from ${zone}, ${table.sql} as r (owner, owner_key, type, ttl, rdata, place)
     order by place returning id`;
  return { step: "created", name: `created ${table.shape}`, sql };
}

/**
 * Deletes records. Whatever the planner believes of the size of zones, these are to be found by their ids: hence `+ 0`
 * here, and below the ids once more beside the join.
 */
export function deletionOf(ids: readonly number[], values: StatementValues): StatementPart {
  const sql = `delete from records using zone where zone_id + 0 = zone.id and records.id = any(${values.add(ids)}::bigint[])`;
  return { step: "deleted", name: "deleted", sql };
}

/** Gives records, by their ids, other contents. */
export function overwritingOf(records: readonly StoredRecord[], values: StatementValues): StatementPart {
  const ids = records.map(({ id }) => id);
  const table = rowsTable(
    ["bigint", ...RECORD_TYPES],
    records.map((record) => [record.id, ...recordColumns(record)]),
    values,
  );
  const sql = `
    update records
       set owner = r.owner, owner_key = r.owner_key, type = r.type, ttl = r.ttl, rdata = r.rdata
      from zone, ${table.sql} as r (id, owner, owner_key, type, ttl, rdata, place)
     where records.zone_id + 0 = zone.id and records.id = r.id and records.id = any(${values.add(ids)}::bigint[])`;
  return { step: "updated", name: `updated ${table.shape}`, sql };
}

/** Deletes records that signing made. */
export function derivedDeletionOf(records: readonly StoredRecord[], values: StatementValues): StatementPart {
  const ids = values.add(records.map(({ id }) => id));
  const sql = `
    delete from derived_records using zone where zone_id + 0 = zone.id and derived_records.id = any(${ids}::bigint[])`;
  return { step: "derived_deleted", name: "-d", sql };
}

/** Adds records that signing made. */
export function derivedInsertionOf(records: readonly ResourceRecord[], values: StatementValues): StatementPart {
  const columns = DERIVED_COLUMNS.join(", ");
  const table = rowsTable(DERIVED_SQL_TYPES, records.map(derivedColumns), values);
  const sql = `
    insert into derived_records (zone_id, ${columns})
    select zone.id, ${columns} from zone, ${table.sql} as r (${columns}, place)`;
  return { step: "derived_created", name: `+d ${table.shape}`, sql };
}

/** Takes followers away. */
export function followerDeletionOf(followers: readonly StoredFollower[], values: StatementValues): StatementPart {
  const ids = values.add(followers.map(({ id }) => id));
  const sql = `
    delete from followers using zone where zone_id = zone.id and followers.id = any(${ids}::bigint[]) returning followers.id`;
  return { step: "followers_deleted", name: "-f", sql };
}

/** Array values within rows: PostgreSQL's `unnest` would take them apart. */
const TARGET_KEYS = "array(select decode(key, 'hex') from jsonb_array_elements_text(r.target_keys) key)";

/** Gives followers, by their ids, other definitions. */
export function followerOverwritingOf(followers: readonly StoredFollower[], values: StatementValues): StatementPart {
  const rows = followers.map((follower) => [follower.id, ...definitionColumns(follower)]);
  const table = rowsTable(["bigint", "jsonb", "jsonb"], rows, values);
  const sql = `
    update followers set definition = r.definition, target_keys = ${TARGET_KEYS}, due_at = 'epoch', stirred = stirred + 1
      from zone, ${table.sql} as r (id, definition, target_keys, place)
     where followers.zone_id = zone.id and followers.id = r.id`;
  return { step: "followers_updated", name: `~f ${table.shape}`, sql };
}

/**
 * Adds followers; ids are given out in their order.
 * @param deletes whether the statement takes others away, and so is to do that first: a name has one at a time, and
 *   PostgreSQL leaves what nothing reads to the end
 */
export function followerInsertionOf(
  followers: readonly Follower[],
  values: StatementValues,
  deletes: boolean,
): StatementPart {
  const rows = followers.map((follower) => {
    const { owner, kind } = follower;
    return [owner.wire, nameSortKey(owner.wire), kind, ...definitionColumns(follower)];
  });
  const table = rowsTable(["bytea", "bytea", "text", "jsonb", "jsonb"], rows, values);
  const sql = `
    insert into followers (zone_id, owner, owner_key, kind, definition, target_keys)
    select zone.id, r.owner, r.owner_key, r.kind, r.definition, ${TARGET_KEYS}
      from zone, ${table.sql} as r (owner, owner_key, kind, definition, target_keys, place)
     ${deletes ? "where (select count(*) from followers_deleted) >= 0" : ""} order by place returning id`;
  return { step: "followers_created", name: `${deletes ? "-+" : "+"}f ${table.shape}`, sql };
}

function definitionColumns(follower: Follower): readonly Binding[] {
  const targetKeys = targetsOf(follower).map(({ wire }) => Buffer.from(nameSortKey(wire)).toString("hex"));
  return [JSON.stringify(follower.definition), JSON.stringify(targetKeys)];
}

/**
 * Notes that zones of the company hold more than they take. The lock keeps whoever has them give that back from noting
 * that none does before this change is there to be seen (quotas.ts, `releaseReserves`).
 */
export const RESERVES = {
  step: "reserves",
  name: "r",
  sql: `
    update quotas set has_reserves = true
      from (select q.id from zone join quotas q
                on q.company_id = zone.company_id or q.company_id is null and q.reseller_id = zone.reseller_id
               for key share of q) as holder
     where quotas.id = holder.id and not quotas.has_reserves`,
} as const;

/**
 * Writes the journal's row.
 * @param row its columns, but for those that the zone tells
 */
export function journalOf(row: JournalRow, values: StatementValues): StatementPart {
  const columns = Object.keys(row);
  const cells = Object.values<Binding>({ ...row }).map((value) => values.add(value));
  const sql = `
    insert into zone_journal (zone_id, version, serial, ${columns.join(", ")})
    select zone.id, zone.version, zone.serial, ${cells.join(", ")} from zone`;
  return { step: "journal", name: `j${"derived_added" in row ? "d" : ""}${"followers" in row ? "f" : ""}`, sql };
}

/** What a row of the journal says beside the zone's version and serial. */
export interface JournalRow {
  readonly serial_before: number;
  readonly actor: string;
  readonly deleted: Uint8Array;
  readonly added: Uint8Array;
  /** What signing added to the change. */
  readonly derived_deleted?: Uint8Array;
  readonly derived_added?: Uint8Array;
  /** What became of followers, as JSON. */
  readonly followers?: string;
}
