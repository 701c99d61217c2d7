/** Makes the links of an HTML body countable, and adds the pixel that tells of its opening; once per message. */
import { hash } from "node:crypto";
import { QuoteType, Tokenizer, type TokenizerCallbacks } from "htmlparser2";
import { runAtOnce, type Steps } from "../steps.ts";
import { parseUrl } from "../url.ts";
import { parseTemplate, UNSUBSCRIBE_TAG, wrappedTagName } from "./personalise.ts";

/** HTML with tags in place of link targets, and the targets that they stand for. */
export interface TrackedHtml {
  readonly html: string;
  /** Targets as they were written (entities decoded, personal tags kept), by link id. */
  readonly links: ReadonlyMap<LinkId, string>;
  /** Those of them that no reader can see, wherever they stand. */
  readonly hidden: ReadonlySet<LinkId>;
}

/** Names a target within its message: twelve hexadecimal digits that follow from the target alone. */
export type LinkId = string;

/** The tag of the pixel's URL. */
export const OPEN_TAG = "_OPEN";

/** The tag that a link's tracking URL takes the place of. */
export function clickTag(link: LinkId): string {
  return `_CLICK-${link}`;
}

/**
 * Replace the targets of links by tags, and add the pixel at the end of the body. All other octets stay as they are.
 *
 * Links are http and https URLs of `a` and `area`. Left alone: `mailto:`, `tel:`, anchors, relative links, targets
 * that begin with a tag or hold that of the unsubscribe URL, targets of more than 8 KiB, links whose text is itself a
 * URL (a text that shows one address and leads to another is what filters take for fraud), and everything in comments
 * (so Outlook's conditional ones), scripts and styles. AMP pages allow neither pixel nor foreign links: they are left
 * alone as a whole.
 * @param isLeftAlone targets that stay beside those
 */
export function trackHtml(html: string, isLeftAlone?: (target: string) => boolean): TrackedHtml {
  return runAtOnce(trackHtmlSteps(html, isLeftAlone));
}

/** `trackHtml` in steps, for pages with thousands of links. */
export function* trackHtmlSteps(
  html: string,
  isLeftAlone: (target: string) => boolean = () => false,
): Steps<TrackedHtml> {
  const found = yield* findLinks(html);
  if (found.isAmp) return { html, links: new Map(), hidden: new Set() };
  const links = new Map<LinkId, string>();
  const visible = new Set<LinkId>();
  const edits: Edit[] = [];
  for (const { start, end, target, isHidden } of found.links) {
    if (isLeftAlone(target)) continue;
    const link = linkIdOf(target);
    links.set(link, target);
    if (!isHidden) visible.add(link);
    edits.push({ start, end, text: wrappedTagName(clickTag(link)) });
    yield;
  }
  const pixel = `<img src="${wrappedTagName(OPEN_TAG)}" width="1" height="1" alt="" style="display:block;border:0">`;
  edits.push({ start: found.bodyEnd, end: found.bodyEnd, text: pixel });
  const hidden = new Set([...links.keys()].filter((link) => !visible.has(link)));
  return { html: yield* applyEdits(html, edits), links, hidden };
}

export function linkIdOf(target: string): LinkId {
  return hash("sha256", target, "hex").slice(0, 12);
}

interface FoundLink {
  /** Of the attribute's value, quotes not included. */
  readonly start: number;
  readonly end: number;
  readonly target: string;
  readonly isHidden: boolean;
}

interface Found {
  readonly links: readonly FoundLink[];
  /** Where the pixel goes. */
  readonly bodyEnd: number;
  readonly isAmp: boolean;
}

/** Elements that hide what is in them, and that nobody leaves open. */
const HIDING = new Set(["a", "div", "span", "table", "section"]);

/** Of a page, read in one step. */
const STEP_CHARACTERS = 16_384;

function* findLinks(html: string): Steps<Found> {
  const reader = new LinkReader(html);
  const tokenizer = new Tokenizer({ decodeEntities: true }, reader);
  for (let start = 0; start < html.length; start += STEP_CHARACTERS) {
    tokenizer.write(html.slice(start, start + STEP_CHARACTERS));
    yield;
  }
  tokenizer.end();
  return { links: reader.links, bodyEnd: reader.bodyEnd ?? html.length, isAmp: reader.isAmp };
}

/** Reads tokens rather than elements: they come with their places in the text, and broken pages need no repair. */
class LinkReader implements TokenizerCallbacks {
  readonly links: FoundLink[] = [];
  bodyEnd: number | undefined;
  isAmp = false;
  readonly #html: string;
  #element = "";
  #attribute = "";
  /** Behind the attribute's name. */
  #nameEnd = 0;
  #value = "";
  /** The link whose text is being read. */
  #open: (FoundLink & { text: string }) | undefined;
  /** The link of the tag that is being read. */
  #next: FoundLink | undefined;
  /** What the tag that is being read says of its being seen. */
  #saysHidden = false;
  /** Classes and ids may show an element after all: on telephones, many a message does so. */
  #isStyledElsewhere = false;
  /** The element that hides all that is being read, and how many of its name are open within it, itself included. */
  #hiddenBy: { readonly name: string; open: number } | undefined;

