import type { TlsSession } from "../../../core/mail/reports/tls-session.ts";
import { type Db, queryRows, type Transaction } from "../../../platform/postgres/db.ts";
import { TODAY } from "./utc-day.ts";

/** Notes sessions that were opened, or were not to be had; together with what became of the messages. */
export async function addTlsSessions(transaction: Transaction, sessions: readonly TlsSession[]): Promise<void> {
  if (sessions.length === 0) return;
  const counted = new Map<string, number>();
  for (const session of sessions) {
    const key = JSON.stringify(session);
    counted.set(key, (counted.get(key) ?? 0) + 1);
  }
  const rows = [...counted].map(([key, count]) => ({ ...(JSON.parse(key) as TlsSession), count }));
  await queryRows(
    transaction,
    `insert into tls_sessions
       (destination, policy_type, policy, policy_exchangers, exchanger, address, source, result, reason, sessions)
     select destination, "policyType", policy, "policyExchangers", exchanger, address, source, result, reason, count
     from jsonb_to_recordset($1::jsonb) as given (destination text, "policyType" text, policy text[], "policyExchangers" text[],
       exchanger text, address text, source text, result text, reason text, count integer)`,
    [JSON.stringify(rows)],
    { name: "add-tls-sessions" },
  );
}

/** Sessions of one day with one domain that fared alike. */
type CountedTlsSessions = Omit<TlsSession, "destination"> & { readonly sessions: number };

/** The most frequent first. @param most rows; those that fared in yet other ways are in none */
export async function readTlsSessions(
  db: Db,
  { day, destination }: Pick<TlsReportSending, "day" | "destination">,
  most: number,
): Promise<CountedTlsSessions[]> {
  return queryRows<CountedTlsSessions>(
    db,
    `select policy_type as "policyType", policy, policy_exchangers as "policyExchangers", exchanger, address, source, result, reason,
       sum(sessions)::float8 as sessions
     from tls_sessions where day = $1 and destination = $2 group by 1, 2, 3, 4, 5, 6, 7, 8
     order by 9 desc, exchanger, address, source, result, reason limit $3`,
    [day, destination, most],
  );
}

/** A day's report to a domain: the question where it goes, or its way to one place. */
export interface TlsReportSending {
  /** `2026-01-31`, of UTC. */
  readonly day: string;
  readonly destination: string;
  /** Empty: it is still to be asked where it goes. */
  readonly uri: string;
  /** The registrable domain that it burdens; empty while it is still to be asked where it goes. */
  readonly target: string;
  /** Begun, this one included. */
  readonly attempts: number;
}

/** Which reports may be taken. */
interface TlsReportDemand {
  readonly perMinute: number;
  readonly retrySeconds: number;
  /** Questions, and reports, that may be taken. */
  readonly questions: number;
  readonly reports: number;
  /** Of one target, those in hand included. */
  readonly perTarget: number;
  /** Targets of the reports in hand, each as often as it has one. */
  readonly targetsInHand: readonly string[];
}

/** Reports that are looked at for those to take: of a target that has more of them others have their turn once it is full. */
const LOOKED_AT = 500;

/** Who writes within so many seconds after midnight counts for the day before. */
const DAY_ENDS_SECONDS = 300;

/** Makes the reports of days that are over due, each at a time of its own. @returns how many */
export async function planTlsReports(
  db: Db,
  { leastSeconds, mostSeconds }: { readonly leastSeconds: number; readonly mostSeconds: number },
): Promise<number> {
  const planned = await queryRows(
    db,
    `insert into tls_report_sendings (day, destination, uri, due_at)
     select day, destination, '', (day + 1)::timestamp at time zone 'UTC' + make_interval(secs => $1 + random() * $2)
     from (select distinct day, destination from tls_sessions
           where day < ((now() - make_interval(secs => $3)) at time zone 'UTC')::date) over
     on conflict do nothing returning 1`,
    [leastSeconds, Math.max(0, mostSeconds - leastSeconds), DAY_ENDS_SECONDS],
  );
  return planned.length;
}

/**
 * Takes what is due: what was never tried before what did not go well, and of each target a few. It is due again later, each
 * time after twice as long, unless its end is noted before: so does what a process had in hand that died.
 */
