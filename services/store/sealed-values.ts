import type { KeyRing } from "../core/key-ring.ts";
import { open, seal } from "../core/secret-box.ts";
import { type Db, queryRows } from "../platform/postgres/db.ts";
import { keepDeploymentKeys } from "./deployment-keys.ts";
import { SEALED_COLUMNS } from "./sealed-columns.ts";

/** Rows taken at a time: each is locked by nobody but the statement that changes it. */
const BATCH_ROWS = 500;

/**
 * Seals every stored secret with the key in force, beside running services: who reads meanwhile finds the one or the
 * other, and can open both. The keys in force are noted as well.
 * @returns how many values were sealed anew, by `table.column`
 * @throws when a value can be opened with no secret of the ring: nothing of that column is lost by it
 */
export async function resealAll(db: Db, keyRing: KeyRing): Promise<Record<string, number>> {
  const resealed: Record<string, number> = {};
  for (const { table, column, purpose } of SEALED_COLUMNS) {
    resealed[`${table}.${column}`] = await resealColumn(db, keyRing, { table, column, purpose });
  }
  await keepDeploymentKeys(db, keyRing);
  return resealed;
}

async function resealColumn(
  db: Db,
  keyRing: KeyRing,
  { table, column, purpose }: (typeof SEALED_COLUMNS)[number],
): Promise<number> {
  const current = keyRing.current();
  let count = 0;
  for (let after: string | null = null; ; ) {
    const rows: { sealed: string }[] = await queryRows(
      db,
      `select distinct ${column} as sealed from ${table}
        where ${column} is not null and ($1::text is null or ${column} > $1) order by 1 limit ${BATCH_ROWS}`,
      [after],
    );
    for (const { sealed } of rows) {
      if (open(current, purpose, sealed).ok) continue;
      const opened = open(keyRing, purpose, sealed);
      if (!opened.ok) throw new Error(`${table}.${column}: a value cannot be opened (${opened.error})`);
      // A value that somebody has just changed is sealed with the secret in force already.
      const renewed = seal(keyRing, purpose, opened.value);
      await queryRows(db, `update ${table} set ${column} = $1 where ${column} = $2`, [renewed, sealed]);
      count += 1;
    }
    const last = rows.at(-1);
    if (rows.length < BATCH_ROWS || last === undefined) return count;
    after = last.sealed;
  }
}