  constructor(html: string) {
    this.#html = html;
  }

  onopentagname(start: number, end: number): void {
    this.#element = this.#html.slice(start, end).toLowerCase();
    this.#next = undefined;
    this.#saysHidden = false;
    this.#isStyledElsewhere = false;
  }

  onattribname(start: number, end: number): void {
    this.#attribute = this.#html.slice(start, end).toLowerCase();
    this.#nameEnd = end;
    this.#value = "";
    if (this.#element === "html" && /^(?:⚡|amp)(?:4email)?$/u.test(this.#attribute)) this.isAmp = true;
  }

  onattribdata(start: number, end: number): void {
    this.#value += this.#html.slice(start, end);
  }

  onattribentity(codePoint: number): void {
    this.#value += String.fromCodePoint(codePoint);
  }

  onattribend(quote: QuoteType, end: number): void {
    if (this.#attribute === "class" || this.#attribute === "id") this.#isStyledElsewhere = true;
    if (this.#attribute === "hidden") this.#saysHidden = true;
    if (this.#attribute === "style" && INVISIBLE.test(this.#value)) this.#saysHidden = true;
    if (this.#attribute !== "href" || this.#next !== undefined) return;
    if (this.#element !== "a" && this.#element !== "area") return;
    const target = this.#value.trim();
    if (!isTrackable(target)) return;
    // The tokenizer gives no place of an entity, with which the value may begin.
    const start = this.#nameEnd + UP_TO_VALUE.exec(this.#html.slice(this.#nameEnd, end))![0].length;
    const isHidden = this.#hiddenBy !== undefined;
    this.#next = { start, end: quote === QuoteType.Unquoted ? end : end - 1, target, isHidden };
  }

  onopentagend(): void {
    const isHidden = this.#saysHidden && !this.#isStyledElsewhere;
    if (this.#hiddenBy?.name === this.#element) this.#hiddenBy.open += 1;
    else if (isHidden && HIDING.has(this.#element)) this.#hiddenBy ??= { name: this.#element, open: 1 };
    if (isHidden && this.#next !== undefined) this.#next = { ...this.#next, isHidden };
    if (this.#element === "a") {
      this.#finishLink();
      if (this.#next !== undefined) this.#open = { ...this.#next, text: "" };
    } else if (this.#next !== undefined) this.links.push(this.#next);
    this.#next = undefined;
  }

  onselfclosingtag(): void {
    this.onopentagend();
  }

  onclosetag(start: number, end: number): void {
    const name = this.#html.slice(start, end).toLowerCase();
    if (this.#hiddenBy?.name === name && --this.#hiddenBy.open === 0) this.#hiddenBy = undefined;
    if (name === "a") this.#finishLink();
    else if (name === "body" || (name === "html" && this.bodyEnd === undefined)) {
      this.bodyEnd = this.#html.lastIndexOf("<", start);
    }
  }

  ontext(start: number, end: number): void {
    if (this.#open !== undefined) this.#open.text += this.#html.slice(start, end);
  }

  ontextentity(codePoint: number): void {
    if (this.#open !== undefined) this.#open.text += String.fromCodePoint(codePoint);
  }

  onend(): void {
    this.#finishLink();
  }

  oncdata(): void {}
  oncomment(): void {}
  ondeclaration(): void {}
  onprocessinginstruction(): void {}

  #finishLink(): void {
    if (this.#open !== undefined && !showsUrl(this.#open.text)) {
      const { text: _, ...link } = this.#open;
      this.links.push(link);
    }
    this.#open = undefined;
  }
}

/** What stands between an attribute's name and its value. */
const UP_TO_VALUE = /^[ \t\n\f\r]*=[ \t\n\f\r]*["']?/;
const INVISIBLE = /(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)\b/i;

/** Of a target: servers take no longer request lines (RFC 9112 §3 asks for 8,000), and links of recent messages are kept in memory. */
const MOST_TARGET_OCTETS = 8 * 1024;

function isTrackable(target: string): boolean {
  if (Buffer.byteLength(target) > MOST_TARGET_OCTETS) return false;
  if (!/^https?:\/\//i.test(target)) return false;
  const parts = parseTemplate(target);
  // Only the message knows that URL, and unsubscribing is not to depend on anything else.
  if (parts.some((part) => typeof part !== "string" && part.tag === UNSUBSCRIBE_TAG)) return false;
  return parseUrl(parts.map((part) => (typeof part === "string" ? part : "x")).join("")) !== undefined;
}

function showsUrl(text: string): boolean {
  return /^(?:https?:\/\/|www\.)\S+$/i.test(text.trim());
}

/** What is to stand in the place of a piece of the page. */
interface Edit {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

function* applyEdits(html: string, edits: readonly Edit[]): Steps<string> {
  const pieces: string[] = [];
  let end = 0;
  for (const edit of edits.toSorted((a, b) => a.start - b.start)) {
    pieces.push(html.slice(end, edit.start), edit.text);
    end = edit.end;
    yield;
  }
  pieces.push(html.slice(end));
  return pieces.join("");
}
