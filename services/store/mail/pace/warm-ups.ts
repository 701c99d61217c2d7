import type { WarmUpPlan } from "../../../core/mail/pace/warm-up.ts";
import { type Db, queryRows, type Transaction } from "../../../platform/postgres/db.ts";

/** A source address that sends by a plan. Times are milliseconds since the epoch. */
export interface WarmUp {
  readonly source: string;
  readonly plan: WarmUpPlan;
  readonly startedAtMs: number;
  readonly startedBy: string;
  readonly endsAtMs: number;
  readonly pausedAtMs: number | null;
  readonly pausedBy: string | null;
  readonly stoppedAtMs: number | null;
  readonly stoppedBy: string | null;
}

const ms = (column: string) => `extract(epoch from ${column})::float8 * 1000`;
const at = (parameter: string) => `to_timestamp(${parameter}::float8 / 1000)`;

const COLUMNS = `source, plan, ${ms("started_at")} as "startedAtMs", started_by as "startedBy", ${ms("ends_at")} as "endsAtMs",
  ${ms("paused_at")} as "pausedAtMs", paused_by as "pausedBy", ${ms("stopped_at")} as "stoppedAtMs", stopped_by as "stoppedBy"`;

/** All that are known, those that are over as well. */
export async function listWarmUps(db: Db): Promise<WarmUp[]> {
  return queryRows<WarmUp>(db, `select ${COLUMNS} from warm_ups order by source`);
}

/** @returns undefined where there is none */
export async function findWarmUp(db: Db, source: string): Promise<WarmUp | undefined> {
  return (await findWarmUps(db, [source]))[0];
}

/** Those of the sources that there are. */
export async function findWarmUps(db: Db, sources: readonly string[]): Promise<WarmUp[]> {
  return queryRows<WarmUp>(db, `select ${COLUMNS} from warm_ups where source = any($1::text[])`, [sources], {
    name: "find-warm-ups",
  });
}

/** Sources whose plan is not over. @param nowMs where time is not the database's */
export async function listWarming(db: Db, nowMs?: number): Promise<string[]> {
  const rows = await queryRows<{ source: string }>(
    db,
    `select source from warm_ups
     where stopped_at is null and (paused_at is not null or ends_at > coalesce(${at("$1")}, now()))`,
    [nowMs ?? null],
    { name: "list-warming" },
  );
  return rows.map(({ source }) => source);
}

/** Begins one, in the place of one of the source that is over. @returns false while one goes on */
export async function insertWarmUp(
  transaction: Transaction,
  given: Pick<WarmUp, "source" | "plan" | "startedAtMs" | "startedBy" | "endsAtMs"> & { readonly nowMs: number },
): Promise<boolean> {
  const { source, plan, startedAtMs, startedBy, endsAtMs, nowMs } = given;
  await queryRows(
    transaction,
    `delete from warm_ups where source = $1
       and (stopped_at is not null or (paused_at is null and ends_at <= ${at("$2")}))`,
    [source, nowMs],
  );
  const rows = await queryRows(
    transaction,
    `insert into warm_ups (source, plan, started_at, started_by, ends_at)
     values ($1, $2, ${at("$3")}, $4, ${at("$5")}) on conflict do nothing returning 1`,
    [source, JSON.stringify(plan), startedAtMs, startedBy, endsAtMs],
  );
  return rows.length > 0;
}

/** Of one change of a warm-up by an operator. */
interface WarmUpChange {
  readonly source: string;
  readonly by: string;
  readonly nowMs: number;
}

/** @returns false where none goes on */
export async function pauseWarmUp(db: Db, { source, by, nowMs }: WarmUpChange): Promise<boolean> {
  return changes(
    db,
    `update warm_ups set paused_at = ${at("$2")}, paused_by = $3
     where source = $1 and stopped_at is null and paused_at is null and ends_at > ${at("$2")} returning 1`,
    [source, nowMs, by],
  );
}

/** The time for which it was paused is no part of the plan. @returns false where none is paused */
export async function resumeWarmUp(db: Db, { source, nowMs }: WarmUpChange): Promise<boolean> {
  return changes(
    db,
    `update warm_ups set started_at = started_at + (${at("$2")} - paused_at), ends_at = ends_at + (${at("$2")} - paused_at),
       paused_at = null, paused_by = null
     where source = $1 and stopped_at is null and paused_at is not null returning 1`,
    [source, nowMs],
  );
}

/** The source sends without a plan from now on. @returns false where none goes on */
export async function stopWarmUp(db: Db, { source, by, nowMs }: WarmUpChange): Promise<boolean> {
  return changes(
    db,
    `update warm_ups set stopped_at = ${at("$2")}, stopped_by = $3, paused_at = null, paused_by = null
     where source = $1 and stopped_at is null and (paused_at is not null or ends_at > ${at("$2")}) returning 1`,
    [source, nowMs, by],
  );
}

async function changes(db: Db, statement: string, values: readonly unknown[]): Promise<boolean> {
  return (await queryRows(db, statement, values)).length > 0;
}

/** Plans may have become longer, as a provider has them repeat a day. */
export async function prolongWarmUps(
  transaction: Transaction,
  ends: readonly Pick<WarmUp, "source" | "endsAtMs">[],
): Promise<void> {
  if (ends.length === 0) return;
  await queryRows(
    transaction,
    `update warm_ups w set ends_at = greatest(w.ends_at, ${at("n.ends_at")})
     from unnest($1::text[], $2::float8[]) as n (source, ends_at) where w.source = n.source`,
    [ends.map(({ source }) => source), ends.map(({ endsAtMs }) => endsAtMs)],
    { name: "prolong-warm-ups" },
  );
}

/** Forgets what is over for so long, and which deliveries were its. */
export async function purgeWarmUps(db: Db, days: number): Promise<void> {
  const gone = await queryRows<{ source: string }>(
    db,
    `delete from warm_ups where (stopped_at is not null or paused_at is null)
       and coalesce(stopped_at, ends_at) < now() - make_interval(days => $1::integer) returning source`,
    [days],
  );
  if (gone.length === 0) return;
  await queryRows(db, "delete from warm_up_deliveries where source = any($1::text[])", [
    gone.map(({ source }) => source),
  ]);
}
