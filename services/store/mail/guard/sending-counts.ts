import {
  keyOf,
  type SendingLimit,
  type SendSource,
  sendersOf,
  type WindowCount,
  windowStart,
} from "../../../core/mail/guard/sending-limits.ts";
import type { Sentence } from "../../../core/sentences.ts";
import { type Db, queryRows, type Transaction } from "../../../platform/postgres/db.ts";
import type { HeldSends } from "./holds.ts";

/** What an instance may send, as far as some of its sends are concerned, and what is counted of it. */
export interface SendingState {
  readonly instanceId: number;
  readonly createdAt: Date;
  /** From when on its ramp counts, where that was said. */
  readonly rampFrom: Date | null;
  /** Why it is held; null while it is not. */
  readonly heldReason: Sentence | null;
  readonly heldSends: HeldSends | null;
  readonly limits: readonly SendingLimit[];
  readonly counts: readonly WindowCount[];
}

/** Reads what sends of instances are judged by, from the present windows on. It locks nothing: see `chargeWindows`. */
export async function readSendingStates(
  db: Db,
  sources: readonly (SendSource & { readonly instanceId: number })[],
  now: Date,
): Promise<SendingState[]> {
  const states: SendingState[] = [];
  for (const instanceId of new Set(sources.map((source) => source.instanceId))) {
    const own = sources.filter((source) => source.instanceId === instanceId);
    const state = await readSendingState(db, instanceId, own, now);
    if (state !== undefined) states.push(state);
  }
  return states;
}

/** Of one instance, if it is still there: the plan of this is kept, and to plan it takes thrice as long as to run it. */
async function readSendingState(
  db: Db,
  instanceId: number,
  sources: readonly SendSource[],
  now: Date,
): Promise<SendingState | undefined> {
  const campaigns = [...new Set(sources.map(({ campaignNumid }) => `${campaignNumid}`))];
  const senders = [...new Set(sources.flatMap(sendersOf))];
  const keys = [
    keyOf("instance", ""),
    ...campaigns.map((subject) => keyOf("campaign", subject)),
    ...senders.map((subject) => keyOf("sender", subject)),
  ];
  const [row] = await queryRows<Omit<SendingState, "limits" | "counts"> & { limits: LimitRow[]; counts: CountRow[] }>(
    db,
    `select i.id as "instanceId", i.created_at as "createdAt", g.ramp_from as "rampFrom",
       g.held_reason as "heldReason", g.held_sends as "heldSends",
       array(select json_build_array(l.scope, l.subject, l.per_hour, l.per_day, l.over) from sending_limits l
             where l.instance_id = $1 and (l.subject = '' or l.scope = 'campaign' and l.subject = any($2)
               or l.scope = 'sender' and l.subject = any($3))) as limits,
       array(select json_build_array(c.key, c.grain, extract(epoch from c.starts_at), c.used) from sending_counts c
             where c.instance_id = $1 and c.key = any($4)
               and c.starts_at >= case c.grain when 'hour' then $5::timestamptz else $6::timestamptz end) as counts
     from instances i left join instance_guards g on g.instance_id = $1 where i.id = $1`,
    [
      instanceId,
      campaigns,
      senders,
      keys,
      windowStart("hour", now).toISOString(),
      windowStart("day", now).toISOString(),
    ],
    { name: "read-sending-state" },
  );
  return row && { ...row, limits: row.limits.map(toLimit), counts: row.counts.map(toCount) };
}

/** What an instance adds to a window. */
export interface Charge extends WindowCount {
  readonly instanceId: number;
}

/**
 * Adds to what is counted; others that add to the same wait until this transaction ends, so this comes last in it.
 * @returns the windows as they count now
 */
export async function chargeWindows(transaction: Transaction, charges: readonly Charge[]): Promise<Charge[]> {
  if (charges.length === 0) return [];
  // In one order, as all who lock several rows do.
  const inOrder = charges.toSorted((a, b) => a.instanceId - b.instanceId || compareWindows(a, b));
  return queryRows<Charge>(
    transaction,
    `insert into sending_counts as c (instance_id, key, grain, starts_at, used)
     select * from unnest($1::bigint[], $2::text[], $3::text[], $4::timestamptz[], $5::bigint[])
     on conflict (instance_id, key, grain, starts_at) do update set used = c.used + excluded.used
     returning instance_id as "instanceId", key, grain, starts_at as "startsAt", used as count`,
    [
      inOrder.map(({ instanceId }) => instanceId),
      inOrder.map(({ key }) => key),
      inOrder.map(({ grain }) => grain),
      inOrder.map(({ startsAt }) => startsAt.toISOString()),
      inOrder.map(({ count }) => count),
    ],
    { name: "charge-windows" },
  );
}

/** What an instance has sent and may send: its limits, and what is counted in the present windows and in those to come. */
export async function readSending(
  db: Db,
  instanceId: number,
  now: Date,
): Promise<Pick<SendingState, "limits" | "counts" | "rampFrom" | "createdAt">> {
  const [row] = await queryRows<
    Pick<SendingState, "rampFrom" | "createdAt"> & { limits: LimitRow[]; counts: CountRow[] }
  >(
    db,
    `select i.created_at as "createdAt", g.ramp_from as "rampFrom",
       array(select json_build_array(l.scope, l.subject, l.per_hour, l.per_day, l.over) from sending_limits l
             where l.instance_id = $1 order by l.scope, l.subject) as limits,
       array(select json_build_array(c.key, c.grain, extract(epoch from c.starts_at), c.used) from sending_counts c
             where c.instance_id = $1
               and c.starts_at >= case c.grain when 'hour' then $2::timestamptz else $3::timestamptz end
             order by c.starts_at, c.key) as counts
     from instances i left join instance_guards g on g.instance_id = $1 where i.id = $1`,
    [instanceId, windowStart("hour", now).toISOString(), windowStart("day", now).toISOString()],
  );
  return { ...row!, limits: row!.limits.map(toLimit), counts: row!.counts.map(toCount) };
}

/** Removes what was counted before a moment. */
export async function purgeSendingCounts(db: Db, before: Date): Promise<void> {
  await queryRows(db, "delete from sending_counts where starts_at < $1", [before]);
}

type LimitRow = [SendingLimit["scope"], string, number | null, number | null, SendingLimit["over"]];
type CountRow = [string, WindowCount["grain"], number, number];

function toLimit([scope, subject, perHour, perDay, over]: LimitRow): SendingLimit {
  return { scope, subject, perHour, perDay, over };
}

function toCount([key, grain, seconds, count]: CountRow): WindowCount {
  return { key, grain, startsAt: new Date(seconds * 1000), count };
}

function compareWindows(a: WindowCount, b: WindowCount): number {
  return compare(a.key, b.key) || compare(a.grain, b.grain) || a.startsAt.getTime() - b.startsAt.getTime();
}

function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}
