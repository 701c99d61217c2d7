import type { Sentence } from "../../../core/sentences.ts";
import { type Db, queryRows, type Transaction } from "../../../platform/postgres/db.ts";
import { foundOnPresent, onPresent } from "../machines.ts";

/**
 * `draft` until it is started; `scheduled` until its time; `gathering` while the recipients of its snapshot are being
 * queued; `sending` until the last partition is finished: `sent`. `cancelling` until no worker begins a further message
 * of it: `cancelled`. Any of the first four may be paused besides.
 */
type CampaignSendState = "draft" | "scheduled" | "gathering" | "sending" | "sent" | "cancelling" | "cancelled";

/** Whether a campaign may still be written and started. */
export function isBeforeStart({ state }: { readonly state: CampaignSendState }): boolean {
  return state === "draft" || state === "scheduled";
}

/** What a campaign of type `normal` sends, and to whom. */
export interface CampaignMessage {
  readonly sender: string;
  readonly senderName: string;
  readonly subject: string;
  /** The message itself, or where it is fetched from at the start. */
  readonly body: { readonly html: string } | { readonly url: string };
  /** Names of groups, and ids of filters: who is in any of them gets the message, once. */
  readonly groups: readonly string[];
  readonly filters: readonly number[];
}

/** The one send of a campaign of type `normal`, without its page, which may have megabytes. */
export interface CampaignSendSummary extends Omit<CampaignMessage, "body"> {
  /** Where the page is fetched from; null where it is held. */
  readonly url: string | null;
  readonly campaignNumid: number;
  readonly instanceId: number;
  readonly state: CampaignSendState;
  readonly creator: string;
  readonly startsAt: Date | null;
  readonly paused: { readonly at: Date; readonly reason: Sentence } | null;
  /** Its batch, once it was started. */
  readonly eeid: string | null;
  /** How many contacts the snapshot holds that was taken at the start, invalid and unsubscribed ones included. */
  readonly recipients: number | null;
  readonly finishedAt: Date | null;
  /** When it was last written, or changed its state. */
  readonly modifiedAt: Date;
}

/** With what is sent. */
export interface CampaignSend extends CampaignSendSummary, CampaignMessage {}

export async function findCampaignSend(
  db: Db,
  instanceId: number,
  campaignNumid: number,
): Promise<CampaignSend | undefined> {
  const [row] = await queryRows<CampaignSendRow>(
    db,
    "select * from campaign_sends where instance_id = $1 and campaign_numid = $2",
    [instanceId, campaignNumid],
  );
  return row && toCampaignSend(row);
}

/** The sends of some campaigns, by their numid; campaigns without one are absent. */
export async function listCampaignSends(
  db: Db,
  instanceId: number,
  campaignNumids: readonly number[],
): Promise<ReadonlyMap<number, CampaignSendSummary>> {
  const rows = await queryRows<SummaryRow>(
    db,
    `select ${SUMMARY_COLUMNS} from campaign_sends where instance_id = $1 and campaign_numid = any($2)`,
    [instanceId, campaignNumids],
  );
  return new Map(rows.map((row) => [row.campaign_numid, toSummary(row)]));
}

/**
 * Writes what a campaign sends: anew, or over what it was while it has not been started. Its sender and subject, and its
 * URL where it has one, are the campaign's from then on. A start that is being prepared is prepared again.
 * @param by.asOf what its `modifiedAt`, to the millisecond, is to be still; null: nothing is written yet; absent: whatever
 *   there is
 * @returns false when it was started already, or changed meanwhile
 */
