import { type Db, queryRows } from "../../../platform/postgres/db.ts";

/** Makes groups of an instance; those that exist stay as they are. */
export async function addGroups(db: Db, instanceId: number, names: readonly string[]): Promise<void> {
  // In the order of the names, so that two writers cannot wait for each other in a circle.
  await queryRows(
    db,
    `insert into groups (instance_id, name)
     select $1, given.name from unnest($2::text[]) as given (name)
     where given.name not in (select name from groups where instance_id = $1 and name = any($2::text[]))
     order by given.name on conflict do nothing`,
    [instanceId, [...new Set(names)]],
  );
}

/** Puts contacts into groups, which come into being where they must. */
export async function joinGroups(
  db: Db,
  instanceId: number,
  memberships: readonly { readonly emailKey: string; readonly group: string }[],
): Promise<void> {
  if (memberships.length === 0) return;
  await addGroups(
    db,
    instanceId,
    memberships.map(({ group }) => group),
  );
  await queryRows(
    db,
    `insert into contact_groups (instance_id, contact_id, group_id)
     select contacts.instance_id, contacts.id, groups.id from unnest($1::text[], $2::text[]) as given (email_key, group_name)
     join contacts on contacts.instance_id = $3 and contacts.email_key = given.email_key
     join groups on groups.instance_id = contacts.instance_id and groups.name = given.group_name
     order by 2, 3 on conflict do nothing`,
    [memberships.map(({ emailKey }) => emailKey), memberships.map(({ group }) => group), instanceId],
  );
}

/** A group and how many contacts are in it. */
interface GroupSize {
  readonly name: string;
  readonly contacts: number;
}

/** By name. */
export async function listGroups(db: Db, instanceId: number): Promise<GroupSize[]> {
  return queryRows(
    db,
    `select groups.name, count(contact_groups.contact_id)::int as contacts
     from groups left join contact_groups on contact_groups.instance_id = groups.instance_id and contact_groups.group_id = groups.id
     where groups.instance_id = $1 group by groups.id, groups.name order by lower(groups.name), groups.name`,
    [instanceId],
  );
}

/**
 * @param options.keep the others stay until the transaction ends
 * @returns those of the names that no group of the instance has
 */
export async function findMissingGroups(
  db: Db,
  instanceId: number,
  names: readonly string[],
  options: { readonly keep?: true } = {},
): Promise<Set<string>> {
  const missing = new Set(names);
  if (missing.size === 0) return missing;
  const groups = db("groups")
    .where({ instance_id: instanceId })
    .whereRaw("name = any(?::text[])", [[...missing]])
    .orderBy("id");
  for (const known of await (options.keep ? groups.forKeyShare() : groups).pluck("name")) missing.delete(known);
  return missing;
}

/** Removes a group; its contacts stay. @returns false when there is none */
export async function removeGroup(db: Db, instanceId: number, name: string): Promise<boolean> {
  return (await db("groups").where({ instance_id: instanceId, name }).delete()) > 0;
}

/** @returns false when the contact is not in such a group */
export async function leaveGroup(db: Db, contactId: number, instanceId: number, name: string): Promise<boolean> {
  const rows = await queryRows(
    db,
    `delete from contact_groups using groups
     where groups.instance_id = contact_groups.instance_id and groups.id = contact_groups.group_id and groups.instance_id = $1 and groups.name = $2
       and contact_groups.contact_id = $3 returning 1`,
    [instanceId, name, contactId],
  );
  return rows.length > 0;
}
