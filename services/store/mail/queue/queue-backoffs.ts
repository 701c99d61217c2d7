import { ANY_SOURCE } from "../../../core/mail/queue/destination-queue.ts";
import { type Db, queryRows } from "../../../platform/postgres/db.ts";

/** A source that leaves a destination alone, or `ANY_SOURCE`. */
interface BackOff {
  readonly destination: string;
  readonly source: string;
  /** From when it was read. */
  readonly seconds: number;
}

export async function readBackOffs(db: Db): Promise<BackOff[]> {
  return queryRows<BackOff>(
    db,
    `select destination, source, extract(epoch from until - now())::float8 as seconds from destination_backoffs
     where until > now()`,
    [],
    { name: "read-back-offs" },
  );
}

/** Has sources leave a destination alone for a while, whichever worker they are of. */
export async function backOffDestination(
  db: Db,
  destination: string,
  backOff: { readonly sources: readonly string[]; readonly seconds: number; readonly reason: string },
): Promise<void> {
  await queryRows(
    db,
    `insert into destination_backoffs as b (destination, source, until, reason)
     select $1, source, now() + make_interval(secs => $3), $4 from unnest($2::text[]) as source order by source
     on conflict (destination, source) do update set until = greatest(b.until, excluded.until), reason = excluded.reason`,
    [destination, [...new Set(backOff.sources)], backOff.seconds, backOff.reason],
  );
}

/** Forgets the back-offs that are over. */
export async function purgeBackOffs(db: Db): Promise<void> {
  await db.raw("delete from destination_backoffs where until < now()");
}

/** A destination took mail of a source again. */
export async function endBackOff(db: Db, destination: string, source: string): Promise<void> {
  await db("destination_backoffs").where({ destination }).whereIn("source", [source, ANY_SOURCE]).delete();
}
