import { charsetDecoder } from "../core/mail/charset.ts";
import { decodeQuotedPrintable } from "../core/mail/decode.ts";
import { plainField } from "../core/mail/headers.ts";
import { joinMessage, type MessageParts, splitMessage } from "../core/mail/message.ts";
import type { MessagePlace, MessageTracking } from "../core/mail/message-places.ts";
import { encodeQuotedPrintable, SOFT_BREAK } from "../core/mail/mime.ts";
import { MOST_PLACES, parseTemplate, UNSUBSCRIBE_TAG, wrappedTagName } from "../core/mail/personalise.ts";
import { withUnsubscribeLink } from "../core/mail/template.ts";
import { clickTag, OPEN_TAG, type TrackedHtml, trackHtmlSteps } from "../core/mail/tracking-html.ts";
import type { Steps } from "../core/steps.ts";
import { charsetOf, contentTypeOf, mediaTypeOf, partsOf, readField, withField } from "./mime-tree.ts";

/** A message whose HTML and text leave place for each recipient's own URLs. */
interface TrackedMessage {
  readonly octets: Buffer;
  readonly tracking: MessageTracking;
}

/** What the campaign wants of the HTML. */
interface TrackingSettings {
  /** Links and opening are counted. */
  readonly tracking: boolean;
  /** An unsubscribe link is added, unless the author put its tag somewhere. */
  readonly unsubscribe: boolean;
}

/**
 * Makes the HTML of a submitted message countable: the first HTML part that is shown, be it alone or within
 * alternatives. In plain text that is shown, the unsubscribe URL's tag becomes its place. All octets outside of them
 * stay as they are. What is signed or encrypted (RFC 1847, S/MIME, OpenPGP), or carries a DKIM signature of its author's,
 * stays as a whole, as does what cannot be read.
 * @param given CRLF only, 7-bit
 * @returns undefined when nothing is to be tracked; in steps, as a message may have very many parts and links
 */
export function* trackMessage(given: Buffer, settings: TrackingSettings): Steps<TrackedMessage | undefined> {
  const octets = withVersion(given);
  if (octets === undefined) return undefined;
  const pieces: Buffer[] = [];
  const places: MessagePlace[] = [];
  let [end, length] = [0, 0];
  let links: Omit<MessageTracking, "places"> = { links: {} };
  for (const { start, end: partEnd, type } of yield* findTexts(octets)) {
    const part = yield* rewritePart(splitMessage(octets.subarray(start, partEnd)), type, settings);
    if (part === undefined) continue;
    length += start - end;
    for (const place of part.places) places.push({ ...place, offset: place.offset + length });
    pieces.push(octets.subarray(end, start), part.octets);
    length += part.octets.length;
    end = partEnd;
    if (part.links !== undefined) links = part.links;
  }
  if (pieces.length === 0) return undefined;
  return { octets: Buffer.concat([...pieces, octets.subarray(end)]), tracking: { places, ...links } };
}

/** The message as MIME; undefined for one that must stay as it is. */
function withVersion(octets: Buffer): Buffer | undefined {
  const root = splitMessage(octets);
  const has = (name: string) => readField(root, name) !== undefined;
  if (has("dkim-signature")) return undefined;
  if (has("mime-version")) return octets;
  // RFC 2045 §4: without the version a body is plain text, whatever its fields say.
  if (has("content-type") || has("content-transfer-encoding")) return undefined;
  return Buffer.concat([Buffer.from(plainField("MIME-Version", "1.0"), "latin1"), octets]);
}

/** A text part that is shown, by its place in the message. */
interface TextPart {
  readonly start: number;
  readonly end: number;
  readonly type: "text/html" | "text/plain";
}

/** Parts in which shown text may stand. Not `multipart/signed` and `multipart/encrypted`: those are nobody's to change. */
const SEARCHED = new Set(["multipart/mixed", "multipart/alternative", "multipart/related"]);

/** All shown plain text, and the first shown HTML. */
function* findTexts(message: Buffer): Steps<TextPart[]> {
  const parts: TextPart[] = [];
  yield* collectTexts(message, { start: 0, end: message.length, level: 0 }, parts);
  const html = parts.find(({ type }) => type === "text/html");
  return parts.filter((part) => part.type === "text/plain" || part === html);
}

function* collectTexts(
  message: Buffer,
  { start, end, level }: { readonly start: number; readonly end: number; readonly level: number },
  parts: TextPart[],
): Steps<void> {
  yield;
  const entity = splitMessage(message.subarray(start, end));
  const type = mediaTypeOf(entity);
  if (type === "text/html" || type === "text/plain") {
    const isAttached = /^attachment\b/i.test(readField(entity, "content-disposition") ?? "");
    if (!isAttached) parts.push({ start, end, type });
    return;
  }
  if (!SEARCHED.has(type)) return;
  const bodyStart = end - entity.body.length;
  for (const part of partsOf(entity, level)) {
    const range = { start: bodyStart + part.start, end: bodyStart + part.end, level: level + 1 };
    yield* collectTexts(message, range, parts);
  }
}

/** A part with room for the recipient's URLs. */
interface RewrittenPart {
  readonly octets: Buffer;
  /** By offset in the part. */
  readonly places: readonly MessagePlace[];
  /** Of HTML. */
  readonly links?: Omit<MessageTracking, "places">;
}

