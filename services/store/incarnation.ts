import { randomUUID } from "node:crypto";
import type pg from "pg";
import { type Db, queryRows } from "../platform/postgres/db.ts";

const NAME = "incarnation";

/**
 * Which life of the database this is. Two lives may give one version of a zone different content, so what somebody
 * remembers of versions is worth nothing in another life.
 */
export async function readIncarnation(client: pg.Client): Promise<string> {
  const { rows } = await client.query<{ value: string }>("select value from deployment_facts where name = $1", [NAME]);
  return rows[0]?.value ?? "";
}

/** Begins another life: after a restore, whose zones are older than those that servers have seen. */
export async function beginIncarnation(db: Db): Promise<void> {
  await queryRows(
    db,
    "insert into deployment_facts (name, value) values ($1, $2) on conflict (name) do update set value = excluded.value",
    [NAME, randomUUID()],
  );
}
