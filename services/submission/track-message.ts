import { decodeQuotedPrintable } from "../core/mail/bounce/decode.ts";
import { charsetDecoder } from "../core/mail/charset.ts";
import { joinMessage, type MessageParts, splitMessage } from "../core/mail/message.ts";
import { type MessagePlace, type MessageTracking, SOFT_BREAK } from "../core/mail/message-places.ts";
import { encodeQuotedPrintable, toCrlf } from "../core/mail/mime.ts";
import { parseTemplate, UNSUBSCRIBE_TAG, wrappedTagName } from "../core/mail/personalise.ts";
import { withUnsubscribeLink } from "../core/mail/template.ts";
import { clickTag, OPEN_TAG, type TrackedHtml, trackHtmlSteps } from "../core/mail/tracking-html.ts";
import type { Steps } from "../core/steps.ts";
import { findDelimiters, MOST_LEVELS, mediaTypeOf, readBoundary, readField, withField } from "./mime-tree.ts";

/** A message whose HTML leaves place for each recipient's own URLs. */
export interface TrackedMessage {
  readonly octets: Buffer;
  readonly tracking: MessageTracking;
}

/** What the campaign wants of the HTML. */
export interface TrackingSettings {
  /** Links and opening are counted. */
  readonly tracking: boolean;
  /** An unsubscribe link is added, unless the author put its tag somewhere. */
  readonly unsubscribe: boolean;
}

/**
 * Makes the HTML of a submitted message countable: the first HTML part that is shown, be it alone or within
 * alternatives. All octets outside of it stay as they are. What is signed or encrypted (RFC 1847, S/MIME, OpenPGP), or
 * carries a DKIM signature of its author's, stays as a whole, as does HTML that cannot be read.
 * @param octets CRLF only, 7-bit
 * @returns undefined when nothing is to be tracked; in steps, as a message may have very many links
 */
export function* trackMessage(octets: Buffer, settings: TrackingSettings): Steps<TrackedMessage | undefined> {
  const root = splitMessage(octets);
  // RFC 2045 §4: without the version a body is plain text, whatever its fields say.
  if (readField(root, "mime-version") === undefined || readField(root, "dkim-signature") !== undefined)
    return undefined;
  const found = findHtml(octets, { start: 0, end: octets.length }, 0);
  const html = found && readHtml(splitMessage(octets.subarray(found.start, found.end)));
  if (!found || html === undefined) return undefined;
  const rewritten = yield* rewriteHtml(html, settings);
  if (rewritten === undefined) return undefined;
  const entity = yield* encodeHtml(splitMessage(octets.subarray(found.start, found.end)), rewritten.html);
  const places = entity.places.map(({ offset, tag }) => ({ offset: offset + found.start, tag }));
  return {
    octets: Buffer.concat([octets.subarray(0, found.start), entity.octets, octets.subarray(found.end)]),
    tracking: { places, links: rewritten.links, ...(rewritten.hidden.length > 0 ? { hidden: rewritten.hidden } : {}) },
  };
}

interface Range {
  readonly start: number;
  readonly end: number;
}

/** Parts in which a shown HTML part may stand. Not `multipart/signed` and `multipart/encrypted`: those are nobody's to change. */
const SEARCHED = new Set(["multipart/mixed", "multipart/alternative", "multipart/related"]);

function findHtml(message: Buffer, { start, end }: Range, level: number): Range | undefined {
  const entity = splitMessage(message.subarray(start, end));
  const contentType = readField(entity, "content-type") ?? "text/plain";
  const type = mediaTypeOf(contentType);
  const isAttached = /^attachment\b/i.test(readField(entity, "content-disposition") ?? "");
  if (type === "text/html") return isAttached ? undefined : { start, end };
  const boundary = SEARCHED.has(type) && level < MOST_LEVELS ? readBoundary(contentType) : undefined;
  if (boundary === undefined) return undefined;
  const bodyStart = end - entity.body.length;
  const delimiters = findDelimiters(entity.body, boundary);
  for (const [index, delimiter] of delimiters.entries()) {
    if (delimiter.closes) break;
    const next = delimiters[index + 1]?.start ?? entity.body.length;
    const found = findHtml(message, { start: bodyStart + delimiter.end, end: bodyStart + next }, level + 1);
    if (found) return found;
  }
  return undefined;
}

/** The text of an HTML part; undefined when its encoding or charset is not understood to the last octet. */
function readHtml(entity: MessageParts): string | undefined {
  const octets = decodeBody(entity);
  if (octets === undefined) return undefined;
  const label = /;\s*charset\s*=\s*"?([^\s";]+)/i.exec(readField(entity, "content-type") ?? "")?.[1] ?? "utf-8";
  const charset = /^(us-)?ascii$/i.test(label) ? "utf-8" : label;
  try {
    const html = charsetDecoder(charset, { fatal: true, ignoreBOM: true })?.decode(octets);
    if (html === undefined) return undefined;
    return /-----BEGIN PGP /.test(html) || html.includes("\0") ? undefined : html;
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
  const tracked = tracking ? yield* trackHtmlSteps(html, hasTag) : untracked;
  if (tracked.html === given && !given.includes(wrappedTagName(UNSUBSCRIBE_TAG))) return undefined;
  const links: Record<string, string> = {};
  for (const [link, target] of tracked.links) {
    links[link] = target;
    yield;
  }
  return { html: tracked.html, links, hidden: [...tracked.hidden] };
}

/** The part again, as quoted-printable UTF-8, with room for each place at the beginning of a line. */
function* encodeHtml(
  entity: MessageParts,
  html: string,
): Steps<{ readonly octets: Buffer; readonly places: readonly MessagePlace[] }> {
  const pieces = [joinMessage({ fields: describeHtml(entity), body: Buffer.alloc(0) })];
  const places: MessagePlace[] = [];
  let offset = pieces[0]!.length;
  let column = 0;
  for (const part of parseTemplate(toCrlf(html))) {
    const isPlace = typeof part !== "string" && isPlaceTag(part.tag);
    const text = typeof part === "string" ? part : wrappedTagName(part.tag);
    const encoded = isPlace ? { octets: SOFT_BREAK, endColumn: 0 } : encodeQuotedPrintable(text, column);
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
function describeHtml(entity: MessageParts): MessageParts["fields"] {
  const fields = entity.fields.filter(({ name }) => name !== "content-md5");
  const encoded = withField(fields, "Content-Transfer-Encoding", "quoted-printable");
  const contentType = readField(entity, "content-type")!;
  if (/;\s*charset\s*=\s*"?utf-?8"?/i.test(contentType)) return encoded;
  const parameters = contentType.replace(/;\s*charset\s*=\s*("[^"]*"|[^\s;]*)/gi, "");
  return withField(encoded, "Content-Type", `${parameters}; charset=utf-8`);
}
