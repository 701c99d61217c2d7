import { randomUUID } from "node:crypto";
import type { FilterCondition } from "../../core/mail/filter-condition.ts";
import { type Db, queryRows, type Transaction } from "../../platform/postgres/db.ts";
import { type CampaignSend, type CampaignSendRow, toCampaignSend } from "../../store/mail/campaigns/campaign-sends.ts";
import type { Campaign } from "../../store/mail/campaigns/campaigns.ts";
import { compileCondition } from "../../store/mail/contacts/filter-conditions.ts";
import { continueBatch, withdrawBatch } from "../../store/mail/queue/queue-stops.ts";
import { addMessages, loadMessage, type StoredTemplate } from "../../store/mail/sends/messages.ts";
import { gatherContacts, queueAudiences } from "./audience.ts";

/** A campaign whose time has come, with what its campaign says of every message. */
export interface DueCampaign extends CampaignSend, Pick<Campaign, "subjectUri" | "replyTo" | "unsubscribe"> {
  /** Ends when it is written anew, or somebody else may try. */
  readonly claim: string;
}

/** Longer than everything that is fetched for a start takes: after it, somebody else may try. */
const CLAIM_SECONDS = 60;
/** Contacts of one transaction: little enough to be done in a second, and to be done again after a crash. */
const CONTACTS_PER_PORTION = 5_000;

/** Claims a campaign that is to start now, so that no other node fetches for it; undefined when there is none. */
export async function claimDueCampaign(db: Db): Promise<DueCampaign | undefined> {
  const [row] = await queryRows<
    CampaignSendRow & { subject_uri: string; reply_to: string; unsubscribe: Campaign["unsubscribe"]; claim: string }
  >(
    db,
    `update campaign_sends s set claimed_until = now() + make_interval(secs => ?)
     from campaigns c
     where c.instance_id = s.instance_id and c.numid = s.campaign_numid and s.campaign_numid = (
       select campaign_numid from campaign_sends
       where state = 'scheduled' and paused_at is null and starts_at <= now()
         and (claimed_until is null or claimed_until < now())
       order by starts_at limit 1 for update skip locked)
     returning s.*, c.subject_uri, c.reply_to, c.unsubscribe, s.claimed_until::text as claim`,
    [CLAIM_SECONDS],
  );
  return (
    row && {
      ...toCampaignSend(row),
      subjectUri: row.subject_uri,
      replyTo: row.reply_to,
      unsubscribe: row.unsubscribe,
      claim: row.claim,
    }
  );
}

/** What the start of a campaign has found out. */
export interface CampaignStart {
  readonly template: StoredTemplate;
  /** As A-labels. */
  readonly senderDomain: string;
  /** Who gets it. */
  readonly audience: FilterCondition;
  readonly now: Date;
}

/**
 * Starts a campaign: its batch and message are stored, and its recipients noted as they are at this moment, in one
 * transaction. Queueing them follows, portion by portion (`gatherPortion`).
 * @returns false when it was paused, cancelled, started or written anew in the meantime
 */
export async function beginCampaign(db: Db, send: DueCampaign, start: CampaignStart): Promise<boolean> {
  const { campaignNumid, instanceId, creator, claim } = send;
  return db.transaction(async (transaction) => {
    const [waiting] = await queryRows(
      transaction,
      `select 1 from campaign_sends
       where campaign_numid = ? and state = 'scheduled' and paused_at is null and starts_at <= now()
         and claimed_until = ?::timestamptz for update`,
      [campaignNumid, claim],
    );
    if (waiting === undefined) return false;
    const eeid = randomUUID();
    await transaction("batches").insert({
      eeid,
      instance_id: instanceId,
      campaign_numid: campaignNumid,
      creator,
      gathering: true,
    });
    const [messageId] = await addMessages(transaction, [
      {
        instanceId,
        eeid,
        campaignNumid,
        senderDomain: start.senderDomain,
        archive: false,
        content: { kind: "template", template: start.template, attachments: [] },
      },
    ]);
    const recipients = await takeSnapshot(transaction, send, start);
    await transaction("campaign_sends")
      .where({ campaign_numid: campaignNumid })
      .update({ state: "gathering", eeid, message_id: messageId, recipients, modified_at: transaction.fn.now() });
    return true;
  });
}

async function takeSnapshot(
  transaction: Transaction,
  { campaignNumid, instanceId }: CampaignSend,
  { audience, now }: CampaignStart,
): Promise<number> {
  const { sql, values } = compileCondition(audience, now);
  const [row] = await queryRows<{ recipients: number }>(
    transaction,
    `with noted as (
       insert into campaign_recipients (instance_id, campaign_numid, contact_id)
       select contact.instance_id, ?::bigint, contact.id from contacts as contact where contact.instance_id = ? and ${sql}
       returning 1
     )
     select count(*)::int as recipients from noted`,
    [campaignNumid, instanceId, ...values],
  );
  return row!.recipients;
}

