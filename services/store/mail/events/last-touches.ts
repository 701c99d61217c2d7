import { type Db, queryRows } from "../../../platform/postgres/db.ts";
import { byInstance, ownRows } from "../by-instance.ts";
import { TOUCHES } from "./event-kinds.ts";

/**
 * How many days ago contacts last opened, clicked or bought, looked up one by one in the index of each contact's history.
 * @returns those that did within so many days
 */
export async function listLastTouches(
  db: Db,
  contacts: readonly { readonly instanceId: number; readonly id: number }[],
  withinDays: number,
): Promise<Map<number, number>> {
  const own = await ownRows(db);
  const rows = await byInstance(db, contacts, (asked, instanceIds) =>
    queryRows<{ id: number; days: number }>(
      db,
      `select given.id, extract(epoch from now() - touch.at)::float8 / 86400 as days
       from unnest($2::bigint[]) as given (id),
       lateral (select at from events where ${own("events")} and contact_id = given.id
                  and kind in (${TOUCHES.join(", ")}) and not machine
                  and at > now() - make_interval(days => $3::integer) order by at desc limit 1) touch`,
      [instanceIds, [...new Set(asked.map(({ id }) => id))], withinDays],
      { name: "list-last-touches" },
    ),
  );
  return new Map(rows.map(({ id, days }) => [id, days]));
}
