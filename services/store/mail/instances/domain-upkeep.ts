import type { SetupItem } from "../../../core/mail/domain-setup/domain-setup.ts";
import { type ServedStsPolicy, STS_WITHDRAWN, type StsMode } from "../../../core/mail/domain-setup/mta-sts.ts";
import { type Db, queryRows } from "../../../platform/postgres/db.ts";
import { byInstance } from "../by-instance.ts";
import type { DomainOfInstance } from "./dkim-keys.ts";

/** How a sender domain is to be set up, and what the last look found. */
export interface DomainUpkeep extends DomainOfInstance {
  /** The zone hosted here whose records follow, as somebody with the right to change it agreed. */
  readonly zoneId: number | null;
  readonly agreedBy: string | null;
  /** The operator agreed; else the zone's company has to have given leave. */
  readonly byOperator: boolean;
  readonly stsMode: StsMode | null;
  readonly stsExchangers: readonly string[];
  /** A policy was withdrawn, and its records may go from then on; null: none was, or they are gone. */
  readonly stsEndsAt: Date | null;
  readonly tlsReports: boolean;
  readonly trackingHost: string | null;
  readonly rotateDays: number | null;
  readonly rotatedAt: Date;
  readonly checks: readonly SetupItem[] | null;
  readonly checkedAt: Date | null;
}

/** What its users decide. */
export type UpkeepSettings = Partial<
  Pick<DomainUpkeep, "stsMode" | "stsEndsAt" | "tlsReports" | "trackingHost" | "rotateDays">
>;

const COLUMNS = `instance_id, domain, zone_id, agreed_by, by_operator, sts_mode, sts_exchangers, sts_ends_at, tls_reports,
  tracking_host, rotate_days, rotated_at, checks, checked_at`;

export async function addDomainUpkeep(db: Db, instanceId: number, domain: string): Promise<void> {
  await queryRows(db, "insert into domain_upkeep (instance_id, domain) values ($1, $2) on conflict do nothing", [
    instanceId,
    domain,
  ]);
}

export async function findDomainUpkeep(
  db: Db,
  { instanceId, domain }: DomainOfInstance,
): Promise<DomainUpkeep | undefined> {
  const [row] = await queryRows<UpkeepRow>(
    db,
    `select ${COLUMNS} from domain_upkeep where instance_id = $1 and domain = $2`,
    [instanceId, domain],
  );
  return row && toUpkeep(row);
}

/** Takes domains that somebody has to look at, the longest overdue first: for a while nobody else does. */
export async function leaseDueDomains(
  db: Db,
  workerId: string,
  { now, seconds, limit }: { readonly now: Date; readonly seconds: number; readonly limit: number },
): Promise<DomainUpkeep[]> {
  const until = new Date(now.getTime() + seconds * 1000).toISOString();
  const due = await queryRows<DomainOfInstance>(
    db,
    `select instance_id as "instanceId", domain from domain_upkeep where ${IS_DUE} order by due_at limit $2`,
    [now.toISOString(), limit],
  );
  const rows = await byInstance(db, due, (own, instanceIds) =>
    queryRows<UpkeepRow>(
      db,
      `with due as (
         select instance_id, domain from domain_upkeep
         where instance_id = any($2) and domain = any($3::text[]) and ${IS_DUE} order by due_at limit $6 for update skip locked
       )
       update domain_upkeep u set lease_owner = $4, lease_until = $5 from due
       where u.instance_id = any($2) and u.instance_id = due.instance_id and u.domain = due.domain
       returning u.instance_id, u.domain, zone_id, agreed_by, by_operator, sts_mode, sts_exchangers, sts_ends_at,
         tls_reports, tracking_host, rotate_days, rotated_at, checks, checked_at`,
      [now.toISOString(), instanceIds, own.map(({ domain }) => domain), workerId, until, limit],
    ),
  );
  return rows.map(toUpkeep);
}

const IS_DUE = "due_at <= $1 and (lease_until is null or lease_until <= $1)";

/** Notes what a look found, and when the next is due. */
export async function noteChecks(
  db: Db,
  { instanceId, domain }: DomainOfInstance,
  found: {
    readonly checks: readonly SetupItem[];
    readonly linksReady: boolean;
    readonly at: Date;
    readonly dueAt: Date;
  },
): Promise<void> {
  await queryRows(
    db,
    `update domain_upkeep set checks = $1::jsonb, links_ready = $2, checked_at = $3, due_at = $4, lease_owner = null, lease_until = null
     where instance_id = $5 and domain = $6`,
    [
      ...[JSON.stringify(found.checks), found.linksReady, found.at.toISOString(), found.dueAt.toISOString()],
      ...[instanceId, domain],
    ],
  );
}

