/** The plain-text alternative of an HTML body. One pass without a tree: a hostile page costs no more than its length. */
import { Parser } from "htmlparser2";
import { runAtOnce, type Steps } from "../steps.ts";

/** Elements whose content nobody sees. */
const HIDDEN = new Set("title style script template svg object select".split(" "));
/** Elements with an empty line before and after them. */
const PARAGRAPHS = new Set("p h1 h2 h3 h4 h5 h6 table ul ol dl blockquote pre figure fieldset hr".split(" "));
/** Elements that start a line of their own. */
const LINES = new Set(
  [
    "div tr li dt dd center form caption figcaption address body",
    "section article header footer main nav aside",
  ].flatMap((line) => line.split(" ")),
);
const CELLS = new Set(["td", "th"]);
/** Links that a reader of plain text can use; a tag may stand for a whole URL. */
const USEFUL_LINK = /^(?:https?:|mailto:|tel:|XYZ)/i;
/** Deeper nesting is no page that anybody wrote, and it makes the parser slow: reading ends there. */
const MAX_DEPTH = 1_000;
/** Of a page, read in one step. */
const STEP_CHARACTERS = 16_384;

/**
 * Text of a page, tags of the form `XYZ<NAME>XYZ` kept: links as `text [URL]`, list items behind a star,
 * images by their alternative text.
 * @returns lines ended by LF, without white space at either end
 */
export function textFromHtml(html: string): string {
  return runAtOnce(textFromHtmlSteps(html));
}

/** `textFromHtml` in steps, for pages of megabytes. */
export function* textFromHtmlSteps(html: string): Steps<string> {
  const writer = new TextWriter();
  const links: { readonly href: string; readonly start: number }[] = [];
  let depth = 0;
  let hiddenDepth = 0;
  let preformattedDepth = 0;
  const parser = new Parser({
    onopentag(name, attributes) {
      if (++depth > MAX_DEPTH) return parser.pause();
      if (HIDDEN.has(name)) hiddenDepth++;
      if (hiddenDepth > 0) return;
      if (name === "pre") preformattedDepth++;
      startElement(writer, name, attributes);
      // A link within a link is none: so each piece of text belongs to one at most.
      if (name === "a") {
        links.push({ href: links.length === 0 ? (attributes.href?.trim() ?? "") : "", start: writer.pieceCount });
      }
    },
    ontext(text) {
      if (hiddenDepth === 0) writer.write(text, preformattedDepth > 0);
    },
    onclosetag(name) {
      depth--;
      if (HIDDEN.has(name)) hiddenDepth--;
      else if (hiddenDepth === 0) {
        if (name === "pre") preformattedDepth--;
        const link = name === "a" ? links.pop() : undefined;
        if (link !== undefined) writeTarget(writer, link.href, link.start);
        endElement(writer, name);
      }
    },
  });
  for (let start = 0; start < html.length; start += STEP_CHARACTERS) {
    parser.write(html.slice(start, start + STEP_CHARACTERS));
    yield;
  }
  parser.end();
  return writer.textFrom(0);
}

function startElement(writer: TextWriter, name: string, attributes: Readonly<Record<string, string>>): void {
  if (name === "br") writer.addBreak();
  else if (name === "img") writer.write(attributes.alt ?? "", false);
  else if (PARAGRAPHS.has(name)) writer.requireBreaks(2);
  else if (LINES.has(name)) writer.requireBreaks(1);
  if (name === "li") writer.write("* ", false);
  if (name === "hr") writer.write("---", false);
}

function endElement(writer: TextWriter, name: string): void {
  if (PARAGRAPHS.has(name)) writer.requireBreaks(2);
  else if (LINES.has(name)) writer.requireBreaks(1);
  else if (CELLS.has(name)) writer.write(" ", false);
}

function writeTarget(writer: TextWriter, href: string, start: number): void {
  if (!USEFUL_LINK.test(href)) return;
  const shown = writer.textFrom(start);
  if (shown !== href && shown !== href.replace(/^(?:mailto|tel):/i, "")) writer.write(` [${href}]`, false);
}

/** Text with white space collapsed as a browser does; breaks are held back until something follows them. */
class TextWriter {
  readonly #pieces: string[] = [];
  #pendingBreaks = 0;
  #isSpacePending = false;

  get pieceCount(): number {
    return this.#pieces.length;
  }

  textFrom(piece: number): string {
    return this.#pieces.slice(piece).join("").trim();
  }

  write(data: string, isPreformatted: boolean): void {
    const [content, startsWithSpace, endsWithSpace] = isPreformatted ? [data, false, false] : collapse(data);
    this.#isSpacePending ||= startsWithSpace;
    if (content === "") return;
    if (this.#pendingBreaks > 0) this.#pieces.push("\n".repeat(this.#pendingBreaks));
    else if (this.#isSpacePending) this.#pieces.push(" ");
    this.#pieces.push(content);
    this.#pendingBreaks = 0;
    this.#isSpacePending = endsWithSpace;
  }

  /** One more line break, as `br` asks for; more than two in a row stay two. */
  addBreak(): void {
    this.requireBreaks(Math.min(this.#pendingBreaks + 1, 2));
  }

  /** At least so many line breaks before what follows. */
  requireBreaks(count: number): void {
    this.#pendingBreaks = Math.max(this.#pendingBreaks, count);
    this.#isSpacePending = false;
  }
}

function collapse(data: string): [content: string, startsWithSpace: boolean, endsWithSpace: boolean] {
  const collapsed = data.replace(/\s+/g, " ");
  return [collapsed.trim(), collapsed.startsWith(" "), collapsed.endsWith(" ")];
}
