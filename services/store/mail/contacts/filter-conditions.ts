import type { Comparison, FilterCondition, FilterField } from "../../../core/mail/filter-condition.ts";
import { EVENT_KINDS } from "../events/event-kinds.ts";

/** A fragment of SQL with `?` for each of its values. */
export interface SqlFragment {
  readonly sql: string;
  readonly values: readonly unknown[];
}

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

/**
 * A condition as SQL over a row `contact` of contacts. Nothing of the condition becomes part of the SQL text but
 * column names and operators from the tables here; whatever else it asks about is bound to the contact's instance.
 * @param now what `withinDays` counts back from
 */
export function compileCondition(condition: FilterCondition, now: Date): SqlFragment {
  if ("all" in condition) return combine(condition.all, " and ", "true", now);
  if ("any" in condition) return combine(condition.any, " or ", "false", now);
  if ("not" in condition) {
    const { sql, values } = compileCondition(condition.not, now);
    return { sql: `not ${sql}`, values };
  }
  if ("field" in condition) return compare(`contact.${COLUMNS[condition.field]}`, [], condition);
  if ("customField" in condition) return compareCustomField(condition.customField, condition);
  if ("invalid" in condition) return { sql: "contact.invalid = ?", values: [condition.invalid] };
  if ("group" in condition) {
    return {
      sql: `exists (select 1 from contact_groups join groups
          on groups.instance_id = contact_groups.instance_id and groups.id = contact_groups.group_id
        where contact_groups.instance_id = contact.instance_id and contact_groups.contact_id = contact.id
          and groups.name = ?)`,
      values: [condition.group],
    };
  }
  return hasEvent(condition, now);
}

function combine(parts: readonly FilterCondition[], operator: string, whenEmpty: string, now: Date): SqlFragment {
  if (parts.length === 0) return { sql: whenEmpty, values: [] };
  const compiled = parts.map((part) => compileCondition(part, now));
  return {
    sql: `(${compiled.map(({ sql }) => sql).join(operator)})`,
    values: compiled.flatMap(({ values }) => values),
  };
}

/** SQL's third truth value would make `not` of an unset field false as well: here it counts as false at once. */
function compare(operand: string, operandValues: readonly unknown[], { is, value }: Comparison): SqlFragment {
  const values = [...operandValues, value];
  switch (is) {
    case "contains":
      return { sql: `coalesce(strpos(lower(${operand}), lower(?)) > 0, false)`, values };
    case "starts-with":
      return { sql: `coalesce(starts_with(lower(${operand}), lower(?)), false)`, values };
    case "!=":
      return { sql: `${operand} is distinct from ${placeholder(value)}`, values };
    default:
      return { sql: `coalesce(${operand} ${is} ${placeholder(value)}, false)`, values };
  }
}

function placeholder(value: string | number): string {
  return typeof value === "number" ? "?::numeric" : "?::text";
}

function compareCustomField(name: string, comparison: Comparison): SqlFragment {
  if (typeof comparison.value === "string") {
    return compare("coalesce(contact.fields ->> ?::text, '')", [name], comparison);
  }
  const number = "case when contact.fields ->> ?::text ~ ? then (contact.fields ->> ?::text)::numeric end";
  return compare(`(${number})`, [name, DECIMAL_NUMBER, name], comparison);
}

const DECIMAL_NUMBER = "^[+-]?[0-9]{1,100}([.][0-9]{1,100})?$";

/** Events that machines made say nothing about the contact. */
function hasEvent(
  { event, campaignNumid, withinDays }: Extract<FilterCondition, { readonly event: unknown }>,
  now: Date,
): SqlFragment {
  const clauses: [sql: string, value: unknown][] = [["events.kind = ?", EVENT_KINDS[event]]];
  if (campaignNumid !== undefined) clauses.push(["events.campaign_numid = ?", campaignNumid]);
  if (withinDays !== undefined) clauses.push(["events.at >= ?", new Date(now.getTime() - withinDays * DAY_MS)]);
  return {
    sql: `exists (select 1 from events where events.contact_id = contact.id
      and events.instance_id = contact.instance_id and not events.machine
      and ${clauses.map(([sql]) => sql).join(" and ")})`,
    values: clauses.map(([, value]) => value),
  };
}
