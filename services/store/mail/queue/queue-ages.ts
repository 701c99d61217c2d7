import { queryRows, type Transaction } from "../../../platform/postgres/db.ts";

/**
 * Moves on since when partitions of an instance are tried, so that they do not age by some time: read under their locks and
 * written as values, since Citus takes no statement that adds an interval to a column.
 * @param which a condition in SQL of our own; its values are `$2` and so on
 * @param by an interval in SQL of our own
 */
export async function moveAges(
  transaction: Transaction,
  instanceId: number,
  { which, by }: { readonly which: string; readonly by: string },
  values: readonly unknown[],
): Promise<void> {
  const rows = await queryRows<{ id: number; at: string }>(
    transaction,
    // As text: a Date would cut off its microseconds.
    `select id, (taken_at + (${by}))::text as at from partitions
     where instance_id = $1 and taken_at is not null and ${which} order by id for no key update`,
    [instanceId, ...values],
  );
  if (rows.length === 0) return;
  await queryRows(
    transaction,
    `update partitions p set taken_at = given.at from unnest($2::bigint[], $3::timestamptz[]) as given (id, at)
     where p.instance_id = $1 and p.id = given.id`,
    [instanceId, rows.map(({ id }) => id), rows.map(({ at }) => at)],
  );
}
