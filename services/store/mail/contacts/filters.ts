import type { FilterCondition } from "../../../core/mail/filter-condition.ts";
import { type Db, isUniqueViolation, queryRows, StatementValues } from "../../../platform/postgres/db.ts";
import { compileCondition } from "./filter-conditions.ts";

/** A saved condition over an instance's contacts. */
export interface Filter {
  readonly id: number;
  readonly name: string;
  readonly condition: FilterCondition;
}

/** Of an instance's filters: their number, and the octets of their conditions together. */
export const MOST_FILTERS = 1_000;
export const MOST_FILTERS_MEBIBYTES = 4;
const MOST_OCTETS = MOST_FILTERS_MEBIBYTES * 2 ** 20;

/** Saves a new filter. @returns its id, or why not: the instance has one of that name, or would have too much of them */
export async function addFilter(
  db: Db,
  instanceId: number,
  { name, condition }: Omit<Filter, "id">,
): Promise<number | "name-taken" | "oversized"> {
  return db.transaction(async (transaction) => {
    await lockFilters(transaction, instanceId);
    const [added] = await queryRows<{ id: number }>(
      transaction,
      `insert into filters (instance_id, name, conditions)
       select $1::bigint, $2::text, $3::jsonb from (
         select count(*) as number, coalesce(sum(octet_length(conditions::text)), 0) as octets from filters where instance_id = $1
       ) as present
       where number < $4 and octets + octet_length($3::jsonb::text) <= $5
       on conflict (instance_id, name) do nothing returning id`,
      [instanceId, name, JSON.stringify(condition), MOST_FILTERS, MOST_OCTETS],
    );
    if (added) return added.id;
    const known = await transaction("filters").where({ instance_id: instanceId, name }).first("id");
    return known ? "name-taken" : "oversized";
  });
}

/** Changes a filter's name, its condition, or both; where there is too much of them already, a condition may become less. */
export async function changeFilter(
  db: Db,
  instanceId: number,
  id: number,
  { name, condition }: Partial<Omit<Filter, "id">>,
): Promise<"done" | "unknown" | "name-taken" | "oversized"> {
  try {
    return await db.transaction(async (transaction) => {
      await lockFilters(transaction, instanceId);
      const changed = await queryRows(
        transaction,
        `update filters set name = coalesce($3, name), conditions = coalesce($4::jsonb, conditions)
         where instance_id = $1 and id = $2 and ($4::jsonb is null or octet_length($4::jsonb::text) <= greatest(
           $5 - (select coalesce(sum(octet_length(conditions::text)), 0) from filters where instance_id = $1 and id <> $2),
           octet_length(conditions::text)))
         returning 1`,
        [instanceId, id, name ?? null, condition === undefined ? null : JSON.stringify(condition), MOST_OCTETS],
      );
      if (changed.length > 0) return "done";
      return (await findFilter(transaction, instanceId, id)) ? "oversized" : "unknown";
    });
  } catch (error) {
    if (isUniqueViolation(error)) return "name-taken";
    throw error;
  }
}

/** One change after the other, so that each sees what those before it have added. */
async function lockFilters(transaction: Db, instanceId: number): Promise<void> {
  await queryRows(transaction, "select pg_advisory_xact_lock(hashtextextended('filters', $1))", [instanceId]);
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

export async function findFilterByName(db: Db, instanceId: number, name: string): Promise<Filter | undefined> {
  const row = await db("filters").where({ instance_id: instanceId, name }).first("id", "conditions");
  return row && { id: row.id, name, condition: row.conditions };
}

const FILTERS_PER_READ = 8;

/** All of an instance by name, a few at a time: a condition may have hundreds of KiB. */
export async function* streamFilters(db: Db, instanceId: number): AsyncGenerator<readonly Filter[]> {
  for (let after = ""; ; ) {
    const rows = await db("filters")
      .where({ instance_id: instanceId })
      .where("name", ">", after)
      .orderBy("name")
      .limit(FILTERS_PER_READ)
      .select("id", "name", "conditions");
    yield rows.map((row) => ({ id: row.id, name: row.name, condition: row.conditions }));
    const last = rows.at(-1);
    if (last === undefined || rows.length < FILTERS_PER_READ) return;
    after = last.name;
  }
}

/** Counts that are made at a time: each may take a connection for as long as it takes to look at all contacts. */
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
