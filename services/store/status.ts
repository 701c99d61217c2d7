import { type Db, queryRows } from "../platform/db.ts";

/** What an operator must know of the deployment's work, as the database has it. */
export interface DeploymentStatus {
  readonly zones: { readonly published: number; readonly suspended: number };
  readonly queue: {
    /** Recipients that still have to be delivered. */
    readonly recipients: number;
    /** Partitions by state: ready, leased, deferred, held. */
    readonly partitions: Readonly<Record<string, number>>;
    /** Age of the oldest message with recipients left, in seconds. */
    readonly oldestSeconds: number;
    /** Destinations that are left alone for now. */
    readonly backoffs: number;
  };
  readonly inbound: { readonly waiting: number; readonly quarantined: number };
}

export async function readStatus(db: Db): Promise<DeploymentStatus> {
  const [zones, partitions, recipients, backoffs, inbound] = await Promise.all([
    queryRows<{ suspended: boolean; count: number }>(
      db,
      "select suspended or company_suspended as suspended, count(*)::int from zones group by 1",
      [],
    ),
    queryRows<{ state: string; count: number }>(
      db,
      "select state, count(*)::int from partitions where state <> 'finished' group by 1",
      [],
    ),
    queryRows<{ count: number; oldest: number }>(
      db,
      `select coalesce(sum(waiting), 0)::int as count, coalesce(extract(epoch from now() - min(created_at)), 0)::int as oldest
       from (select messages.created_at, count(*) as waiting from partitions
             join deliveries on deliveries.partition_id = partitions.id and deliveries.state = 'queued'
             join messages on messages.id = partitions.message_id
             where partitions.state <> 'finished' group by messages.id) as unfinished`,
      [],
    ),
    queryRows<{ count: number }>(db, "select count(*)::int from destination_backoffs where until > now()", []),
    queryRows<{ state: string; count: number }>(
      db,
      "select state, count(*)::int from inbound_messages where state <> 'applied' group by 1",
      [],
    ),
  ]);
  const zoneCount = (suspended: boolean) => zones.find((row) => row.suspended === suspended)?.count ?? 0;
  const inboundCount = (...states: string[]) =>
    inbound.filter(({ state }) => states.includes(state)).reduce((sum, { count }) => sum + count, 0);
  return {
    zones: { published: zoneCount(false), suspended: zoneCount(true) },
    queue: {
      recipients: recipients[0]!.count,
      partitions: Object.fromEntries(partitions.map(({ state, count }) => [state, count])),
      oldestSeconds: recipients[0]!.oldest,
      backoffs: backoffs[0]!.count,
    },
    inbound: { waiting: inboundCount("waiting", "leased"), quarantined: inboundCount("quarantined") },
  };
}
