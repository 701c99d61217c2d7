import { ok, type Result, refuse } from "../../result.ts";
import { type Sentence, sentence } from "../../sentences.ts";

/** Where something stands in a text, both from 1. */
export interface TextPosition {
  readonly line: number;
  readonly column: number;
}

/** A word or a quoted string; escapes are still in `text`, the quotes are not. */
export interface Token extends TextPosition {
  readonly text: string;
  readonly quoted: boolean;
}

/** The tokens of one entry: a line, or several that parentheses join. */
export interface Entry {
  readonly tokens: readonly Token[];
  /** The entry starts with a blank: it has the owner of the one before. */
  readonly startsWithBlank: boolean;
}

/** What cannot be read, and where. */
export interface LexError extends TextPosition, Sentence {}

/**
 * Parts text in master file format into entries (RFC 1035 §5.1).
 * `master-file`: line ends end entries, `;` starts a comment. `value`: the text is one entry, line ends are blanks,
 * and `;` is data.
 */
export class MasterLexer {
  readonly #text: string;
  readonly #isFile: boolean;
  #position = 0;
  #line = 1;
  #lineStart = 0;
  #entryStart: TextPosition = { line: 1, column: 1 };
  /** Where the entry would be too long. */
  #entryLimit = 0;

  constructor(text: string, form: "master-file" | "value") {
    this.#text = text;
    this.#isFile = form === "master-file";
  }

  /** The next entry that has tokens; undefined at the end of the text. */
  nextEntry(): Result<Entry | undefined, LexError> {
    while (this.#position < this.#text.length) {
      const entry = this.#readEntry();
      if (!entry.ok || entry.value.tokens.length > 0) return entry;
    }
    return ok(undefined);
  }

  #readEntry(): Result<Entry, LexError> {
    const text = this.#text;
    const startsWithBlank = text[this.#position] === " " || text[this.#position] === "\t";
    this.#entryStart = this.#here();
    this.#entryLimit = this.#position + MAX_ENTRY_CHARACTERS + 1;
    const tokens: Token[] = [];
    const open: TextPosition[] = [];
    while (this.#position < Math.min(text.length, this.#entryLimit)) {
      const code = text.charCodeAt(this.#position);
      if (code === SPACE || code === TAB || code === RETURN) {
        this.#position += 1;
      } else if (code === NEWLINE) {
        this.#endLine();
        if (this.#isFile && open.length === 0) return ok({ tokens, startsWithBlank });
      } else if (code === SEMICOLON && this.#isFile) {
        this.#skipComment();
      } else if (code === OPEN) {
        open.push(this.#here());
        this.#position += 1;
      } else if (code === CLOSE) {
        if (open.pop() === undefined) return refuse({ ...this.#here(), ...sentence("unopened-parenthesis") });
        this.#position += 1;
      } else {
        const token = code === QUOTE ? this.#readQuoted() : this.#readWord();
        if (!token.ok) return token;
        tokens.push(token.value);
      }
    }
    if (this.#position >= this.#entryLimit) return this.#tooLong();
    const unclosed = open.pop();
    if (unclosed !== undefined) return refuse({ ...unclosed, ...sentence("unclosed-parenthesis") });
    return ok({ tokens, startsWithBlank });
  }

  #readWord(): Result<Token, LexError> {
    const text = this.#text;
    const start = this.#position;
    const here = this.#here();
    const end = Math.min(text.length, this.#entryLimit);
    let position = start;
    for (; position < end; position += 1) {
      const code = text.charCodeAt(position);
      if (code === BACKSLASH) position += 1;
      else if (code < 0x80 && ENDS_WORD[code] === 1 && (code !== SEMICOLON || this.#isFile)) break;
    }
    this.#position = Math.min(position, text.length);
    const word = text.slice(start, this.#position);
    // A backslash cannot take a line end with it.
    if (word.includes("\n")) return refuse({ ...here, ...sentence("backslash-at-end") });
    return ok({ text: word, quoted: false, line: here.line, column: here.column });
  }

  #readQuoted(): Result<Token, LexError> {
    const text = this.#text;
    const here = this.#here();
    const end = Math.min(text.length, this.#entryLimit);
    let position = this.#position + 1;
    for (; position < end; position += 1) {
      const code = text.charCodeAt(position);
      if (code === QUOTE) break;
      if (code === NEWLINE && this.#isFile) position = text.length;
      else if (code === BACKSLASH && text.charCodeAt(position + 1) !== NEWLINE) position += 1;
    }
    if (position >= text.length) return refuse({ ...here, ...sentence("unclosed-quote") });
    if (position >= end) return this.#tooLong();
    const quoted = text.slice(this.#position + 1, position);
    this.#position = position + 1;
    return ok({ text: quoted, quoted: true, line: here.line, column: here.column });
  }

  #skipComment(): void {
    const lineEnd = this.#text.indexOf("\n", this.#position);
    const end = lineEnd < 0 ? this.#text.length : lineEnd;
    this.#entryLimit += end - this.#position;
    this.#position = end;
  }

  #tooLong(): Result<never, LexError> {
    return refuse({ ...this.#entryStart, ...sentence("entry-too-long", { most: MAX_ENTRY_CHARACTERS }) });
  }

  #endLine(): void {
    this.#position += 1;
    this.#line += 1;
    this.#lineStart = this.#position;
  }

  #here(): TextPosition {
    return { line: this.#line, column: this.#position - this.#lineStart + 1 };
  }
}

/**
 * Most characters of an entry, comments aside: RDATA of 65,535 octets that all stand as `\DDD` (RFC 1035 §5.1), and room
 * for owner, TTL, class, type, quotes and blanks. What is longer can be no record.
 */
const MAX_ENTRY_CHARACTERS = 300_000;

const TAB = 0x09;
const NEWLINE = 0x0a;
const RETURN = 0x0d;
const SPACE = 0x20;
const QUOTE = 0x22;
const OPEN = 0x28;
const CLOSE = 0x29;
const SEMICOLON = 0x3b;
const BACKSLASH = 0x5c;

/** Which ASCII characters end a word. */
const ENDS_WORD = new Uint8Array(0x80);
for (const code of [TAB, NEWLINE, RETURN, SPACE, QUOTE, OPEN, CLOSE, SEMICOLON]) ENDS_WORD[code] = 1;
