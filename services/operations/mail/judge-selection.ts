import { type FilterCondition, groupsOf } from "../../core/mail/filter-condition.ts";
import { type Sentence, sentence } from "../../core/sentences.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { findMissingGroups } from "../../store/mail/contacts/groups.ts";

/** What selects contacts: a saved filter, or a condition by itself. */
export interface Selection {
  /** Of the filter; absent where the condition is no filter's. */
  readonly name?: string;
  readonly condition: FilterCondition;
}

/**
 * The first group that each condition names and that is gone; undefined where there are all.
 * @param options.keep the others stay until the transaction ends
 */
export async function findGoneGroups(
  db: Db,
  instanceId: number,
  conditions: readonly FilterCondition[],
  options: { readonly keep?: true } = {},
): Promise<(string | undefined)[]> {
  const named = conditions.map(groupsOf);
  const gone = await findMissingGroups(db, instanceId, named.flat(), options);
  return named.map((groups) => groups.find((group) => gone.has(group)));
}

/**
 * Says why selections are not to be used: a group that one names is gone, and whoever the group kept out would be selected.
 * @param options.keep the groups that they name stay until the transaction ends
 * @returns of the first of them; undefined where nothing speaks against any
 */
export async function judgeSelections(
  db: Db,
  instanceId: number,
  selections: readonly Selection[],
  options: { readonly keep?: true } = {},
): Promise<Sentence | undefined> {
  const conditions = selections.map(({ condition }) => condition);
  const gone = await findGoneGroups(db, instanceId, conditions, options);
  const at = gone.findIndex((group) => group !== undefined);
  if (at === -1) return undefined;
  const { name } = selections[at]!;
  const group = gone[at]!;
  return name === undefined
    ? sentence("group-gone", { group })
    : sentence("filter-group-gone", { filter: name, group });
}
