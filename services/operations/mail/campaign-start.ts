import { randomUUID } from "node:crypto";
import { validateAddress } from "../../core/mail/address.ts";
import { senderKey } from "../../core/mail/guard/sending-limits.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import type { Sentence } from "../../core/sentences.ts";
import type { EachByItself } from "../../platform/each-by-itself.ts";
import type { Db, Transaction } from "../../platform/postgres/db.ts";
import {
  beginGathering,
  type CampaignKey,
  type DueCampaign,
  findGatheringCampaigns,
  type GatheringCampaign,
  listNextRecipients,
  lockClaimedCampaign,
  lockGatheringCampaign,
  noteAllGathered,
  noteCampaignRecipients,
  noteGathered,
  noteWaiting,
} from "../../store/mail/campaigns/campaign-runs.ts";
import { setPaused } from "../../store/mail/campaigns/campaign-sends.ts";
import { addGatheringBatch, endGathering } from "../../store/mail/sends/batches.ts";
import { addMessages, loadMessage, type StoredTemplate } from "../../store/mail/sends/messages.ts";
import { inTransaction } from "../../store/transactions.ts";
import { gatherContacts, queueAudiences } from "./audience.ts";
import { judgeSelections, type Selection } from "./judge-selection.ts";
import { type Admission, guardsEverybody, type QueueCharged, SendingGate } from "./sending-gate.ts";

/** Contacts of one transaction: little enough to be done in a second, and to be done again after a crash. */
const CONTACTS_PER_PORTION = 5_000;
/** Of their custom fields: what a portion becomes in memory is some times as much. */
const OCTETS_PER_PORTION = 16 * 2 ** 20;

/** What the start of a campaign has found out. */
export interface CampaignStart {
  readonly template: StoredTemplate;
  /** As A-labels. */
  readonly senderDomain: string;
  /** Who gets it: whoever any of these selects. */
  readonly audience: readonly Selection[];
  readonly now: Date;
}

/**
 * Starts a campaign: its batch and message are stored, and its recipients noted as they are at this moment, in one
 * transaction. Queueing them follows, portion by portion (`gatherPortion`).
 * @returns false when it was paused, cancelled, started or written anew in the meantime; refused where a group of its
 *   audience is gone: who was kept out by it would get it
 */
export async function beginCampaign(
  db: Db,
  send: DueCampaign,
  start: CampaignStart,
): Promise<Result<boolean, Sentence>> {
  const { campaignNumid, instanceId, creator } = send;
  return db.transaction(async (transaction) => {
    if (!(await lockClaimedCampaign(transaction, send))) return ok(false);
    const gone = await judgeSelections(transaction, instanceId, start.audience, { keep: true });
    if (gone !== undefined) return refuse(gone);
    const eeid = randomUUID();
    await addGatheringBatch(transaction, { eeid, instanceId, campaignNumid, creator });
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
    const audience = { any: start.audience.map(({ condition }) => condition) };
    const recipients = await noteCampaignRecipients(transaction, send, { audience, now: start.now });
    await beginGathering(transaction, send, { eeid, messageId: messageId!, recipients });
    return ok(true);
  });
}

/**
 * Pauses a campaign that cannot be started: a person has to look at it.
 * @returns false when it was paused, cancelled, started or written anew in the meantime
 */
export function pauseUnstarted(db: Db, send: DueCampaign, reason: Sentence): Promise<boolean> {
  return db.transaction(async (transaction) => {
    if (!(await lockClaimedCampaign(transaction, send))) return false;
    return (await setPaused(transaction, send.campaignNumid, reason)) !== undefined;
  });
}

/**
 * Queues the next recipients of a campaign that is being gathered, in one transaction with the note of how far it has
 * come: whoever dies meanwhile, nobody is lost and nobody gets it twice. Different nodes take different campaigns. What an
 * instance may send bounds the portion; a campaign waits where there is no room. One that fails is tried again from where it
 * is, after others.
 * @param each by the campaign's number
 * @returns how many contacts; undefined when no campaign has any left
 */
export async function gatherPortion(db: Db, each: EachByItself<number>): Promise<number | undefined> {
  for (const key of await findGatheringCampaigns(db, each.resting)) {
    const count = await each.attempt(key.campaign_numid, () => gatherPortionOf(db, key));
    if (count !== undefined) return count;
  }
  return undefined;
}

/** @returns undefined when another node has the campaign, or it is not being gathered any more */
function gatherPortionOf(db: Db, key: CampaignKey): Promise<number | undefined> {
  return inTransaction(db, async (transaction) => {
    const row = await lockGatheringCampaign(transaction, key);
    if (row === undefined) return undefined;
    const allowance = await findAllowance(transaction, row);
    const most = Math.min(CONTACTS_PER_PORTION, allowance?.room ?? Number.POSITIVE_INFINITY);
    const portion = { contacts: Math.max(1, most), octets: OCTETS_PER_PORTION };
    const { contactIds, areLast } = await listNextRecipients(transaction, row, portion);
    if (most === 0 && contactIds.length > 0) {
      await noteWaiting(transaction, row, allowance!.goesOnAt);
      return 0;
    }
    await queueContacts(transaction, { row, contactIds }, allowance);
    if (areLast) {
      await endGathering(transaction, row.instance_id, row.eeid!);
      await noteAllGathered(transaction, row);
    } else await noteGathered(transaction, row, contactIds.at(-1)!);
    return contactIds.length;
  });
}

async function queueContacts(
  transaction: Transaction,
  { row, contactIds }: { readonly row: GatheringCampaign; readonly contactIds: readonly number[] },
  allowance: Allowance | undefined,
): Promise<void> {
  if (contactIds.length === 0) return;
  const { content } = await loadMessage(transaction, { id: row.message_id!, instanceId: row.instance_id });
  const source = { instanceId: row.instance_id, campaignNumid: row.campaign_numid, content };
  const audience = await gatherContacts(transaction, source, contactIds);
  const messageId = audience.addressees.length > 0 ? row.message_id! : undefined;
  const queue: QueueCharged = (charges) =>
    queueAudiences(transaction, [{ ...source, eeid: row.eeid!, messageId, audience }], row.at, charges);
  if (allowance) await allowance.charge(audience.addressees.length, queue);
  else await queue([]);
}

/** What an instance may send in the present hour. */
interface Allowance {
  readonly room: number;
  /** When there is room again. */
  readonly goesOnAt: Date;
  /** Queues recipients, and counts them. @throws Overtaken when others took the room meanwhile */
  charge(recipients: number, queue: QueueCharged): Promise<void>;
}

/** @returns undefined where there are no bounds */
async function findAllowance(transaction: Transaction, row: GatheringCampaign): Promise<Allowance | undefined> {
  if (!row.guarded && !guardsEverybody) return undefined;
  const sender = validateAddress(row.sender, { allowSmtputf8: false });
  if (!sender.ok) throw new Error(`campaign ${row.campaign_numid} was started with a sender that is no address`);
  const source = { instanceId: row.instance_id, campaignNumid: row.campaign_numid, sender: senderKey(sender.value) };
  const gate = await SendingGate.read(transaction, source, row.at);
  return {
    ...gate.roomFor(source),
    charge: (recipients, queue) => {
      const admission: Admission = {
        instanceId: row.instance_id,
        rules: gate.rulesOf(source),
        bookings: [{ at: null, count: recipients }],
      };
      return gate.charge([admission], queue);
    },
  };
}
