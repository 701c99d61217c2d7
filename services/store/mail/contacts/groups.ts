import { MOST_GROUPS } from "../../../core/mail/contact-input.ts";
import { type Db, queryRows } from "../../../platform/postgres/db.ts";

/**
 * Makes groups of an instance; those that exist stay as they are.
 * @returns the names that are left out, in their order, as there would be too many
 */
export async function addGroups(db: Db, instanceId: number, names: readonly string[]): Promise<Set<string>> {
  return db.transaction(async (transaction) => {
    const excess = await findExcessGroups(transaction, instanceId, names);
    await insertGroups(
      transaction,
      instanceId,
      names.filter((name) => !excess.has(name)),
    );
    return excess;
  });
}

/** Those of the names, in their order, for whose groups there is no room; in a transaction it stays so until that ends. */
export async function findExcessGroups(db: Db, instanceId: number, names: readonly string[]): Promise<Set<string>> {
  if ((await findMissingGroups(db, instanceId, names)).size === 0) return new Set();
  // One after the other, so that each sees what those before it have added.
  await queryRows(db, "select pg_advisory_xact_lock(hashtextextended('groups', $1))", [instanceId]);
  const missing = await findMissingGroups(db, instanceId, names);
  const [row] = await queryRows<{ count: number }>(db, "select count(*) as count from groups where instance_id = $1", [
    instanceId,
  ]);
  return new Set([...missing].slice(Math.max(0, MOST_GROUPS - row!.count)));
}

async function insertGroups(db: Db, instanceId: number, names: readonly string[]): Promise<void> {
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

/** Puts contacts into groups, which come into being where they must: there is room for them. */
export async function joinGroups(
  db: Db,
  instanceId: number,
  memberships: readonly { readonly emailKey: string; readonly group: string }[],
): Promise<void> {
  if (memberships.length === 0) return;
  await insertGroups(
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
export interface GroupSize {
  readonly name: string;
  readonly contacts: number;
}

const GROUPS_PER_READ = 1_000;

/** All of an instance by name, whatever its case. */
export async function* streamGroups(db: Db, instanceId: number): AsyncGenerator<readonly GroupSize[]> {
  let after = { key: "", id: 0 };
  for (;;) {
    const rows = await queryRows<GroupSize & { id: number; key: string }>(
      db,
      `select g.id, lower(g.name) as key, g.name, (
         select count(*)::int from contact_groups m where m.instance_id = $1 and m.group_id = g.id) as contacts
       from groups g where g.instance_id = $1 and (lower(g.name), g.id) > ($2, $3)
       order by lower(g.name), g.id limit $4`,
      [instanceId, after.key, after.id, GROUPS_PER_READ],
    );
    yield rows;
    const last = rows.at(-1);
    if (last === undefined || rows.length < GROUPS_PER_READ) return;
    after = last;
  }
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
