/** Conditions over contacts, as data: what a saved filter holds. */
import { z } from "zod";
import { EVENT_NAMES, type EventKind } from "./event-kind.ts";

/** Fields of a contact that a condition may ask about; the value says how they compare. */
export const FILTER_FIELDS = {
  email: "text",
  firstName: "text",
  lastName: "text",
  age: "number",
  sex: "text",
  profession: "text",
  locality: "text",
  countryCode: "text",
  regionCode: "text",
  city: "text",
  device: "text",
  deviceSubtypeId: "number",
  domainGroupId: "number",
} as const;
export type FilterField = keyof typeof FILTER_FIELDS;

/** A comparison with text, or with a number; a field that is unset, or no number, fulfils none but `!=`. */
export type Comparison =
  | { readonly is: "=" | "!=" | "contains" | "starts-with"; readonly value: string }
  | { readonly is: "=" | "!=" | "<" | "<=" | ">" | ">="; readonly value: number };

export type FilterCondition =
  | { readonly all: readonly FilterCondition[] }
  | { readonly any: readonly FilterCondition[] }
  | { readonly not: FilterCondition }
  | (Comparison & { readonly field: FilterField })
  /** A custom field by its name without the XYZ wrapping. */
  | (Comparison & { readonly customField: string })
  /** Member of a group. */
  | { readonly group: string }
  | { readonly invalid: boolean }
  /** Has such an event, of a campaign where one is named, within the last days where they are limited. */
  | {
      readonly event: EventKind;
      readonly campaignNumid?: number;
      readonly withinDays?: number;
    };

const asText = { is: z.enum(["=", "!=", "contains", "starts-with"]), value: z.string().max(500) };
const asNumber = { is: z.enum(["=", "!=", "<", "<=", ">", ">="]), value: z.number() };
const field = z.enum(Object.keys(FILTER_FIELDS) as [FilterField, ...FilterField[]]);
const customField = z.string().min(1).max(500);

/** Validates a condition from outside, but not how many parts it has: `readConditionJson` counts them as it reads. */
export const filterCondition: z.ZodType<FilterCondition> = z.union([
  z.strictObject({ all: z.lazy(() => z.array(filterCondition)) }),
  z.strictObject({ any: z.lazy(() => z.array(filterCondition)) }),
  z.strictObject({ not: z.lazy(() => filterCondition) }),
  z.strictObject({ field, ...asText }).refine((given) => FILTER_FIELDS[given.field] === "text"),
  z.strictObject({ field, ...asNumber }).refine((given) => FILTER_FIELDS[given.field] === "number"),
  z.strictObject({ customField, ...asText }),
  z.strictObject({ customField, ...asNumber }),
  z.strictObject({ group: z.string().min(1).max(500) }),
  z.strictObject({ invalid: z.boolean() }),
  z.strictObject({
    event: z.enum(Object.keys(EVENT_NAMES) as [EventKind, ...EventKind[]]),
    campaignNumid: z.int().positive().optional(),
    withinDays: z.int().positive().max(36_500).optional(),
  }),
]);

/** The groups that a condition names, members or not. */
export function groupsOf(given: FilterCondition): string[] {
  if ("all" in given) return given.all.flatMap(groupsOf);
  if ("any" in given) return given.any.flatMap(groupsOf);
  if ("not" in given) return groupsOf(given.not);
  return "group" in given ? [given.group] : [];
}
