import { type Db, queryRows } from "../../../platform/postgres/db.ts";

/** How messages submitted under a campaign are treated. */
export interface SubmissionSettings {
  /** The exact octets that each recipient gets are kept. */
  readonly archive: boolean;
  /** Opens and clicks of HTML parts are counted. */
  readonly tracking: boolean;
}

/** How they are reported on: an instance decides it for all of its campaigns. */
export interface SubmissionReporting {
  /** Failures are reported to programs that do not ask for it as well. */
  readonly failureReports: boolean;
}

/** What submission asks of a campaign. */
export interface SubmissionRules extends SubmissionSettings, SubmissionReporting {
  /** Domains that its instance may send from, as A-labels. */
  readonly senderDomains: readonly string[];
}

/** A campaign as a program has logged in to it: its key is compared by its HMAC. */
interface CampaignLogin {
  readonly campaign: { readonly instanceId: number; readonly numid: number };
  readonly apikeyHash: Buffer;
}

/**
 * Nothing is archived for an instance that has lost its licence since.
 * @returns undefined where the login holds no longer: the campaign has another key, or is gone
 */
export async function readSubmissionRules(
  db: Db,
  { campaign, apikeyHash }: CampaignLogin,
): Promise<SubmissionRules | undefined> {
  const [row] = await queryRows<SubmissionRules>(
    db,
    `select submission_archive and instances.archive as archive, submission_tracking as tracking,
       instances.failure_reports as "failureReports",
       array(select domain from instance_domains where instance_id = $3) as "senderDomains"
     from campaigns join instances on instances.id = campaigns.instance_id
     where campaigns.instance_id = $3 and numid = $1 and apikey_hash = $2`,
    [campaign.numid, apikeyHash, campaign.instanceId],
    { name: "read-submission-rules" },
  );
  return row;
}

export async function setSubmissionSettings(
  db: Db,
  campaign: { readonly instanceId: number; readonly numid: number },
  { archive, tracking }: SubmissionSettings,
): Promise<void> {
  await db("campaigns")
    .where({ instance_id: campaign.instanceId, numid: campaign.numid })
    .update({ submission_archive: archive, submission_tracking: tracking });
}
