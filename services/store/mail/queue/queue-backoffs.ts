import { type Db, queryRows } from "../../../platform/postgres/db.ts";

/** A source that leaves a destination alone, or `ANY_SOURCE`. */
interface BackOff {
  readonly destination: string;
  readonly source: string;
  /** From when it was read. */
  readonly seconds: number;
}

/** A statement that stores a back-off is committed within so long. */
const STORED_IN_SECONDS = 10;
/** What is over is kept for so long, until every worker has read of its end. */
const OVER_FOR_SECONDS = 300;

/**
 * Those that there are now, or that have changed.
 * @param changedSince a moment of the database, as text; those that ended early since are among them, with their ends in the past
 */
export async function readBackOffs(db: Db, changedSince?: string): Promise<BackOff[]> {
  const columns = "destination, source, extract(epoch from until - now())::float8 as seconds";
  return changedSince === undefined
    ? queryRows<BackOff>(db, `select ${columns} from destination_backoffs where until > now()`)
    : queryRows<BackOff>(
        db,
        `select ${columns} from destination_backoffs
         where changed_at > $1::timestamptz - interval '${STORED_IN_SECONDS} seconds'`,
        [changedSince],
        { name: "read-changed-back-offs" },
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
     on conflict (destination, source) do update
     set until = greatest(b.until, excluded.until), reason = excluded.reason, changed_at = excluded.changed_at`,
    [destination, [...new Set(backOff.sources)], backOff.seconds, backOff.reason],
  );
}

/** Forgets the back-offs that are over. */
export async function purgeBackOffs(db: Db): Promise<void> {
  await db.raw(`delete from destination_backoffs where until < now() - interval '${OVER_FOR_SECONDS} seconds'`);
}

/** Sources may turn to a destination again; all of them unless given. */
export async function endBackOffs(db: Db, destination: string, sources?: readonly string[]): Promise<void> {
  await queryRows(
    db,
    `update destination_backoffs set until = now(), reason = '', changed_at = clock_timestamp()
     where destination = $1 and ($2::text[] is null or source = any($2::text[])) and until > now()`,
    [destination, sources ?? null],
  );
}