/**
 * Queues the next recipients of a campaign that is being gathered, in one transaction with the note of how far it has
 * come: whoever dies meanwhile, nobody is lost and nobody gets it twice. Different nodes take different campaigns.
 * @returns how many contacts; undefined when no campaign has any left
 */
export async function gatherPortion(db: Db): Promise<number | undefined> {
  return db.transaction(async (transaction) => {
    const [row] = await queryRows<CampaignSendRow & { at: Date }>(
      transaction,
      `select *, now() as at from campaign_sends where state = 'gathering' and paused_at is null
       order by modified_at limit 1 for update skip locked`,
    );
    if (row === undefined) return undefined;
    const contacts = await queryRows<{ id: number }>(
      transaction,
      `select contact_id as id from campaign_recipients where campaign_numid = ? and contact_id > ?
       order by contact_id limit ?`,
      [row.campaign_numid, row.gathered_through, CONTACTS_PER_PORTION],
    );
    await queueContacts(
      transaction,
      row,
      contacts.map(({ id }) => id),
    );
    await noteProgress(transaction, row, contacts);
    return contacts.length;
  });
}

async function queueContacts(
  transaction: Transaction,
  row: CampaignSendRow & { at: Date },
  contactIds: readonly number[],
): Promise<void> {
  if (contactIds.length === 0) return;
  const { content } = await loadMessage(transaction, row.message_id!);
  const source = { instanceId: row.instance_id, campaignNumid: row.campaign_numid, content };
  const audience = await gatherContacts(transaction, source, contactIds);
  const messageId = audience.addressees.length > 0 ? row.message_id! : undefined;
  await queueAudiences(transaction, [{ ...source, eeid: row.eeid!, messageId, audience }], row.at);
}

async function noteProgress(
  transaction: Transaction,
  { campaign_numid, eeid }: CampaignSendRow,
  contacts: readonly { readonly id: number }[],
): Promise<void> {
  const sends = transaction("campaign_sends").where({ campaign_numid });
  if (contacts.length === CONTACTS_PER_PORTION) {
    await sends.update({ gathered_through: contacts.at(-1)!.id, modified_at: transaction.fn.now() });
    return;
  }
  await sends.update({ state: "sending", modified_at: transaction.fn.now() });
  await transaction("batches").where({ eeid }).update({ gathering: false, modified_at: transaction.fn.now() });
  await transaction("campaign_recipients").where({ campaign_numid }).delete();
}

/** A campaign that is under way, and what had happened when a person last let it go on. */
export interface CampaignUnderWay {
  readonly campaignNumid: number;
  readonly eeid: string;
  readonly judged: { readonly tried: number; readonly bounced: number };
}

/** Campaigns that workers are sending, paused ones left out. */
export async function listCampaignsUnderWay(db: Db): Promise<CampaignUnderWay[]> {
  const rows = await queryRows<CampaignSendRow>(
    db,
    "select * from campaign_sends where state in ('gathering', 'sending') and paused_at is null",
  );
  return rows.map((row) => ({
    campaignNumid: row.campaign_numid,
    eeid: row.eeid!,
    judged: { tried: row.judged_tried, bounced: row.judged_bounced },
  }));
}

/** Notes which campaigns have come to their end: the last recipient has a last outcome. */
export async function finishCampaigns(db: Db): Promise<void> {
  await queryRows(
    db,
    `update campaign_sends s set state = 'sent', finished_at = now(), modified_at = now()
     where state = 'sending' and paused_at is null
       and not exists (select from partitions p where p.eeid = s.eeid and p.state <> 'finished')`,
  );
}

/**
 * Lets go on what is still held of campaigns that were resumed: a worker may have put a partition back, or somebody
 * have been changing one, just as they were; or whoever resumed them died half-way.
 */
export async function continueResumed(db: Db): Promise<void> {
  const rows = await queryRows<{ eeid: string }>(
    db,
    // From the side of what is held, which has an index of its own: mostly there is nothing.
    `select eeid from batches
     where eeid in (select eeid from partitions where state = 'held') and held_at is null and cancelled_at is null`,
  );
  for (const { eeid } of rows) await continueBatch(db, eeid);
}

/** Campaigns whose cancellation was asked for and is not complete. */
export async function listCancellations(db: Db): Promise<number[]> {
  return db("campaign_sends").where({ state: "cancelling" }).pluck("campaign_numid");
}

/**
 * Takes back what cancelled campaigns still have in the queue: a worker may have put a partition back just as the
 * cancellation became known. It is looked for until the last one is finished.
 */
export async function withdrawCancelled(db: Db): Promise<void> {
  const sends: { campaign_numid: number; eeid: string | null }[] = await db("campaign_sends")
    .where({ state: "cancelled", withdrawn: false })
    .select("campaign_numid", "eeid");
  for (const { campaign_numid, eeid } of sends) {
    if (eeid !== null) await withdrawBatch(db, eeid);
    await queryRows(
      db,
      `update campaign_sends set withdrawn = true where campaign_numid = ?
         and not exists (select from partitions where partitions.eeid = campaign_sends.eeid and state <> 'finished')`,
      [campaign_numid],
    );
  }
}
