import { nameSortKey } from "../../core/dns/name.ts";
import type { ResourceRecord } from "../../core/dns/record.ts";
import type { StoredRecord } from "../../core/dns/zone-edit.ts";
import { type Binding, rowsTable, type StatementValues } from "../../platform/postgres/db.ts";
import { DERIVED_COLUMNS, DERIVED_SQL_TYPES, derivedColumns } from "./dnssec-records.ts";

/** One step of the statement that writes a change. */
export interface StatementPart {
  readonly step: "deleted" | "updated" | "created" | "derived_deleted" | "derived_created" | "reserves" | "journal";
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
  const hasCreated = parts.some(({ step }) => step === "created");
  const createdIds = hasCreated ? "array(select id from created order by id)" : "'{}'::bigint[]";
  return `
    with zone as (
      update zones
         set serial = $1, mname = $2, rname = $3, refresh = $4, retry = $5, expire = $6, minimum = $7, ttl = $8,
             cached_until = greatest(cached_until, $9), records = records + $10, octets = octets + $11,
             version = version + 1, changed_xid = pg_current_xact_id()
       where id = $12 and version = $13${options.withinHeld ? WITHIN_HELD : ""}
      returning id, version, serial, reseller_id, company_id
    )${steps.join("")}
    select ${createdIds} as created_ids from zone`;
}

/** Feeds and catalogs are nobody's. */
const WITHIN_HELD = " and (company_id is null or records + $10 <= records_held and octets + $11 <= octets_held)";

/** owner, owner_key, type, ttl, rdata */
const RECORD_TYPES = ["bytea", "bytea", "integer", "bigint", "bytea"];

function recordColumns({ owner, type, ttl, rdata }: ResourceRecord): readonly Binding[] {
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
 * @param row serial before, actor, what was deleted and what was added; in a signed zone also what signing deleted and added
 */
export function journalOf(row: readonly Binding[], values: StatementValues): StatementPart {
  const isSigned = row.length > 4;
  const [serialBefore, ...others] = row.map((value) => values.add(value));
  const sql = `
    insert into zone_journal (zone_id, version, serial_before, serial, actor, deleted, added${isSigned ? ", derived_deleted, derived_added" : ""})
    select zone.id, zone.version, ${serialBefore}, zone.serial, ${others.join(", ")} from zone`;
  return { step: "journal", name: isSigned ? "d" : "journal", sql };
}
