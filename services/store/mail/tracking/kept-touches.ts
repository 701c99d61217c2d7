import { queryRows, type Transaction } from "../../../platform/postgres/db.ts";

/** Keeps what recipients did, behind what is kept, until all machines answer. @param touches as JSON holds them */
export async function keepTouches(transaction: Transaction, touches: readonly object[]): Promise<void> {
  if (touches.length === 0) return;
  await queryRows(
    transaction,
    "insert into kept_touches (touch) select touch from json_array_elements($1::json) with ordinality as given (touch, nth) order by nth",
    [JSON.stringify(touches)],
  );
}

/**
 * Takes out what was kept first, unless somebody else is taking some: they are stored in their order.
 * @returns in that order; undefined where somebody else does
 */
export async function takeKeptTouches<Kept>(transaction: Transaction, most: number): Promise<Kept[] | undefined> {
  const [lock] = await queryRows<{ got: boolean }>(
    transaction,
    "select pg_try_advisory_xact_lock(hashtextextended('kept touches', 0)) as got",
  );
  if (!lock!.got) return undefined;
  const rows = await queryRows<{ touch: Kept }>(
    transaction,
    `with taken as (
       delete from kept_touches where id in (select id from kept_touches order by id limit $1)
       returning id, touch
     )
     select touch from taken order by id`,
    [most],
  );
  return rows.map(({ touch }) => touch);
}
