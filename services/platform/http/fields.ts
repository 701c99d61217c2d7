import type { ZodType, z } from "zod";
import { invalidField, missingField, type Refusal } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";

type Path = readonly (string | number)[];

/** Deeper JSON than this is nobody's request. */
const MOST_LEVELS = 64;

/** PostgreSQL has no place for NUL, and half a surrogate pair is no character of UTF-8. */
const UNSTORABLE = /\0|\p{Surrogate}/u;

/**
 * Makes raw input ready for validation: nulls count as missing, unstorable text is refused, and nesting is bounded.
 * @param judgedFields names of fields whose text the operation judges by itself, whatever it holds
 */
export function cleanFields(
  input: unknown,
  keepsNull: (path: Path) => boolean,
  judgedFields: ReadonlySet<string> = new Set(),
): Result<unknown, Refusal> {
  let problem: Refusal | undefined;
  const clean = (value: unknown, path: Path): unknown => {
    if (problem) return undefined;
    if (path.length > MOST_LEVELS) problem = { kind: "malformed-json" };
    else if (typeof value === "string" && UNSTORABLE.test(value) && !judgedFields.has(fieldName(path))) {
      problem = invalidField(fieldName(path), "must not contain NUL or lone surrogates");
    } else if (Array.isArray(value)) return value.map((item, index) => clean(item, [...path, index]));
    else if (value !== null && typeof value === "object") {
      const kept = Object.entries(value).filter(([key, inner]) => inner !== null || keepsNull([...path, key]));
      return Object.fromEntries(kept.map(([key, inner]) => [key, clean(inner, [...path, key])]));
    }
    return value;
  };
  const cleaned = clean(input, []);
  return problem ? refuse(problem) : ok(cleaned);
}

/** Validates; the first problem, in the schema's order, becomes the refusal and names its field by its own name. */
export function validateFields<S extends ZodType>(schema: S, input: unknown): Result<z.output<S>, Refusal> {
  const parsed = schema.safeParse(input);
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

/** In words of our own where the schema brings none: zod's are for programmers. */
function reasonOf(issue: z.core.$ZodIssue): string {
  const isZodsOwn = /^Invalid (input|string)|^Too (big|small)/.test(issue.message);
  if (!isZodsOwn) return issue.message;
  if (issue.code === "invalid_type") return `must be a JSON ${issue.expected === "int" ? "integer" : issue.expected}`;
  if (issue.code === "too_big")
    return `must be at most ${issue.maximum}${issue.origin === "string" ? " characters" : ""}`;
  if (issue.code === "too_small")
    return `must be at least ${issue.minimum}${issue.origin === "string" ? " characters" : ""}`;
  return "is not acceptable";
}

function valueAt(input: unknown, path: Path): unknown {
  return path.reduce<unknown>((value, key) => (value as Record<string | number, unknown> | undefined)?.[key], input);
}

function fieldName(path: Path): string {
  return String(path.findLast((key) => typeof key === "string") ?? "body");
}
