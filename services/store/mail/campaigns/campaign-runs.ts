import type { FilterCondition } from "../../../core/mail/filter-condition.ts";
import type { EachByItself } from "../../../platform/each-by-itself.ts";
import { type Db, queryRows, StatementValues, type Transaction } from "../../../platform/postgres/db.ts";
import { compileCondition } from "../contacts/filter-conditions.ts";
import { onPresent } from "../machines.ts";
import { type BatchKey, continueBatch, withdrawBatch } from "../queue/queue-stops.ts";
import { type CampaignSend, type CampaignSendRow, toCampaignSend } from "./campaign-sends.ts";
import type { Campaign } from "./campaigns.ts";

/** Longer than everything that is fetched for a start takes: after it, somebody else may try. */
const CLAIM_SECONDS = 60;
/** A campaign whose time has come, with what its campaign says of every message. */
export interface DueCampaign extends CampaignSend, Pick<Campaign, "subjectUri" | "replyTo" | "unsubscribe"> {
  /** Ends when it is written anew, or somebody else may try. */
  readonly claim: string;
}

/** Whose turn it is to start a campaign. */
interface StartTurn {
  /** The instance that was served last: those with higher ids come next, in the order of them, and then all others. */
  readonly after: number;
  /** Instances that are not to be served. */
  readonly busy: readonly number[];
}

/**
 * Claims a campaign that is to start now, the first of its instance, so that no other node fetches for it; undefined when there
 * is none.
 */
export async function claimDueCampaign(
  db: Db,
  turn: StartTurn = { after: 0, busy: [] },
): Promise<DueCampaign | undefined> {
  for (const { campaign_numid, instance_id, claim } of await findDueCampaigns(db, turn)) {
    const [row] = await queryRows<
      CampaignSendRow & { subject_uri: string; reply_to: string; unsubscribe: Campaign["unsubscribe"] }
    >(
      db,
      `update campaign_sends s set claimed_until = $1::timestamptz
       from campaigns c
       where s.instance_id = $2 and c.instance_id = $2 and c.numid = $3 and s.campaign_numid = (
         select campaign_numid from campaign_sends
         where instance_id = $2 and campaign_numid = $3 and ${IS_DUE} for update skip locked)
       returning s.*, c.subject_uri, c.reply_to, c.unsubscribe`,
      [claim, instance_id, campaign_numid],
    );
    if (row !== undefined) {
      const { subject_uri: subjectUri, reply_to: replyTo, unsubscribe } = row;
      return { ...toCampaignSend(row), subjectUri, replyTo, unsubscribe, claim };
    }
  }
  return undefined;
}

const IS_DUE = `state = 'scheduled' and paused_at is null and starts_at <= now()
         and (claimed_until is null or claimed_until < now())`;

/** Looked at together: others may take some of them meanwhile. */
const CAMPAIGNS_AT_ONCE = 20;

/** The condition on a campaign that its instance is there and not held. */
const ofWorking = (db: Db) => `${onPresent(db)} and instance_id not in (
  select instance_id from instance_guards where held_at is not null and ${onPresent(db)})`;

/** The first due campaign of each instance, whose turn it is first, and until when one may be claimed. */
function findDueCampaigns(db: Db, { after, busy }: StartTurn): Promise<(CampaignKey & { readonly claim: string })[]> {
  return queryRows(
    db,
    `select campaign_numid, instance_id, (now() + make_interval(secs => $1))::text as claim from (
       select distinct on (instance_id) campaign_numid, instance_id from campaign_sends
       where ${IS_DUE} and ${ofWorking(db)} and instance_id <> all($2::bigint[])
       order by instance_id, starts_at, campaign_numid) as firsts
     order by instance_id <= $3, instance_id limit ${CAMPAIGNS_AT_ONCE}`,
    [CLAIM_SECONDS, busy, after],
  );
}

/** Locks a campaign that was claimed. @returns false when it was paused, cancelled, started or written anew meanwhile */
export async function lockClaimedCampaign(
  transaction: Transaction,
  { instanceId, campaignNumid, claim }: DueCampaign,
): Promise<boolean> {
  const rows = await queryRows(
    transaction,
    `select 1 from campaign_sends
     where instance_id = $3 and campaign_numid = $1 and state = 'scheduled' and paused_at is null and starts_at <= now()
       and claimed_until = $2::timestamptz for update`,
    [campaignNumid, claim, instanceId],
  );
  return rows.length > 0;
}

/** Notes the contacts that a campaign goes to, as they are now. @returns how many */
export async function noteCampaignRecipients(
  transaction: Transaction,
  { campaignNumid, instanceId }: CampaignSend,
  { audience, now }: { readonly audience: FilterCondition; readonly now: Date },
): Promise<number> {
  const values = new StatementValues(campaignNumid, instanceId);
  const [row] = await queryRows<{ recipients: number }>(
    transaction,
    `with noted as (
       insert into campaign_recipients (instance_id, campaign_numid, contact_id)
       select $2::bigint, $1::bigint, contact.id from contacts as contact
        where contact.instance_id = $2 and ${compileCondition(audience, { instance: "$2", now }, values)}
       returning 1
     )
     select count(*)::int as recipients from noted`,
    values.all,
  );
  return row!.recipients;
}

