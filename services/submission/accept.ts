import { type EmailAddress, validateAddress } from "../core/mail/address.ts";
import type { SendOutcome } from "../operations/mail/accept-sends.ts";
import type { SendQueue } from "../operations/mail/send-queue.ts";
import { SUBMITTED } from "../operations/mail/sending-gate.ts";
import { runInTurns } from "../platform/turns.ts";
import type { Campaign } from "../store/mail/campaigns/campaigns.ts";
import type { SubmissionSettings } from "../store/mail/instances/submission-settings.ts";
import type { PreparedMessage } from "./prepare-message.ts";
import { trackMessage } from "./track-message.ts";

/**
 * Stores a submitted message as a batch of its own; durable when it returns, so that 250 may be said.
 * Invalid contacts are left out with a `not-sent` event, and the session is not told which. Archive, tracking and
 * unsubscription are as the campaign has them.
 * @param message its recipients passed RCPT
 * @returns the batch, or why the instance may not send it
 */
export async function acceptMessage(
  sends: SendQueue,
  { campaign, settings }: { readonly campaign: Campaign; readonly settings: SubmissionSettings },
  message: PreparedMessage & { readonly recipients: readonly string[] },
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
    recipients: message.recipients.map((recipient) => ({ address: addressOf(recipient) })),
    copies: [],
    archive: settings.archive,
  });
}

function addressOf(recipient: string): EmailAddress {
  const valid = validateAddress(recipient, { allowSmtputf8: true });
  if (!valid.ok) throw new Error("a recipient passed RCPT and is no address");
  return valid.value;
}
