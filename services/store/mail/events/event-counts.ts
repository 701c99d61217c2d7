import { type Db, queryRows, StatementValues, type Transaction } from "../../../platform/postgres/db.ts";
import { onPresent } from "../machines.ts";
import { COUNT_AGGREGATES, COUNT_COLUMNS, countColumn, EVENT_KINDS, type EventKind } from "./event-kinds.ts";

/** A stretch of time: from a moment, until just before another. */
export interface Period {
  readonly from: Date;
  readonly until: Date;
}

type Grain = "minute" | "hour" | "day";

/** A part of a period, and where its events are counted: whole units of a grain, or the events themselves. */
interface Stretch extends Period {
  readonly source: Grain | "events";
}

const GRAIN_MS: Readonly<Record<Grain, number>> = { minute: 60_000, hour: 3_600_000, day: 86_400_000 };

/**
 * Cuts a period into few stretches: the days it holds whole, around them hours, minutes, and at both ends less than
 * a minute of single events. In the order of time, without gaps, without empty ones.
 */
export function coverPeriod(period: Period): Stretch[] {
  const cut = ({ from, until }: Period, grains: readonly Grain[], rest: Stretch["source"]): Stretch[] => {
    if (from >= until) return [];
    const [grain, ...finer] = grains;
    if (grain === undefined) return [{ source: rest, from, until }];
    const unit = GRAIN_MS[grain];
    const first = new Date(Math.ceil(from.getTime() / unit) * unit);
    const last = new Date(Math.floor(until.getTime() / unit) * unit);
    if (first >= last) return cut({ from, until }, finer, rest);
    return [
      ...cut({ from, until: first }, finer, rest),
      { source: grain, from: first, until: last },
      ...cut({ from: last, until }, finer, rest),
    ];
  };
  return cut(period, ["day", "hour", "minute"], "events");
}

/** How many events of each kind there were; machines' opens and clicks are left out. Exact at the moment of asking. */
export async function countEvents(
  db: Db,
  instanceId: number,
  period: Period,
): Promise<{ readonly kind: EventKind; readonly count: number }[]> {
  const values = new StatementValues(instanceId);
  const totals = sumOfTotals(coverPeriod(period), values);
  if (totals === undefined) return [];
  const sums = COUNT_COLUMNS.map((column) => `coalesce(sum(${column}), 0)::bigint as ${column}`);
  const [row] = await queryRows<Record<string, number>>(db, `select ${sums.join(", ")} from ${totals}`, values.all);
  const kinds = Object.keys(EVENT_KINDS) as EventKind[];
  return kinds.map((kind) => ({ kind, count: row![countColumn(kind)]! })).filter(({ count }) => count > 0);
}

/** What was counted within one bucket. */
export interface BucketCount extends Stretch {
  readonly count: number;
}

/** Events, machines' included, bucket by bucket in the order of time; stretches of single events are one bucket each. */
export async function countByBucket(db: Db, instanceId: number, stretches: readonly Stretch[]): Promise<BucketCount[]> {
  const values = new StatementValues(instanceId);
  const totals = unionOfTotals(stretches, values);
  if (totals === undefined) return [];
  const rows = await queryRows<{ source: Stretch["source"]; bucket: Date; count: number }>(
    db,
    `select source, bucket, sum(${COUNT_COLUMNS.join(" + ")})::bigint as count from ${totals}
     group by source, bucket having sum(${COUNT_COLUMNS.join(" + ")}) > 0 order by bucket`,
    values.all,
  );
  return rows.map(({ source, bucket, count }) => ({ source, count, ...boundsOf(source, bucket, stretches) }));
}

/** Finer stretches of a bucket: those that together are the bucket again. */
export function splitBucket({ source, from, until }: Stretch): Stretch[] {
  switch (source) {
    case "day":
      return [{ source: "hour", from, until }];
    case "hour":
      return [{ source: "minute", from, until }];
    case "minute":
    case "events":
      return [{ source: "events", from, until }];
  }
}