/** Notes that a campaign's recipients stand, and are to be queued. */
export async function beginGathering(
  transaction: Transaction,
  { instanceId, campaignNumid }: CampaignSend,
  { eeid, messageId, recipients }: { readonly eeid: string; readonly messageId: number; readonly recipients: number },
): Promise<void> {
  await transaction("campaign_sends")
    .where({ instance_id: instanceId, campaign_numid: campaignNumid })
    .update({ state: "gathering", eeid, message_id: messageId, recipients, modified_at: transaction.fn.now() });
}

/** A campaign that is being gathered, now, by the database's clock, and whether its instance has a guard. */
export type GatheringCampaign = CampaignSendRow & { readonly at: Date; readonly guarded: boolean };

/**
 * Those that are being gathered, the longest untouched first, but for those that wait for what their instances may send, or are held.
 * @param passedOver numbers of campaigns that are left out
 */
export function findGatheringCampaigns(db: Db, passedOver: readonly number[]): Promise<CampaignKey[]> {
  return queryRows(
    db,
    `select campaign_numid, instance_id from campaign_sends
     where ${IS_GATHERING} and ${ofWorking(db)} and campaign_numid <> all($1::bigint[])
     order by modified_at limit ${CAMPAIGNS_AT_ONCE}`,
    [passedOver],
  );
}

/** Locks one that is being gathered; undefined when somebody else has it, or it is no longer. */
export async function lockGatheringCampaign(
  transaction: Transaction,
  { instance_id, campaign_numid }: CampaignKey,
): Promise<GatheringCampaign | undefined> {
  const [row] = await queryRows<GatheringCampaign>(
    transaction,
    `select *, now() as at, exists (select 1 from instance_guards where instance_id = $1) as guarded
     from campaign_sends where instance_id = $1 and campaign_numid = $2 and ${IS_GATHERING} for update skip locked`,
    [instance_id, campaign_numid],
  );
  return row;
}

const IS_GATHERING = "state = 'gathering' and paused_at is null and (waits_until is null or waits_until <= now())";

/**
 * The next of a campaign's recipients that are not queued yet.
 * @param most contacts, and octets of their custom fields; one there is in any case
 * @returns ids of contacts, ascending, and whether there are no others behind them
 */
export async function listNextRecipients(
  transaction: Transaction,
  { instance_id, campaign_numid, gathered_through }: CampaignSendRow,
  most: { readonly contacts: number; readonly octets: number },
): Promise<{ readonly contactIds: readonly number[]; readonly areLast: boolean }> {
  const contactIds: number[] = [];
  let octets = 0;
  for (let missing = most.contacts; missing > 0; missing = most.contacts - contactIds.length) {
    const limit = Math.min(missing, RECIPIENTS_PER_LOOK);
    const rows = await queryRows<{ id: number; octets: number }>(
      transaction,
      `select recipient.contact_id as id, coalesce(octet_length(contact.fields::text), 0) as octets
       from campaign_recipients as recipient
       left join contacts as contact on contact.instance_id = $4 and contact.id = recipient.contact_id
       where recipient.instance_id = $4 and recipient.campaign_numid = $1 and recipient.contact_id > $2
       order by recipient.contact_id limit $3`,
      [campaign_numid, contactIds.at(-1) ?? gathered_through, limit, instance_id],
    );
    for (const row of rows) {
      octets += row.octets;
      if (octets > most.octets && contactIds.length > 0) return { contactIds, areLast: false };
      contactIds.push(row.id);
    }
    if (rows.length < limit) return { contactIds, areLast: true };
  }
  return { contactIds, areLast: false };
}

/** The database unpacks the custom fields of all of a look. */
const RECIPIENTS_PER_LOOK = 500;

export type CampaignKey = Pick<CampaignSendRow, "instance_id" | "campaign_numid">;

/** Notes that nothing more of a campaign can be queued until then. */
export async function noteWaiting(
  transaction: Transaction,
  { instance_id, campaign_numid }: CampaignKey,
  until: Date,
): Promise<void> {
  await transaction("campaign_sends")
    .where({ instance_id, campaign_numid })
    .update({ waits_until: until, modified_at: transaction.fn.now() });
}

/** Notes up to which contact a campaign's recipients are queued. */
export async function noteGathered(
  transaction: Transaction,
  { instance_id, campaign_numid }: CampaignKey,
  through: number,
): Promise<void> {
  await transaction("campaign_sends")
    .where({ instance_id, campaign_numid })
    .update({ gathered_through: through, waits_until: null, modified_at: transaction.fn.now() });
}

