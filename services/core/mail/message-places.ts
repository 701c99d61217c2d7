/** Places in a finished message that differ from recipient to recipient: the URLs of links, pixel and unsubscription. */
import { encodeQuotedPrintable, SOFT_BREAK } from "./mime.ts";
import { escapeHtml } from "./personalise.ts";
import type { LinkId } from "./tracking-html.ts";

/** Where a value goes in. */
export interface MessagePlace {
  /** In octets from the beginning of the message; at the start of a quoted-printable line. */
  readonly offset: number;
  /** Name of the value, see `trackingValues`. */
  readonly tag: string;
  /** The value stands as it is, not as HTML has it. */
  readonly inPlainText?: boolean;
}

/** What is tracked of a finished message. JSON holds it as it is. */
export interface MessageTracking {
  /** By offset. */
  readonly places: readonly MessagePlace[];
  /** Targets by link. */
  readonly links: Readonly<Record<LinkId, string>>;
  /** Those of them that no reader can see. */
  readonly hidden?: readonly LinkId[];
}

/** One recipient's octets. @param values by tag; one that is missing leaves its place empty */
export function fillPlaces(
  octets: Buffer,
  places: readonly MessagePlace[],
  values: ReadonlyMap<string, string>,
): Buffer {
  const pieces: Buffer[] = [];
  let end = 0;
  for (const { offset, tag, inPlainText = false } of places) {
    const value = values.get(tag) ?? "";
    const encoded = encodeQuotedPrintable(inPlainText ? value : escapeHtml(value)).octets;
    pieces.push(octets.subarray(end, offset), encoded, SOFT_BREAK);
    end = offset;
  }
  return Buffer.concat([...pieces, octets.subarray(end)]);
}
