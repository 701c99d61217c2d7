import { domainToASCII } from "node:url";
import type { KeyRing } from "../core/key-ring.ts";
import type { SmtpReply } from "../core/mail/smtp-reply.ts";
import { readBounceToken } from "../core/mail/tokens.ts";
import { ok, type Result, refuse } from "../core/result.ts";
import { isLoopback } from "../platform/http/limits.ts";
import type { ServiceContext } from "../platform/service.ts";
import type { SmtpHandlers } from "../platform/smtp/handlers.ts";
import { findTraceParent } from "../store/mail/sends/trace-parents.ts";
import { Admission, NO_ROOM, type NotAdmitted, type RecipientClass } from "./admission.ts";
import { classOf, type InboundTarget, Intake } from "./intake.ts";
import { type InboundPolicy, loadInboundPolicy } from "./policy.ts";

/**
 * The MX listener, a method for each verb. Only return paths with a valid token and the feedback addresses are taken;
 * everything else is refused in the session, so that nothing ever has to be bounced from here.
 * @param onStored called after each message that is safe
 */
export function makeMxSession(
  context: ServiceContext,
  onStored: () => void,
  policy: InboundPolicy = loadInboundPolicy(),
): SmtpHandlers<never> {
  const { db, keyRing, config, clock, observe } = context;
  const addresses = { bounceDomain: config.bounceDomain, feedbackAddresses: config.feedbackAddresses };
  const isLimited = (clientAddress: string) => config.limitLoopback || !isLoopback(clientAddress);
  const admission = new Admission({ db, policy, mostOctets: config.mxMaxOctets, isLimited });
  const intake = new Intake(context, policy, admission);
  const target = (recipient: string) => findTarget(recipient, addresses, { keyRing, now: new Date(clock.nowMs()) });
  const targetsOf = (rcptTo: readonly string[]) =>
    rcptTo.map(target).flatMap((result) => (result.ok ? [result.value] : []));

  return {
    mailFrom: async () => undefined,

    async traceParent({ rcptTo: [recipient = ""] }) {
      const found = target(recipient);
      return found.ok && "deliveryId" in found.value ? findTraceParent(db, found.value.deliveryId) : undefined;
    },

    async rcptTo(recipient, { clientAddress: client, declaredOctets }) {
      const found = target(recipient);
      if (!found.ok) {
        observe({ kind: "inbound-recipient-refused", client, reason: found.error.lines[0] });
        return found.error;
      }
      const recipientClass = classOf(found.value);
      const refusal = await judge(found.value, client, declaredOctets);
      if (refusal) observe({ kind: "inbound-refused", client, recipientClass, reason: refusal.limit });
      return refusal?.reply;
    },

    messageSize: ({ rcptTo }) => admission.sizeFor(targetsOf(rcptTo).map(classOf)),

    messageRefused({ code }, { rcptTo, clientAddress: client }) {
      const reason = code === 552 ? "size" : "memory";
      for (const recipientClass of classesOf(targetsOf(rcptTo))) {
        observe({ kind: "inbound-refused", client, recipientClass, reason });
      }
    },

    async message(octets, { mailFrom, rcptTo, clientAddress }) {
      // However many spellings of an address were given, it is one.
      const targets = new Map(
        targetsOf(rcptTo).map((to) => ["deliveryId" in to ? to.deliveryId : to.feedbackAddress, to]),
      );
      const received = { mailFrom, clientAddress, octets };
      const stored = await intake.store(received, [...targets.values()], { isLimited: isLimited(clientAddress) });
      if (stored === "no-room") {
        for (const recipientClass of classesOf([...targets.values()])) {
          observe({ kind: "inbound-refused", client: clientAddress, recipientClass, reason: "waiting" });
        }
        return NO_ROOM;
      }
      observe({ kind: "inbound-stored", recipients: targets.size, octets: octets.length });
      onStored();
      return { code: 250, lines: ["stored"] };
    },
  };

  async function judge(
    to: InboundTarget,
    clientAddress: string,
    declaredOctets: number | undefined,
  ): Promise<NotAdmitted | undefined> {
    const of = classOf(to);
    const tooBig = declaredOctets === undefined ? undefined : admission.judgeSize(of, declaredOctets);
    if (tooBig) return tooBig;
    return admission.admit(of, { clientAddress, deliveryId: "deliveryId" in to ? to.deliveryId : undefined });
  }
}

function classesOf(targets: readonly InboundTarget[]): Set<RecipientClass> {
  return new Set(targets.map(classOf));
}

/** Decides who a recipient is. What is wrong with a token is not told: it would help to forge one. */
export function findTarget(
  recipient: string,
  addresses: { readonly bounceDomain: string; readonly feedbackAddresses: readonly string[] },
  key: { readonly keyRing: KeyRing; readonly now: Date },
): Result<InboundTarget, SmtpReply> {
  const at = recipient.lastIndexOf("@");
  const domain = domainToASCII(recipient.slice(at + 1));
  const localPart = recipient.slice(0, at);
  const feedbackAddress = `${localPart.toLowerCase()}@${domain}`;
  if (addresses.feedbackAddresses.includes(feedbackAddress)) return ok({ feedbackAddress });
  if (domain !== addresses.bounceDomain) return refuse(NOT_OURS);
  const token = readBounceToken(key.keyRing, localPart, key.now);
  return token.ok ? ok({ deliveryId: String(token.value.deliveryId) }) : refuse(NO_SUCH_MAILBOX);
}

const NOT_OURS: SmtpReply = { code: 550, enhancedStatus: "5.7.1", lines: ["relaying denied"] };
const NO_SUCH_MAILBOX: SmtpReply = { code: 550, enhancedStatus: "5.1.1", lines: ["no such mailbox"] };
