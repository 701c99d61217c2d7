import type { Sentence } from "../../core/sentences.ts";
import type { Db } from "../../platform/postgres/db.ts";
import {
  type CampaignMessage,
  type ChangedCampaign,
  endPause,
  findCancelling,
  setCancelled,
  setCancelling,
  setPaused,
} from "../../store/mail/campaigns/campaign-sends.ts";
import type { Campaign } from "../../store/mail/campaigns/campaigns.ts";
import { announceStop } from "../../store/mail/queue/queue.ts";
import {
  type BatchKey,
  continueBatch,
  endHold,
  isQuiet,
  markHeld,
  stopHeld,
  withdrawBatch,
} from "../../store/mail/queue/queue-stops.ts";
import { setBatchCancelled } from "../../store/mail/sends/batches.ts";
import type { StoredTemplate } from "../../store/mail/sends/messages.ts";

/**
 * Pauses a campaign that was started or scheduled. What is on the wire goes on; see `awaitQuiet`.
 * @returns false when there is nothing to pause
 */
export async function pauseCampaign(db: Db, campaignNumid: number, reason: Sentence): Promise<boolean> {
  const paused = await db.transaction(async (transaction) => {
    const campaign = await setPaused(transaction, campaignNumid, reason);
    if (hasBatch(campaign)) await markHeld(transaction, campaign);
    return campaign;
  });
  if (hasBatch(paused)) await stopHeld(db, paused);
  return paused !== undefined;
}

/**
 * Lets a paused campaign go on, unless something else holds its batch. Bounces are judged from here on.
 * @returns false when it is not paused
 */
export async function resumeCampaign(
  db: Db,
  campaignNumid: number,
  judged: { readonly tried: number; readonly bounced: number },
): Promise<boolean> {
  const { campaign, goesOn } = await db.transaction(async (transaction) => {
    const campaign = await endPause(transaction, campaignNumid, judged);
    return { campaign, goesOn: hasBatch(campaign) && (await endHold(transaction, campaign)) };
  });
  if (goesOn && hasBatch(campaign)) await continueBatch(db, campaign);
  return campaign !== undefined;
}

/**
 * Asks for the end of a campaign: nothing more of it is taken. {@link completeCancellation} does the rest, as soon as no
 * worker begins a further message.
 * @returns false when it is over already, or was never written
 */
export async function requestCancellation(db: Db, campaignNumid: number): Promise<boolean> {
  const cancelling = await db.transaction(async (transaction) => {
    const campaign = await setCancelling(transaction, campaignNumid);
    if (hasBatch(campaign)) await markHeld(transaction, campaign);
    return campaign;
  });
  if (cancelling?.eeid) await announceStop(db);
  return cancelling !== undefined;
}

/**
 * Ends a campaign whose cancellation was asked for, once its batch is quiet. From the commit of `cancelled_at` on
 * nothing leaves any more; what was on the wire is still counted. May be interrupted, and called again, at any time.
 * @returns false while it is not quiet
 */
export async function completeCancellation(db: Db, campaignNumid: number): Promise<boolean> {
  const campaign = await findCancelling(db, campaignNumid);
  if (campaign === undefined) return true;
  if (hasBatch(campaign)) {
    if (!(await isQuiet(db, campaign))) return false;
    await setBatchCancelled(db, campaign.instanceId, campaign.eeid);
    await withdrawBatch(db, campaign);
  }
  const { instanceId } = campaign;
  await db.transaction((transaction) => setCancelled(transaction, { instanceId, campaignNumid }));
  return true;
}

function hasBatch(campaign: ChangedCampaign | undefined): campaign is BatchKey {
  return campaign !== undefined && campaign.eeid !== null;
}

/**
 * What is rendered for each recipient of a campaign. It carries an unsubscribe link unless the campaign refuses one:
 * who writes to whole groups has to let people go.
 */
export function campaignTemplate(
  message: Pick<CampaignMessage, "sender" | "senderName">,
  campaign: Pick<Campaign, "replyTo" | "unsubscribe">,
  text: { readonly subject: string; readonly html: string },
): StoredTemplate {
  return {
    ...text,
    from: { name: message.senderName, address: message.sender },
    ...(campaign.replyTo === "" ? {} : { replyTo: { name: "", address: campaign.replyTo } }),
    unsubscribe: campaign.unsubscribe !== false,
  };
}
