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

/**
 * Which life of the database this is, and which timeline of its server. A standby that takes over may never have had the
 * last changes of the primary, and gives their versions to others: then too a version says nothing.
 * @see PostgreSQL documentation, continuous archiving, timelines
 */
export async function readLife(client: pg.Client): Promise<string> {
  const { rows } = await client.query<{ timeline: string }>(
    "select substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) as timeline",
  );
  return `${await readIncarnation(client)} ${rows[0]!.timeline}`;
}

/** Begins another life: after a restore, whose zones are older than those that servers have seen. */
export async function beginIncarnation(db: Db): Promise<void> {
  await queryRows(
    db,
    "insert into deployment_facts (name, value) values ($1, $2) on conflict (name) do update set value = excluded.value",
    [NAME, randomUUID()],
  );
}
