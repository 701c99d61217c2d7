import { domainToASCII } from "node:url";
import type { KeyRing } from "../core/key-ring.ts";
import type { SmtpReply } from "../core/mail/smtp-reply.ts";
import { readBounceToken, readReportLocalPart } from "../core/mail/tokens.ts";
import { ok, type Result, refuse } from "../core/result.ts";
import { isLoopback } from "../platform/lookups/address-blocks.ts";
import type { ServiceContext } from "../platform/service.ts";
import type { SmtpHandlers, SmtpSession } from "../platform/smtp/handlers.ts";
import type { MessageSize } from "../platform/smtp/message-collector.ts";
import { findTraceParent } from "../store/mail/sends/trace-parents.ts";
import { Admission, NO_ROOM, type NotAdmitted } from "./admission.ts";
import { aboutOf, classOf, type InboundTarget, Intake } from "./intake.ts";
import type { InboundPolicy } from "./policy.ts";

/**
 * The MX listener, a method for each verb. Only return paths and report addresses with a valid token and the feedback
 * addresses are taken; everything else is refused in the session, so that nothing ever has to be bounced from here.
 */
export class MxSession implements SmtpHandlers<never> {
  readonly #context: ServiceContext;
  readonly #onStored: () => void;
  readonly #admission: Admission;
  readonly #intake: Intake;

  /** @param onStored called after each message that is safe */
  constructor(context: ServiceContext, onStored: () => void, policy: InboundPolicy) {
    this.#context = context;
    this.#onStored = onStored;
    const isLimited = (clientAddress: string) => this.#isLimited(clientAddress);
    this.#admission = new Admission({ db: context.db, policy, mostOctets: context.config.mxMaxOctets, isLimited });
    this.#intake = new Intake(context, policy, this.#admission);
  }

  async mailFrom(): Promise<undefined> {}

  async traceParent({ rcptTo: [recipient = ""] }: SmtpSession<never>): Promise<string | undefined> {
    const found = this.#findTarget(recipient);
    if (!found.ok || !("deliveryId" in found.value)) return undefined;
    return findTraceParent(this.#context.db, found.value.deliveryId);
  }

  async rcptTo(
    recipient: string,
    { clientAddress, declaredOctets }: SmtpSession<never>,
  ): Promise<SmtpReply | undefined> {
    const found = this.#findTarget(recipient);
    if (!found.ok) {
      this.#context.observe({
        kind: "inbound-recipient-refused",
        client: clientAddress,
        reason: found.error.lines[0],
      });
      return found.error;
    }
    const refusal = await this.#judge(found.value, clientAddress, declaredOctets);
    if (refusal) this.#tellRefused([found.value], clientAddress, refusal.limit);
    return refusal?.reply;
  }

  messageSize({ rcptTo }: SmtpSession<never>): MessageSize {
    return this.#admission.sizeFor(this.#targetsOf(rcptTo).map(classOf));
  }

  messageRefused({ code }: SmtpReply, { rcptTo, clientAddress }: SmtpSession<never>): void {
    this.#tellRefused(this.#targetsOf(rcptTo), clientAddress, code === 552 ? "size" : "memory");
  }

  async message(octets: Buffer, { mailFrom, rcptTo, clientAddress }: SmtpSession<never>): Promise<SmtpReply> {
    // However many spellings of an address were given, it is one.
    const targets = new Map(this.#targetsOf(rcptTo).map((to) => [aboutOf(to), to]));
    const received = { mailFrom, clientAddress, octets };
    const stored = await this.#intake.store(received, [...targets.values()], {
      isLimited: this.#isLimited(clientAddress),
    });
    if (stored === "no-room") {
      this.#tellRefused([...targets.values()], clientAddress, "waiting");
      return NO_ROOM;
    }
    this.#context.observe({ kind: "inbound-stored", recipients: targets.size, octets: octets.length });
    this.#onStored();
    return { code: 250, lines: ["stored"] };
  }

  #isLimited(clientAddress: string): boolean {
    return this.#context.config.limitLoopback || !isLoopback(clientAddress);
  }

  #findTarget(recipient: string): Result<InboundTarget, SmtpReply> {
    const { config, keyRing, clock } = this.#context;
    return findTarget(recipient, config, { keyRing, now: new Date(clock.nowMs()) });
  }

  #targetsOf(rcptTo: readonly string[]): InboundTarget[] {
    return rcptTo.flatMap((recipient) => {
      const found = this.#findTarget(recipient);
      return found.ok ? [found.value] : [];
    });
  }

  async #judge(
    to: InboundTarget,
    clientAddress: string,
    declaredOctets: number | undefined,
  ): Promise<NotAdmitted | undefined> {
    const of = classOf(to);
    const tooBig = declaredOctets === undefined ? undefined : this.#admission.judgeSize(of, declaredOctets);
    const about = of === "feedback" ? undefined : aboutOf(to);
    return tooBig ?? this.#admission.admit(of, { clientAddress, about });
  }

  #tellRefused(targets: readonly InboundTarget[], client: string, reason: string): void {
    for (const recipientClass of new Set(targets.map(classOf))) {
      this.#context.observe({ kind: "inbound-refused", client, recipientClass, reason });
    }
  }
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
  if (readReportLocalPart(key.keyRing, localPart).ok) return ok({ reportAddress: feedbackAddress });
  const token = readBounceToken(key.keyRing, localPart, key.now);
  return token.ok ? ok({ deliveryId: token.value.deliveryId }) : refuse(NO_SUCH_MAILBOX);
}

const NOT_OURS: SmtpReply = { code: 550, enhancedStatus: "5.7.1", lines: ["relaying denied"] };
const NO_SUCH_MAILBOX: SmtpReply = { code: 550, enhancedStatus: "5.1.1", lines: ["no such mailbox"] };
