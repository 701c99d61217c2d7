import { ZodArray, ZodDefault, ZodObject, ZodOptional, type ZodType, type z } from "zod";
import { invalidField, missingField, type Refusal } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { isSentenceCode, type Sentence, type SentenceCode, sentence } from "../../core/sentences.ts";

type Path = readonly (string | number)[];

/** Deeper JSON than this is nobody's request. */
const MOST_LEVELS = 64;
/** Nor is one of more values; its octets may be few, but looking at them all would keep everybody waiting. */
export const MOST_VALUES = 1_000_000;

/** PostgreSQL has no place for NUL, and half a surrogate pair is no character of UTF-8. */
const UNSTORABLE = /\0|\p{Surrogate}/u;
/** Texts without it are storable for sure: ASCII without NUL. Spares most of them the slower expression. */
const NOT_PLAIN = /[^\x01-\x7f]/;

/**
 * Makes raw input ready for validation: nulls count as missing, unstorable text is refused, nesting and the number of
 * values are bounded.
 * @param judgedFields names of fields whose text the operation judges by itself, whatever it holds
 */
export function cleanFields(
  input: unknown,
  keepsNull: (path: Path) => boolean,
  judgedFields: ReadonlySet<string> = new Set(),
): Result<unknown, Refusal> {
  let problem: Refusal | undefined;
  let values = 0;
  const path: (string | number)[] = [];
  const clean = (value: unknown): unknown => {
    if (problem) return undefined;
    if (path.length > MOST_LEVELS) problem = { kind: "malformed-json" };
    else if (typeof value === "string") {
      if (NOT_PLAIN.test(value) && UNSTORABLE.test(value) && !judgedFields.has(fieldName(path))) {
        problem = invalidField(fieldName(path), "no-nul");
      }
    } else if (value !== null && typeof value === "object") {
      const keys = Array.isArray(value) ? value : Object.keys(value);
      values += keys.length;
      if (values > MOST_VALUES) problem = { kind: "too-large" };
      else if (Array.isArray(value)) return value.map((item, index) => cleanAt(index, item));
      else return cleanObject(value as Readonly<Record<string, unknown>>, keys);
    }
    return value;
  };
  const cleanObject = (value: Readonly<Record<string, unknown>>, keys: readonly string[]) => {
    const kept: Record<string, unknown> = {};
    for (const key of keys) {
      // Whoever copies the object would take it for the prototype; like other members that nobody asked for, it is left out.
      if (key === "__proto__") continue;
      const inner = value[key];
      if (inner !== null || keepsNull([...path, key])) kept[key] = cleanAt(key, inner);
    }
    return kept;
  };
  const cleanAt = (key: string | number, value: unknown): unknown => {
    path.push(key);
    const cleaned = clean(value);
    path.pop();
    return cleaned;
  };
  const cleaned = clean(input);
  return problem ? refuse(problem) : ok(cleaned);
}

/** Validates; the first problem, in the schema's order, becomes the refusal and names its field by its own name. */
export function validateFields<S extends ZodType>(schema: S, input: unknown): Result<z.output<S>, Refusal> {
  const parsed = schema.safeParse(cutAtFaults(schema, input));
  if (parsed.success) return ok(parsed.data);
  const issue = parsed.error.issues[0]!;
  const path = issue.path as Path;
  if (path.length === 0 && (input === null || typeof input !== "object" || Array.isArray(input))) {
    return refuse({ kind: "malformed-json" });
  }
  return refuse(
    valueAt(input, path) === undefined ? missingField(fieldName(path)) : invalidField(fieldName(path), reasonOf(issue)),
  );
}

/** Of a list, judged in one step: the problems of so many items cost little to describe. */
const ITEMS_AT_ONCE = 1_000;

/**
 * Lists without what follows their first bad items. Only the first problem is told, but zod would describe that of every
 * item: of a list of millions, for minutes.
 */
