import { createPrivateKey } from "node:crypto";
import { type EmailAddress, validateAddress } from "../core/mail/address.ts";
import { DkimSigner } from "../core/mail/dkim.ts";
import { type Envelope, makeEnvelope } from "../core/mail/envelope.ts";
import type { Mailbox } from "../core/mail/headers.ts";
import { UNSUBSCRIBE_TAG } from "../core/mail/personalise.ts";
import { type CompiledMessage, compileTemplate, renderMessage } from "../core/mail/template.ts";
import { BOUNCE_TOKEN_DAYS, makeBounceToken, makeMessageId, makeToken } from "../core/mail/tokens.ts";
import type { Db } from "../platform/db.ts";
import { findDkimKey } from "../store/instances.ts";
import type { StoredMailbox, StoredMessage, StoredTemplate } from "../store/messages.ts";
import type { DueDelivery } from "../store/queue.ts";

/** Purpose of the token in an unsubscribe URL; its payload is the delivery's id in decimal. */
export const UNSUBSCRIBE_PURPOSE = "unsubscribe";
/** Carries the token of the return path, so that a complaint can name the delivery when it leaves that out. */
export const DELIVERY_TOKEN_FIELD = "X-Delivery-Token";

const MS_PER_DAY = 86_400_000;

export interface ComposeOptions {
  readonly secret: string;
  readonly bounceDomain: string;
  /** Public base of the unsubscribe links. */
  readonly trackingUrl: string;
}

/** A message with all that its recipients share made ready. */
export interface PreparedMessage {
  readonly message: StoredMessage;
  /** Absent for a finished message. */
  readonly compiled?: CompiledMessage;
  readonly to?: readonly Mailbox[];
  readonly cc?: readonly Mailbox[];
  /** Absent when the sender domain was taken away since: the message then leaves unsigned. */
  readonly signer?: DkimSigner;
}

/** What goes over the wire to one recipient. */
export interface ComposedMessage {
  readonly envelope: Envelope;
  readonly octets: Buffer;
  /** What is to be kept of it, when the message was sent with `archive`. */
  readonly archived?: { readonly eeid: string; readonly recipientKey: string; readonly octets: Buffer };
}

/** Compiles the template and reads the DKIM key, once for all recipients of a message. */
export async function prepareMessage(db: Db, secret: string, message: StoredMessage): Promise<PreparedMessage> {
  const signer = await findSigner(db, secret, message);
  const shared = { message, ...(signer === undefined ? {} : { signer }) };
  if (message.content.kind === "finished") return shared;
  const { template, attachments } = message.content;
  const compiled = compileTemplate({
    from: toMailbox(template.from),
    ...(template.replyTo === undefined ? {} : { replyTo: toMailbox(template.replyTo) }),
    subject: template.subject,
    html: template.html,
    attachments,
    unsubscribe: template.unsubscribe,
  });
  // What is stored was checked when it was accepted.
  if (!compiled.ok) throw new Error(`message ${message.id} cannot be compiled: ${compiled.error}`);
  return { ...shared, compiled: compiled.value, ...visibleAddressees(template) };
}

/** Renders and signs one recipient's copy. The same delivery always gives the same text, so that a retry is no second message. */
export async function composeMessage(
  prepared: PreparedMessage,
  delivery: DueDelivery,
  options: ComposeOptions & { readonly now: Date },
): Promise<ComposedMessage> {
  const recipient = toAddress(delivery.recipient);
  const expiresAt = new Date(options.now.getTime() + BOUNCE_TOKEN_DAYS * MS_PER_DAY);
  const token = makeBounceToken(options.secret, { deliveryId: String(delivery.id), expiresAt });
  const envelope = makeEnvelope(`${token}@${options.bounceDomain}`, [recipient]);
  if (!envelope.ok) throw new Error(`delivery ${delivery.id} has no lawful envelope: ${envelope.error}`);

  const unsigned = render(prepared, delivery, { recipient, options });
  const signature = (await prepared.signer?.signInPool(unsigned, prepared.message.acceptedAt)) ?? Buffer.alloc(0);
  const trace = Buffer.from(`${DELIVERY_TOKEN_FIELD}: ${token}\r\n`, "latin1");
  const octets = Buffer.concat([signature, trace, unsigned]);
  const { archive, eeid } = prepared.message;
  return {
    envelope: envelope.value,
    octets,
    ...(archive ? { archived: { eeid, recipientKey: recipient.key, octets } } : {}),
  };
}

function render(
  { message, compiled, to, cc }: PreparedMessage,
  delivery: DueDelivery,
  { recipient, options }: { readonly recipient: EmailAddress; readonly options: ComposeOptions },
): Buffer {
  if (message.content.kind === "finished") return message.content.octets;
  // Copies of a message are one message: they share its identifier.
  const identity = to === undefined ? String(delivery.id) : `message ${message.id}`;
  const unsubscribeToken = makeToken(options.secret, UNSUBSCRIBE_PURPOSE, String(delivery.id));
  return renderMessage(compiled!, {
    to: to ?? [{ name: delivery.personal.name ?? "", address: recipient }],
    ...(cc === undefined ? {} : { cc }),
    messageId: makeMessageId(options.secret, identity, message.senderDomain),
    date: message.acceptedAt,
    values: {
      system: new Map([[UNSUBSCRIBE_TAG, `${options.trackingUrl}/u/${unsubscribeToken}`]]),
      customFields: new Map(Object.entries(delivery.personal.tags ?? {})),
      builtIns: new Map(),
      globals: new Map(),
    },
  });
}

async function findSigner(db: Db, secret: string, message: StoredMessage): Promise<DkimSigner | undefined> {
  const key = await findDkimKey(db, secret, message.instanceId, message.senderDomain);
  if (key === undefined) return undefined;
  const privateKey = createPrivateKey(key.privateKeyPem);
  return new DkimSigner([{ domain: message.senderDomain, selector: key.selector, privateKey }]);
}

function visibleAddressees({ to, cc }: StoredTemplate): { to?: readonly Mailbox[]; cc?: readonly Mailbox[] } {
  return {
    ...(to === undefined ? {} : { to: [toMailbox(to)] }),
    ...(cc === undefined || cc.length === 0 ? {} : { cc: cc.map(toMailbox) }),
  };
}

function toMailbox({ name, address }: StoredMailbox): Mailbox {
  return { name, address: toAddress(address) };
}

/** Addresses in the database were validated on their way in. */
function toAddress(text: string): EmailAddress {
  const address = validateAddress(text, { allowSmtputf8: true });
  if (!address.ok) throw new Error(`not an address: ${text}`);
  return address.value;
}
