import { type EmailAddress, validateAddress } from "../core/mail/address.ts";
import type { Db } from "../platform/db.ts";
import { acceptSend } from "../store/batches.ts";
import type { Campaign } from "../store/campaigns.ts";
import { announceMail } from "../store/queue.ts";
import type { PreparedMessage } from "./prepare-message.ts";

/**
 * Stores a submitted message as a batch of its own; durable when it returns, so that 250 may be said.
 * Invalid contacts are left out with a `not-sent` event, and the session is not told which.
 * @param message its recipients passed RCPT
 * @returns the batch's eeid
 */
export async function acceptMessage(
  db: Db,
  campaign: Campaign,
  message: PreparedMessage & { readonly recipients: readonly string[] },
): Promise<string> {
  const { eeid } = await db.transaction((transaction) =>
    acceptSend(transaction, {
      instanceId: campaign.instanceId,
      campaignNumid: campaign.numid,
      creator: "smtp",
      content: { kind: "finished", octets: message.octets, unsubscribe: campaign.unsubscribe === "si" },
      senderDomain: message.senderDomain,
      recipients: message.recipients.map((recipient) => ({ address: addressOf(recipient) })),
      copies: [],
      archive: false,
    }),
  );
  // It only hastens: the delivery workers look by themselves, and the message is safe.
  await announceMail(db).catch(() => {});
  return eeid;
}

function addressOf(recipient: string): EmailAddress {
  const valid = validateAddress(recipient, { allowSmtputf8: true });
  if (!valid.ok) throw new Error("a recipient passed RCPT and is no address");
  return valid.value;
}
