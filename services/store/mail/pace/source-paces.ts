import { type PacePins, UNPINNED } from "../../../core/mail/pace/allowance.ts";
import { type PaceMemory, UNTAUGHT } from "../../../core/mail/pace/controller.ts";
import { type Db, queryRows, type Transaction } from "../../../platform/postgres/db.ts";

/** A source at a provider: a group of config/domain-groups.json, or a domain that is in none. */
export interface PaceKey {
  readonly source: string;
  readonly provider: string;
}

/** Equal for equal keys: what maps and sets know them by. */
export function paceName({ source, provider }: PaceKey): string {
  return `${source} ${provider}`;
}

export function byPaceName<Keyed extends PaceKey>(all: readonly Keyed[]): ReadonlyMap<string, Keyed> {
  return new Map(all.map((one) => [paceName(one), one]));
}

/** What is kept of it. Times are milliseconds since the epoch. */
export interface SourcePace extends PaceKey {
  readonly memory: PaceMemory;
  readonly pins: PacePins;
  readonly pinnedBy: string | null;
  readonly tokens: number;
  readonly filledAtMs: number;
  readonly meteredAtMs: number;
  readonly metered: number;
  readonly triedPerHour: number;
  readonly usedAtMs: number;
}

const COLUMNS = `p.source, p.provider, p.memory, p.pins, p.pinned_by as "pinnedBy", p.tokens,
  extract(epoch from p.filled_at)::float8 * 1000 as "filledAtMs", extract(epoch from p.metered_at)::float8 * 1000 as "meteredAtMs",
  p.metered, p.tried_per_hour as "triedPerHour", extract(epoch from p.used_at)::float8 * 1000 as "usedAtMs"`;

/** The present by the database's clock, in milliseconds since the epoch. */
export async function databaseNowMs(db: Db): Promise<number> {
  const [row] = await queryRows<{ ms: number }>(
    db,
    "select extract(epoch from clock_timestamp())::float8 * 1000 as ms",
    [],
    { name: "pace-now" },
  );
  return row!.ms;
}

/** Something is limited, by what was learnt or by an operator; of others a row has only how much was sent. */
const LIMITED = `(pinned_by is not null or memory->>'ratePerHour' is not null or memory->>'connections' is not null
  or memory->>'messagesPerConnection' is not null
  or (memory->>'waitsUntilMs')::float8 > extract(epoch from now()) * 1000)`;

/** Those of which something is limited. */
export async function listPaces(db: Db): Promise<SourcePace[]> {
  const rows = await queryRows<SourcePace>(
    db,
    `select ${COLUMNS} from source_paces p where ${LIMITED} order by source, provider`,
  );
  return rows.map(whole);
}

/** The keys of those. */
export async function listLimited(db: Db): Promise<PaceKey[]> {
  return queryRows<PaceKey>(db, `select source, provider from source_paces where ${LIMITED}`, [], {
    name: "list-limited",
  });
}

/** The longest first. */
export async function listLongestWaits(db: Db, most: number): Promise<(PaceKey & { readonly seconds: number })[]> {
  return queryRows(
    db,
    `select source, provider, ceil((memory->>'waitsUntilMs')::float8 / 1000 - extract(epoch from now()))::int as seconds
     from source_paces where (memory->>'waitsUntilMs')::float8 > extract(epoch from now()) * 1000
     order by seconds desc, source, provider limit $1`,
    [most],
  );
}

/** @returns undefined where nothing is kept */
export async function findPace(db: Db, key: PaceKey): Promise<SourcePace | undefined> {
  return (await findPaces(db, [key]))[0];
}

/** Those of the keys of which something is kept. */
export async function findPaces(db: Db, keys: readonly PaceKey[]): Promise<SourcePace[]> {
  const rows = await queryRows<SourcePace>(
    db,
    `select p.* from unnest($1::text[], $2::text[]) as given (source, provider),
     lateral (select ${COLUMNS} from source_paces p where p.source = given.source and p.provider = given.provider offset 0) p`,
    [keys.map(({ source }) => source), keys.map(({ provider }) => provider)],
    { name: "find-paces" },
  );
  return rows.map(whole);
}

