import { createHash } from "node:crypto";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { KeyRing } from "../core/key-ring.ts";
import { type EmailAddress, validateAddress } from "../core/mail/address.ts";
import { askedOfNextHop } from "../core/mail/dsn-parameters.ts";
import { type Envelope, makeEnvelope } from "../core/mail/envelope.ts";
import { plainField } from "../core/mail/headers.ts";
import { hasInternationalAddress, splitMessage } from "../core/mail/message.ts";
import { fillPlaces } from "../core/mail/message-places.ts";
import { textFromHtmlSteps } from "../core/mail/message-text.ts";
import {
  MOST_RENDERED_SUBJECT_CHARACTERS,
  type PersonalValues,
  personalOctets,
  tagValue,
} from "../core/mail/personalise.ts";
import { type CompiledMessage, renderMessage, renderSubject, withUnsubscribeLink } from "../core/mail/template.ts";
import { bounceTokenExpiry, makeBounceToken, makeMessageId } from "../core/mail/tokens.ts";
import { type LinkId, trackHtmlSteps } from "../core/mail/tracking-html.ts";
import { makeUnsubscribeUrl, type TrackedDelivery, trackingValues } from "../core/mail/tracking-tokens.ts";
import { compileStored } from "../operations/mail/compile-stored.ts";
import { FairTurns } from "../platform/fair-turns.ts";
import type { Db } from "../platform/postgres/db.ts";
import { runInTurns } from "../platform/turns.ts";
import type { PersonalData } from "../store/mail/queue/queue.ts";
import type { DueDelivery } from "../store/mail/queue/queue-leases.ts";
import { type StoredMessage, templateOctets } from "../store/mail/sends/messages.ts";
import { saveTrackedLinks } from "../store/mail/tracking/tracking.ts";
import type { Sender, Signers } from "./signers.ts";

/** Carries the token of the return path, so that a complaint can name the delivery when it leaves that out. */
const DELIVERY_TOKEN_FIELD = "X-Delivery-Token";

/** A copy is rendered, joined with its signature, and lies in the socket's buffer, encoded. */
const COMPOSING_FACTOR = 4;

/** About what the composing of one copy takes. */
export function composingOctets(contentOctets: number): number {
  return COMPOSING_FACTOR * contentOctets;
}

/** What a recipient's values add to the content; without end where they make the subject longer than it may be. */
export function octetsOfValues({ compiled, globals }: PreparedMessage, { personal }: DueDelivery): number {
  if (compiled === undefined) return 0;
  const values = valuesOf(personal, globals);
  if (renderSubject(compiled, values).length > MOST_RENDERED_SUBJECT_CHARACTERS) return Number.POSITIVE_INFINITY;
  return personalOctets(compiled.places, (tag) => tagValue(tag, values));
}

/** The values of a template's tags, without those that the platform makes. */
function valuesOf({ tags = {} }: PersonalData, globals: ReadonlyMap<string, string>): PersonalValues {
  return { system: NOTHING, customFields: new Map(Object.entries(tags)), builtIns: NOTHING, globals };
}

const NOTHING: ReadonlyMap<string, string> = new Map();

export interface ComposeOptions {
  readonly keyRing: KeyRing;
  readonly bounceDomain: string;
  /** Public base of the unsubscribe links. */
  readonly trackingUrl: string;
  /** Where complaints are taken, for messages that say so (RFC 9477): an address at the bounce domain, which signs for it. */
  readonly feedbackAddress: string | undefined;
}

/** A message with all that its recipients share made ready. */
export interface PreparedMessage {
  readonly message: StoredMessage;
  /** Absent for a finished message. */
  readonly compiled?: CompiledMessage;
  /** Links of the template that are counted. */
  readonly links: readonly LinkId[];
  /** Global variables of the template, by name. */
  readonly globals: ReadonlyMap<string, string>;
  /** A copy of it takes milliseconds. */
  readonly isHeavy: boolean;
  /** Asked for each copy: a message may take hours. Undefined when the domain was taken away: the copy leaves unsigned. */
  findSender(): Promise<Sender | undefined>;
}

