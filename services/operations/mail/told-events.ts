import type { KeyRing } from "../../core/key-ring.ts";
import { TOLD_NAMES, type ToldKind, toldKindOf } from "../../core/mail/event-kind.ts";
import { fieldValue, splitMessage } from "../../core/mail/message.ts";
import { findKnownSender } from "../../core/mail/reports/known-senders.ts";
import { formatTimestamp } from "../../core/mail/timestamps.ts";
import { type MessageIdentity, makeMessageId } from "../../core/mail/tokens.ts";
import { recentMap } from "../../core/recent-map.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { TOLD_KINDS, toldKindOfNumber } from "../../store/mail/events/event-kinds.ts";
import { findMessageNames, findMessagesOf, type MessageName } from "../../store/mail/sends/message-names.ts";
import type { ToldEvent } from "../../store/mail/tracking/event-feed.ts";
import type { WebhookBatch } from "../../store/mail/tracking/webhooks.ts";

/** An event as a webhook tells it, in the words of `ver_eventos`. */
interface ToldJson {
  readonly evento: string;
  readonly timestamp: string;
  readonly email: string;
  readonly campania: string;
  readonly campana_id: number | null;
  readonly eeid: string | null;
  readonly maquina?: true;
  /** Of a sender domain: whose, and the address that sends in its name. */
  readonly dominio?: string;
  readonly origen?: string;
}

/** The same with why and how; what is not known is null. */
export interface FullToldJson extends ToldJson {
  /** Its place in the instance's order of events. */
  readonly id: number;
  readonly reason: string | null;
  /** Enhanced status (RFC 3463). */
  readonly status: string | null;
  /** The far side's words. */
  readonly reply: string | null;
  /** Completed attempts, this one included. */
  readonly attempt: number | null;
  /** The mail exchanger that was spoken to. */
  readonly exchanger: string | null;
  readonly message_id: string | null;
  /** What one message to one recipient has in common. */
  readonly delivery_id: number | null;
  /** Of a source of a sender domain: the service behind it, what it signs and returns to, and who reports it. */
  readonly sender?: string | null;
  readonly dkim_domain?: string | null;
  readonly spf_domain?: string | null;
  readonly reporter?: string | null;
}

/** Reads names of kinds, as the API has them. @returns their numbers, or the name that there is not */
export function readToldKinds(names: readonly string[]): Result<number[], string> {
  const kinds: number[] = [];
  for (const name of names) {
    const kind = toldKindOf(name);
    if (kind === undefined) return refuse(name);
    kinds.push(TOLD_KINDS[kind]);
  }
  return ok([...new Set(kinds)].sort((a, b) => a - b));
}

/** What kinds are called in the API. */
export function toldNames(kinds: readonly number[]): string[] {
  return kinds.map((kind) => TOLD_NAMES[toldKindOfNumber(kind)]);
}

export function toToldJson(event: ToldEvent, timeZone: string): ToldJson {
  const { kind, at, machine, email, campaignName, campaignNumid, eeid, domain, detail } = event;
  return {
    evento: TOLD_NAMES[toldKindOfNumber(kind)],
    timestamp: formatTimestamp(at, timeZone),
    email,
    campania: campaignName,
    campana_id: campaignNumid,
    eeid,
    ...(machine ? { maquina: true } : {}),
    ...(domain === null ? {} : { dominio: domain, origen: String(detail?.source) }),
  };
}

const MOST_REMEMBERED = 10_000;

/** Makes the full form of events; remembers what messages are called, of which a thousand events may be. */
export class FullEvents {
  readonly #keyRing: KeyRing;
  readonly #names = recentMap<number, NameOfMessage>(MOST_REMEMBERED);

  constructor(keyRing: KeyRing) {
    this.#keyRing = keyRing;
  }

  async toJson(
    db: Db,
    { id, timeZone }: { readonly id: number; readonly timeZone: string },
    events: readonly ToldEvent[],
  ): Promise<FullToldJson[]> {
    const deliveries = events.flatMap(({ deliveryId }) => (deliveryId === null ? [] : [deliveryId]));
    const messages = await findMessagesOf(db, id, deliveries);
    const unknown = new Set([...messages.values()].filter((messageId) => !this.#names.has(messageId)));
    for (const name of await findMessageNames(db, id, [...unknown])) this.#names.set(name.messageId, nameOf(name));
    return events.map((event) => ({
      ...toToldJson(event, timeZone),
      id: event.position,
      ...describe(event),
      message_id: this.#messageIdOf(event.deliveryId, messages),
      delivery_id: event.deliveryId,
      ...(event.domain === null ? {} : describeSource(event)),
    }));
  }

  #messageIdOf(deliveryId: number | null, messages: ReadonlyMap<number, number>): string | null {
    if (deliveryId === null) return null;
    const messageId = messages.get(deliveryId);
    const name = messageId === undefined ? undefined : this.#names.get(messageId);
    if (messageId === undefined || name === undefined) return null;
    if ("own" in name) return name.own;
    // As the delivery worker names what it renders (delivery/compose.ts).
    const identity: MessageIdentity = name.isShared
      ? { of: "message", id: messageId }
      : { of: "delivery", id: deliveryId };
    return makeMessageId(this.#keyRing, identity, name.senderDomain);
  }
}

type NameOfMessage = { readonly own: string | null } | Pick<MessageName, "senderDomain" | "isShared">;

function nameOf({ own, head, senderDomain, isShared }: MessageName): NameOfMessage {
  if (own !== null) return { own };
  if (head === null) return { senderDomain, isShared };
  const field = splitMessage(head).fields.find(({ name }) => name === "message-id");
  return { own: field === undefined ? null : fieldValue(field) };
}

const text = (value: unknown) => (typeof value === "string" && value !== "" ? value : null);

/** What the feed knows of a source. */
function describeSource({
  detail,
}: ToldEvent): Pick<FullToldJson, "sender" | "dkim_domain" | "spf_domain" | "reporter"> {
  const { dkimDomain, spfDomain, reporter } = detail ?? {};
  const domains = { dkim_domain: text(dkimDomain), spf_domain: text(spfDomain) };
  const sender = findKnownSender([domains.dkim_domain ?? "", domains.spf_domain ?? ""]);
  return { sender: sender?.name ?? null, ...domains, reporter: text(reporter) };
}

/** What the feed knows of why and how. */
function describe({
  kind,
  detail,
}: ToldEvent): Pick<FullToldJson, "reason" | "status" | "reply" | "attempt" | "exchanger"> {
  const { reason, feedbackType, status, reply, replycode, attempt, exchanger } = detail ?? {};
  return {
    reason: text(reason) ?? text(feedbackType) ?? REASONS[toldKindOfNumber(kind)] ?? null,
    status: text(status),
    reply: text(reply) ?? text(replycode),
    attempt: typeof attempt === "number" ? attempt : null,
    exchanger: text(exchanger),
  };
}

/** Why, where that is the same for all of a kind that say no more. */
const REASONS: Partial<Readonly<Record<ToldKind, string>>> = { "not-sent": "invalid", complained: "feedback" };

/** A row of a webhook's log as APIs and commands show it. */
export function showWebhookBatch({ createdAt, finishedAt, ...shown }: WebhookBatch) {
  return { ...shown, created: createdAt.toISOString(), finished: finishedAt?.toISOString() ?? null };
}
