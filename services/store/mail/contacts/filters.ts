import type { FilterCondition } from "../../../core/mail/filter-condition.ts";
import { type Db, isUniqueViolation, queryRows, StatementValues } from "../../../platform/postgres/db.ts";
import { compileCondition } from "./filter-conditions.ts";

/** A saved condition over an instance's contacts. */
export interface Filter {
  readonly id: number;
  readonly name: string;
  readonly condition: FilterCondition;
}

/** Saves a new filter. @returns its id, or undefined when the instance has one of that name */
export async function addFilter(db: Db, instanceId: number, filter: Omit<Filter, "id">): Promise<number | undefined> {
  const [row] = await db("filters")
    .insert({ instance_id: instanceId, name: filter.name, conditions: JSON.stringify(filter.condition) })
    .onConflict(["instance_id", "name"])
    .ignore()
    .returning("id");
  return row?.id;
}

/** Changes a filter's name, its condition, or both. */
export async function changeFilter(
  db: Db,
  instanceId: number,
  id: number,
  change: Partial<Omit<Filter, "id">>,
): Promise<"done" | "unknown" | "name-taken"> {
  const values = {
    ...(change.name === undefined ? {} : { name: change.name }),
    ...(change.condition === undefined ? {} : { conditions: JSON.stringify(change.condition) }),
  };
  try {
    const filter = db("filters").where({ instance_id: instanceId, id });
    const found = await (Object.keys(values).length > 0 ? filter.update(values) : filter.first("id"));
    return found ? "done" : "unknown";
  } catch (error) {
    if (isUniqueViolation(error)) return "name-taken";
    throw error;
  }
}

/** @returns false when the instance has no such filter */
export async function removeFilter(db: Db, instanceId: number, id: number): Promise<boolean> {
  return (await db("filters").where({ instance_id: instanceId, id }).delete()) > 0;
}

export async function findFilter(db: Db, instanceId: number, id: number): Promise<Filter | undefined> {
  const row = await db("filters").where({ instance_id: instanceId, id }).first("id", "name", "conditions");
  return row && { id: row.id, name: row.name, condition: row.conditions };
}

/** Those of these filters that the instance has, by id. */
export async function findFilters(db: Db, instanceId: number, ids: readonly number[]): Promise<Map<number, Filter>> {
  if (ids.length === 0) return new Map();
  const rows = await db("filters")
    .where({ instance_id: instanceId })
    .whereRaw("id = any(?::bigint[])", [[...new Set(ids)]])
    .select("id", "name", "conditions");
  return new Map(rows.map((row) => [row.id, { id: row.id, name: row.name, condition: row.conditions }]));
}

/** By name. */
export async function listFilters(db: Db, instanceId: number): Promise<Filter[]> {
  const rows = await db("filters")
    .where({ instance_id: instanceId })
    .orderBy("name")
    .select("id", "name", "conditions");
  return rows.map((row) => ({ id: row.id, name: row.name, condition: row.conditions }));
}

/** Counts, or lists of them, that are made at a time: each may take a connection for as long as it takes to look at all contacts. */
export const COUNTS_AT_ONCE = { atOnce: 3, perClient: 1 };
export const MANY_COUNTS = { mostWaiting: 32, retryAfterSeconds: 5 };

/** How many contacts of an instance fulfil a condition now. */
export async function countMatches(db: Db, instanceId: number, condition: FilterCondition, now: Date): Promise<number> {
  const values = new StatementValues(instanceId);
  const where = compileCondition(condition, { instance: "$1", now }, values);
  const [row] = await queryRows<{ count: number }>(
    db,
    `select count(*) as count from contacts as contact where contact.instance_id = $1 and ${where}`,
    values.all,
  );
  return row!.count;
}
