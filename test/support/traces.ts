import type { Db } from "../../services/platform/postgres/db.ts";

/** The tables that name an address, however it is spelled, binary columns included. */
export async function findTraces(db: Db, spellings: readonly string[]): Promise<string[]> {
  const { rows: columns } = await db.raw(
    `select table_name, column_name, data_type from information_schema.columns
     where table_schema = 'public' and data_type in ('text', 'jsonb', 'json', 'bytea', 'character varying', 'ARRAY')`,
  );
  const found = new Set<string>();
  for (const { table_name, column_name, data_type } of columns) {
    const isBinary = data_type === "bytea";
    for (const spelling of spellings) {
      const { rows } = await db.raw(
        isBinary
          ? "select 1 from ?? where position(?::bytea in ??) > 0 limit 1"
          : "select 1 from ?? where strpos(cast(?? as text), ?) > 0 limit 1",
        isBinary ? [table_name, Buffer.from(spelling), column_name] : [table_name, column_name, spelling],
      );
      if (rows.length > 0) found.add(table_name);
    }
  }
  return [...found].sort();
}
