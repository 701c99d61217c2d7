import { bareTagName } from "../../../core/mail/personalise.ts";
import type { Db } from "../../../platform/postgres/db.ts";

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

/** Values by tag name, as personalisation wants them. */
export async function globalValues(db: Db, instanceId: number): Promise<ReadonlyMap<string, string>> {
  const rows = await db("globals").where({ instance_id: instanceId }).select("key", "value");
  return new Map(rows.map(({ key, value }) => [key, value]));
}
