import { type Db, queryRows } from "../../../platform/postgres/db.ts";

/** Leaves a destination alone for a while, for every worker. */
export async function backOffDestination(
  db: Db,
  destination: string,
  backOff: { readonly seconds: number; readonly reason: string },
): Promise<void> {
  await queryRows(
    db,
    `insert into destination_backoffs as b (destination, until, reason)
     values ($1, now() + make_interval(secs => $2), $3)
     on conflict (destination) do update set until = greatest(b.until, excluded.until), reason = excluded.reason`,
    [destination, backOff.seconds, backOff.reason],
  );
}

/** Forgets the back-offs that are over. */
export async function purgeBackOffs(db: Db): Promise<void> {
  await db.raw("delete from destination_backoffs where until < now()");
}

/** A destination took mail again. */
export async function endBackOff(db: Db, destination: string): Promise<void> {
  await db("destination_backoffs").where({ destination }).delete();
}
