import type { TargetAnswer } from "../../core/dns/follow/evaluate.ts";
import { type DomainName, nameFromStoredWire, nameSortKey } from "../../core/dns/name.ts";
import type { Sentence } from "../../core/sentences.ts";
import { type Db, queryRows } from "../../platform/postgres/db.ts";

/** A name that followers' addresses come from, as somebody has taken it on. */
export interface DueTarget {
  readonly nameKey: Buffer;
  readonly name: DomainName;
  readonly answer: TargetAnswer | null;
  readonly problem: Sentence | null;
  readonly nxdomains: number;
}

/** Has names asked for that somebody follows from now on; those that are known already stay. */
export async function addTargets(db: Db, names: readonly DomainName[], now: Date): Promise<void> {
  if (names.length === 0) return;
  await queryRows(
    db,
    `insert into follow_targets (name_key, name, due_at)
     select distinct on (name_key) name_key, name, $3 from unnest($1::bytea[], $2::bytea[]) as t (name_key, name)
         on conflict do nothing`,
    [names.map(({ wire }) => nameSortKey(wire)), names.map(({ key }) => Buffer.from(key, "latin1")), now],
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
 * Takes on targets that are due, the longest overdue first, and keeps them from others for a while.
 * @param options.leaseMs after which somebody else takes them on
 * @param options.troubled those alone that had no answer last, else the others alone
 */
export async function claimDueTargets(
  db: Db,
  now: Date,
  { limit, leaseMs, troubled }: { readonly limit: number; readonly leaseMs: number; readonly troubled: boolean },
): Promise<DueTarget[]> {
  const rows = await queryRows<Omit<DueTarget, "name" | "nameKey"> & { name_key: Buffer; name: Buffer }>(
    db,
    `with due as (
       select name_key from follow_targets where due_at <= $1 and (problem is not null) = $4
        order by due_at limit $2 for update skip locked
     )
     update follow_targets t set due_at = $3 from due where t.name_key = due.name_key
     returning t.name_key, t.name, t.answer, t.problem, t.nxdomains`,
    [now, limit, new Date(now.getTime() + leaseMs), troubled],
  );
  return rows.map(({ name_key, name, ...row }) => ({ ...row, nameKey: name_key, name: nameFromStoredWire(name) }));
}

export async function nextTargetDue(db: Db, troubled: boolean): Promise<Date | undefined> {
  const [row] = await queryRows<{ due: Date | null }>(
    db,
    "select min(due_at) as due from follow_targets where (problem is not null) = $1",
    [troubled],
  );
  return row?.due ?? undefined;
}

/** What a question came to. */
export interface AskedTarget {
  readonly nameKey: Uint8Array;
  /** What is followed from now on; null: nothing was ever told. */
  readonly answer: TargetAnswer | null;
  readonly problem: Sentence | null;
  readonly nxdomains: number;
  readonly isAnswered: boolean;
  readonly dueAt: Date;
}

export async function writeAskedTarget(db: Db, asked: AskedTarget, now: Date): Promise<void> {
  const { nameKey, answer, problem, nxdomains, isAnswered, dueAt } = asked;
  await queryRows(
    db,
    `update follow_targets
        set answer = $2::jsonb, problem = $3::jsonb, nxdomains = $4, asked_at = $6, due_at = $7,
            answered_at = case when $5 then $6 else answered_at end
      where name_key = $1`,
    [
      ...[nameKey, answer && JSON.stringify(answer), problem && JSON.stringify(problem), nxdomains, isAnswered],
      ...[now.toISOString(), dueAt.toISOString()],
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