/** Has a domain looked at at some time, by whoever comes first. */
export async function postponeDomain(db: Db, { instanceId, domain }: DomainOfInstance, dueAt: Date): Promise<void> {
  await queryRows(
    db,
    "update domain_upkeep set due_at = $1, lease_owner = null, lease_until = null where instance_id = $2 and domain = $3",
    [dueAt.toISOString(), instanceId, domain],
  );
}

export async function changeUpkeep(
  db: Db,
  { instanceId, domain }: DomainOfInstance,
  settings: UpkeepSettings,
): Promise<void> {
  const changes = {
    sts_mode: settings.stsMode,
    sts_ends_at: settings.stsEndsAt,
    tls_reports: settings.tlsReports,
    tracking_host: settings.trackingHost,
    rotate_days: settings.rotateDays,
    ...(settings.trackingHost === undefined ? {} : { links_ready: false }),
  };
  if (Object.values(changes).every((value) => value === undefined)) return;
  await db("domain_upkeep").where({ instance_id: instanceId, domain }).update(changes);
}

/** Notes what the policy that is served names as exchangers. */
export async function setStsExchangers(
  db: Db,
  { instanceId, domain }: DomainOfInstance,
  exchangers: readonly string[],
): Promise<void> {
  await queryRows(db, "update domain_upkeep set sts_exchangers = $1 where instance_id = $2 and domain = $3", [
    [...exchangers],
    instanceId,
    domain,
  ]);
}

/** Notes that no records are left of the policy that was withdrawn: it is served no more. */
export async function noteStsGone(db: Db, { instanceId, domain }: DomainOfInstance): Promise<void> {
  await queryRows(
    db,
    "update domain_upkeep set sts_ends_at = null where instance_id = $1 and domain = $2 and sts_mode is null",
    [instanceId, domain],
  );
}

/** Notes that somebody who may change a zone agreed that the domain's records in it follow. */
export async function noteAgreement(
  db: Db,
  { instanceId, domain }: DomainOfInstance,
  agreed: { readonly zoneId: number; readonly by: string; readonly byOperator: boolean },
): Promise<void> {
  await queryRows(
    db,
    "update domain_upkeep set zone_id = $1, agreed_by = $2, by_operator = $3 where instance_id = $4 and domain = $5",
    [agreed.zoneId, agreed.by, agreed.byOperator, instanceId, domain],
  );
}

/**
 * The policy for mail to a domain that is served here; of several instances with the domain, the first one's, those that
 * withdraw theirs last.
 */
export async function findServedStsPolicy(db: Db, domain: string): Promise<ServedStsPolicy | undefined> {
  const [row] = await queryRows<{ mode: StsMode | null; exchangers: string[] }>(
    db,
    `select sts_mode as mode, sts_exchangers as exchangers from domain_upkeep
     where domain = $1 and case when sts_mode is null then sts_ends_at is not null else sts_exchangers <> '{}' end
     order by sts_mode is null, instance_id limit 1`,
    [domain],
  );
  return row && (row.mode === null ? STS_WITHDRAWN : { mode: row.mode, exchangers: row.exchangers });
}

interface UpkeepRow {
  instance_id: number;
  domain: string;
  zone_id: number | null;
  agreed_by: string | null;
  by_operator: boolean;
  sts_mode: StsMode | null;
  sts_exchangers: string[];
  sts_ends_at: Date | null;
  tls_reports: boolean;
  tracking_host: string | null;
  rotate_days: number | null;
  rotated_at: Date;
  checks: SetupItem[] | null;
  checked_at: Date | null;
}

function toUpkeep(row: UpkeepRow): DomainUpkeep {
  return {
    instanceId: row.instance_id,
    domain: row.domain,
    zoneId: row.zone_id,
    agreedBy: row.agreed_by,
    byOperator: row.by_operator,
    stsMode: row.sts_mode,
    stsExchangers: row.sts_exchangers,
    stsEndsAt: row.sts_ends_at,
    tlsReports: row.tls_reports,
    trackingHost: row.tracking_host,
    rotateDays: row.rotate_days,
    rotatedAt: row.rotated_at,
    checks: row.checks,
    checkedAt: row.checked_at,
  };
}