/** Makes rows for keys that have none. */
export async function makePaces(transaction: Transaction, keys: readonly PaceKey[], nowMs: number): Promise<void> {
  await queryRows(
    transaction,
    `insert into source_paces (source, provider, filled_at, metered_at, used_at)
     select source, provider, at, at, at
     from unnest($1::text[], $2::text[]) as given (source, provider), to_timestamp($3::float8 / 1000) as at
     order by source, provider on conflict do nothing`,
    [keys.map(({ source }) => source), keys.map(({ provider }) => provider), nowMs],
    { name: "make-paces" },
  );
}

/** Locks the rows of the keys, in one order. */
export async function lockPaces(transaction: Transaction, keys: readonly PaceKey[]): Promise<SourcePace[]> {
  const rows = await queryRows<SourcePace>(
    transaction,
    `select ${COLUMNS} from source_paces p
     where (p.source, p.provider) in (select * from unnest($1::text[], $2::text[]))
     order by p.source, p.provider for no key update`,
    [keys.map(({ source }) => source), keys.map(({ provider }) => provider)],
    { name: "lock-paces" },
  );
  return rows.map(whole);
}

/** What one exchange of a worker leaves behind. */
interface PaceRecord {
  readonly paces: readonly SourcePace[];
  readonly counts: readonly PaceCount[];
  /** Sessions that it has, and how many it was granted. */
  readonly shares: readonly SessionShare[];
  readonly worker: string;
  /** For so long its shares are its own. */
  readonly shareSeconds: number;
  readonly nowMs: number;
}

/**
 * Stores what `lockPaces` has locked, adds to the counts of the five minutes, and notes the sessions: in one statement,
 * as all other workers wait for the locks meanwhile. Pins are stored by `pinPace` only.
 */
export async function storePaces(transaction: Transaction, record: PaceRecord): Promise<void> {
  const { paces, counts, shares, worker, shareSeconds, nowMs } = record;
  await queryRows(
    transaction,
    `with counted as (
       insert into pace_counts as c (source, provider, at, allowed, tried, delivered, deferred)
       select source, provider, to_timestamp(floor($10::float8 / 1000 / ${COUNT_SECONDS}) * ${COUNT_SECONDS}), allowed, tried, delivered, deferred
       from unnest($11::text[], $12::text[], $13::float8[], $14::integer[], $15::integer[], $16::integer[])
         as n (source, provider, allowed, tried, delivered, deferred)
       on conflict (source, provider, at) do update
       set allowed = excluded.allowed, tried = c.tried + excluded.tried, delivered = c.delivered + excluded.delivered,
           deferred = c.deferred + excluded.deferred
     ), shared as (
       insert into pace_sessions as s (source, provider, worker, sessions, granted, until)
       select source, provider, $21::uuid, sessions, granted, to_timestamp($10::float8 / 1000 + $22::float8)
       from unnest($17::text[], $18::text[], $19::integer[], $20::integer[]) as n (source, provider, sessions, granted)
       on conflict (source, provider, worker) do update
       set sessions = excluded.sessions, granted = excluded.granted, until = excluded.until
     )
     update source_paces p
     set memory = n.memory, tokens = n.tokens, filled_at = to_timestamp(n.filled_at / 1000),
         metered_at = to_timestamp(n.metered_at / 1000), metered = n.metered, tried_per_hour = n.tried_per_hour,
         used_at = to_timestamp(n.used_at / 1000)
     from unnest($1::text[], $2::text[], $3::jsonb[], $4::float8[], $5::float8[], $6::float8[], $7::integer[], $8::float8[], $9::float8[])
       as n (source, provider, memory, tokens, filled_at, metered_at, metered, tried_per_hour, used_at)
     where p.source = n.source and p.provider = n.provider`,
    [
      paces.map(({ source }) => source),
      paces.map(({ provider }) => provider),
      paces.map(({ memory }) => JSON.stringify(memory)),
      paces.map(({ tokens }) => tokens),
      paces.map(({ filledAtMs }) => filledAtMs),
      paces.map(({ meteredAtMs }) => meteredAtMs),
      paces.map(({ metered }) => metered),
      paces.map(({ triedPerHour }) => triedPerHour),
      paces.map(({ usedAtMs }) => usedAtMs),
      nowMs,
      ...valuesOf(counts, shares),
      worker,
      shareSeconds,
    ],
    { name: "store-paces" },
  );
}