/** Any number, the same in every release: one process folds, or removes what was counted, at a time. */
const FOLD_LOCK = 7_262_004;

/** Keeps `foldEventCounts` away until the transaction ends: for those who remove counts and deltas. */
export async function holdFolding(transaction: Transaction): Promise<void> {
  await transaction.raw("select pg_advisory_xact_lock(?)", [FOLD_LOCK]);
}

/** Folds the deltas that writers left into the counts, so that reading stays quick. Changes no sum. */
export async function foldEventCounts(db: Db): Promise<void> {
  await db.transaction(async (transaction) => {
    const [lock] = await queryRows<{ got: boolean }>(transaction, "select pg_try_advisory_xact_lock($1) as got", [
      FOLD_LOCK,
    ]);
    if (!lock!.got) return;
    await queryRows(
      transaction,
      `with taken as (delete from event_count_deltas where ${onPresent(transaction)} returning *)
       insert into event_counts as counts (instance_id, grain, bucket, ${COUNT_COLUMNS.join(", ")})
       select instance_id, grain, date_trunc(grain, minute, 'UTC'), ${COUNT_COLUMNS.map((column) => `sum(${column})`).join(", ")}
       from taken cross join (values ('minute'), ('hour'), ('day')) as grains (grain)
       group by 1, 2, 3
       on conflict (instance_id, grain, bucket) do update
       set ${COUNT_COLUMNS.map((column) => `${column} = counts.${column} + excluded.${column}`).join(", ")}`,
    );
  });
}

/**
 * A table expression of the count columns for all stretches together; undefined for none. Each table is named once:
 * there are a dozen partitions and a handful of stretches, and planning would cost more than the counting.
 * @param values the first is the instance's id
 */
function sumOfTotals(stretches: readonly Stretch[], values: StatementValues): string | undefined {
  const within = (column: string, { from, until }: Stretch) =>
    `(${column} >= ${values.add(from)} and ${column} < ${values.add(until)})`;
  const counted = stretches
    .filter(({ source }) => source !== "events")
    .map((stretch) => `(grain = ${values.add(stretch.source)} and ${within("bucket", stretch)})`);
  const single = stretches.filter(({ source }) => source === "events").map((stretch) => within("at", stretch));
  const parts = [
    { from: `select ${COUNT_COLUMNS.join(", ")} from event_totals`, any: counted },
    { from: `select ${COUNT_AGGREGATES} from events`, any: single },
  ].filter(({ any }) => any.length > 0);
  if (parts.length === 0) return undefined;
  const selects = parts.map(({ from, any }) => `${from} where instance_id = $1 and (${any.join(" or ")})`);
  return `(${selects.join(" union all ")}) as totals`;
}

/**
 * A table expression of counts (source, bucket, and the count columns) for all stretches; undefined for none.
 * @param values the first is the instance's id
 */
function unionOfTotals(stretches: readonly Stretch[], values: StatementValues): string | undefined {
  if (stretches.length === 0) return undefined;
  const parts = stretches.map(({ source, from, until }) => {
    const [start, end] = [values.add(from), values.add(until)];
    return source === "events"
      ? `select 'events' as source, ${start}::timestamptz as bucket, ${COUNT_AGGREGATES} from events
          where instance_id = $1 and at >= ${start} and at < ${end}`
      : `select grain as source, bucket, ${COUNT_COLUMNS.join(", ")} from event_totals
          where instance_id = $1 and grain = ${values.add(source)} and bucket >= ${start} and bucket < ${end}`;
  });
  return `(${parts.join(" union all ")}) as totals`;
}

function boundsOf(source: Stretch["source"], bucket: Date, stretches: readonly Stretch[]): Period {
  if (source !== "events") return { from: bucket, until: new Date(bucket.getTime() + GRAIN_MS[source]) };
  const stretch = stretches.find((known) => known.source === source && known.from.getTime() === bucket.getTime());
  return stretch as Stretch;
}
