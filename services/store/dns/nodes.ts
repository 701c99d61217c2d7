import { type Db, queryRows } from "../../platform/postgres/db.ts";

/** A running stack, as it says of itself. */
export interface NodeReport {
  readonly node: string;
  readonly services: readonly { readonly name: string; readonly ready: boolean }[];
  readonly version: string;
  /** Milliseconds since its zones were known to be what the database has; null where it serves none. */
  readonly lagMs: number | null;
}

export interface SeenNode extends NodeReport {
  readonly seen: Date;
  /** Seconds since then, by the database's clock. */
  readonly silentSeconds: number;
}

/** Says that this node is there, and forgets nodes that have not been for a day. */
export async function reportNode(db: Db, { node, services, version, lagMs }: NodeReport): Promise<void> {
  await queryRows(
    db,
    `insert into nodes (node, services, version, lag_ms) values ($1, $2::jsonb, $3, $4) on conflict (node) do update
       set services = excluded.services, version = excluded.version, lag_ms = excluded.lag_ms, seen = now()`,
    [node, JSON.stringify(services), version, lagMs],
  );
  await queryRows(db, "delete from nodes where seen < now() - interval '1 day'");
}

/** A node that was stopped on purpose is missed by nobody. */
export async function removeNode(db: Db, node: string): Promise<void> {
  await queryRows(db, "delete from nodes where node = $1", [node]);
}

export async function listNodes(db: Db): Promise<SeenNode[]> {
  const rows = await queryRows<{
    node: string;
    services: NodeReport["services"];
    version: string;
    lag_ms: number | null;
    seen: Date;
    silent_seconds: number;
  }>(
    db,
    "select node, services, version, lag_ms, seen, extract(epoch from now() - seen)::int as silent_seconds from nodes order by node",
  );
  return rows.map(({ lag_ms, silent_seconds, ...row }) => ({ ...row, lagMs: lag_ms, silentSeconds: silent_seconds }));
}