function valuesOf(counts: readonly PaceCount[], shares: readonly SessionShare[]): unknown[] {
  return [
    counts.map(({ source }) => source),
    counts.map(({ provider }) => provider),
    counts.map(({ allowed }) => allowed ?? UNLIMITED),
    counts.map(({ tried }) => tried),
    counts.map(({ delivered }) => delivered),
    counts.map(({ deferred }) => deferred),
    shares.map(({ source }) => source),
    shares.map(({ provider }) => provider),
    shares.map(({ sessions }) => sessions),
    shares.map(({ granted }) => granted),
  ];
}

/** Fixes limits, by an operator's word; all null: what is learnt goes again. Where the rate is fixed no learnt wait goes. */
export async function pinPace(db: Db, key: PaceKey, pins: PacePins, login: string): Promise<void> {
  const isPinned = Object.values(pins).some((value) => value !== null);
  await queryRows(
    db,
    `insert into source_paces as p (source, provider, pins, pinned_by) values ($1, $2, $3, $4)
     on conflict (source, provider) do update set pins = excluded.pins, pinned_by = excluded.pinned_by,
       memory = case when excluded.pins->>'ratePerHour' is null then p.memory else p.memory - 'waitsUntilMs' end`,
    [key.source, key.provider, JSON.stringify(pins), isPinned ? login : null],
  );
}

/** Forgets what was learnt; what is pinned stays so. @returns false where nothing was kept */
export async function resetPace(db: Db, { source, provider }: PaceKey): Promise<boolean> {
  const changed = await db("source_paces").where({ source, provider }).update({ memory: "{}", tokens: 1 });
  return changed > 0;
}

/** Forgets what nobody used for so long and nobody pinned, and old counts. */
export async function purgePaces(db: Db, days: number): Promise<void> {
  await db.raw("delete from pace_counts where at < now() - interval '14 days'");
  await db.raw("delete from pace_sessions where until < now()");
  await db.raw("delete from source_paces where pinned_by is null and used_at < now() - make_interval(days => ?)", [
    days,
  ]);
}

/** What became of messages in a while. */
export interface PaceCount extends PaceKey {
  /** Messages an hour that were allowed at the end; null: as fast as it goes. */
  readonly allowed: number | null;
  readonly tried: number;
  readonly delivered: number;
  readonly deferred: number;
}

const COUNT_SECONDS = 300;
/** Stands in `pace_counts` where there is no rate: none that is in force is 0. */
const UNLIMITED = 0;

/** The counts since a moment, the oldest first. */
export async function listPaceCounts(
  db: Db,
  key: PaceKey,
  since: Date,
): Promise<(Omit<PaceCount, keyof PaceKey> & { at: Date })[]> {
  return queryRows(
    db,
    `select at, nullif(allowed, ${UNLIMITED}) as allowed, tried, delivered, deferred from pace_counts
     where source = $1 and provider = $2 and at >= $3 order by at`,
    [key.source, key.provider, since.toISOString()],
  );
}

/** Sessions of a worker at a source's provider. */
interface SessionShare extends PaceKey {
  /** That are open. */
  readonly sessions: number;
  /** That it may have. */
  readonly granted: number;
}

/** What other workers have of the sessions, whose word is not too old. */
export async function listOtherSessions(
  transaction: Transaction,
  keys: readonly PaceKey[],
  worker: string,
  nowMs: number,
): Promise<(PaceKey & { readonly sessions: number; readonly granted: number; readonly workers: number })[]> {
  return queryRows(
    transaction,
    `select source, provider, sum(sessions)::int as sessions, sum(granted)::int as granted, count(*)::int as workers
     from pace_sessions where (source, provider) in (select * from unnest($1::text[], $2::text[]))
       and worker <> $3 and until > to_timestamp($4::float8 / 1000) group by 1, 2`,
    [keys.map(({ source }) => source), keys.map(({ provider }) => provider), worker, nowMs],
    { name: "list-other-sessions" },
  );
}

function whole(row: SourcePace): SourcePace {
  return { ...row, memory: { ...UNTAUGHT, ...row.memory }, pins: { ...UNPINNED, ...row.pins } };
}
