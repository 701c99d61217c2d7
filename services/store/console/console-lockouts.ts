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
      readonly counted: CountedAttempt;
    }
  /** It must not be made. */
  | { readonly kind: "locked"; readonly waitSeconds: number };

/** An attempt that was counted, for it to be taken back. */
export interface CountedAttempt {
  readonly subject: string;
  readonly at: Date;
  /** When the one before was made; null: there is none. */
  readonly before: Date | null;
}

/**
 * Counts an attempt before it is known how it ends, so that any number of attempts at the same moment are as many
 * failures; what succeeds is taken back.
 */
export async function beginAttempt(db: Db, subject: string, policy: LockoutPolicy, now: Date): Promise<AttemptStart> {
  const at = now.toISOString();
  const [counted] = await queryRows<{ failures: number; locked_until: Date | null; before: Date | null }>(
    db,
    `with earlier as (select last_at from console_lockouts where subject = $1)
     insert into console_lockouts as known (subject, failures, last_at, locked_until)
     values ($1, 1, $2::timestamptz, case when $3 <= 1 then $2::timestamptz + make_interval(secs => $4) end)
     on conflict (subject) do update set
       failures = case when ${FORGOTTEN} then 1 else known.failures + 1 end,
       last_at = excluded.last_at,
       locked_until = case when not ${FORGOTTEN} and known.failures + 1 >= $3
         then excluded.last_at + make_interval(secs => least($6, $4 * power(2, least(known.failures + 1 - $3, 30)))) end
     where known.locked_until is null or known.locked_until <= excluded.last_at
     returning failures, locked_until, (select last_at from earlier) as before`,
    [subject, at, policy.freeFailures, policy.firstWaitSeconds, policy.forgetSeconds, policy.mostWaitSeconds],
  );
  if (counted) {
    const { failures, locked_until: lockedUntil, before } = counted;
    return { kind: "counted", failures, lockedUntil, counted: { subject, at: now, before } };
  }
  const row = await db("console_lockouts").where({ subject }).first("locked_until");
  const until: Date | null = row?.locked_until ?? null;
  return { kind: "locked", waitSeconds: Math.max(1, Math.ceil(((until?.getTime() ?? 0) - now.getTime()) / 1000)) };
}

/** Forgets a subject's failures: it succeeded. */
export async function clearFailures(db: Db, subject: string): Promise<void> {
  await db("console_lockouts").where({ subject }).delete();
}

/** Takes a counted attempt back, and with it the wait that it brought: failures before it are forgotten as if it had not been. */
export async function takeBackAttempt(db: Db, { subject, at, before }: CountedAttempt): Promise<void> {
  await queryRows(
    db,
    `update console_lockouts set failures = greatest(failures - 1, 0), locked_until = null,
       last_at = case when last_at = $2::timestamptz then coalesce($3::timestamptz, last_at) else last_at end
     where subject = $1`,
    [subject, at.toISOString(), before?.toISOString() ?? null],
  );
}

/** Removes what nobody will ask for again; what counts at this moment stays. */
export async function purgeLockouts(db: Db, before: Date): Promise<void> {
  await deleteUnlocked(db, { table: "console_lockouts", key: "subject" }, "last_at < $1", [before]);
}

const FORGOTTEN = "(known.last_at <= excluded.last_at - make_interval(secs => $5))";
