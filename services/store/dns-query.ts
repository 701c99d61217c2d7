import type { Knex } from "knex";
import type { Db } from "../platform/db.ts";

/** What a placeholder may stand for. */
export type Binding = string | number | boolean | null | Uint8Array | readonly (string | number | Uint8Array)[];

/**
 * Runs one statement written by hand.
 * @param options.name prepares it under this name, for statements that are run all the time
 * @param options.rowMode `array` gives rows as tuples, for results with many of them
 */
export async function query<Row>(
  db: Db,
  sql: string,
  bindings: readonly Binding[],
  options: { readonly name?: string; readonly rowMode?: "array" } = {},
): Promise<Row[]> {
  // knex's own type of a binding leaves out typed arrays and read-only ones, which pg takes.
  const { rows } = await db.raw(sql, bindings as readonly Knex.RawBinding[]).options(options);
  return rows;
}
