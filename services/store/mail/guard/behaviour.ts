import type { Behaviour, Detector, DetectorAction, NewPlace } from "../../../core/mail/guard/behaviour.ts";
import { type Db, queryRows, type Transaction } from "../../../platform/postgres/db.ts";
import { EVENT_KINDS } from "../events/event-kinds.ts";
import { onPresent } from "../machines.ts";

/** Any number, the same in every release: one process watches at a time. */
const WATCH_LOCK = 7_262_010;

/** Keeps other processes from watching until the transaction ends. @returns false when one does so already */
export async function takeWatch(transaction: Transaction): Promise<boolean> {
  const [lock] = await queryRows<{ got: boolean }>(transaction, "select pg_try_advisory_xact_lock($1) as got", [
    WATCH_LOCK,
  ]);
  return lock!.got;
}

/** Folds what delivery has counted into minutes, and forgets what no window reaches back to. */
export async function foldOutcomes(transaction: Transaction): Promise<void> {
  await queryRows(
    transaction,
    `with taken as (delete from outcome_deltas where ${onPresent(transaction)} returning *)
     insert into outcome_counts as counts (instance_id, minute, tried)
     select instance_id, minute, sum(tried) from taken group by 1, 2
     on conflict (instance_id, minute) do update set tried = counts.tried + excluded.tried`,
  );
  await queryRows(
    transaction,
    `delete from outcome_counts where minute < now() - interval '25 hours' and ${onPresent(transaction)}`,
  );
}

/** How much has to have happened for an instance to be looked at. */
interface Floors {
  readonly sentInAnHour: number;
  readonly bouncesInADay: number;
  readonly complaintsInADay: number;
}

/** An instance that is worth a look. */
export interface WatchedInstance {
  readonly instanceId: number;
  readonly name: string;
  readonly createdAt: Date;
  /** Only what came later speaks against it. */
  readonly judgedFrom: Date;
  readonly detectors: Readonly<Partial<Record<Detector, DetectorAction>>>;
  /** When something was last told of it without a hold, by detector. */
  readonly told: Readonly<Partial<Record<Detector, string>>>;
}

/** Instances that are not held and of which enough has happened, or whose credentials were used from a new country. */
export async function listWatched(db: Db, floors: Floors): Promise<WatchedInstance[]> {
  return queryRows<WatchedInstance>(
    db,
    `with recent as (
       select instance_id, sum(sent) filter (where bucket >= date_trunc('hour', now(), 'UTC') - interval '1 hour') as sent,
         sum(hard_bounce) as bounced, sum(complained) as complained
       from event_totals where grain = 'hour' and bucket >= date_trunc('hour', now(), 'UTC') - interval '24 hours'
         and ${onPresent(db)} group by 1
     )
     select i.id as "instanceId", i.name, i.created_at as "createdAt",
       coalesce(g.judged_from, '1970-01-01') as "judgedFrom", coalesce(g.detectors, '{}') as detectors,
       coalesce(g.told, '{}') as told
     from instances i left join recent on recent.instance_id = i.id
     left join instance_guards g on g.instance_id = i.id and ${onPresent(db, "g.instance_id")}
     where ${onPresent(db, "i.id")} and g.held_at is null and (recent.sent >= $1 or recent.bounced >= $2 or recent.complained >= $3
       or i.id in (select instance_id from credential_places where judged_at is null and ${onPresent(db)}))
     order by i.id`,
    [floors.sentInAnHour, floors.bouncesInADay, floors.complaintsInADay],
  );
}

/** The windows that an instance is looked at in, in minutes. */
interface Windows {
  readonly complaints: number;
  readonly hardBounces: number;
  readonly unknownAddresses: number;
  readonly historyDays: number;
}

