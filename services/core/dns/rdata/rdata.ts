import { ok, type Result, refuse } from "../../result.ts";
import { onlySentence, type Sentence, sentence } from "../../sentences.ts";
import type { DomainName } from "../name.ts";
import { BAD_ESCAPE, octetsOfText } from "../octet-text.ts";
import { TYPE, typeMnemonic } from "../rr-types.ts";
import { WireWriter } from "../wire-writer.ts";
import { MasterLexer, type Token } from "../zone-file/lexer.ts";
import { writeSplitText } from "./basic-fields.ts";
import { CERTIFICATE_RR_TYPES } from "./certificate-types.ts";
import { DNSSEC_TYPES } from "./dnssec-types.ts";
import { formatHex, parseHex } from "./encoded-fields.ts";
import {
  type Field,
  type FieldLayout,
  fieldEnd,
  type RdataContext,
  type RdataShape,
  type TextForm,
  TokenCursor,
} from "./field.ts";
import { HOST_TYPES } from "./host-types.ts";
import { isLawfulOpaque, layoutsUpToNames } from "./opaque-types.ts";
import { SERVICE_TYPES } from "./service-types.ts";

export type { RdataContext } from "./field.ts";

/** What is wrong with the text or the octets of a record's data. */
export interface RdataError extends Sentence {
  /** The field's name as its RFC has it, such as `address`; `value` when it is the whole. */
  readonly field: string;
  /** Line of the text, from 1. */
  readonly line?: number;
  /** Column of the text, from 1. */
  readonly column?: number;
}

/** What is wrong with data, after the part that it is about unless that is the whole. */
export function rdataReason(error: RdataError): Sentence {
  return error.field === "value" ? onlySentence(error) : sentence("of-a-part", { part: error.field, reason: error });
}

/** A name inside RDATA. */
export interface EmbeddedName {
  readonly offset: number;
  readonly length: number;
  /** Whether it may be compressed in a message: RFC 1035 types only (RFC 3597 §4). */
  readonly compressible: boolean;
}

/**
 * RDATA in wire form of a text in presentation format; any type may be in the form `\# length hex` (RFC 3597 §5).
 * @param origin what relative names in it are relative to
 */
export function parseRdata(
  type: number,
  text: string,
  origin: DomainName | undefined,
  context: RdataContext,
): Result<Uint8Array, RdataError> {
  if (context === "value" && isTextType(type) && isUnquotedText(text)) return parseUnquotedText(text);
  const entry = new MasterLexer(text, context).nextEntry();
  if (!entry.ok) return refuse({ field: "value", ...entry.error });
  return parseRdataTokens(type, entry.value?.tokens ?? [], { origin, context });
}

/**
 * RDATA in wire form of the tokens from `start` on: what {@link parseRdata} does, for a reader that has tokens.
 * The error's position is that of the offending token.
 */
export function parseRdataTokens(
  type: number,
  tokens: readonly Token[],
  scope: { readonly origin: DomainName | undefined; readonly context: RdataContext },
  start = 0,
): Result<Uint8Array, RdataError> {
  const cursor = new TokenCursor(tokens, start);
  const first = cursor.peek();
  if (first?.text === "\\#" && !first.quoted) return parseGenericRdata(type, cursor);
  const shape = SHAPES.get(type);
  if (shape === undefined) {
    return refuse({
      field: "value",
      ...sentence("generic-form", { type: typeMnemonic(type) }),
      ...positionOf(first),
    });
  }
  const out = new WireWriter(64);
  for (const field of shape.fields) {
    const problem = field.parse(cursor, out, scope);
    if (problem !== undefined) return refuse({ field: field.name, ...problem, ...positionOf(cursor.last) });
  }
  const extra = cursor.peek();
  if (extra !== undefined) {
    return refuse({
      field: "value",
      ...sentence("too-many-parts", { text: extra.text, type: typeMnemonic(type) }),
      ...positionOf(extra),
    });
  }
  const rdata = out.finish();
  const problem = rdata.length > MAX_RDATA_OCTETS ? TOO_LONG : shape.check?.(rdata);
  return problem === undefined ? ok(rdata) : refuse({ ...problem, ...positionOf(first) });
}

