import { type Db, queryRows } from "../../../platform/postgres/db.ts";

/**
 * The `traceparent` of the call that a delivery's message was accepted by; undefined where that was not traced, or the
 * delivery is gone or unknown.
 */
export async function findTraceParent(db: Db, deliveryId: number | undefined): Promise<string | undefined> {
  if (deliveryId === undefined) return undefined;
  const [row] = await queryRows<{ traceParent: string | null }>(
    db,
    `select m.trace_parent as "traceParent"
     from deliveries d
     join partitions p on p.instance_id = d.instance_id and p.id = d.partition_id
     join messages m on m.instance_id = p.instance_id and m.id = p.message_id
     where d.id = $1`,
    [deliveryId],
  );
  return row?.traceParent ?? undefined;
}
