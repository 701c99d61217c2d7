import { type Db, queryRows } from "../../../platform/postgres/db.ts";
import { isSpread } from "../by-instance.ts";
import { TODAY } from "./utc-day.ts";

/** How long reports with their rows are kept, and how long what they add up to by day. */
interface ReportRetention {
  readonly reportDays: number;
  readonly dayDays: number;
}

/** Forgets what is older, a bounded number at a time. @returns how many rows went */
export async function purgeReports(db: Db, { reportDays, dayDays }: ReportRetention): Promise<number> {
  let gone = 0;
  for (const table of ["dmarc_reports", "tls_reports"]) {
    gone += await purge(db, table, "received_at < now() - make_interval(days => $1)", reportDays);
  }
  for (const [table, column] of [
    ["dmarc_days", "day"],
    ["tls_days", "day"],
    ["dmarc_sources", "last_day"],
  ]) {
    gone += await purge(db, table!, `${column} < ${TODAY} - $1::int`, dayDays);
  }
  return gone;
}

async function purge(db: Db, table: string, isOld: string, days: number): Promise<number> {
  if (!(await isSpread(db))) return purgeRows(db, table, ["true", isOld], [days]);
  const instances = await queryRows<{ id: number }>(
    db,
    `select distinct instance_id as id from ${table} where ${isOld}`,
    [days],
  );
  let gone = 0;
  for (const { id } of instances) gone += await purgeRows(db, table, ["instance_id = $2", isOld], [days, id]);
  return gone;
}

async function purgeRows(
  db: Db,
  table: string,
  [isOwn, isOld]: readonly [string, string],
  values: readonly number[],
): Promise<number> {
  const rows = await queryRows(
    db,
    `delete from ${table} where ${isOwn}
       and ctid = any (array(select ctid from ${table} where ${isOwn} and ${isOld} limit 1000)) returning 1`,
    values,
  );
  return rows.length;
}
