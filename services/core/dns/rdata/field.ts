import { type Sentence, sentence } from "../../sentences.ts";
import type { DomainName } from "../name.ts";
import type { WireWriter } from "../wire-writer.ts";
import type { Token } from "../zone-file/lexer.ts";

/**
 * Where the text comes from. `value`: a field of the API (`;` is data, an unquoted TXT is one text, long texts are
 * split). `master-file`: an entry of a zone file.
 */
export type RdataContext = "value" | "master-file";

/**
 * Who reads what is written. `api`: names and types as people write them. `master-file`: as BIND, NSD and Knot all take
 * them.
 */
export type TextForm = "api" | "master-file";

/** What the text of a field is read against. */
export interface FieldScope {
  readonly origin: DomainName | undefined;
  readonly context: RdataContext;
}

/**
 * How many octets a field takes: a fixed number, a domain name, a string with its length in the first octet,
 * or all that is left.
 */
export type FieldLayout = number | "name" | "counted" | "rest";

/** One field of a type's RDATA: how it stands on the wire, and how in presentation format. */
export interface Field {
  /** As the type's RFC calls it. */
  readonly name: string;
  readonly layout: FieldLayout;
  /** For names: whether RFC 1035 lets a message compress them (RFC 3597 §4). */
  readonly compressible?: boolean;
  /** Takes its tokens and writes its octets; gives back what is wrong with them. */
  parse(tokens: TokenCursor, out: WireWriter, scope: FieldScope): Sentence | undefined;
  /** The field's octets in presentation format; undefined when they are not lawful, or cannot be said in this form. */
  format(octets: Uint8Array, form: TextForm): string | undefined;
}

/** What is wrong with a field. */
export interface FieldProblem extends Sentence {
  /** As {@link Field.name}. */
  readonly field: string;
}

/** A type's RDATA: its fields in order, and what must hold between them. */
export interface RdataShape {
  readonly fields: readonly Field[];
  /** What is wrong with fields that are well-formed one by one. */
  readonly check?: (rdata: Uint8Array) => FieldProblem | undefined;
}

/** Walks the tokens of one entry. */
export class TokenCursor {
  readonly #tokens: readonly Token[];
  #next: number;

  constructor(tokens: readonly Token[], start = 0) {
    this.#tokens = tokens;
    this.#next = start;
  }

  /** The next token, left in place. */
  peek(): Token | undefined {
    return this.#tokens[this.#next];
  }

  take(): Token | undefined {
    const token = this.#tokens[this.#next];
    if (token !== undefined) this.#next += 1;
    return token;
  }

  /** All tokens that are left. */
  takeRest(): readonly Token[] {
    const rest = this.#tokens.slice(this.#next);
    this.#next = this.#tokens.length;
    return rest;
  }

  /** The token taken last. */
  get last(): Token | undefined {
    return this.#tokens[this.#next - 1];
  }
}

/** A field of one unquoted token. `parseToken` writes the octets and gives back what is wrong. */
export function wordField(
  name: string,
  layout: FieldLayout,
  codec: {
    parse(text: string, out: WireWriter, scope: FieldScope): Sentence | undefined;
    format(octets: Uint8Array, form: TextForm): string | undefined;
  },
): Field {
  return {
    name,
    layout,
    format: codec.format,
    parse(tokens, out, scope) {
      const token = tokens.take();
      if (token === undefined) return MISSING;
      if (token.quoted) return sentence("part-quoted");
      return codec.parse(token.text, out, scope);
    },
  };
}

/** What is said of a field that is not there. */
export const MISSING = sentence("part-missing");

/** Where the field that starts at `offset` ends; undefined when the octets do not suffice. */
export function fieldEnd(layout: FieldLayout, rdata: Uint8Array, offset: number): number | undefined {
  const end = unboundedEnd(layout, rdata, offset);
  return end !== undefined && end <= rdata.length ? end : undefined;
}

function unboundedEnd(layout: FieldLayout, rdata: Uint8Array, offset: number): number | undefined {
  if (typeof layout === "number") return offset + layout;
  if (layout === "rest") return rdata.length;
  const length = rdata[offset];
  if (layout === "counted") return length === undefined ? undefined : offset + 1 + length;
  let end = offset;
  for (;;) {
    const labelOctets = rdata[end];
    if (labelOctets === undefined || labelOctets > 63) return undefined;
    end += labelOctets + 1;
    if (end - offset > 255) return undefined;
    if (labelOctets === 0) return end;
  }
}