/** What an instance has done, minute by minute of each window, and not before it was last released. */
export async function readBehaviour(
  db: Db,
  { instanceId, judgedFrom, createdAt }: WatchedInstance,
  windows: Windows,
): Promise<Behaviour> {
  const [row] = await queryRows<Record<string, number>>(
    db,
    `with moments as (
       select greatest(now() - make_interval(mins => $2), $6) as complaints,
         greatest(now() - make_interval(mins => $3), $6) as bounces,
         greatest(now() - make_interval(mins => $4), $6) as unknown,
         greatest(now() - interval '1 hour', $6) as rise
     )
     select
       (select coalesce(sum(tried), 0) from outcome_counts where instance_id = $1 and minute > complaints)::int as complaints_tried,
       (select coalesce(sum(complained), 0) from event_totals
        where instance_id = $1 and grain = 'minute' and bucket > complaints)::int as complaints_wrong,
       (select coalesce(sum(tried), 0) from outcome_counts where instance_id = $1 and minute > bounces)::int as bounces_tried,
       (select coalesce(sum(hard_bounce), 0) from event_totals
        where instance_id = $1 and grain = 'minute' and bucket > bounces)::int as bounces_wrong,
       (select coalesce(sum(tried), 0) from outcome_counts where instance_id = $1 and minute > unknown)::int as unknown_tried,
       (select count(*) from events where instance_id = $1 and kind in (${EVENT_KINDS["hard-bounce"]}, ${EVENT_KINDS["soft-bounce"]})
        and kind = ${EVENT_KINDS["hard-bounce"]} and at > unknown and detail ->> 'reason' = 'userunknown')::int as unknown_wrong,
       (select coalesce(sum(sent), 0) from event_totals
        where instance_id = $1 and grain = 'minute' and bucket > rise)::int as sent,
       (select coalesce(max(sent), 0) from event_counts where instance_id = $1 and grain = 'hour'
        and bucket >= now() - make_interval(days => $5) and bucket < date_trunc('hour', now(), 'UTC') - interval '1 hour')::int as busiest,
       extract(epoch from now() - $7::timestamptz)::float8 / 86400 as age_days
     from moments`,
    [
      instanceId,
      windows.complaints,
      windows.hardBounces,
      windows.unknownAddresses,
      windows.historyDays,
      judgedFrom.toISOString(),
      createdAt.toISOString(),
    ],
  );
  const counts = row!;
  return {
    complaints: { tried: counts.complaints_tried!, wrong: counts.complaints_wrong! },
    hardBounces: { tried: counts.bounces_tried!, wrong: counts.bounces_wrong! },
    unknownAddresses: { tried: counts.unknown_tried!, wrong: counts.unknown_wrong! },
    rise: { sent: counts.sent!, busiest: counts.busiest!, ageDays: counts.age_days! },
    newPlaces: await listNewPlaces(db, instanceId),
  };
}

async function listNewPlaces(db: Db, instanceId: number): Promise<NewPlace[]> {
  return queryRows<NewPlace>(
    db,
    `select new.credential, new.country, coalesce((
       select json_agg(json_build_object('country', known.country,
         'hours', extract(epoch from new.first_seen_at - known.first_seen_at)::float8 / 3600))
       from credential_places known where known.instance_id = new.instance_id and known.credential = new.credential
         and known.country <> new.country and known.judged_at is not null
     ), '[]') as known
     from credential_places new where new.instance_id = $1 and new.judged_at is null order by 1, 2`,
    [instanceId],
  );
}

/** What was found of an instance's credentials is known from now on. */
export async function settlePlaces(db: Db, instanceId: number, places: readonly NewPlace[]): Promise<void> {
  if (places.length === 0) return;
  await queryRows(
    db,
    `update credential_places p set judged_at = now() from unnest($2::text[], $3::text[]) as seen (credential, country)
     where p.instance_id = $1 and p.credential = seen.credential and p.country = seen.country`,
    [instanceId, places.map(({ credential }) => credential), places.map(({ country }) => country)],
  );
}

/** Notes that a credential was used from a country. */
export async function notePlace(
  db: Db,
  instanceId: number,
  { credential, country }: Pick<NewPlace, "credential" | "country">,
): Promise<void> {
  await queryRows(
    db,
    `insert into credential_places (instance_id, credential, country) values ($1, $2, $3)
     on conflict (instance_id, credential, country) do update set last_seen_at = excluded.last_seen_at`,
    [instanceId, credential, country],
  );
}

/** Notes what was told of an instance. */
export async function noteTold(db: Db, instanceId: number, told: WatchedInstance["told"]): Promise<void> {
  await queryRows(
    db,
    `insert into instance_guards (instance_id, told) values ($1, $2)
     on conflict (instance_id) do update set told = excluded.told`,
    [instanceId, JSON.stringify(told)],
  );
}
