import {
  type Comparison,
  type FilterCondition,
  type FilterField,
  groupsOf,
} from "../../../core/mail/filter-condition.ts";
import type { StatementValues } from "../../../platform/postgres/db.ts";
import { EVENT_KINDS } from "../events/event-kinds.ts";

const COLUMNS: Readonly<Record<FilterField, string>> = {
  email: "email",
  firstName: "first_name",
  lastName: "last_name",
  age: "age",
  sex: "sex",
  profession: "profession",
  locality: "locality",
  countryCode: "country_code",
  regionCode: "region_code",
  city: "city",
  device: "device",
  deviceSubtypeId: "device_subtype_id",
  domainGroupId: "domain_group_id",
};

const DAY_MS = 86_400_000;

/** What a condition is looked at in. */
interface ConditionScope {
  /** What stands for the instance's id in the statement, such as `$1`. */
  readonly instance: string;
  /** What `withinDays` counts back from. */
  readonly now: Date;
}

/**
 * A condition as SQL over a row `contact` of contacts. Nothing of the condition becomes part of the SQL text but
 * column names and operators from the tables here; whatever else it asks about is bound to the contact's instance.
 * Nobody fulfils a condition that names a group which is gone: whoever the group kept out would.
 * @param values of the statement, to which those of the condition are added
 */
export function compileCondition(
  condition: FilterCondition,
  { instance, now }: ConditionScope,
  values: StatementValues,
): string {
  const compiled = compilePart(condition, now, values);
  const groups = [...new Set(groupsOf(condition))];
  if (groups.length === 0) return compiled;
  const names = `${values.add(groups)}::text[]`;
  // About no contact: PostgreSQL asks it once a statement.
  return `((select count(1) from groups where groups.instance_id = ${instance} and groups.name = any(${names}))
    = cardinality(${names}) and ${compiled})`;
}

function compilePart(condition: FilterCondition, now: Date, values: StatementValues): string {
  const compile = (part: FilterCondition) => compilePart(part, now, values);
  if ("all" in condition) return combine(condition.all.map(compile), " and ", "true");
  if ("any" in condition) return combine(condition.any.map(compile), " or ", "false");
  if ("not" in condition) return `not ${compile(condition.not)}`;
  if ("field" in condition) return compare(`contact.${COLUMNS[condition.field]}`, condition, values);
  if ("customField" in condition) return compareCustomField(condition.customField, condition, values);
  if ("invalid" in condition) return `contact.invalid = ${values.add(condition.invalid)}`;
  if ("group" in condition) {
    return `exists (select 1 from contact_groups join groups
        on groups.instance_id = contact_groups.instance_id and groups.id = contact_groups.group_id
      where contact_groups.instance_id = contact.instance_id and contact_groups.contact_id = contact.id
        and groups.name = ${values.add(condition.group)})`;
  }
  return hasEvent(condition, now, values);
}

function combine(parts: readonly string[], operator: string, whenEmpty: string): string {
  return parts.length === 0 ? whenEmpty : `(${parts.join(operator)})`;
}

/** SQL's third truth value would make `not` of an unset field false as well: here it counts as false at once. */
function compare(operand: string, { is, value }: Comparison, values: StatementValues): string {
  const compared = values.add(value);
  const typed = `${compared}::${typeof value === "number" ? "numeric" : "text"}`;
  switch (is) {
    case "contains":
      return `coalesce(strpos(lower(${operand}), lower(${compared})) > 0, false)`;
    case "starts-with":
      return `coalesce(starts_with(lower(${operand}), lower(${compared})), false)`;
    case "!=":
      return `${operand} is distinct from ${typed}`;
    default:
      return `coalesce(${operand} ${is} ${typed}, false)`;
  }
}

function compareCustomField(name: string, comparison: Comparison, values: StatementValues): string {
  const field = `contact.fields ->> ${values.add(name)}::text`;
  if (typeof comparison.value === "string") return compare(`coalesce(${field}, '')`, comparison, values);
  const number = `case when ${field} ~ ${values.add(DECIMAL_NUMBER)} then (${field})::numeric end`;
  return compare(`(${number})`, comparison, values);
}

const DECIMAL_NUMBER = "^[+-]?[0-9]{1,100}([.][0-9]{1,100})?$";

/** Events that machines made say nothing about the contact. */
function hasEvent(
  { event, campaignNumid, withinDays }: Extract<FilterCondition, { readonly event: unknown }>,
  now: Date,
  values: StatementValues,
): string {
  const clauses = [`events.kind = ${values.add(EVENT_KINDS[event])}`];
  if (campaignNumid !== undefined) clauses.push(`events.campaign_numid = ${values.add(campaignNumid)}`);
  if (withinDays !== undefined) {
    clauses.push(`events.at >= ${values.add(new Date(now.getTime() - withinDays * DAY_MS))}`);
  }
  return `exists (select 1 from events where events.contact_id = contact.id
    and events.instance_id = contact.instance_id and not events.machine
    and ${clauses.join(" and ")})`;
}
