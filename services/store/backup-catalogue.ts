import type { BackupTableShape } from "../core/backup-format.ts";
import { type Db, queryRows } from "../platform/postgres/db.ts";
import { rolePolicy } from "./database-roles.ts";

/** Tables of a database, as backups and restores name them in their statements. */
export interface BackupCatalogue {
  /** Ours, each after those that it refers to. */
  readonly tables: readonly BackupTableShape[];
  /** Others in the same schema, which are no part of a backup. */
  readonly foreign: readonly string[];
}

/** Which migrations a table says it has is written by them, not restored. */
const MIGRATIONS_TABLE = "schema_migrations";

/**
 * Reads what tables there are. Ours are those of `config/database-roles.json`, which has every one. Columns that
 * PostgreSQL computes are left out, and transaction numbers, which mean nothing in another cluster.
 */
export async function readCatalogue(db: Db): Promise<BackupCatalogue> {
  const tables = await queryRows<CatalogueTable>(
    db,
    `select c.oid::int, c.relname as name, array_agg(a.attname::text order by a.attnum) as columns
       from pg_class c join pg_attribute a on a.attrelid = c.oid
      where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
        and c.relname <> $1 and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
        and not (a.atttypid = 'xid8'::regtype and a.atthasdef)
        and not exists (select from pg_depend where classid = 'pg_class'::regclass and objid = c.oid and deptype = 'e')
      group by c.oid, c.relname order by c.relname`,
    [MIGRATIONS_TABLE],
  );
  const known = new Set(Object.values(rolePolicy.areas).flat());
  const references = await queryRows<Reference>(
    db,
    // What belongs to an instance refers to it, be it without a foreign key.
    `select conrelid::int as referrer, confrelid::int as referred from pg_constraint where contype = 'f' and conrelid <> confrelid
     union select attrelid::int, 'instances'::regclass::int from pg_attribute where attname = 'instance_id'`,
  );
  const ours = tables.filter(({ name }) => known.has(name));
  return {
    tables: inOrder(ours, references).map(({ name, columns }) => ({ name, columns })),
    foreign: tables.filter(({ name }) => !known.has(name)).map(({ name }) => name),
  };
}

type CatalogueTable = BackupTableShape & { readonly oid: number };
type Reference = { readonly referrer: number; readonly referred: number };

function inOrder(tables: readonly CatalogueTable[], references: readonly Reference[]): CatalogueTable[] {
  const ordered: CatalogueTable[] = [];
  for (let left = [...tables]; left.length > 0; ) {
    const free = left.filter(
      ({ oid }) =>
        !references.some(({ referrer, referred }) => referrer === oid && left.some((other) => other.oid === referred)),
    );
    if (free.length === 0) throw new Error(`tables refer to each other in a circle: ${left.map(({ name }) => name)}`);
    ordered.push(...free);
    left = left.filter((table) => !free.includes(table));
  }
  return ordered;
}

/** The last number that each sequence gave, in decimal; null where it gave none. */
export async function readSequences(db: Db): Promise<Record<string, string | null>> {
  const rows = await queryRows<{ name: string; value: string | null }>(
    db,
    `select sequencename as name, last_value::text as value from pg_sequences where schemaname = current_schema() order by 1`,
  );
  return Object.fromEntries(rows.map(({ name, value }) => [name, value]));
}