/** What goes over the wire to one recipient. */
export interface ComposedMessage {
  readonly envelope: Envelope;
  readonly octets: Buffer;
  /** What is to be kept of it, when the message was sent with `archive`. */
  readonly archived?: { readonly eeid: string; readonly recipientKey: string; readonly octets: Buffer };
}

/** Compiles the template, once for all recipients of a message. */
export async function prepareMessage(
  db: Db,
  signers: Pick<Signers, "find">,
  message: StoredMessage,
): Promise<PreparedMessage> {
  const shared = { message, findSender: () => signers.find(message.instanceId, message.senderDomain) };
  if (message.content.kind === "finished") {
    const { links: targets = {}, hidden } = message.content.tracking ?? {};
    const links = new Map(Object.entries(targets));
    await saveTrackedLinks(db, message, { links, hidden: new Set(hidden) });
    return { ...shared, links: [...links.keys()], globals: NOTHING, isHeavy: links.size > MANY_PLACES };
  }
  const { template, attachments } = message.content;
  const html = template.unsubscribe ? withUnsubscribeLink(template.html) : template.html;
  const tracked = await runInTurns(trackHtmlSteps(html));
  // Before the first copy leaves: a click must find where its link leads.
  await saveTrackedLinks(db, message, tracked);
  const text = await runInTurns(textFromHtmlSteps(html));
  const compiled = await compileStored(template, attachments, { html: tracked.html, text });
  // What is stored was checked when it was accepted.
  if (!compiled.ok) throw new Error(`message ${message.id} cannot be compiled: ${compiled.error}`);
  const links = [...tracked.links.keys()];
  const isHeavy = links.length + compiled.value.body.length > MANY_PLACES || templateOctets(template) > MANY_OCTETS;
  const globals = new Map(Object.entries(template.globals ?? {}));
  return { ...shared, compiled: compiled.value, links, globals, isHeavy };
}

/** With so many links and tags, or of so many octets, a copy takes milliseconds. */
const MANY_PLACES = 500;
const MANY_OCTETS = 256 * 1024;
/** Copies of such messages are made one by one, by turns of their instances: between two of them everybody else goes on. */
const heavyCopies = new FairTurns({ atOnce: 1, perClient: 1 });

/** Renders and signs one recipient's copy. The same delivery always gives the same text, so that a retry is no second message. */
export function composeMessage(
  prepared: PreparedMessage,
  delivery: DueDelivery,
  options: ComposeOptions & { readonly now: Date },
): Promise<ComposedMessage> {
  if (!prepared.isHeavy) return composeCopy(prepared, delivery, options);
  return heavyCopies.run(String(prepared.message.instanceId), async () => {
    await nextTurn();
    return composeCopy(prepared, delivery, options);
  });
}

async function composeCopy(
  prepared: PreparedMessage,
  delivery: DueDelivery,
  options: ComposeOptions & { readonly now: Date },
): Promise<ComposedMessage> {
  const recipient = toAddress(delivery.recipient);
  const expiresAt = bounceTokenExpiry(prepared.message.acceptedAt, options.now);
  const { archive, eeid, isReport = false, dsn } = prepared.message;
  const token = makeBounceToken(options.keyRing, { deliveryId: delivery.id, expiresAt });
  // Nothing ever comes back for a report (RFC 3464 §2).
  const envelope = makeEnvelope(isReport ? "" : `${token}@${options.bounceDomain}`, [recipient]);
  if (!envelope.ok) throw new Error(`delivery ${delivery.id} has no lawful envelope: ${envelope.error}`);

  const sender = await prepared.findSender();
  const trackingUrl = sender?.linkHost === undefined ? options.trackingUrl : `https://${sender.linkHost}`;
  const rendered = render(prepared, delivery, { recipient, options: { ...options, trackingUrl } });
  const unsigned = sender ? withFeedback(rendered, prepared.message, sender, options) : rendered;
  const signature = (await sender?.signer.signInPool(unsigned, prepared.message.acceptedAt)) ?? Buffer.alloc(0);
  const trace = Buffer.from(isReport ? "" : `${DELIVERY_TOKEN_FIELD}: ${token}\r\n`, "latin1");
  const octets = Buffer.concat([signature, trace, unsigned]);
  return {
    envelope: {
      ...envelope.value,
      needsSmtputf8: envelope.value.needsSmtputf8 || hasInternationalAddress(unsigned),
      ...(dsn === undefined ? {} : { dsn: { message: dsn, recipient: askedOfNextHop(delivery.dsn) } }),
    },
    octets,
    ...(archive ? { archived: { eeid, recipientKey: recipient.key, octets } } : {}),
  };
}

