import type { TargetAnswer } from "../../core/dns/follow/evaluate.ts";
import { type DomainName, domainNameFromWire, nameFromStoredWire, nameSortKey } from "../../core/dns/name.ts";
import type { Sentence } from "../../core/sentences.ts";
import { type Db, queryRows } from "../../platform/postgres/db.ts";

/** A name that followers' addresses come from, as somebody has taken it on. */
export interface DueTarget {
  readonly nameKey: Buffer;
  /** Undefined where what is stored is none. */
  readonly name: DomainName | undefined;
  readonly answer: TargetAnswer | null;
  readonly problem: Sentence | null;
  readonly nxdomains: number;
  /** Questions in a row that were not answered. */
  readonly failures: number;
}

/**
 * Has names asked for that somebody follows from now on; those that are known already stay.
 * @param companyId whose zones follow them
 */
export async function addTargets(
  db: Db,
  names: readonly DomainName[],
  companyId: number | null,
  now: Date,
): Promise<void> {
  if (names.length === 0) return;
  await queryRows(
    db,
    `insert into follow_targets (name_key, name, company_id, due_at)
     select distinct on (name_key) name_key, name, $3::bigint, $4 from unnest($1::bytea[], $2::bytea[]) as t (name_key, name)
         on conflict do nothing`,
    [names.map(({ wire }) => nameSortKey(wire)), names.map(({ key }) => Buffer.from(key, "latin1")), companyId, now],
  );
}

/** What is known of some targets. */
export async function readTargetAnswers(
  db: Db,
  targetKeys: readonly Uint8Array[],
): Promise<{ readonly name: DomainName; readonly answer: TargetAnswer | null; readonly problem: Sentence | null }[]> {
  const rows = await queryRows<{ name: Buffer; answer: TargetAnswer | null; problem: Sentence | null }>(
    db,
    "select name, answer, problem from follow_targets where name_key = any($1::bytea[])",
    [targetKeys],
  );
  return rows.map((row) => ({ ...row, name: nameFromStoredWire(row.name) }));
}

/**
 * Takes on targets that are due, and keeps them from others for a while. Resellers take turns, and so do the companies of each;
 * of a company's names those come first that were answered soon the last time: names that are not hold up nobody but each other.
 * @param options.leaseMs after which somebody else takes them on
 */
export async function claimDueTargets(
  db: Db,
  now: Date,
  { limit, leaseMs }: { readonly limit: number; readonly leaseMs: number },
): Promise<DueTarget[]> {
  const rows = await queryRows<Omit<DueTarget, "name" | "nameKey"> & { name_key: Buffer; name: Buffer }>(
    db,
    `with due as (
       select t.name_key from follow_targets t join (
         select name_key, row_number() over (partition by c.reseller_id order by d.turn, d.due_at) as turn
           from (
             select name_key, company_id, due_at,
                    row_number() over (partition by company_id order by problem is not null or slow, due_at) as turn
               from follow_targets where due_at <= $1
           ) d left join companies c on c.id = d.company_id
          order by turn limit $2
       ) first using (name_key) where t.due_at <= $1 for update of t skip locked
     )
     update follow_targets t set due_at = $3 from due where t.name_key = due.name_key
     returning t.name_key, t.name, t.answer, t.problem, t.nxdomains, t.failures`,
    [now, limit, new Date(now.getTime() + leaseMs)],
  );
  return rows.map(({ name_key, name, ...row }) => {
    const read = domainNameFromWire(name);
    return { ...row, nameKey: name_key, name: read.ok ? read.value : undefined };
  });
}

export async function nextTargetDue(db: Db): Promise<Date | undefined> {
  const [row] = await queryRows<{ due: Date | null }>(db, "select min(due_at) as due from follow_targets", []);
  return row?.due ?? undefined;
}

/** What a question came to. */
export interface AskedTarget {
  readonly nameKey: Uint8Array;
  /** What is followed from now on; null: nothing was ever told. */
  readonly answer: TargetAnswer | null;
  readonly problem: Sentence | null;
  readonly nxdomains: number;
  readonly failures: number;
  readonly isAnswered: boolean;
  /** Whether the answer took long. */
  readonly isSlow: boolean;
  readonly dueAt: Date;
}

export async function writeAskedTarget(db: Db, asked: AskedTarget, now: Date): Promise<void> {
  const { nameKey, answer, problem, nxdomains, failures, isAnswered, isSlow, dueAt } = asked;
  await queryRows(
    db,
    `update follow_targets
        set answer = $2::jsonb, problem = $3::jsonb, nxdomains = $4, asked_at = $6, due_at = $7,
            answered_at = case when $5 then $6 else answered_at end, failures = $8, slow = $9
      where name_key = $1`,
    [
      ...[nameKey, answer && JSON.stringify(answer), problem && JSON.stringify(problem), nxdomains, isAnswered],
      ...[now.toISOString(), dueAt.toISOString(), failures, isSlow],
    ],
  );
}

/** Forgets the names that nobody follows any more. */
export async function pruneTargets(db: Db): Promise<void> {
  await queryRows(
    db,
    `delete from follow_targets t
      where not exists (select from followers f where f.wire_keys @> array[t.name_key])
        and asked_at < now() - interval '1 minute'`,
    [],
  );
}