/** @returns undefined when it stays as it is */
function* rewritePart(
  entity: MessageParts,
  type: TextPart["type"],
  settings: TrackingSettings,
): Steps<RewrittenPart | undefined> {
  const text = readText(entity);
  if (text === undefined) return undefined;
  if (type === "text/plain") {
    if (!text.includes(wrappedTagName(UNSUBSCRIBE_TAG))) return undefined;
    const { octets, places } = yield* encodeText(entity, text, (tag) => tag === UNSUBSCRIBE_TAG);
    return { octets, places: places.map((place) => ({ ...place, inPlainText: true })) };
  }
  const rewritten = yield* rewriteHtml(text, settings);
  if (rewritten === undefined) return undefined;
  const { html, links, hidden } = rewritten;
  const encoded = yield* encodeText(entity, html, isPlaceTag);
  return { ...encoded, links: { links, ...(hidden.length > 0 ? { hidden } : {}) } };
}

/** The text of a part; undefined when its encoding or charset is not understood to the last octet. */
function readText(entity: MessageParts): string | undefined {
  const octets = decodeBody(entity);
  if (octets === undefined) return undefined;
  const label = charsetOf(entity) ?? "utf-8";
  const charset = /^(us-)?ascii$/i.test(label) ? "utf-8" : label;
  try {
    const text = charsetDecoder(charset, { fatal: true, ignoreBOM: true })?.decode(octets);
    if (text === undefined) return undefined;
    return /-----BEGIN PGP /.test(text) || text.includes("\0") ? undefined : text;
  } catch {
    return undefined;
  }
}

function decodeBody(entity: MessageParts): Buffer | undefined {
  switch ((readField(entity, "content-transfer-encoding") ?? "7bit").toLowerCase()) {
    case "7bit":
    case "8bit":
    case "binary":
      return entity.body;
    case "quoted-printable":
      return decodeQuotedPrintable(entity.body);
    case "base64":
      return Buffer.from(entity.body.toString("latin1"), "base64");
    default:
      return undefined;
  }
}

function* rewriteHtml(
  given: string,
  { tracking, unsubscribe }: TrackingSettings,
): Steps<({ readonly html: string } & Required<Omit<MessageTracking, "places">>) | undefined> {
  const html = unsubscribe ? withUnsubscribeLink(given) : given;
  // A submitted message is nobody's template: what looks like a tag in its links is part of them.
  const hasTag = (target: string) => parseTemplate(target).some((part) => typeof part !== "string");
  const untracked: TrackedHtml = { html, links: new Map(), hidden: new Set() };
  const found = tracking ? yield* trackHtmlSteps(html, hasTag) : untracked;
  // Each link is made anew for each recipient: a list of many thousands is left as its author wrote it.
  const tracked = found.links.size > MOST_PLACES ? untracked : found;
  if (tracked.html === given && !given.includes(wrappedTagName(UNSUBSCRIBE_TAG))) return undefined;
  const links: Record<string, string> = {};
  for (const [link, target] of tracked.links) {
    links[link] = target;
    yield;
  }
  return { html: tracked.html, links, hidden: [...tracked.hidden] };
}

/** The part again, as quoted-printable UTF-8, with room for each place at the beginning of a line. */
function* encodeText(
  entity: MessageParts,
  text: string,
  isPlaceTag: (tag: string) => boolean,
): Steps<{ readonly octets: Buffer; readonly places: readonly MessagePlace[] }> {
  const pieces = [joinMessage({ fields: describeText(entity), body: Buffer.alloc(0) })];
  const places: MessagePlace[] = [];
  let offset = pieces[0]!.length;
  let column = 0;
  for (const part of parseTemplate(text)) {
    const isPlace = typeof part !== "string" && isPlaceTag(part.tag);
    const written = typeof part === "string" ? part : wrappedTagName(part.tag);
    const encoded = isPlace ? { octets: SOFT_BREAK, endColumn: 0 } : encodeQuotedPrintable(written, column);
    pieces.push(encoded.octets);
    offset += encoded.octets.length;
    column = encoded.endColumn;
    if (isPlace) places.push({ offset, tag: part.tag });
    yield;
  }
  return { octets: Buffer.concat(pieces), places };
}

function isPlaceTag(tag: string): boolean {
  return tag === OPEN_TAG || tag === UNSUBSCRIBE_TAG || tag.startsWith(clickTag(""));
}

/**
 * The fields of the part, its other fields and parameters as they were; a digest of what it was no longer holds. A charset
 * that the page itself names in a `meta` element may stay: this one goes before it.
 * @see https://html.spec.whatwg.org/multipage/parsing.html#determining-the-character-encoding
 */
function describeText(entity: MessageParts): MessageParts["fields"] {
  const fields = entity.fields.filter(({ name }) => name !== "content-md5");
  const encoded = withField(fields, "Content-Transfer-Encoding", "quoted-printable");
  if (/^utf-?8$/i.test(charsetOf(entity) ?? "")) return encoded;
  const parameters = contentTypeOf(entity).replace(/;\s*charset\s*=\s*("[^"]*"|[^\s;]*)/gi, "");
  return withField(encoded, "Content-Type", `${parameters}; charset=utf-8`);
}
