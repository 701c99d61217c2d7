import { domainToASCII } from "node:url";
import type { SmtpReply } from "../core/mail/smtp-reply.ts";
import { readBounceToken } from "../core/mail/tokens.ts";
import { ok, type Result, refuse } from "../core/result.ts";
import type { ServiceContext } from "../platform/service.ts";
import type { SmtpHandlers } from "../platform/smtp-server.ts";
import { addInboundMessages } from "../store/inbound.ts";

/** Who an accepted recipient is: a delivery of ours that something came back for, or a feedback address. */
export type InboundTarget = { readonly deliveryId: string } | { readonly feedbackAddress: string };

/**
 * The MX listener, a method for each verb. Only return paths with a valid token and the feedback addresses are taken;
 * everything else is refused in the session, so that nothing ever has to be bounced from here.
 * @param onStored called after each message that is safe
 */
export function makeMxSession(context: ServiceContext, onStored: () => void): SmtpHandlers<never> {
  const { db, secret, config, clock, observe } = context;
  const addresses = { bounceDomain: config.bounceDomain, feedbackAddresses: config.feedbackAddresses };
  const target = (recipient: string) => findTarget(recipient, addresses, { secret, now: new Date(clock.nowMs()) });

  return {
    mailFrom: async () => undefined,

    async rcptTo(recipient, { clientAddress }) {
      const found = target(recipient);
      if (found.ok) return undefined;
      observe({ kind: "inbound-recipient-refused", client: clientAddress, reason: found.error.lines[0] });
      return found.error;
    },

    async message(octets, { mailFrom, rcptTo, clientAddress }) {
      const targets = rcptTo.flatMap((recipient) => {
        const found = target(recipient);
        return found.ok ? [found.value] : [];
      });
      await addInboundMessages(
        db,
        targets.map((to) => ({
          deliveryId: "deliveryId" in to ? to.deliveryId : null,
          feedbackAddress: "feedbackAddress" in to ? to.feedbackAddress : null,
          mailFrom,
          clientAddress,
          octets,
        })),
      );
      observe({ kind: "inbound-stored", recipients: targets.length, octets: octets.length });
      onStored();
      return { code: 250, lines: ["stored"] };
    },
  };
}

/** Decides who a recipient is. What is wrong with a token is not told: it would help to forge one. */
export function findTarget(
  recipient: string,
  addresses: { readonly bounceDomain: string; readonly feedbackAddresses: readonly string[] },
  key: { readonly secret: string; readonly now: Date },
): Result<InboundTarget, SmtpReply> {
  const at = recipient.lastIndexOf("@");
  const domain = domainToASCII(recipient.slice(at + 1));
  const localPart = recipient.slice(0, at);
  const feedbackAddress = `${localPart.toLowerCase()}@${domain}`;
  if (addresses.feedbackAddresses.includes(feedbackAddress)) return ok({ feedbackAddress });
  if (domain !== addresses.bounceDomain) return refuse(NOT_OURS);
  const token = readBounceToken(key.secret, localPart, key.now);
  return token.ok ? ok({ deliveryId: String(token.value.deliveryId) }) : refuse(NO_SUCH_MAILBOX);
}

const NOT_OURS: SmtpReply = { code: 550, enhancedStatus: "5.7.1", lines: ["relaying denied"] };
const NO_SUCH_MAILBOX: SmtpReply = { code: 550, enhancedStatus: "5.1.1", lines: ["no such mailbox"] };