function cutAtFaults(schema: ZodType, value: unknown): unknown {
  if (!holdsLists(schema)) return value;
  if (schema instanceof ZodOptional || schema instanceof ZodDefault) {
    return cutAtFaults(schema.def.innerType as ZodType, value);
  }
  if (schema instanceof ZodArray) return Array.isArray(value) ? cutList(schema.element as ZodType, value) : value;
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const { shape } = schema as ZodObject;
  const fields = Object.entries(value).map(([key, given]) => {
    const field: ZodType | undefined = Object.hasOwn(shape, key) ? shape[key] : undefined;
    return [key, field ? cutAtFaults(field, given) : given] as const;
  });
  return Object.fromEntries(fields);
}

/** Items that hold lists themselves are cut, and judged, one by one. */
function cutList(item: ZodType, list: readonly unknown[]): readonly unknown[] {
  const isDeep = holdsLists(item);
  const step = isDeep ? 1 : ITEMS_AT_ONCE;
  if (list.length <= step && !isDeep) return list;
  const items = item.array();
  const cut: unknown[] = [];
  for (let start = 0; start < list.length; start += step) {
    const given = list.slice(start, start + step);
    const some = isDeep ? given.map((one) => cutAtFaults(item, one)) : given;
    for (const one of some) cut.push(one);
    if (!items.safeParse(some).success) break;
  }
  return cut;
}

function holdsLists(schema: ZodType): boolean {
  if (schema instanceof ZodOptional || schema instanceof ZodDefault) return holdsLists(schema.def.innerType as ZodType);
  if (schema instanceof ZodArray) return true;
  return schema instanceof ZodObject && Object.values(schema.shape as Record<string, ZodType>).some(holdsLists);
}

/** A schema's own message is the code of a sentence, with `least` and `most` for its gaps; zod's are for programmers. */
function reasonOf(issue: z.core.$ZodIssue): Sentence {
  const { message, minimum = 0, maximum = 0, origin } = issue as z.core.$ZodIssue & Bounds;
  const isOfParts = origin === "string" || origin === "array";
  const bounds = { least: `${minimum}`, most: `${maximum}` };
  if (isSentenceCode(message)) return (sentence as LooseSentence)(message, { ...bounds, choices: choicesOf(issue) });
  if (issue.code === "invalid_value") return sentence("one-of", { choices: choicesOf(issue) });
  if (issue.code === "too_big") return sentence(origin === "string" ? "at-most-characters" : "at-most", bounds);
  if (issue.code === "too_small" && minimum === 1 && isOfParts) return sentence("not-empty");
  if (issue.code === "too_small") return sentence(origin === "string" ? "at-least-characters" : "at-least", bounds);
  if (issue.code !== "invalid_type") return sentence("not-acceptable");
  if (issue.expected === "int") return sentence("json-integer");
  return issue.expected === "number" ? sentence("json-number") : sentence("json-type", { type: issue.expected });
}

/** Codes of schemas have no other gaps than those that issues fill. */
type LooseSentence = (code: SentenceCode, values: Readonly<Record<string, string>>) => Sentence;

/** What a field may be, as `a, b or c`. */
function choicesOf(issue: z.core.$ZodIssue): string {
  if (issue.code === "invalid_type") return "true or false";
  if (issue.code === "invalid_union") return listOf(issue.errors.flat().flatMap(valuesOf));
  return listOf(valuesOf(issue));
}

function valuesOf(issue: z.core.$ZodIssue): string[] {
  return issue.code === "invalid_value" ? issue.values.map(String) : [];
}

function listOf(choices: readonly string[]): string {
  const before = choices.slice(0, -1).join(", ");
  return [before, ...choices.slice(-1)].filter((some) => some !== "").join(" or ");
}

interface Bounds {
  readonly minimum?: number | bigint;
  readonly maximum?: number | bigint;
  readonly origin?: string;
}

function valueAt(input: unknown, path: Path): unknown {
  return path.reduce<unknown>((value, key) => (value as Record<string | number, unknown> | undefined)?.[key], input);
}

function fieldName(path: Path): string {
  return String(path.findLast((key) => typeof key === "string") ?? "body");
}
