import type { SendingLimit } from "../../../core/mail/guard/sending-limits.ts";
import { type Db, queryRows } from "../../../platform/postgres/db.ts";
import { areCampaignsOf } from "../campaigns/campaigns.ts";
import { beginWork, wakeInstances } from "../queue/mail-work.ts";

/**
 * Sets a limit of an instance in place of the one that it has. What waits for a window is due at its time all the same.
 * @returns false, and nothing is set, where it is of a campaign that the instance does not have
 */
export async function setSendingLimit(db: Db, instanceId: number, limit: SendingLimit): Promise<boolean> {
  const { scope, subject, perHour, perDay, over } = limit;
  return db.transaction(async (transaction) => {
    const isOfOne = scope === "campaign" && subject !== "";
    if (isOfOne && !(await areCampaignsOf(transaction, instanceId, [Number(subject)]))) return false;
    await ensureGuard(transaction, instanceId);
    await transaction("sending_limits")
      .insert({ instance_id: instanceId, scope, subject, per_hour: perHour, per_day: perDay, over })
      .onConflict(["instance_id", "scope", "subject"])
      .merge();
    await wakeCampaigns(transaction, instanceId);
    return true;
  });
}

/** @returns false when there was none */
export async function removeSendingLimit(
  db: Db,
  instanceId: number,
  { scope, subject }: Pick<SendingLimit, "scope" | "subject">,
): Promise<boolean> {
  return db.transaction(async (transaction) => {
    const removed = await transaction("sending_limits").where({ instance_id: instanceId, scope, subject }).delete();
    await wakeCampaigns(transaction, instanceId);
    return removed > 0;
  });
}

/** Begins the ramp of an instance, as if it were new from that moment on, or ends it. */
export async function setRamp(db: Db, instanceId: number, from: Date | null): Promise<void> {
  await db.transaction(async (transaction) => {
    await ensureGuard(transaction, instanceId);
    await transaction("instance_guards").where({ instance_id: instanceId }).update({ ramp_from: from });
    await wakeCampaigns(transaction, instanceId);
  });
}

/** Makes the row that an instance's guard is kept in. */
export async function ensureGuard(db: Db, instanceId: number): Promise<void> {
  await db("instance_guards").insert({ instance_id: instanceId }).onConflict("instance_id").ignore();
}

/** Campaigns that wait for a window look again: there may be room now. */
async function wakeCampaigns(db: Db, instanceId: number): Promise<void> {
  await db("campaign_sends")
    .where({ instance_id: instanceId })
    .whereNotNull("waits_until")
    .update({ waits_until: null });
}

/** Recipients of an instance that wait for a window, and when the first of them goes on. */
export interface WaitingRecipients {
  readonly recipients: number;
  readonly goesOnAt: Date | null;
}

// Nobody has tried what waits for a window: what was tried, and is put off, was taken.
const WAITING = "instance_id = $1 and state = 'deferred' and taken_at is null";

export async function countWaiting(db: Db, instanceId: number): Promise<WaitingRecipients> {
  const [row] = await queryRows<WaitingRecipients>(
    db,
    `select coalesce(sum(recipients), 0)::int as recipients, min(due_at) as "goesOnAt" from partitions where ${WAITING}`,
    [instanceId],
  );
  return row!;
}

/** Lets what waits for a window go at once; it stays counted where it was. @returns how many recipients */
export async function releaseWaiting(db: Db, instanceId: number): Promise<number> {
  return db.transaction(async (transaction) => {
    await beginWork(transaction, [instanceId]);
    const [row] = await queryRows<{ recipients: number }>(
      transaction,
      `with waiting as (
         select id from partitions where ${WAITING} order by id for no key update
       ), released as (
         update partitions p set state = 'ready', due_at = now(), modified_at = now() from waiting
         where p.instance_id = $1 and p.id = waiting.id and p.state = 'deferred' returning p.recipients
       )
       select coalesce(sum(recipients), 0)::int as recipients from released`,
      [instanceId],
    );
    await wakeInstances(transaction, [{ instanceId }]);
    return row!.recipients;
  });
}
