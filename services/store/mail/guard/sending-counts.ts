import {
  keyOf,
  type SendingLimit,
  type SendSource,
  sendersOf,
  type WindowCount,
  windowStart,
} from "../../../core/mail/guard/sending-limits.ts";
import type { Sentence } from "../../../core/sentences.ts";
import { type Db, queryRows } from "../../../platform/postgres/db.ts";
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

/** Whose sends are judged. */
export interface JudgedSource extends SendSource {
  readonly instanceId: number;
}

/**
 * What sends of instances $1 are judged by, from the present windows on; $2 to $4 are `sourceValues`. It locks nothing: see
 * {@link chargeWindows}. Windows that are over are many, and passed by: each key and grain is looked up from now on.
 */
export const SENDING_STATES = `select i.id as "instanceId", now() as at, g.instance_id is not null as guarded,
    i.created_at as "createdAt", g.ramp_from as "rampFrom", g.held_reason as "heldReason", g.held_sends as "heldSends",
    (select json_agg(json_build_array(l.scope, l.subject, l.per_hour, l.per_day, l.over)) from sending_limits l
          where l.instance_id = any($1::bigint[]) and l.instance_id = i.id and (l.subject = ''
            or l.scope = 'campaign' and l.subject = any($2::text[]) or l.scope = 'sender' and l.subject = any($3::text[]))
    ) as limits,
    (select json_agg(json_build_array(c.key, c.grain, extract(epoch from c.starts_at), c.used))
          from (values ('hour', date_trunc('hour', now(), 'UTC')), ('day', date_trunc('day', now(), 'UTC')))
              as present (grain, at),
            lateral (
              select * from sending_counts
              where instance_id = any($1::bigint[]) and instance_id = i.id and key = any($4::text[]) and grain = present.grain and starts_at >= present.at offset 0
            ) c
    ) as counts
  from instances i left join instance_guards g on g.instance_id = i.id and g.instance_id = any($1::bigint[])
  where i.id = any($1::bigint[])`;

/** The values of {@link SENDING_STATES} that follow the instances. */
export function sourceValues(sources: readonly SendSource[]): [campaigns: string[], senders: string[], keys: string[]] {
  if (sources.length === 0) return [[], [], []];
  const campaigns = [...new Set(sources.map(({ campaignNumid }) => `${campaignNumid}`))];
  const senders = [...new Set(sources.flatMap(sendersOf))];
  const keys = [
    keyOf("instance", ""),
    ...campaigns.map((subject) => keyOf("campaign", subject)),
    ...senders.map((subject) => keyOf("sender", subject)),
  ];
  return [campaigns, senders, keys];
}

/** A row of {@link SENDING_STATES}. */
export type SendingStateRow = Omit<SendingState, "limits" | "counts"> & {
  /** When it was read, by the database's clock: the time that its transaction began. */
  readonly at: Date;
  /** It has a guard of its own. */
  readonly guarded: boolean;
  readonly limits: LimitRow[] | null;
  readonly counts: CountRow[] | null;
};

export function toSendingState({
  at: _at,
  guarded: _guarded,
  limits,
  counts,
  ...state
}: SendingStateRow): SendingState {
  return { ...state, limits: (limits ?? []).map(toLimit), counts: (counts ?? []).map(toCount) };
}

/** Of one instance. @returns undefined where it is gone */
export async function readSendingState(
  db: Db,
  instanceId: number,
  sources: readonly SendSource[],
): Promise<SendingState | undefined> {
  const values = [[instanceId], ...sourceValues(sources)];
  const [row] = await queryRows<SendingStateRow>(db, SENDING_STATES, values, { name: "read-sending-state" });
  return row && toSendingState(row);
}

/** What an instance adds to a window. */
export interface Charge extends WindowCount {
  readonly instanceId: number;
}

/**
 * Adds to what is counted, as the last part of a statement. Others that add to the same wait until the transaction ends, so
 * that statement comes last in it. Its rows are {@link ChargedWindow}s.
 * @param first number of the first parameter of `chargeValues`
 */
export function chargeWindows(first: number): string {
  const types = ["bigint", "text", "text", "timestamptz", "bigint"];
  return `insert into sending_counts as c (instance_id, key, grain, starts_at, used)
    select * from unnest(${types.map((type, n) => `$${first + n}::${type}[]`).join(", ")})
    on conflict (instance_id, key, grain, starts_at) do update set used = c.used + excluded.used
    returning instance_id as "instanceId", key, grain, used as count`;
}

/** How much is counted in a window that something was added to, with that. */
export type ChargedWindow = Pick<Charge, "instanceId" | "key" | "grain" | "count">;

export function chargeValues(charges: readonly Charge[]): unknown[] {
  // In one order, as all who lock several rows do.
  const inOrder = charges.toSorted((a, b) => a.instanceId - b.instanceId || compareWindows(a, b));
  return [
    inOrder.map(({ instanceId }) => instanceId),
    inOrder.map(({ key }) => key),
    inOrder.map(({ grain }) => grain),
    inOrder.map(({ startsAt }) => startsAt.toISOString()),
    inOrder.map(({ count }) => count),
  ];
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
