import { type Db, queryRows } from "../../platform/postgres/db.ts";
import { deleteUnlocked } from "../transactions.ts";

/** After how many failures somebody has to wait, and how long. */
export interface LockoutPolicy {
  /** So many may fail before the first wait. */
  readonly freeFailures: number;
  /** The first wait; each further failure doubles it. */
  readonly firstWaitSeconds: number;
  readonly mostWaitSeconds: number;
  /** Failures are forgotten when so long nothing was tried. */
  readonly forgetSeconds: number;
}

/** Whether an attempt may be made. */
export type AttemptStart =
  | {
      readonly kind: "counted";
      readonly failures: number;
      /** When the next attempt may be made, should this one fail; null: at once. */
      readonly lockedUntil: Date | null;
    }
  /** It must not be made. */
  | { readonly kind: "locked"; readonly waitSeconds: number };

/**
 * Counts an attempt before it is known how it ends, so that any number of attempts at the same moment are as many
 * failures; what succeeds is taken back.
 */
export async function beginAttempt(db: Db, subject: string, policy: LockoutPolicy, now: Date): Promise<AttemptStart> {
  const at = now.toISOString();
  const [counted] = await queryRows<{ failures: number; locked_until: Date | null }>(
    db,
    `insert into console_lockouts as known (subject, failures, last_at, locked_until)
     values ($1, 1, $2::timestamptz, case when $3 <= 1 then $2::timestamptz + make_interval(secs => $4) end)
     on conflict (subject) do update set
       failures = case when ${FORGOTTEN} then 1 else known.failures + 1 end,
       last_at = excluded.last_at,
       locked_until = case when not ${FORGOTTEN} and known.failures + 1 >= $3
         then excluded.last_at + make_interval(secs => least($6, $4 * power(2, least(known.failures + 1 - $3, 30)))) end
     where known.locked_until is null or known.locked_until <= excluded.last_at
     returning failures, locked_until`,
    [subject, at, policy.freeFailures, policy.firstWaitSeconds, policy.forgetSeconds, policy.mostWaitSeconds],
  );
  if (counted) return { kind: "counted", failures: counted.failures, lockedUntil: counted.locked_until };
  const row = await db("console_lockouts").where({ subject }).first("locked_until");
  const until: Date | null = row?.locked_until ?? null;
  return { kind: "locked", waitSeconds: Math.max(1, Math.ceil(((until?.getTime() ?? 0) - now.getTime()) / 1000)) };
}

/** Forgets a subject's failures: it succeeded. */
export async function clearFailures(db: Db, subject: string): Promise<void> {
  await db("console_lockouts").where({ subject }).delete();
}

/** Takes one counted attempt back, and with it the wait that it brought. */
export async function takeBackAttempt(db: Db, subject: string): Promise<void> {
  await queryRows(
    db,
    "update console_lockouts set failures = greatest(failures - 1, 0), locked_until = null where subject = $1",
    [subject],
  );
}

/** Removes what nobody will ask for again; what counts at this moment stays. */
export async function purgeLockouts(db: Db, before: Date): Promise<void> {
  await deleteUnlocked(db, { table: "console_lockouts", key: "subject" }, "last_at < $1", [before]);
}

const FORGOTTEN = "(known.last_at < excluded.last_at - make_interval(secs => $5))";