/**
 * Presentation format of RDATA: absolute names, quoted texts; `\# length hex` for types that are not known and for
 * octets that are not lawful (RFC 3597 §5), or that the form cannot say.
 */
export function formatRdata(type: number, rdata: Uint8Array, form: TextForm = "api"): string {
  const shape = SHAPES.get(type);
  const fields = shape && formatFields(shape, rdata, form);
  const isLawful = Array.isArray(fields) && shape?.check?.(rdata) === undefined;
  return isLawful ? fields.filter((text) => text !== "").join(" ") : formatGenericRdata(rdata);
}

/** The form that fits every type: `\# length hex` (RFC 3597 §5). */
export function formatGenericRdata(rdata: Uint8Array): string {
  return rdata.length === 0 ? "\\# 0" : `\\# ${rdata.length} ${formatHex(rdata)}`;
}

/** Whether the octets are lawful RDATA of the type; those of an unknown type always are. */
export function checkRdataWire(type: number, rdata: Uint8Array): Result<void, RdataError> {
  if (rdata.length > MAX_RDATA_OCTETS) return refuse(TOO_LONG);
  const shape = SHAPES.get(type);
  if (shape === undefined) return isLawfulOpaque(type, rdata) ? ok(undefined) : refuse(UNLAWFUL);
  const fields = formatFields(shape, rdata);
  if (!Array.isArray(fields)) return refuse(fields);
  const problem = shape.check?.(rdata);
  return problem === undefined ? ok(undefined) : refuse(problem);
}

/**
 * Whether the octets have the fields of the type, and can be read as such. What they say need not be lawful, as with a digest
 * of a wrong length; those of an unknown type always have.
 */
export function hasFields(type: number, rdata: Uint8Array): boolean {
  const shape = SHAPES.get(type);
  return shape === undefined ? isLawfulOpaque(type, rdata) : Array.isArray(formatFields(shape, rdata));
}

/**
 * The domain names inside lawful RDATA, in order; none for unknown types (RFC 3597 §4), and of types that are taken as octets
 * those that are signed in lower case.
 */
export function rdataNames(type: number, rdata: Uint8Array): readonly EmbeddedName[] {
  const shape = SHAPES.get(type);
  if (shape === undefined) return namesOf(layoutsUpToNames(type, rdata).map(toField), rdata);
  return SHAPES_WITH_NAMES.has(shape) ? namesOf(shape.fields, rdata) : NO_NAMES;
}

type NameField = Pick<Field, "layout" | "compressible">;

const toField = (layout: FieldLayout): NameField => ({ layout });

function namesOf(fields: readonly NameField[], rdata: Uint8Array): readonly EmbeddedName[] {
  const names: EmbeddedName[] = [];
  let offset = 0;
  for (const { layout, compressible = false } of fields) {
    const end = fieldEnd(layout, rdata, offset);
    if (end === undefined) break;
    if (layout === "name") names.push({ offset, length: end - offset, compressible });
    offset = end;
  }
  return names;
}

/** The fields of a type's RDATA in order, for who reads them out of a message; undefined for unknown types. */
export function rdataShape(type: number): RdataShape | undefined {
  return SHAPES.get(type);
}

/** Whether the type's RDATA is character strings and nothing else. */
export function isTextType(type: number): boolean {
  return TEXT_TYPES.has(type);
}

/** Whether the API carries the type's first field apart, as `rr_prio`. */
export function hasPriority(type: number): boolean {
  return type === TYPE.MX || type === TYPE.SRV;
}

/**
 * A value of the API with its priority in front, as presentation format has it. A value in the form `\# length hex`
 * may hold the priority already, or leave it out.
 * @param prio decimal digits, or null for types without priority
 */
export function joinPriority(type: number, prio: string | null, value: string): string {
  if (prio === null || !hasPriority(type)) return value;
  const generic = /^\s*\\#\s+(\d{1,5})\s+([0-9a-f\s]*)$/i.exec(value);
  // A priority that has no place in 16 bits is refused by whoever reads the text.
  if (generic === null || !/^\d{1,5}$/.test(prio) || Number(prio) > 0xffff) return `${prio} ${value}`;
  const hex = generic[2]!.replace(/\s/g, "");
  const prioHex = Number(prio).toString(16).padStart(4, "0");
  const isWhole = hex.toLowerCase().startsWith(prioHex) && checkRdataWire(type, Buffer.from(hex, "hex")).ok;
  return isWhole ? value : `\\# ${Number(generic[1]) + 2} ${prioHex}${hex}`;
}

