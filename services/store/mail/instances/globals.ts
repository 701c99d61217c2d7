import { bareTagName } from "../../../core/mail/personalise.ts";
import { type Db, queryRows } from "../../../platform/postgres/db.ts";

/** A variable of all of an instance's messages; its name with or without XYZ wrapping, as it was given. */
export interface GlobalVariable {
  readonly name: string;
  readonly value: string;
}

/** Sets a variable; `XYZCOLORXYZ` and `COLOR` are one. */
export async function setGlobal(db: Db, instanceId: number, { name, value }: GlobalVariable): Promise<void> {
  await db("globals")
    .insert({ instance_id: instanceId, key: bareTagName(name), name, value })
    .onConflict(["instance_id", "key"])
    .merge(["name", "value"]);
}

/** Removes a variable; one that there is not, no less. */
export async function removeGlobal(db: Db, instanceId: number, name: string): Promise<void> {
  await db("globals")
    .where({ instance_id: instanceId, key: bareTagName(name) })
    .delete();
}

/** By name. */
export async function listGlobals(db: Db, instanceId: number): Promise<GlobalVariable[]> {
  return db("globals").where({ instance_id: instanceId }).orderBy("key").select("name", "value");
}

/** Octets that the values of some variables may take: they are kept with each message whose template uses them. */
export const MOST_GLOBALS_MEBIBYTES = 16;

/** Values of some variables, by tag name. @returns undefined where they take more than that */
export async function findGlobals(
  db: Db,
  instanceId: number,
  names: readonly string[],
): Promise<ReadonlyMap<string, string> | undefined> {
  if (names.length === 0) return new Map();
  const rows = await queryRows<{ key: string; value: string | null }>(
    db,
    `select key, case when sum(octet_length(value)) over () <= $3 then value end as value
     from globals where instance_id = $1 and key = any($2::text[])`,
    [instanceId, names, MOST_GLOBALS_MEBIBYTES * 2 ** 20],
  );
  const values = rows.flatMap(({ key, value }) => (value === null ? [] : [[key, value] as const]));
  return values.length < rows.length ? undefined : new Map(values);
}

/** Values by tag name, as personalisation wants them. */
export async function globalValues(db: Db, instanceId: number): Promise<ReadonlyMap<string, string>> {
  const rows = await db("globals").where({ instance_id: instanceId }).select("key", "value");
  return new Map(rows.map(({ key, value }) => [key, value]));
}
