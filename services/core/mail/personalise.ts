/** Tags of the form `XYZ<NAME>XYZ` in a subject or a body, and the values that take their place for one recipient. */

import { type Sentence, sentence } from "../sentences.ts";

/** Literal text and tags, in order; parsed once and rendered for each recipient. */
export type TextTemplate = readonly (string | { readonly tag: string })[];

/** The unsubscribe URL of the recipient. */
export const UNSUBSCRIBE_TAG = "DESUSC";
/** A campaign whose subject is this text takes its subject from a URL. */
export const DYNAMIC_SUBJECT = "XYZTAG-CURLXYZ";

/**
 * Values for one recipient, by tag name without its wrapping. The first map that has the name decides.
 * `system` are the platform's own: the unsubscribe URL, and the tracking URLs that a link rewriter put tags for.
 */
export interface PersonalValues {
  readonly system: ReadonlyMap<string, string>;
  readonly customFields: ReadonlyMap<string, string>;
  readonly builtIns: ReadonlyMap<string, string>;
  readonly globals: ReadonlyMap<string, string>;
}

/** Profile of a contact, as far as built-in tags show it; absent values become empty. */
export interface ContactProfile {
  readonly email: string;
  readonly firstName: string;
  readonly lastName: string;
  readonly age: number | null;
  readonly sex: string;
  readonly profession: string;
  readonly locality: string;
}

const WRAP = "XYZ";
/** Words with spaces or dots between them, as headings of spreadsheets are: `XYZFecha de altaXYZ`. */
const TAG_NAME = /^[\p{L}\p{N}_-]+(?:[ .]+[\p{L}\p{N}_-]+)*$/u;
/** Longer than any field's or variable's name. Text between two `XYZ` that lie further apart is not even looked at. */
const MOST_NAME_CHARACTERS = 500;
const WRAPPED_NAME = /^XYZ(.+)XYZ$/s;

/** Split text at its tags. Tags are found in the given text only: values are never searched for further tags. */
export function parseTemplate(text: string): TextTemplate {
  const parts: (string | { readonly tag: string })[] = [];
  let end = 0;
  for (let start = text.indexOf(WRAP); start >= 0; ) {
    const nameStart = start + WRAP.length;
    const nameEnd = text.indexOf(WRAP, nameStart + 1); // a name has a character at least
    if (nameEnd < 0) break;
    const tag = nameEnd - nameStart > MOST_NAME_CHARACTERS ? "" : text.slice(nameStart, nameEnd);
    if (!TAG_NAME.test(tag)) {
      start = text.indexOf(WRAP, start + 1);
      continue;
    }
    if (start > end) parts.push(text.slice(end, start));
    parts.push({ tag });
    end = nameEnd + WRAP.length;
    start = text.indexOf(WRAP, end);
  }
  if (end < text.length) parts.push(text.slice(end));
  return parts;
}

/** Text for one recipient. @param escapeValue applied to each value, not to the text around it */
export function renderTemplate(
  template: TextTemplate,
  values: PersonalValues,
  escapeValue: (value: string) => string = (value) => value,
): string {
  return template.map((part) => (typeof part === "string" ? part : escapeValue(tagValue(part.tag, values)))).join("");
}

/** A recipient's values may take so many octets in one copy: a short template has room for a long value thousands of times. */
export const MOST_PERSONAL_OCTETS = 64 * 2 ** 20;

/** Nor may they make a subject so long, in UTF-16 units: it is folded and encoded for each copy, and shown nowhere. */
export const MOST_RENDERED_SUBJECT_CHARACTERS = 10_000;

/** Links and tags of a page: each is made anew for each recipient, and what anybody wrote has some hundreds. */
export const MOST_PLACES = 10_000;
const LINKS_AND_WRAPS = /XYZ|\b[hH][rR][eE][fF]\b/g;

/** Why a page cannot be mailed to many: it has more links and tags than MOST_PLACES. */
export function judgePlaces(html: string): Sentence | undefined {
  let places = 0;
  for (const [found] of html.matchAll(LINKS_AND_WRAPS)) {
    // A tag is wrapped on both sides.
    places += found === WRAP ? 0.5 : 1;
    if (places > MOST_PLACES) return sentence("html-too-many-places", { most: MOST_PLACES });
  }
  return undefined;
}

/** How often each tag stands in templates. */
export function countPlaces(templates: readonly TextTemplate[]): ReadonlyMap<string, number> {
  const places = new Map<string, number>();
  for (const part of templates.flat()) {
    if (typeof part !== "string") places.set(part.tag, (places.get(part.tag) ?? 0) + 1);
  }
  return places;
}

/** How often each tag stands in a message: in the HTML, where values are escaped, and elsewhere. */
export interface MessagePlaces {
  readonly html: ReadonlyMap<string, number>;
  readonly plain: ReadonlyMap<string, number>;
}

export function placesInMessage(parts: Record<"subject" | "html" | "text", TextTemplate>): MessagePlaces {
  return { html: countPlaces([parts.html]), plain: countPlaces([parts.subject, parts.text]) };
}

/** What values take in one copy of a message. */
export function personalOctets({ html, plain }: MessagePlaces, valueFor: (tag: string) => string): number {
  return octetsInPlaces(html, valueFor, escapeHtml) + octetsInPlaces(plain, valueFor);
}

/** What values take in their places, in the encodings of mail: counted, as it may be too much to be made. */
export function octetsInPlaces(
  places: ReadonlyMap<string, number>,
  valueFor: (tag: string) => string,
  escapeValue: (value: string) => string = (value) => value,
): number {
  let octets = 0;
  for (const [tag, count] of places) octets += count * encodedOctets(escapeValue(valueFor(tag)));
  return octets;
}

/** What is not ASCII becomes three characters an octet in quoted-printable. */
function encodedOctets(text: string): number {
  const octets = Buffer.byteLength(text);
  return octets === text.length ? octets : 3 * octets;
}

/** Value of one tag: system, custom field, built-in, global variable; an unknown tag is empty. */
export function tagValue(tag: string, { system, customFields, builtIns, globals }: PersonalValues): string {
  return system.get(tag) ?? customFields.get(tag) ?? builtIns.get(tag) ?? globals.get(tag) ?? "";
}

/** Values of the built-in tags. */
export function builtInValues(contact: ContactProfile): ReadonlyMap<string, string> {
  return new Map([
    ["NOMBRE", contact.firstName],
    ["APELLIDO", contact.lastName],
    ["EMAIL", contact.email],
    ["EDAD", contact.age === null ? "" : String(contact.age)],
    ["SEXO", contact.sex],
    ["PROFESION", contact.profession],
    ["LOCALIDAD", contact.locality],
  ]);
}

/** Name of a custom field or global variable without its optional wrapping: `XYZCOLORXYZ` and `COLOR` are one. */
export function bareTagName(name: string): string {
  return WRAPPED_NAME.exec(name)?.[1] ?? name;
}

/** Name with its wrapping, as custom fields are shown and as tags are written. */
export function wrappedTagName(name: string): string {
  return `${WRAP}${bareTagName(name)}${WRAP}`;
}

/** Make a value inert in HTML text and in quoted attributes. */
export function escapeHtml(value: string): string {
  return value.replace(/[&<>"']/g, (character) => HTML_ENTITIES[character] as string);
}

const HTML_ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};
