import { type Db, queryRows } from "../platform/db.ts";

/** Makes groups of an instance; those that exist stay as they are. */
export async function addGroups(db: Db, instanceId: number, names: readonly string[]): Promise<void> {
  // In the order of the names, so that two writers cannot wait for each other in a circle.
  await queryRows(
    db,
    `insert into groups (instance_id, name)
     select ?, given.name from unnest(?::text[]) as given (name)
     where not exists (select 1 from groups as known where known.instance_id = ? and known.name = given.name)
     order by given.name on conflict do nothing`,
    [instanceId, [...new Set(names)], instanceId],
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
    `insert into contact_groups (contact_id, group_id)
     select contacts.id, groups.id from unnest(?::text[], ?::text[]) as given (email_key, group_name)
     join contacts on contacts.instance_id = ? and contacts.email_key = given.email_key
     join groups on groups.instance_id = contacts.instance_id and groups.name = given.group_name
     order by 1, 2 on conflict do nothing`,
    [memberships.map(({ emailKey }) => emailKey), memberships.map(({ group }) => group), instanceId],
  );
}