export async function saveCampaignMessage(
  db: Db,
  campaign: { readonly instanceId: number; readonly numid: number },
  message: CampaignMessage,
  by: { readonly login: string; readonly asOf?: Date | null | undefined },
): Promise<boolean> {
  const rows = await queryRows(
    db,
    `with saved as (
       insert into campaign_sends as s
         (campaign_numid, instance_id, sender, sender_name, subject, html, url, groups, filters, creator)
       values ($1, $2, $3, $4, $5, $6, $7, $8::text[], $9::bigint[], $10)
       on conflict (campaign_numid, instance_id) do update
       set sender = excluded.sender, sender_name = excluded.sender_name, subject = excluded.subject, html = excluded.html,
         url = excluded.url, groups = excluded.groups, filters = excluded.filters, claimed_until = null,
         modified_at = excluded.modified_at
       where s.eeid is null and s.state in ('draft', 'scheduled') and not $12::boolean and ${isAsOf("s.modified_at", "$11")}
       returning s.campaign_numid, s.instance_id, s.sender, s.sender_name, s.subject, s.url
     )
     update campaigns c
     set sender = saved.sender, sender_name = saved.sender_name, subject = saved.subject, url = coalesce(saved.url, c.url)
     from saved where c.instance_id = $2 and c.instance_id = saved.instance_id and c.numid = saved.campaign_numid
     returning 1`,
    [
      campaign.numid,
      campaign.instanceId,
      message.sender,
      message.senderName,
      message.subject,
      "html" in message.body ? message.body.html : null,
      "url" in message.body ? message.body.url : null,
      message.groups,
      message.filters,
      by.login,
      by.asOf ?? null,
      by.asOf === null,
    ],
  );
  return rows.length > 0;
}

/** Whether a moment is one that somebody saw to the millisecond, or has seen none; of what Citus takes in ON CONFLICT. */
function isAsOf(moment: string, seen: string): string {
  return `(${seen}::timestamptz is null or ${moment} >= ${seen} and ${moment} - ${seen}::timestamptz < interval '1 millisecond')`;
}

/**
 * Has a campaign start at a moment, or at once; a scheduled one gets the new moment.
 * @param start.asOf what its `modifiedAt`, to the millisecond, is to be still; absent: whatever it is
 * @returns false when it was started already, or changed meanwhile
 */
export async function scheduleCampaign(
  db: Db,
  campaign: { readonly instanceId: number; readonly numid: number },
  start: { readonly at: Date | null; readonly login: string; readonly asOf?: Date | undefined },
): Promise<boolean> {
  const rows = await queryRows(
    db,
    `update campaign_sends set state = 'scheduled', starts_at = coalesce($1::timestamptz, clock.at), creator = $2,
       paused_at = null, pause_reason = null, claimed_until = null, modified_at = clock.at
     from (select now() as at) as clock
     where instance_id = $4 and campaign_numid = $3 and eeid is null and state in ('draft', 'scheduled')
       and ${isAsOf("modified_at", "$5")}
     returning 1`,
    [start.at, start.login, campaign.numid, campaign.instanceId, start.asOf ?? null],
  );
  return rows.length > 0;
}

/** A campaign whose state was changed; `eeid` is its batch's, null before its start. */
export interface ChangedCampaign {
  readonly instanceId: number;
  readonly eeid: string | null;
}

/** @returns undefined when there is nothing to pause */
export async function setPaused(
  transaction: Transaction,
  campaignNumid: number,
  reason: Sentence,
): Promise<ChangedCampaign | undefined> {
  const [row] = await queryRows<ChangedCampaign>(
    transaction,
    `update campaign_sends set paused_at = now(), pause_reason = $1::jsonb, modified_at = now()
     where campaign_numid = $2 and paused_at is null and state in ('scheduled', 'gathering', 'sending') and ${onPresent(transaction)}
     returning instance_id as "instanceId", eeid`,
    [JSON.stringify(reason), campaignNumid],
  );
  return foundOnPresent(transaction, row);
}

