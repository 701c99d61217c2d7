import type { KeyRing } from "../core/key-ring.ts";
import { addressKeyOf } from "../core/mail/address.ts";
import { readBounceToken } from "../core/mail/tokens.ts";
import { readDeliveryToken } from "../core/mail/tracking-tokens.ts";
import { unsubscribeContact } from "../operations/mail/contact-changes.ts";
import { type BounceResult, type Finding, isFailure } from "../operations/mail/interpret.ts";
import { noteFinding } from "../operations/mail/note-findings.ts";
import { recordBounces, recordComplaint } from "../operations/mail/outcomes.ts";
import type { Transaction } from "../platform/postgres/db.ts";
import { type DeliveryOwner, findDelivery, holdDelivery } from "../store/mail/queue/deliveries.ts";

/** What a finding does to the delivery that it is about. */
type Consequence =
  | { readonly kind: "bounce"; readonly hard: boolean; readonly detail: Readonly<Record<string, unknown>> }
  | { readonly kind: "complaint"; readonly detail: Readonly<Record<string, unknown>> }
  | { readonly kind: "unsubscribe" }
  | { readonly kind: "none" };

/** Other feedback is about the message or the sender's set-up, or says the opposite of a complaint (RFC 5965 §7.3, RFC 6591). */
const COMPLAINTS = new Set(["abuse", "fraud"]);
/** The field that every message of ours carries; a report that encloses the message brings it back. */
const TOKEN_FIELDS = ["x-delivery-token", "return-path"];

/**
 * Decides what a finding means for one recipient. A delay, a success or an automatic reply means nothing.
 * @param recipient the address that the delivery went to
 */
function consequenceOf(finding: Finding, recipient: string): Consequence {
  if (finding.kind === "arf") {
    const type = finding.feedbackType ?? "abuse";
    if (type === "opt-out") return { kind: "unsubscribe" };
    return COMPLAINTS.has(type) ? { kind: "complaint", detail: { feedbackType: type } } : { kind: "none" };
  }
  if (finding.kind !== "dsn") return { kind: "none" };
  const own = resultsFor(finding.results, recipient);
  const failures = own.filter(isFailure);
  const [first] = failures;
  if (first === undefined) return { kind: "none" };
  // The address may stand for several mailboxes elsewhere: it is dead only when all of them are.
  const hard = failures.length === own.length && failures.every((result) => result.hard);
  const { reason, status, replycode } = failures.find((result) => result.hard === hard) ?? first;
  return { kind: "bounce", hard, detail: { reason, status, replycode, source: "report" } };
}

/** The results that name the recipient; a report may name another address, to which the mail was forwarded. */
function resultsFor(results: readonly BounceResult[], recipient: string): readonly BounceResult[] {
  const key = keyOf(recipient);
  const named = results.filter((result) => keyOf(result.recipient) === key);
  return named.length > 0 ? named : results;
}

/** The same for all forms of an address: a report may have the A-labels of a domain, or another case. */
function keyOf(text: string): string {
  return (addressKeyOf(text) ?? text).toLowerCase();
}

/** Which delivery a message is about, and what says so. */
interface Attribution {
  readonly deliveryId: number;
  /** `unsubscribe`: a token that anybody may unsubscribe with, and no more than that. */
  readonly by: "return-path" | "unsubscribe";
}

/**
 * Which delivery a message is about. On a return path its token says so, and nothing else does. A complaint at a feedback
 * address names it by the return path that it brings back, in whatever field, as providers redact addresses; where that
 * is gone, by the unsubscribe URL, which then allows what that URL allows. Anybody may write to a feedback address, so
 * nothing but a complaint counts there. A Message-ID cannot be turned back into a delivery.
 */
export function deliveryOf(
  message: { readonly deliveryId: number | null },
  finding: Finding,
  key: { readonly keyRing: KeyRing; readonly now: Date },
): Attribution | undefined {
  if (message.deliveryId !== null) return { deliveryId: message.deliveryId, by: "return-path" };
  if (finding.kind !== "arf") return undefined;
  const fields = TOKEN_FIELDS.map((field) => localPartOf(finding.original?.headers.get(field) ?? ""));
  for (const localPart of [...fields, ...(finding.tokens?.returnPaths ?? [])]) {
    const token = readBounceToken(key.keyRing, localPart, key.now);
    if (token.ok) return { deliveryId: token.value.deliveryId, by: "return-path" };
  }
  for (const text of finding.tokens?.unsubscribe ?? []) {
    const token = readDeliveryToken(key.keyRing, "unsubscribe", text);
    if (token.ok) return { deliveryId: token.value, by: "unsubscribe" };
  }
  return undefined;
}

function localPartOf(field: string): string {
  return field
    .replace(/^[\s<]+/, "")
    .split("@")[0]!
    .trim();
}

/**
 * Applies a finding, in the transaction that ends the message's way.
 * @returns what was done, or why nothing was: it names no delivery, or one that there is no more, as who it went to was erased
 */
export async function applyFinding(
  transaction: Transaction,
  finding: Finding,
  about: {
    readonly delivery: Attribution | undefined;
    readonly at: Date;
    readonly hardBouncesToInvalidate: number;
    /** The message that the finding is of. */
    readonly octets: Uint8Array;
  },
): Promise<Consequence["kind"] | "unidentified" | "gone"> {
  const { delivery } = about;
  if (delivery === undefined) return "unidentified";
  const owner = await findDelivery(transaction, delivery.deliveryId);
  if (owner === undefined) return "gone";
  const consequence = permitted(consequenceOf(finding, owner.recipient), delivery);
  const { instanceId, deliveryId } = owner;
  switch (consequence.kind) {
    case "bounce": {
      const { hard, detail } = consequence;
      await recordBounces(transaction, [{ instanceId, deliveryId, hard, detail, at: about.at }], about);
      break;
    }
    case "complaint":
      await recordComplaint(transaction, { instanceId, deliveryId, detail: consequence.detail, at: about.at });
      break;
    case "unsubscribe":
      await unsubscribe(transaction, owner, about.at);
      break;
    case "none":
  }
  // Last: contacts are locked before deliveries and what hangs on them. An erasure is waited for here at the latest.
  if (!(await holdDelivery(transaction, owner))) return "gone";
  if (delivery.by === "return-path")
    await noteFinding(transaction, { instanceId, deliveryId, finding, octets: about.octets });
  return consequence.kind;
}

/** Only a return path may change a contact's validity. */
function permitted(consequence: Consequence, { by }: Attribution): Consequence {
  return by === "unsubscribe" && consequence.kind === "complaint" ? { kind: "unsubscribe" } : consequence;
}

async function unsubscribe(transaction: Transaction, owner: DeliveryOwner, at: Date): Promise<void> {
  const { contactId, ...of } = owner;
  if (contactId !== null) await unsubscribeContact(transaction, { ...of, contactId, at });
}
