import { type FilterCondition, groupsOf } from "../../core/mail/filter-condition.ts";
import { type Sentence, sentence } from "../../core/sentences.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { findMissingGroup } from "../../store/mail/contacts/groups.ts";

/** What selects contacts: a saved filter, or a condition by itself. */
export interface Selection {
  /** Of the filter; absent where the condition is no filter's. */
  readonly name?: string;
  readonly condition: FilterCondition;
}

/** A group that a condition names and that is gone; undefined where there are all. */
export function findGoneGroup(
  db: Db,
  instanceId: number,
  condition: FilterCondition,
  options: { readonly keep?: true } = {},
): Promise<string | undefined> {
  return findMissingGroup(db, instanceId, groupsOf(condition), options);
}

/**
 * Says why a selection is not to be used: a group that it names is gone, and whoever the group kept out would be selected.
 * @param options.keep the groups that it names stay until the transaction ends
 * @returns undefined where nothing speaks against it
 */
export async function judgeSelection(
  db: Db,
  instanceId: number,
  { name, condition }: Selection,
  options: { readonly keep?: true } = {},
): Promise<Sentence | undefined> {
  const group = await findGoneGroup(db, instanceId, condition, options);
  if (group === undefined) return undefined;
  return name === undefined
    ? sentence("group-gone", { group })
    : sentence("filter-group-gone", { filter: name, group });
}