/** @param judged what its bounces are judged without from here on @returns undefined when it is not paused */
export async function endPause(
  transaction: Transaction,
  campaignNumid: number,
  judged: { readonly tried: number; readonly bounced: number },
): Promise<ChangedCampaign | undefined> {
  const [row] = await queryRows<ChangedCampaign>(
    transaction,
    `update campaign_sends set paused_at = null, pause_reason = null, claimed_until = null, judged_tried = $1,
       judged_bounced = $2, modified_at = now()
     where campaign_numid = $3 and paused_at is not null and state in ('scheduled', 'gathering', 'sending') and ${onPresent(transaction)}
     returning instance_id as "instanceId", eeid`,
    [judged.tried, judged.bounced, campaignNumid],
  );
  return foundOnPresent(transaction, row);
}

/** @returns undefined when it is over already, or was never written */
export async function setCancelling(
  transaction: Transaction,
  campaignNumid: number,
): Promise<ChangedCampaign | undefined> {
  const [row] = await queryRows<ChangedCampaign>(
    transaction,
    `update campaign_sends set state = 'cancelling', modified_at = now()
     where campaign_numid = $1 and state in ('draft', 'scheduled', 'gathering', 'sending') and ${onPresent(transaction)}
     returning instance_id as "instanceId", eeid`,
    [campaignNumid],
  );
  return foundOnPresent(transaction, row);
}

/** @returns undefined when it is not being cancelled */
export async function findCancelling(db: Db, campaignNumid: number): Promise<ChangedCampaign | undefined> {
  const found = await db("campaign_sends")
    .where({ campaign_numid: campaignNumid, state: "cancelling" })
    .whereRaw(onPresent(db))
    .first({ instanceId: "instance_id" }, "eeid");
  return foundOnPresent(db, found);
}

/** The last step of a cancellation: what the start had noted of its recipients goes. */
export async function setCancelled(
  transaction: Transaction,
  { instanceId, campaignNumid }: { readonly instanceId: number; readonly campaignNumid: number },
): Promise<void> {
  await queryRows(
    transaction,
    `update campaign_sends set state = 'cancelled', paused_at = null, pause_reason = null, finished_at = now(),
       modified_at = now() where instance_id = $1 and campaign_numid = $2 and state = 'cancelling'`,
    [instanceId, campaignNumid],
  );
  await transaction("campaign_recipients").where({ instance_id: instanceId, campaign_numid: campaignNumid }).delete();
}

export interface CampaignSendRow {
  campaign_numid: number;
  instance_id: number;
  sender: string;
  sender_name: string;
  subject: string;
  html: string | null;
  url: string | null;
  groups: string[];
  /** bigint[] travels as texts. */
  filters: string[];
  state: CampaignSendState;
  creator: string;
  starts_at: Date | null;
  paused_at: Date | null;
  pause_reason: Sentence | null;
  eeid: string | null;
  message_id: number | null;
  recipients: number | null;
  gathered_through: number;
  judged_tried: number;
  judged_bounced: number;
  finished_at: Date | null;
  modified_at: Date;
}

const SUMMARY_COLUMNS = `campaign_numid, instance_id, sender, sender_name, subject, url, groups, filters, state, creator,
  starts_at, paused_at, pause_reason, eeid, recipients, finished_at, modified_at`;

export function toCampaignSend(row: CampaignSendRow): CampaignSend {
  return { ...toSummary(row), body: row.html === null ? { url: row.url! } : { html: row.html } };
}

/** A row of `SUMMARY_COLUMNS`. */
type SummaryRow = Omit<CampaignSendRow, "html" | "message_id" | "gathered_through" | "judged_tried" | "judged_bounced">;

function toSummary(row: SummaryRow): CampaignSendSummary {
  return {
    campaignNumid: row.campaign_numid,
    instanceId: row.instance_id,
    sender: row.sender,
    senderName: row.sender_name,
    subject: row.subject,
    url: row.url,
    groups: row.groups,
    filters: row.filters.map(Number),
    state: row.state,
    creator: row.creator,
    startsAt: row.starts_at,
    paused: row.paused_at && { at: row.paused_at, reason: row.pause_reason! },
    eeid: row.eeid,
    recipients: row.recipients,
    finishedAt: row.finished_at,
    modifiedAt: row.modified_at,
  };
}
