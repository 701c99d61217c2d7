import type { WarmUpDay, WarmUpPast } from "../../../core/mail/pace/warm-up.ts";
import { type Db, queryRows, type Transaction } from "../../../platform/postgres/db.ts";
import { byInstance } from "../by-instance.ts";
import type { PaceKey } from "./source-paces.ts";

/** A day of a source's plan at a provider. */
export interface KeptDay extends PaceKey, WarmUpDay {}

/** With the complaints about what was sent. */
export interface CountedDay extends KeptDay {
  readonly complained: number;
}

const COLUMNS = `d.source, d.provider, d.number, d.step, d.planned, d.sent, d.deferred, d.sent_before as "sentBefore",
  d.deferred_before as "deferredBefore", coalesce(extract(epoch from d.paused_until)::float8 * 1000, 0) as "pausedUntilMs",
  d.paused_for as "pausedFor", d.repeated as "isRepeated"`;

/**
 * The last day that is known of each key, and what the days from `since` on came to.
 * @param keys `since`: the number of a day
 */
export async function findLastDays(
  db: Db,
  keys: readonly (PaceKey & { readonly since: number })[],
): Promise<(PaceKey & WarmUpPast)[]> {
  const rows = await queryRows<KeptDay & { recently_sent: number; recent_complaints: number }>(
    db,
    `select l.*, r.* from unnest($1::text[], $2::text[], $3::integer[]) as given (source, provider, since),
     lateral (select ${COLUMNS} from warm_up_days d where d.source = given.source and d.provider = given.provider
              order by d.number desc limit 1) l,
     lateral (select coalesce(sum(sent), 0)::int as recently_sent, coalesce(sum(complained), 0)::int as recent_complaints
              from warm_up_days d where d.source = given.source and d.provider = given.provider and d.number >= given.since) r`,
    [keys.map(({ source }) => source), keys.map(({ provider }) => provider), keys.map(({ since }) => since)],
    { name: "find-last-warm-up-days" },
  );
  return rows.map(({ recently_sent: recentlySent, recent_complaints: recentComplaints, ...last }) => {
    const { source, provider } = last;
    return { source, provider, last, recentlySent, recentComplaints };
  });
}

/** Stores days, with the rows of their sources and providers locked by `lockPaces`; complaints are not touched. */
export async function storeDays(transaction: Transaction, days: readonly KeptDay[]): Promise<void> {
  if (days.length === 0) return;
  await queryRows(
    transaction,
    `insert into warm_up_days as d (source, provider, number, step, planned, sent, deferred, sent_before, deferred_before,
       paused_until, paused_for, repeated)
     select source, provider, number, step, planned, sent, deferred, sent_before, deferred_before,
       to_timestamp(nullif(paused_until, 0) / 1000), paused_for, repeated
     from unnest($1::text[], $2::text[], $3::integer[], $4::integer[], $5::integer[], $6::integer[], $7::integer[],
                 $8::integer[], $9::integer[], $10::float8[], $11::text[], $12::boolean[])
       as n (source, provider, number, step, planned, sent, deferred, sent_before, deferred_before, paused_until, paused_for, repeated)
     on conflict (source, provider, number) do update
     set sent = excluded.sent, deferred = excluded.deferred, sent_before = excluded.sent_before,
         deferred_before = excluded.deferred_before, paused_until = excluded.paused_until,
         paused_for = excluded.paused_for, repeated = excluded.repeated`,
    [
      days.map(({ source }) => source),
      days.map(({ provider }) => provider),
      days.map(({ number }) => number),
      days.map(({ step }) => step),
      days.map(({ planned }) => planned),
      days.map(({ sent }) => sent),
      days.map(({ deferred }) => deferred),
      days.map(({ sentBefore }) => sentBefore),
      days.map(({ deferredBefore }) => deferredBefore),
      days.map(({ pausedUntilMs }) => pausedUntilMs),
      days.map(({ pausedFor }) => pausedFor),
      days.map(({ isRepeated }) => String(isRepeated)),
    ],
    { name: "store-warm-up-days" },
  );
}

/** All days of a source, by provider; or of all sources. */
export async function listDays(db: Db, source: string | null = null): Promise<CountedDay[]> {
  return queryRows<CountedDay>(
    db,
    `select ${COLUMNS}, d.complained from warm_up_days d where $1::text is null or d.source = $1
     order by d.source, d.provider, d.number`,
    [source],
  );
}

/** A delivery that left from a source that sends by a plan. */
interface WarmUpDelivery extends PaceKey {
  readonly instanceId: number;
  readonly deliveryId: number;
}

/** Notes which deliveries left from there, so that complaints find their source. */
export async function noteWarmUpDeliveries(
  transaction: Transaction,
  deliveries: readonly WarmUpDelivery[],
): Promise<void> {
  await byInstance(transaction, deliveries, (own, instanceIds) =>
    queryRows(
      transaction,
      `insert into warm_up_deliveries (delivery_id, instance_id, source, provider)
     select given.* from unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[]) as given (delivery_id, instance_id, source, provider)
     where given.delivery_id in (select id from deliveries where id = any($1) and instance_id = any($5))
     on conflict (delivery_id, instance_id) do update set source = excluded.source, provider = excluded.provider`,
      [
        own.map(({ deliveryId }) => deliveryId),
        own.map(({ instanceId }) => instanceId),
        own.map(({ source }) => source),
        own.map(({ provider }) => provider),
        instanceIds,
      ],
      { name: "note-warm-up-deliveries" },
    ),
  );
}

/** Counts a complaint for the source that the delivery left from, where that one sends by a plan. */
export async function countWarmUpComplaint(transaction: Transaction, deliveryId: number): Promise<void> {
  const [key] = await queryRows<PaceKey>(
    transaction,
    "select source, provider from warm_up_deliveries where delivery_id = $1",
    [deliveryId],
  );
  if (key === undefined) return;
  await queryRows(
    transaction,
    `update warm_up_days d set complained = d.complained + 1
     where d.source = $1 and d.provider = $2
       and d.number = (select max(number) from warm_up_days l where l.source = $1 and l.provider = $2)`,
    [key.source, key.provider],
  );
}
