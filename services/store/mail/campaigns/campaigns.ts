import { randomUUID } from "node:crypto";
import { hashApiKey, makeApiKey } from "../../../core/api-key.ts";
import type { KeyRing } from "../../../core/key-ring.ts";
import { open, seal } from "../../../core/secret-box.ts";
import { type Db, queryRows } from "../../../platform/postgres/db.ts";
import { onPresent, refuseAway } from "../machines.ts";

type CampaignType = "api" | "normal" | "bulk";

/**
 * Everything about a campaign but its key. Unset texts are empty. It never changes, but for the sender, subject and URL of
 * type `normal`, which are those of its message (`saveCampaignMessage`).
 */
export interface Campaign {
  readonly numid: number;
  readonly id: string;
  readonly instanceId: number;
  readonly type: CampaignType;
  readonly name: string;
  readonly sender: string;
  readonly senderName: string;
  readonly subject: string;
  /** Where a dynamic subject is fetched from (`subject` is then core/mail/personalise `DYNAMIC_SUBJECT`). */
  readonly subjectUri: string;
  readonly replyTo: string;
  /** Default HTML of its messages. */
  readonly url: string;
  readonly charset: string;
  /** Whether its messages carry an unsubscribe link; null where its owner has not said. */
  readonly unsubscribe: boolean | null;
}

export type NewCampaign = Omit<Campaign, "numid" | "id">;

export interface AddedCampaign {
  readonly id: string;
  readonly numid: number;
  /** Only of type `api`. */
  readonly apikey?: string;
}

const APIKEY_PURPOSE = "campaign-apikey";

/** Of an instance: each contact may have had mail of all of them, and may have unsubscribed from all of them. */
export const MOST_CAMPAIGNS = 50_000;

/** Whether an instance may have one more; of calls at the same moment each may see the same room. */
export async function hasRoomForCampaign(db: Db, instanceId: number): Promise<boolean> {
  const [row] = await queryRows<{ has_room: boolean }>(
    db,
    `select count(*) < $2 as has_room from (select 1 from campaigns where instance_id = $1 limit $2) as present`,
    [instanceId, MOST_CAMPAIGNS],
  );
  return row!.has_room;
}

/** @param secret PALOMAR_SECRET: the key of an `api` campaign is made here and kept sealed */
export async function addCampaign(db: Db, keyRing: KeyRing, campaign: NewCampaign): Promise<AddedCampaign> {
  const apikey = campaign.type === "api" ? makeApiKey() : undefined;
  const id = randomUUID();
  const [row] = await db("campaigns").insert(
    {
      id,
      instance_id: campaign.instanceId,
      type: campaign.type,
      name: campaign.name,
      sender: campaign.sender,
      sender_name: campaign.senderName,
      subject: campaign.subject,
      subject_uri: campaign.subjectUri,
      reply_to: campaign.replyTo,
      url: campaign.url,
      charset: campaign.charset,
      unsubscribe: campaign.unsubscribe,
      ...(apikey === undefined ? {} : apikeyColumns(keyRing, apikey)),
    },
    ["numid"],
  );
  return { id, numid: row.numid, apikey };
}

export async function findCampaign(db: Db, instanceId: number, numid: number): Promise<Campaign | undefined> {
  const row = await db("campaigns").where({ instance_id: instanceId, numid }).first();
  return row && toCampaign(row);
}

/** Whether all of these are campaigns of an instance. */
export async function areCampaignsOf(db: Db, instanceId: number, numids: readonly number[]): Promise<boolean> {
  return (await findForeignCampaign(db, instanceId, numids)) === undefined;
}

/** The first of these that is no campaign of the instance; undefined when all are. */
export async function findForeignCampaign(
  db: Db,
  instanceId: number,
  numids: readonly number[],
): Promise<number | undefined> {
  const own = await db("campaigns").where({ instance_id: instanceId }).whereIn("numid", numids).pluck("numid");
  const known = new Set<number>(own);
  return numids.find((numid) => !known.has(numid));
}

/** Whose campaign it is. */
export async function findInstanceOfCampaign(db: Db, numid: number): Promise<number | undefined> {
  return (await db("campaigns").where({ numid }).first("instance_id"))?.instance_id;
}

const CAMPAIGNS_PER_READ = 100;