function render(
  { message, compiled, links, globals }: PreparedMessage,
  delivery: DueDelivery,
  { recipient, options }: { readonly recipient: EmailAddress; readonly options: ComposeOptions },
): Buffer {
  const { keyRing, trackingUrl } = options;
  const tracked = { keyRing, trackingUrl, deliveryId: delivery.id, messageId: message.id };
  if (message.content.kind === "finished") {
    return finish(personalise(message.content, tracked, links), makeUnsubscribeUrl(tracked));
  }
  // Copies of a message are one message: they share its identifier.
  const identity =
    message.content.template.to === undefined
      ? ({ of: "delivery", id: delivery.id } as const)
      : ({ of: "message", id: message.id } as const);
  return renderMessage(compiled!, {
    to: [{ name: delivery.personal.name ?? "", address: recipient }],
    messageId: makeMessageId(keyRing, identity, message.senderDomain),
    date: message.acceptedAt,
    values: { ...valuesOf(delivery.personal, globals), system: trackingValues(tracked, links) },
  });
}

/**
 * What providers report about a sender's mail by: Feedback-ID as Google reads it, three parts that are counted and whose
 * mail it is, and CFBL-Address (RFC 9477). A message that came with its own keeps them.
 */
function withFeedback(
  octets: Buffer,
  { campaignNumid, eeid }: StoredMessage,
  { feedbackId, feedbackAddress, instanceName }: Sender,
  options: Pick<ComposeOptions, "bounceDomain" | "feedbackAddress">,
): Buffer {
  if (!feedbackId && !feedbackAddress) return octets;
  const names = new Set(splitMessage(octets).fields.map(({ name }) => name));
  const id = `${campaignNumid}:${eeid}:${instanceName.replaceAll(":", "-")}:${feedbackSenderId(options.bounceDomain)}`;
  const added =
    (feedbackId && !names.has("feedback-id") ? plainField("Feedback-ID", id) : "") +
    (feedbackAddress && options.feedbackAddress !== undefined && !names.has("cfbl-address")
      ? plainField("CFBL-Address", `${options.feedbackAddress}; report=arf`)
      : "");
  return added === "" ? octets : Buffer.concat([Buffer.from(added, "latin1"), octets]);
}

/** The deployment, in the 5 to 15 characters that a Feedback-ID has for it. */
function feedbackSenderId(bounceDomain: string): string {
  return createHash("sha256").update(bounceDomain).digest("hex").slice(0, 12);
}

type FinishedContent = Extract<StoredMessage["content"], { kind: "finished" }>;

/** The recipient's own URLs, in the places that were left for them when the message was accepted. */
function personalise(content: FinishedContent, tracked: TrackedDelivery, links: readonly LinkId[]): FinishedContent {
  if (content.tracking === undefined) return content;
  return { ...content, octets: fillPlaces(content.octets, content.tracking.places, trackingValues(tracked, links)) };
}

/** A message that came finished has fields of its own only where its author signed them (`submission/finish-message.ts`). */
function finish({ octets, unsubscribe }: FinishedContent, unsubscribeUrl: string): Buffer {
  if (!unsubscribe) return octets;
  const own = new Set(splitMessage(octets).fields.map(({ name }) => name));
  if (own.has("list-unsubscribe")) return octets;
  // RFC 2369 §3.2, RFC 8058 §3.1
  const added =
    plainField("List-Unsubscribe", `<${unsubscribeUrl}>`) +
    (own.has("list-unsubscribe-post") ? "" : plainField("List-Unsubscribe-Post", "List-Unsubscribe=One-Click"));
  return Buffer.concat([Buffer.from(added, "latin1"), octets]);
}

/** Addresses in the database were validated on their way in. */
function toAddress(text: string): EmailAddress {
  const address = validateAddress(text, { allowSmtputf8: true });
  if (!address.ok) throw new Error(`not an address: ${text}`);
  return address.value;
}