/** Notes that all of a campaign's recipients are queued; who they were is in the deliveries now. */
export async function noteAllGathered(
  transaction: Transaction,
  { instance_id, campaign_numid }: CampaignKey,
): Promise<void> {
  await transaction("campaign_sends")
    .where({ instance_id, campaign_numid })
    .update({ state: "sending", waits_until: null, modified_at: transaction.fn.now() });
  await transaction("campaign_recipients").where({ instance_id, campaign_numid }).delete();
}

/** States in which something is left to do, starts aside; `cancelled` until all is withdrawn. */
type OpenState = "gathering" | "sending" | "cancelling" | "cancelled";

/** The states of those campaigns that have something left to do: one look for all steps, as mostly there is nothing. */
export async function listOpenStates(db: Db): Promise<ReadonlySet<OpenState>> {
  const rows = await queryRows<{ state: OpenState }>(
    db,
    `select distinct state from campaign_sends
     where (state in ('gathering', 'sending', 'cancelling') or state = 'cancelled' and not withdrawn) and ${onPresent(db)}`,
  );
  return new Set(rows.map(({ state }) => state));
}

/** A campaign that is under way, and what had happened when a person last let it go on. */
export interface CampaignUnderWay {
  readonly instanceId: number;
  readonly campaignNumid: number;
  readonly eeid: string;
  readonly judged: { readonly tried: number; readonly bounced: number };
}

/** Campaigns that workers are sending, paused ones left out. */
export async function listCampaignsUnderWay(db: Db): Promise<CampaignUnderWay[]> {
  const rows = await queryRows<CampaignSendRow>(
    db,
    `select * from campaign_sends where state in ('gathering', 'sending') and paused_at is null and ${onPresent(db)}`,
  );
  return rows.map((row) => ({
    instanceId: row.instance_id,
    campaignNumid: row.campaign_numid,
    eeid: row.eeid!,
    judged: { tried: row.judged_tried, bounced: row.judged_bounced },
  }));
}

/** Notes which campaigns have come to their end: the last recipient has a last outcome. */
export async function finishCampaigns(db: Db, each: EachByItself<number>): Promise<void> {
  const sends = await queryRows<CampaignKey>(
    db,
    `select instance_id, campaign_numid from campaign_sends s where ${IS_THROUGH} and ${onPresent(db, "s.instance_id")}`,
  );
  for (const { instance_id, campaign_numid } of sends) {
    await each.attempt(campaign_numid, () =>
      queryRows(
        db,
        `update campaign_sends s set state = 'sent', finished_at = now(), modified_at = now()
         where instance_id = $1 and campaign_numid = $2 and ${IS_THROUGH}`,
        [instance_id, campaign_numid],
      ),
    );
  }
}

const UNFINISHED = `select 1 from partitions p
  where p.instance_id = s.instance_id and p.eeid = s.eeid and p.state <> 'finished'`;
const IS_THROUGH = `s.state = 'sending' and s.paused_at is null and not exists (${UNFINISHED})`;

/**
 * Sees to what is held of batches that are held no longer: it goes on, or is taken back where the batch is cancelled. A
 * worker may have put a partition back, or somebody have been changing one, just as the hold ended; or whoever ended it died
 * half-way.
 * @param each by the batch's `eeid`
 */
export async function settleHeld(db: Db, each: EachByItself<string>): Promise<void> {
  const rows = await queryRows<BatchKey & { readonly isCancelled: boolean }>(
    db,
    // From the side of what is held, which has an index of its own: mostly there is nothing.
    `select instance_id as "instanceId", eeid, cancelled_at is not null as "isCancelled" from batches
     where (instance_id, eeid) in (select instance_id, eeid from partitions where state = 'held' and ${onPresent(db)})
       and (held_at is null or cancelled_at is not null) and ${onPresent(db)}`,
  );
  for (const { isCancelled, ...batch } of rows)
    await each.attempt(batch.eeid, () => (isCancelled ? withdrawBatch : continueBatch)(db, batch));
}

/** Campaigns whose cancellation was asked for and is not complete. */
export async function listCancellations(db: Db): Promise<number[]> {
  return db("campaign_sends").where({ state: "cancelling" }).whereRaw(onPresent(db)).pluck("campaign_numid");
}

/**
 * Takes back what cancelled campaigns still have in the queue: a worker may have put a partition back just as the
 * cancellation became known. It is looked for until the last one is finished.
 */
export async function withdrawCancelled(db: Db, each: EachByItself<number>): Promise<void> {
  const sends: (CampaignKey & { eeid: string | null })[] = await db("campaign_sends")
    .where({ state: "cancelled", withdrawn: false })
    .whereRaw(onPresent(db))
    .select("instance_id", "campaign_numid", "eeid");
  for (const { instance_id, campaign_numid, eeid } of sends) {
    await each.attempt(campaign_numid, async () => {
      if (eeid !== null) await withdrawBatch(db, { instanceId: instance_id, eeid });
      await queryRows(
        db,
        `update campaign_sends s set withdrawn = true
         where instance_id = $1 and campaign_numid = $2 and not exists (${UNFINISHED})`,
        [instance_id, campaign_numid],
      );
    });
  }
}
