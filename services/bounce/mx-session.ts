import { domainToASCII } from "node:url";
import { RateLimiterMemory } from "rate-limiter-flexible";
import type { SmtpReply } from "../core/mail/smtp-reply.ts";
import { readBounceToken } from "../core/mail/tokens.ts";
import { ok, type Result, refuse } from "../core/result.ts";
import { isLoopback } from "../platform/http/limits.ts";
import type { ServiceContext } from "../platform/service.ts";
import type { SmtpHandlers } from "../platform/smtp-server.ts";
import { addInboundMessages } from "../store/mail/inbound.ts";
import { findTraceParent } from "../store/mail/trace-parents.ts";

/** Who an accepted recipient is: a delivery of ours that something came back for, or a feedback address. */
export type InboundTarget = { readonly deliveryId: string } | { readonly feedbackAddress: string };

/** Of messages that come back for one delivery, in an hour; far more than mail systems send, and little enough to keep. */
const MESSAGES_PER_TOKEN = 20;
const WINDOW_SECONDS = 3_600;

/**
 * The MX listener, a method for each verb. Only return paths with a valid token and the feedback addresses are taken;
 * everything else is refused in the session, so that nothing ever has to be bounced from here.
 * @param onStored called after each message that is safe
 */
export function makeMxSession(context: ServiceContext, onStored: () => void): SmtpHandlers<never> {
  const { db, secret, config, clock, observe } = context;
  const addresses = { bounceDomain: config.bounceDomain, feedbackAddresses: config.feedbackAddresses };
  const perToken = new RateLimiterMemory({ points: MESSAGES_PER_TOKEN, duration: WINDOW_SECONDS });
  const isLimited = (clientAddress: string) => config.limitLoopback || !isLoopback(clientAddress);
  const target = (recipient: string) => findTarget(recipient, addresses, { secret, now: new Date(clock.nowMs()) });

  return {
    mailFrom: async () => undefined,

    async traceParent({ rcptTo: [recipient = ""] }) {
      const found = target(recipient);
      return found.ok && "deliveryId" in found.value ? findTraceParent(db, found.value.deliveryId) : undefined;
    },

    async rcptTo(recipient, { clientAddress }) {
      const found = target(recipient);
      const refusal = found.ok ? await refuseFlood(found.value, clientAddress) : found.error;
      if (refusal) observe({ kind: "inbound-recipient-refused", client: clientAddress, reason: refusal.lines[0] });
      return refusal;
    },

    async message(octets, { mailFrom, rcptTo, clientAddress }) {
      const found = rcptTo.map(target).flatMap((result) => (result.ok ? [result.value] : []));
      // However many spellings of an address were given, it is one.
      const targets = new Map(found.map((to) => ["deliveryId" in to ? to.deliveryId : to.feedbackAddress, to]));
      await addInboundMessages(
        db,
        [...targets.values()].map((to) => ({
          deliveryId: "deliveryId" in to ? to.deliveryId : null,
          feedbackAddress: "feedbackAddress" in to ? to.feedbackAddress : null,
          mailFrom,
          clientAddress,
          octets,
        })),
      );
      await Promise.all([...targets.keys()].map((key) => perToken.penalty(key)));
      observe({ kind: "inbound-stored", recipients: targets.size, octets: octets.length });
      onStored();
      return { code: 250, lines: ["stored"] };
    },
  };

  async function refuseFlood(to: InboundTarget, clientAddress: string): Promise<SmtpReply | undefined> {
    if (!("deliveryId" in to) || !isLimited(clientAddress)) return undefined;
    const seen = await perToken.get(to.deliveryId);
    return seen && seen.consumedPoints >= MESSAGES_PER_TOKEN ? TOO_OFTEN : undefined;
  }
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

const TOO_OFTEN: SmtpReply = { code: 450, enhancedStatus: "4.2.1", lines: ["too many messages, try again later"] };
const NOT_OURS: SmtpReply = { code: 550, enhancedStatus: "5.7.1", lines: ["relaying denied"] };
const NO_SUCH_MAILBOX: SmtpReply = { code: 550, enhancedStatus: "5.1.1", lines: ["no such mailbox"] };
