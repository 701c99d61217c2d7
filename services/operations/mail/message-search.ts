import { addressKeyOf, validateAddress } from "../../core/mail/address.ts";
import { encodeDomain, mapDomain } from "../../core/mail/idna.ts";
import { messageIdTerm, senderTerm, subjectTerms } from "../../core/mail/message-terms.ts";
import { readMessageName } from "../../core/mail/tokens.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { findContactId } from "../../store/mail/contacts/contact-profiles.ts";
import { type CandidateSource, listCandidates, type Place } from "../../store/mail/explorer/candidates.ts";
import { type FoundMessage, type MessageConditions, siftDeliveries } from "../../store/mail/explorer/found-messages.ts";
import {
  findIdRange,
  findMessagesByTerms,
  findMessagesOfBatch,
  findPathsFrom,
  findResultsByReason,
  findResultsByWords,
} from "../../store/mail/explorer/look-ups.ts";

/** What is asked for; what is absent restricts nothing. */
export interface MessageSearch {
  /** A Message-ID, a batch's id (of the 250, or the API's answer), a return path, or a delivery's number. */
  readonly id?: string | undefined;
  readonly recipient?: string | undefined;
  /** The recipient's. */
  readonly domain?: string | undefined;
  /** The From address, or its domain. */
  readonly sender?: string | undefined;
  /** Words of the subject, each whole. */
  readonly subject?: string | undefined;
  readonly campaign?: number | undefined;
  readonly creator?: string | undefined;
  readonly state?: FoundMessage["state"] | undefined;
  readonly reason?: string | undefined;
  /** Words of what was replied, each whole; those with a digit or an `@` may be parts. */
  readonly reply?: string | undefined;
  /** The address of ours that some attempt left from. */
  readonly source?: string | undefined;
  readonly from?: Date | undefined;
  readonly until?: Date | undefined;
}

interface MessagePage {
  readonly messages: readonly FoundMessage[];
  /** Where the search goes on; undefined when everything was looked through. */
  readonly next: Place | undefined;
}

/** A search does no more than that at a time; who asked goes on from there. */
const LOOKS_FOR_MS = 150;
/** A page and a few more: where everything fits, nothing is read in vain. */
const LEAST_CANDIDATES_AT_ONCE = 64;
const MOST_CANDIDATES_AT_ONCE = 2_000;
/** More messages than that with all the words are looked for among all, newest first: some will come soon. */
const MOST_MESSAGES = 2_000;
/** Deliveries that are looked through, each, in a fraction of a second. */
const NARROW_PERIOD = 50_000;
const MOST_RESULTS = 300;
const MOST_PATHS = 300;

/** How a search is done: where deliveries are taken from, and what they are sifted by. Undefined: nothing can fit. */
interface SearchPlan {
  readonly source: CandidateSource;
  readonly conditions: MessageConditions;
}

/**
 * A page of what fits, newest first by the way that is gone. It ends early when it has taken its time: then there is a
 * `next`, although fewer than `limit` were found.
 */
export async function searchMessages(
  db: Db,
  instanceId: number,
  plan: SearchPlan | undefined,
  { after, limit }: { readonly after?: Place | undefined; readonly limit: number },
): Promise<MessagePage> {
  if (plan === undefined) return { messages: [], next: undefined };
  const endsAtMs = performance.now() + LOOKS_FOR_MS;
  const messages: FoundMessage[] = [];
  let place = after;
  for (let take = Math.max(LEAST_CANDIDATES_AT_ONCE, limit); ; ) {
    const beganAtMs = performance.now();
    const candidates = await listCandidates(db, instanceId, plan.source, { after: place, take });
    const ids = candidates.flatMap(({ deliveryId }) => (deliveryId === null ? [] : [deliveryId]));
    const found = await siftDeliveries(db, instanceId, ids, plan.conditions);
    const wanted = found.slice(0, limit - messages.length);
    messages.push(...wanted);
    if (messages.length === limit) {
      const last = wanted.at(-1)!.id;
      return { messages, next: candidates.findLast(({ deliveryId }) => deliveryId === last)!.place };
    }
    if (candidates.length < take) return { messages, next: undefined };
    place = candidates.at(-1)!.place;
    const nowMs = performance.now();
    // As many as there is time for, at the pace of those before: what is not in memory takes a hundred times as long.
    const affordable = Math.floor((take * (endsAtMs - nowMs)) / (nowMs - beganAtMs));
    if (affordable < LEAST_CANDIDATES_AT_ONCE) return { messages, next: place };
    take = Math.min(4 * take, affordable, MOST_CANDIDATES_AT_ONCE);
  }
}

