import { type EmailAddress, validateAddress } from "../core/mail/address.ts";
import type { ContentVerdict } from "../core/mail/guard/content.ts";
import type { SendOutcome } from "../operations/mail/accept-sends.ts";
import type { SendQueue } from "../operations/mail/send-queue.ts";
import { SUBMITTED } from "../operations/mail/sending-gate.ts";
import type { SmtpSession } from "../platform/smtp/handlers.ts";
import { runInTurns } from "../platform/turns.ts";
import type { Campaign } from "../store/mail/campaigns/campaigns.ts";
import type { SubmissionReporting, SubmissionSettings } from "../store/mail/instances/submission-settings.ts";
import type { ReportRequest } from "../store/mail/sends/messages.ts";
import type { FinishedMessage } from "./finish-message.ts";
import { trackMessage } from "./track-message.ts";

/** Where it is from and for whom; the recipients passed RCPT. */
type SubmittedEnvelope = Pick<SmtpSession<unknown>, "mailFrom" | "rcptTo" | "smtpUtf8" | "dsn" | "recipientDsn">;

/**
 * Stores a submitted message as a batch of its own; durable when it returns, so that 250 may be said.
 * Invalid contacts are left out with a `not-sent` event, and the session is not told which. Archive, tracking and
 * unsubscription are as the campaign has them.
 * @returns the batch, or why the instance may not send it
 */
export async function acceptMessage(
  sends: SendQueue,
  { campaign, settings }: { readonly campaign: Campaign; readonly settings: SubmissionSettings & SubmissionReporting },
  message: FinishedMessage & SubmittedEnvelope & { readonly verdict?: ContentVerdict | undefined },
): Promise<SendOutcome> {
  const unsubscribe = campaign.unsubscribe === true;
  const tracked = await runInTurns(trackMessage(message.octets, { tracking: settings.tracking, unsubscribe }));
  return sends.accept({
    instanceId: campaign.instanceId,
    campaignNumid: campaign.numid,
    creator: SUBMITTED,
    content: { kind: "finished", octets: message.octets, ...tracked, unsubscribe },
    senderDomain: message.senderDomain,
    sender: message.sender,
    otherSenders: message.otherSenders,
    recipients: message.rcptTo.map((recipient) => ({
      address: addressOf(recipient),
      dsn: message.recipientDsn?.get(recipient),
    })),
    copies: [],
    archive: settings.archive,
    dsn: reportRequestOf(message, settings),
    verdict: message.verdict,
  });
}

/** A program that knows nothing of reports hears of failures where its instance says so; see README.md. */
function reportRequestOf(
  { mailFrom, smtpUtf8, dsn, recipientDsn }: SubmittedEnvelope,
  { failureReports }: SubmissionReporting,
): ReportRequest | undefined {
  const asks = dsn !== undefined || recipientDsn !== undefined;
  return asks || failureReports ? { mailFrom, international: smtpUtf8, ...dsn } : undefined;
}

function addressOf(recipient: string): EmailAddress {
  const valid = validateAddress(recipient, { allowSmtputf8: true });
  if (!valid.ok) throw new Error("a recipient passed RCPT and is no address");
  return valid.value;
}
