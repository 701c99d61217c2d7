import type { Detector, DetectorAction } from "../../../core/mail/guard/behaviour.ts";
import type { Sentence } from "../../../core/sentences.ts";
import { type Db, queryRows, type Transaction } from "../../../platform/postgres/db.ts";
import { onPresent } from "../machines.ts";
import { beginWork, wakeInstances } from "../queue/mail-work.ts";
import { moveAges } from "../queue/queue-ages.ts";
import { ensureGuard } from "./sending-limits.ts";

/** What becomes of sends by API while an instance is held; submission is told to come again in either case. */
export type HeldSends = "accept" | "refuse";

/** An instance of which nothing leaves. */
interface InstanceHold {
  readonly since: Date;
  readonly reason: Sentence;
  /** A login, or `guard`. */
  readonly by: string;
}

/** How an instance is guarded, beside its limits. */
export interface GuardSettings {
  readonly heldSends: HeldSends;
  /** Whom to write to when it is held. */
  readonly notify: readonly string[];
  /** What differs for it of config/guard.json. */
  readonly detectors: Readonly<Partial<Record<Detector, DetectorAction>>>;
}

interface InstanceGuard extends GuardSettings {
  readonly hold: InstanceHold | null;
}

/** Holds an instance, from the commit on. @returns false when it was held already */
export async function markInstanceHeld(
  transaction: Transaction,
  instanceId: number,
  { reason, by }: Pick<InstanceHold, "reason" | "by">,
): Promise<boolean> {
  await ensureGuard(transaction, instanceId);
  const held = await queryRows(
    transaction,
    `update instance_guards set held_at = now(), held_reason = $2, held_by = $3
     where instance_id = $1 and held_at is null returning 1`,
    [instanceId, JSON.stringify(reason), by],
  );
  return held.length > 0;
}

/**
 * Ends a hold. What happened before no longer speaks against the instance, and what had been tried does not age by the
 * hold. @returns false when it was not held
 */
export async function endInstanceHold(transaction: Transaction, instanceId: number): Promise<boolean> {
  // As text: a Date would cut off its microseconds.
  await beginWork(transaction, [instanceId]);
  const [held] = await queryRows<{ since: string }>(
    transaction,
    `update instance_guards g set held_at = null, held_reason = null, held_by = null, judged_from = now(), told = '{}'
     from (select held_at, held_at::text as since from instance_guards where instance_id = $1 for update) as earlier
     where g.instance_id = $1 and earlier.held_at is not null returning earlier.since`,
    [instanceId],
  );
  if (held === undefined) return false;
  const which = "state in ('ready', 'leased', 'deferred', 'held')";
  await moveAges(transaction, instanceId, { which, by: "now() - greatest($2::timestamptz, taken_at)" }, [held.since]);
  await wakeInstances(transaction, [{ instanceId }]);
  return true;
}

export async function readInstanceGuard(db: Db, instanceId: number): Promise<InstanceGuard> {
  const [row] = await queryRows<{
    held_at: Date | null;
    held_reason: Sentence | null;
    held_by: string | null;
    held_sends: HeldSends;
    notify: string[];
    detectors: GuardSettings["detectors"];
  }>(
    db,
    "select held_at, held_reason, held_by, held_sends, notify, detectors from instance_guards where instance_id = $1",
    [instanceId],
  );
  if (row === undefined) return { hold: null, heldSends: "accept", notify: [], detectors: {} };
  const { held_at: since, held_reason: reason, held_by: by, held_sends: heldSends, notify, detectors } = row;
  const hold = since && { since, reason: reason!, by: by! };
  return { hold, heldSends, notify, detectors };
}

/** Changes what is given. */
export async function setGuardSettings(db: Db, instanceId: number, settings: Partial<GuardSettings>): Promise<void> {
  const { heldSends, notify, detectors } = settings;
  await ensureGuard(db, instanceId);
  if (Object.values(settings).every((value) => value === undefined)) return;
  await db("instance_guards")
    .where({ instance_id: instanceId })
    .update({
      ...(heldSends === undefined ? {} : { held_sends: heldSends }),
      ...(notify === undefined ? {} : { notify }),
      ...(detectors === undefined ? {} : { detectors: JSON.stringify(detectors) }),
    });
}

/** Every instance that is held, by name. */
export async function listHeldInstances(
  db: Db,
): Promise<{ readonly name: string; readonly since: Date; readonly reason: Sentence }[]> {
  return queryRows(
    db,
    `select i.name, g.held_at as since, g.held_reason as reason
     from instance_guards g join instances i on i.id = g.instance_id where g.held_at is not null and ${onPresent(db, "g.instance_id")}
     order by i.name`,
  );
}