/** Chooses the way that has the fewest candidates, as far as that is known without counting. */
export async function planSearch(db: Db, instanceId: number, search: MessageSearch): Promise<SearchPlan | undefined> {
  const { recipient, sender, domain, subject, reply, reason, source } = search;
  const address = recipient === undefined ? undefined : validateAddress(recipient, { allowSmtputf8: true });
  const destination = address === undefined ? domain : address.ok ? address.value.asciiDomain : undefined;
  if (address?.ok === false) return undefined;
  const asciiDomain = destination === undefined ? undefined : toAscii(destination);
  if (destination !== undefined && asciiDomain === undefined) return undefined;
  if (address?.ok && domain !== undefined && toAscii(domain) !== asciiDomain) return undefined;
  const author = sender === undefined ? undefined : readSender(sender);
  if (sender !== undefined && author === undefined) return undefined;
  const said = reply === undefined ? undefined : readReplyWords(reply);
  const resultIds = said?.general ? await findResultsByWords(db, instanceId, said.general, MOST_RESULTS) : undefined;
  const pathIds = source === undefined ? undefined : await findPathsFrom(db, instanceId, source, MOST_PATHS);
  const ofSubject = subjectTerms(instanceId, subject ?? "");
  // Without a letter or a digit there is no word that a subject has.
  if (ofSubject.length === 0 && subject !== undefined && subject.trim() !== "") return undefined;
  const terms = [...ofSubject, ...(author === undefined ? [] : [senderTerm(instanceId, author)])];
  const contactId = address?.ok ? await findContactId(db, instanceId, address.value.key) : undefined;
  const conditions: MessageConditions = {
    ...(address?.ok ? { contactId: contactId ?? null, local: address.value.local } : {}),
    ...(asciiDomain === undefined ? {} : { destination: asciiDomain }),
    ...(terms.length === 0 ? {} : { terms }),
    ...given({
      campaignNumid: search.campaign,
      creator: search.creator,
      state: search.state,
      from: search.from,
      until: search.until,
      reason,
      resultIds,
      pathIds,
      replyParts: said?.particular,
    }),
  };
  if (resultIds?.length === 0 || pathIds?.length === 0) return undefined;
  const chosen = await chooseSource(db, instanceId, search, conditions);
  return { source: chosen, conditions: withoutImplied(conditions, chosen) };
}

/** Candidates that are taken from attempts have such an attempt: each would be looked up once more. */
function withoutImplied(conditions: MessageConditions, source: CandidateSource): MessageConditions {
  if (source.kind !== "attempts") return conditions;
  const { resultIds, pathIds, ...others } = conditions;
  return { ...others, ...given(source.by === "path_id" ? { resultIds } : { pathIds }) };
}

async function chooseSource(
  db: Db,
  instanceId: number,
  search: MessageSearch,
  conditions: MessageConditions,
): Promise<CandidateSource> {
  const { contactId, local, terms, resultIds, pathIds, campaignNumid, destination, reason } = conditions;
  if (search.id !== undefined) return findNamed(db, instanceId, search.id);
  if (local !== undefined) return { kind: "contact", contactId: contactId ?? null, local };
  const messages = terms && (await findMessagesByTerms(db, instanceId, terms, MOST_MESSAGES));
  if (messages !== undefined) return { kind: "messages", ids: messages };
  const { from, until, state } = search;
  const ids = await findIdRange(db, instanceId, given({ from, until }));
  // Newest first by another way, what is older would be reached late, or never.
  if (ids.until - ids.from <= NARROW_PERIOD) return { kind: "period", ids, state: state ?? null };
  if (resultIds !== undefined) return { kind: "attempts", by: "result_id", ids: resultIds };
  if (reason !== undefined) {
    const ids = await findResultsByReason(db, instanceId, reason, MOST_RESULTS);
    if (ids !== undefined) return { kind: "reason", reason, resultIds: ids };
  }
  if (conditions.state === "queued" || conditions.state === "deferred") return { kind: "unfinished" };
  if (conditions.state === "bounced") return { kind: "bounced" };
  if (campaignNumid !== undefined) return { kind: "campaign", numid: campaignNumid };
  if (destination !== undefined) return { kind: "destination", destination };
  if (pathIds !== undefined) return { kind: "attempts", by: "path_id", ids: pathIds };
  return { kind: "all", ids };
}

/** What an identifier names; of a Message-ID that is not ours, the messages that came with it. */
async function findNamed(db: Db, instanceId: number, id: string): Promise<CandidateSource> {
  const text = id.trim();
  if (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text)) {
    return { kind: "messages", ids: await findMessagesOfBatch(db, instanceId, text) };
  }
  if (/^\d{1,15}$/.test(text)) return { kind: "deliveries", ids: [Number(text)] };
  const named = readMessageName(text);
  if (named?.of === "delivery") return { kind: "deliveries", ids: [named.id] };
  if (named?.of === "message") return { kind: "messages", ids: [named.id] };
  const bracketed = text.startsWith("<") ? text : `<${text}>`;
  const ids = await findMessagesByTerms(db, instanceId, [messageIdTerm(instanceId, bracketed)], MOST_MESSAGES);
  return { kind: "messages", ids: ids ?? [] };
}

function toAscii(domain: string): string | undefined {
  const mapped = mapDomain(domain.replace(/^@/, ""));
  const encoded = mapped.ok ? encodeDomain(mapped.value) : mapped;
  return encoded.ok ? encoded.value.ascii : undefined;
}

/** An address as it is kept, or `@` and a domain; undefined for what is neither. */
function readSender(text: string): string | undefined {
  if (/[^@]@/.test(text)) return addressKeyOf(text);
  const domain = toAscii(text);
  return domain === undefined ? undefined : `@${domain}`;
}

/** Words that replies have in common are looked up; others (ids, addresses) are looked for in what was said. */
function readReplyWords(text: string): { readonly general: string; readonly particular: readonly string[] } {
  const words = text.split(/\s+/).filter((word) => word !== "");
  const isParticular = (word: string) => /[\d@]/.test(word);
  return {
    general: words.filter((word) => !isParticular(word)).join(" "),
    particular: words.filter(isParticular),
  };
}

/** Without what is undefined. */
function given<T extends object>(values: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}