/** Presentation format parted into the priority (null for types without one) and the rest. */
export function splitPriority(type: number, rdata: Uint8Array): { prio: string | null; value: string } {
  const text = formatRdata(type, rdata);
  if (!hasPriority(type) || text.startsWith("\\#")) return { prio: null, value: text };
  const space = text.indexOf(" ");
  return { prio: text.slice(0, space), value: text.slice(space + 1) };
}

/** RDLENGTH has 16 bits (RFC 1035 §4.1.3). */
const MAX_RDATA_OCTETS = 0xffff;
const UNLAWFUL = { field: "value", ...sentence("part-unlawful") };
const TOO_LONG = { field: "value", ...sentence("data-too-long", { most: MAX_RDATA_OCTETS }) };

/** What is known of each type. */
const SHAPES: ReadonlyMap<number, RdataShape> = new Map([
  ...HOST_TYPES,
  ...SERVICE_TYPES,
  ...DNSSEC_TYPES,
  ...CERTIFICATE_RR_TYPES,
]);

const SHAPES_WITH_NAMES: ReadonlySet<RdataShape> = new Set(
  [...SHAPES.values()].filter(({ fields }) => fields.some((field) => field.layout === "name")),
);

const NO_NAMES: readonly EmbeddedName[] = [];

function formatFields(shape: RdataShape, rdata: Uint8Array, form: TextForm = "api"): string[] | RdataError {
  const texts: string[] = [];
  let offset = 0;
  for (const field of shape.fields) {
    const end = fieldEnd(field.layout, rdata, offset);
    const text = end === undefined ? undefined : field.format(rdata.subarray(offset, end), form);
    if (text === undefined) return { field: field.name, ...sentence("part-unlawful") };
    texts.push(text);
    offset = end!;
  }
  if (offset < rdata.length)
    return { field: "value", ...sentence("octets-too-many", { octets: rdata.length - offset }) };
  return texts;
}

/** Reads `\# length hex` (RFC 3597 §5); a known type's octets are checked. */
function parseGenericRdata(type: number, cursor: TokenCursor): Result<Uint8Array, RdataError> {
  const position = positionOf(cursor.take());
  const length = cursor.take()?.text ?? "";
  const rdata = parseHex(
    cursor
      .takeRest()
      .map((token) => token.text)
      .join(""),
  );
  if (rdata === undefined) return refuse({ field: "value", ...sentence("generic-data"), ...position });
  if (!/^\d{1,5}$/.test(length) || Number(length) !== rdata.length) {
    return refuse({
      field: "value",
      ...sentence("generic-length", { octets: length || "none", has: rdata.length }),
      ...position,
    });
  }
  const checked = checkRdataWire(type, rdata);
  return checked.ok ? ok(new Uint8Array(rdata)) : refuse({ ...checked.error, ...position });
}

/** Types that are nothing but texts. */
const TEXT_TYPES: ReadonlySet<number> = new Set([TYPE.TXT, TYPE.SPF, TYPE.AVC, TYPE.NINFO, TYPE.RESINFO, TYPE.WALLET]);

function isUnquotedText(text: string): boolean {
  return !/^\s*(?:\(?\s*"|\\#\s|$)/.test(text);
}

function parseUnquotedText(text: string): Result<Uint8Array, RdataError> {
  const octets = octetsOfText(text);
  if (octets === undefined) return refuse({ field: "text", ...BAD_ESCAPE });
  const out = new WireWriter(octets.length + 16);
  writeSplitText(out, octets);
  return out.length > MAX_RDATA_OCTETS ? refuse(TOO_LONG) : ok(out.finish());
}

function positionOf(token: Token | undefined): { line?: number; column?: number } {
  return token === undefined ? {} : { line: token.line, column: token.column };
}
