import type { SendingLimit } from "../../../core/mail/guard/sending-limits.ts";
import type { Db } from "../../../platform/postgres/db.ts";
import { areCampaignsOf } from "../campaigns/campaigns.ts";

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