export async function takeDueTlsReports(db: Db, demand: TlsReportDemand): Promise<TlsReportSending[]> {
  const { perMinute, retrySeconds, questions, reports, perTarget, targetsInHand } = demand;
  return queryRows<TlsReportSending>(
    db,
    `with busy as (
       select target, count(*) as count from unnest($1::text[]) as target group by target
     ), ranked as (
       select day, destination, uri, target, attempts, due_at,
         row_number() over (partition by target order by attempts, due_at) as nth
       from (select * from tls_report_sendings
             where state = 'due' and due_at <= now() and uri <> '' and target not in (select target from busy where count >= $2)
             order by attempts, due_at limit ${LOOKED_AT}) looked_at
     ), chosen as (
       (select day, destination, uri from tls_report_sendings
        where state = 'due' and due_at <= now() and uri = '' order by attempts, due_at limit $3)
       union all
       (select day, destination, uri from ranked left join busy using (target)
        where nth <= $2 - coalesce(busy.count, 0)
          and (select count(*) from tls_report_sendings where ended_at > now() - interval '1 minute') < $4
        order by attempts, due_at limit $5)
     ), due as (
       select day, destination, uri from tls_report_sendings
       where (day, destination, uri) in (select * from chosen) and state = 'due' and due_at <= now()
       for update skip locked
     )
     update tls_report_sendings s
     set attempts = attempts + 1, due_at = now() + make_interval(secs => $6 * 2 ^ least(attempts, 6))
     from due where s.day = due.day and s.destination = due.destination and s.uri = due.uri
     returning s.day::text as day, s.destination, s.uri, s.target, s.attempts`,
    [targetsInHand, perTarget, questions, perMinute, reports, retrySeconds],
  );
}

/** Gives back what was not tried, as others are at its server: it comes after them. */
export async function giveBackTlsReport(
  db: Db,
  { day, destination, uri }: TlsReportSending,
  afterSeconds: number,
): Promise<void> {
  await queryRows(
    db,
    `update tls_report_sendings set attempts = attempts - 1, due_at = now() + make_interval(secs => $1)
     where day = $2 and destination = $3 and uri = $4 and state = 'due'`,
    [afterSeconds, day, destination, uri],
  );
}

/** Where a report is to go. */
interface TlsReportPlace {
  readonly uri: string;
  /** The registrable domain that it burdens. */
  readonly target: string;
}

/** Notes where a report goes; nowhere: nobody asks for it. What would be too many for one target in a day is not sent. */
export async function noteTlsReportPlaces(
  transaction: Transaction,
  { day, destination }: TlsReportSending,
  places: readonly TlsReportPlace[],
  mostPerTarget: number,
): Promise<void> {
  for (const { uri, target } of places.toSorted((a, b) => (a.target < b.target ? -1 : 1))) {
    // One after another, or each would find room for itself.
    await queryRows(transaction, "select pg_advisory_xact_lock(hashtextextended($1, 0))", [`tls reports ${target}`]);
    await queryRows(
      transaction,
      `insert into tls_report_sendings (day, destination, uri, target, due_at, state, reply)
       select $1, $2, $3, $4, now(), case when sent < $5 then 'due' else 'failed' end, case when sent < $5 then '' else 'too many reports' end
       from (select count(*) as sent from tls_report_sendings where target = $4 and day = $1 and state <> 'failed') others
       on conflict do nothing`,
      [day, destination, uri, target, mostPerTarget],
    );
  }
  await queryRows(
    transaction,
    "update tls_report_sendings set state = $1 where day = $2 and destination = $3 and uri = ''",
    [places.length > 0 ? "sent" : "unwanted", day, destination],
  );
}

/** Notes what was said to a report; without an end it stays due. */
export async function noteTlsReport(
  db: Db,
  { day, destination, uri }: TlsReportSending,
  { reply, state }: { readonly reply: string; readonly state: "sent" | "failed" | "due" },
): Promise<void> {
  await queryRows(
    db,
    `update tls_report_sendings set reply = $1, state = $2, ended_at = case when $2 = 'sent' then now() end
     where day = $3 and destination = $4 and uri = $5`,
    [reply, state, day, destination, uri],
  );
}

/** Sessions are kept for so many days: longer than any report about them is tried. */
const SESSION_DAYS = 4;

/** Forgets what is older; what says that a report was planned goes after the sessions that it would be planned for again. */
export async function purgeTlsSessions(db: Db): Promise<void> {
  await queryRows(db, `delete from tls_sessions where day < ${TODAY} - $1::int`, [SESSION_DAYS]);
  await queryRows(db, `delete from tls_report_sendings where day < ${TODAY} - $1::int`, [2 * SESSION_DAYS]);
}
