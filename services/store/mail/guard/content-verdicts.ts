import type { ContentVerdict } from "../../../core/mail/guard/content.ts";
import { type Db, queryRows, type Transaction } from "../../../platform/postgres/db.ts";
import { byInstance } from "../by-instance.ts";
import { onPresent } from "../machines.ts";

/** A batch that a content filter has looked at. */
export interface StoredVerdict {
  readonly instanceId: number;
  readonly eeid: string;
  /** `hold`: it waits for somebody to look at it. */
  readonly action: "accept" | "mark" | "hold";
  readonly verdict: ContentVerdict;
}

/**
 * Stores what was found, and holds the batches that are to be looked at, from the commit that accepts them on. One that
 * is held stays so, whatever is found of sends that join it.
 */
export async function storeVerdicts(transaction: Transaction, verdicts: readonly StoredVerdict[]): Promise<void> {
  if (verdicts.length === 0) return;
  await queryRows(
    transaction,
    `insert into content_verdicts (instance_id, eeid, action, score, symbols)
     select * from unnest($1::bigint[], $2::uuid[], $3::text[], $4::float8[], $5::jsonb[])
     on conflict (instance_id, eeid) do update set action = excluded.action, score = excluded.score,
       symbols = excluded.symbols, scanned_at = excluded.scanned_at, settled_at = null, settled_by = null
     where excluded.action = 'hold' or content_verdicts.action <> 'hold' or content_verdicts.settled_at is not null`,
    [
      verdicts.map(({ instanceId }) => instanceId),
      verdicts.map(({ eeid }) => eeid),
      verdicts.map(({ action }) => action),
      verdicts.map(({ verdict }) => verdict.scan?.score ?? null),
      verdicts.map(({ verdict }) => JSON.stringify(verdict.scan?.symbols ?? {})),
    ],
  );
  const held = verdicts.filter(({ action }) => action === "hold");
  if (held.length === 0) return;
  await queryRows(
    transaction,
    `update batches set held_at = coalesce(held_at, clock.at) from (select now() as at) as clock
     where eeid = any($1::uuid[]) and instance_id = any($2::bigint[])`,
    [held.map(({ eeid }) => eeid), held.map(({ instanceId }) => instanceId)],
  );
}

/** A batch that is held for what is in it. */
interface HeldContent {
  readonly eeid: string;
  /** Name of its instance. */
  readonly instance: string;
  /** Of its first message; empty where it has none any more. */
  readonly sender: string;
  readonly subject: string;
  readonly recipients: number;
  readonly at: Date;
  /** Null where the filter was away. */
  readonly score: number | null;
  readonly symbols: Readonly<Record<string, number>>;
}

/** Batches that wait for somebody to look at them, newest first. @param instanceId null: of all instances */
export async function listHeldContent(db: Db, instanceId: number | null, limit: number): Promise<HeldContent[]> {
  const verdicts = await queryRows<
    Omit<HeldContent, "sender" | "subject" | "recipients"> & { readonly instanceId: number }
  >(
    db,
    `select v.instance_id as "instanceId", v.eeid, i.name as instance, v.scanned_at as at, v.score, v.symbols
     from content_verdicts v join instances i on i.id = v.instance_id
     where ($1::bigint is null or v.instance_id = $2) and v.action = 'hold' and v.settled_at is null
       and ${onPresent(db, "v.instance_id")}
     order by v.scanned_at desc limit $3`,
    [instanceId, instanceId, limit],
  );
  const batches = await byInstance(db, verdicts, (own, instanceIds) =>
    queryRows<HeldBatch & { readonly eeid: string }>(
      db,
      `select given.eeid, coalesce(m.sender, '') as sender, coalesce(m.subject, '') as subject,
         (select coalesce(sum(recipients), 0)::int from partitions p
          where p.eeid = given.eeid and p.instance_id = any($2)) as recipients
       from unnest($1::uuid[]) as given (eeid)
       left join lateral (select sender, subject from messages m where m.eeid = given.eeid and m.instance_id = any($2)
                          order by m.id limit 1) m on true`,
      [own.map(({ eeid }) => eeid), instanceIds],
    ),
  );
  const known = new Map(batches.map((batch) => [batch.eeid, batch]));
  return verdicts.map(({ instanceId: _, ...verdict }) => ({ ...verdict, ...known.get(verdict.eeid)! }));
}

type HeldBatch = Pick<HeldContent, "sender" | "subject" | "recipients">;

/** Somebody has looked. @returns false when there is nothing held of the name */
export async function settleHeldContent(
  transaction: Transaction,
  instanceId: number,
  eeid: string,
  by: string,
): Promise<boolean> {
  const rows = await queryRows(
    transaction,
    `update content_verdicts set settled_at = now(), settled_by = $3
     where instance_id = $1 and eeid = $2 and action = 'hold' and settled_at is null returning 1`,
    [instanceId, eeid, by],
  );
  return rows.length > 0;
}