/** An instance's campaigns, oldest first; portion by portion, so that their number does not matter. */
export async function* streamCampaigns(
  db: Db,
  instanceId: number,
  only: { readonly type?: CampaignType | undefined; readonly numid?: number | undefined },
): AsyncGenerator<readonly Campaign[]> {
  for (let after = 0; ; ) {
    const query = db("campaigns").where({ instance_id: instanceId }).where("numid", ">", after);
    if (only.type !== undefined) query.where({ type: only.type });
    if (only.numid !== undefined) query.where({ numid: only.numid });
    const rows: CampaignRow[] = await query.orderBy("numid").limit(CAMPAIGNS_PER_READ);
    yield rows.map(toCampaign);
    const last = rows.at(-1);
    if (last === undefined || rows.length < CAMPAIGNS_PER_READ) return;
    after = last.numid;
  }
}

/** A page of an instance's campaigns, newest first. @param before only those older than this numid */
export async function pageCampaigns(
  db: Db,
  instanceId: number,
  page: { readonly search: string; readonly before?: number | undefined; readonly limit: number },
): Promise<Campaign[]> {
  const rows = await queryRows<CampaignRow>(
    db,
    `select * from campaigns where instance_id = $1 and ($2::bigint is null or numid < $3)
       and strpos(lower(name), lower($4)) > 0 order by numid desc limit $5`,
    [instanceId, page.before ?? null, page.before ?? null, page.search, page.limit],
  );
  return rows.map(toCampaign);
}

/** The key of an `api` campaign; undefined when the instance has no such campaign, null when it is of another type. */
export async function readCampaignApikey(
  db: Db,
  keyRing: KeyRing,
  instanceId: number,
  numid: number,
): Promise<string | null | undefined> {
  const row = await db("campaigns").where({ instance_id: instanceId, numid }).first("apikey_sealed");
  if (row === undefined || row.apikey_sealed === null) return row && null;
  const opened = open(keyRing, APIKEY_PURPOSE, row.apikey_sealed);
  if (!opened.ok) throw new Error(`the key of campaign ${numid} was sealed under another keyRing`);
  return opened.value.toString("utf8");
}

/** Replaces the key of an `api` campaign: from then on SMTP accepts this one only. Campaigns of other types get none. */
export async function setCampaignApikey(
  db: Db,
  keyRing: KeyRing,
  campaign: Pick<Campaign, "instanceId" | "numid">,
  apikey: string,
): Promise<void> {
  await db("campaigns")
    .where({ instance_id: campaign.instanceId, numid: campaign.numid, type: "api" })
    .update(apikeyColumns(keyRing, apikey));
}

/**
 * The campaign that an SMTP login `<instance>-<numid>` with this key may send under. The key is compared by its
 * HMAC, so the time taken tells nothing of it.
 * @throws MachineAway where the machine that has the instance does not answer
 */
export async function authenticateCampaign(
  db: Db,
  instanceName: string,
  numid: number,
  apikeyHash: Buffer,
): Promise<Campaign | undefined> {
  // Of a name that is nobody's another instance's campaigns are looked at: that takes as long.
  const [instance] = await queryRows<{ id: number; is_named: boolean }>(
    db,
    `(select id, true as is_named from instances where name = $1)
     union all (select id, false from instances where ${onPresent(db, "id")} limit 1) limit 1`,
    [instanceName],
  );
  if (instance === undefined) return undefined;
  refuseAway(db, [instance.id]);
  const [row] = await queryRows<CampaignRow>(
    db,
    "select * from campaigns where instance_id = $1 and numid = $2 and type = 'api' and apikey_hash = $3 and $4",
    [instance.id, numid, apikeyHash, instance.is_named],
  );
  return row && toCampaign(row);
}

function apikeyColumns(keyRing: KeyRing, apikey: string) {
  return { apikey_sealed: seal(keyRing, APIKEY_PURPOSE, apikey), apikey_hash: hashApiKey(keyRing, "campaign", apikey) };
}

interface CampaignRow {
  numid: number;
  id: string;
  instance_id: number;
  type: CampaignType;
  name: string;
  sender: string;
  sender_name: string;
  subject: string;
  subject_uri: string;
  reply_to: string;
  url: string;
  charset: string;
  unsubscribe: boolean | null;
}

function toCampaign(row: CampaignRow): Campaign {
  return {
    numid: row.numid,
    id: row.id,
    instanceId: row.instance_id,
    type: row.type,
    name: row.name,
    sender: row.sender,
    senderName: row.sender_name,
    subject: row.subject,
    subjectUri: row.subject_uri,
    replyTo: row.reply_to,
    url: row.url,
    charset: row.charset,
    unsubscribe: row.unsubscribe,
  };
}
