import { bareTagName } from "../../../core/mail/personalise.ts";
import { type Db, queryRows } from "../../../platform/postgres/db.ts";

/** A variable of all of an instance's messages; its name with or without XYZ wrapping, as it was given. */
interface GlobalVariable {
  readonly name: string;
  readonly value: string;
}

/** Of an instance's variables: their number, and the octets of their names and values together. */
export const MOST_GLOBALS = 1_000;
export const MOST_GLOBALS_MEBIBYTES = 4;

/**
 * Sets a variable; `XYZCOLORXYZ` and `COLOR` are one.
 * @returns false where there would be too much of them; who has more already may have less
 */
export async function setGlobal(db: Db, instanceId: number, { name, value }: GlobalVariable): Promise<boolean> {
  const key = bareTagName(name);
  return db.transaction(async (transaction) => {
    // One after the other, so that each sees what those before it have added.
    await queryRows(transaction, "select pg_advisory_xact_lock(hashtextextended('globals', $1))", [instanceId]);
    const set = await queryRows(
      transaction,
      `insert into globals (instance_id, key, name, value)
       select $1::bigint, $2::text, $3::text, $4::text from (
         select count(*) as number, coalesce(sum(octet_length(name) + octet_length(value)), 0) as octets,
           coalesce(sum(octet_length(name) + octet_length(value)) filter (where key = $2), 0) as replaced,
           count(*) filter (where key = $2) as known
         from globals where instance_id = $1
       ) as present
       where number - known < greatest($5, number)
         and octets - replaced + octet_length($3::text) + octet_length($4::text) <= greatest($6, octets)
       on conflict (instance_id, key) do update set name = excluded.name, value = excluded.value returning 1`,
      [instanceId, key, name, value, MOST_GLOBALS, MOST_GLOBALS_MEBIBYTES * 2 ** 20],
    );
    return set.length > 0;
  });
}

/** Removes a variable; one that there is not, no less. */
export async function removeGlobal(db: Db, instanceId: number, name: string): Promise<void> {
  await db("globals")
    .where({ instance_id: instanceId, key: bareTagName(name) })
    .delete();
}

const GLOBALS_PER_READ = 100;

/** All of an instance by name; portion by portion, as there may be more than may be set now. */
export async function* streamGlobals(db: Db, instanceId: number): AsyncGenerator<readonly GlobalVariable[]> {
  for (let after = ""; ; ) {
    const rows: (GlobalVariable & { key: string })[] = await db("globals")
      .where({ instance_id: instanceId })
      .where("key", ">", after)
      .orderBy("key")
      .limit(GLOBALS_PER_READ)
      .select("key", "name", "value");
    yield rows;
    const last = rows.at(-1);
    if (last === undefined || rows.length < GLOBALS_PER_READ) return;
    after = last.key;
  }
}

/** Octets that the values of some variables may take: they are kept with each message whose template uses them. */
export const MOST_USED_MEBIBYTES = 16;

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
    [instanceId, names, MOST_USED_MEBIBYTES * 2 ** 20],
  );
  const values = rows.flatMap(({ key, value }) => (value === null ? [] : [[key, value] as const]));
  return values.length < rows.length ? undefined : new Map(values);
}

/** Values of those tags that are variables. */
export async function globalValues(
  db: Db,
  instanceId: number,
  tags: Iterable<string>,
): Promise<ReadonlyMap<string, string>> {
  const rows = await queryRows<{ key: string; value: string }>(
    db,
    "select key, value from globals where instance_id = $1 and key = any($2)",
    [instanceId, [...tags]],
  );
  return new Map(rows.map(({ key, value }) => [key, value]));
}
