import type { DsnAction } from "../../../core/mail/bounce/dsn.ts";
import type { RemoteReport } from "../../../core/mail/delivery-report.ts";
import type { Notification, RecipientDsn } from "../../../core/mail/dsn-parameters.ts";
import type { MessageTracking } from "../../../core/mail/message-places.ts";
import { type Db, queryRows, type Transaction } from "../../../platform/postgres/db.ts";
import { onPresent } from "../machines.ts";
import type { ReportRequest } from "../sends/messages.ts";
import type { DeliveryKey } from "./queue.ts";

/** What a sender is to be told of a recipient. */
export interface NewReport {
  readonly instanceId: number;
  readonly messageId: number;
  /** Null of a recipient that nothing was sent to. */
  readonly deliveryId: number | null;
  readonly kind: Notification;
  /** `watching`: of delays, until it is known whether there is one. */
  readonly state: "watching" | "due";
  readonly action: DsnAction;
  /** Address as it was given. */
  readonly recipient: string;
  readonly dsn: RecipientDsn | null;
  /** The far side's, on one line. */
  readonly words: string;
  /** Given where the words are of another mail system's report. */
  readonly reported?: RemoteReport;
}

/** Notes what is to be told; of each delivery each kind once, whoever tells first. */
export async function addReports(transaction: Transaction, reports: readonly NewReport[]): Promise<void> {
  if (reports.length === 0) return;
  await queryRows(
    transaction,
    `insert into delivery_reports as kept
       (instance_id, message_id, delivery_id, kind, state, action, recipient, dsn, words, reported)
     select * from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[],
       $8::jsonb[], $9::text[], $10::jsonb[])
     on conflict (delivery_id, kind, instance_id) do update
       set state = excluded.state, action = excluded.action, words = excluded.words, reported = excluded.reported,
         created_at = excluded.created_at, due_at = excluded.due_at
       where kept.state = 'watching' and excluded.state = 'due'`,
    [
      reports.map(({ instanceId }) => instanceId),
      reports.map(({ messageId }) => messageId),
      reports.map(({ deliveryId }) => deliveryId),
      reports.map(({ kind }) => kind),
      reports.map(({ state }) => state),
      reports.map(({ action }) => action),
      reports.map(({ recipient }) => recipient),
      reports.map(({ dsn }) => dsn && JSON.stringify(dsn)),
      reports.map(({ words }) => words),
      reports.map(({ reported }) => (reported === undefined ? null : JSON.stringify(reported))),
    ],
  );
}

/** Who wants to be told what of a delivery; undefined where nobody does. */
interface DeliveryReporting {
  readonly instanceId: number;
  readonly messageId: number;
  readonly recipient: string;
  readonly dsn: RecipientDsn | null;
}

export async function findReporting(
  db: Db,
  { instanceId, deliveryId }: DeliveryKey,
): Promise<DeliveryReporting | undefined> {
  const [row] = await queryRows<DeliveryReporting>(
    db,
    `select d.instance_id as "instanceId", p.message_id as "messageId", d.recipient, d.dsn from deliveries d
     join partitions p on p.instance_id = d.instance_id and p.id = d.partition_id
     join messages m on m.instance_id = p.instance_id and m.id = p.message_id
     where d.instance_id = $1 and d.id = $2 and m.dsn is not null`,
    [instanceId, deliveryId],
  );
  return row;
}

/** Of one transaction. */
const WATCHED_AT_ONCE = 1_000;

/** Instances of which something has been watched for so many hours. */
export async function listWatchesOver(db: Db, hours: number): Promise<number[]> {
  const rows = await queryRows<{ instanceId: number }>(
    db,
    `select distinct instance_id as "instanceId" from delivery_reports
     where state = 'watching' and created_at <= now() - make_interval(secs => 3600 * $1) and ${onPresent(db)}`,
    [hours],
  );
  return rows.map(({ instanceId }) => instanceId);
}

/**
 * Makes reports of delay due for what of an instance is still queued after so many hours, and forgets those of what is not: the
 * oldest, so many in one transaction.
 * @returns whether there may be more
 */
export async function endWatches(db: Db, instanceId: number, hours: number): Promise<boolean> {
  const [row] = await queryRows<{ ended: number }>(
    db,
    `with over as (
       select id, delivery_id from delivery_reports
       where instance_id = $1 and state = 'watching' and created_at <= now() - make_interval(secs => 3600 * $2)
       order by created_at limit ${WATCHED_AT_ONCE} for update skip locked
     ), late as (
       select over.id, coalesce(d.reply, '') as words from over
       join deliveries d on d.instance_id = $1 and d.id = over.delivery_id and d.state = 'queued'
     ), told as (
       update delivery_reports r set state = 'due', words = late.words, created_at = now(), due_at = now()
       from late where r.instance_id = $1 and r.id = late.id
     ), forgotten as (
       delete from delivery_reports r using over
       where r.instance_id = $1 and r.id = over.id and not exists (select from late where late.id = over.id)
     )
     select count(*)::int as ended from over`,
    [instanceId, hours],
  );
  return row!.ended === WATCHED_AT_ONCE;
}

/** What is due for the recipients of one message, told in one report. */
export interface DueGroup {
  readonly instanceId: number;
  readonly instanceName: string;
  readonly language: "en" | "es";
  readonly messageId: number;
  readonly eeid: string;
  readonly campaignNumid: number;
  readonly request: ReportRequest;
  readonly acceptedAt: Date;
  readonly kind: Notification;
  readonly recipients: readonly DueRecipient[];
}

interface DueRecipient {
  readonly id: number;
  readonly action: DsnAction;
  readonly recipient: string;
  readonly dsn: RecipientDsn | null;
  readonly words: string;
  /** Null where the words are of a session of ours. */
  readonly reported: RemoteReport | null;
  /** When it was learnt. */
  readonly at: Date;
}

/** Instances that have something due, once it has waited for so long, those first whose has waited longest. */
export async function listReportingInstances(db: Db, gatherSeconds: number): Promise<number[]> {
  const rows = await queryRows<{ instanceId: number }>(
    db,
    `select instance_id as "instanceId" from delivery_reports
     where state = 'due' and due_at <= now() - make_interval(secs => $1) and ${onPresent(db)} group by instance_id order by min(due_at)`,
    [gatherSeconds],
  );
  return rows.map(({ instanceId }) => instanceId);
}

/**
 * Locks what is due of one message and kind of an instance, the oldest first, once it has waited for so long for others of
 * the message. No two processes tell of one message at the same time.
 */
export async function takeDueGroup(
  transaction: Transaction,
  instanceId: number,
  { gatherSeconds, recipientsPerReport }: { readonly gatherSeconds: number; readonly recipientsPerReport: number },
): Promise<DueGroup | undefined> {
  const [group] = await queryRows<Omit<DueGroup, "recipients">>(
    transaction,
    `select m.instance_id as "instanceId", i.name as "instanceName", i.language, m.id as "messageId", m.eeid,
       m.campaign_numid as "campaignNumid", m.dsn as request, m.created_at as "acceptedAt", due.kind
     from (select instance_id, message_id, kind, due_at from delivery_reports
           where instance_id = $2 and state = 'due' and due_at <= now() - make_interval(secs => $1)
           order by due_at limit 100) due
     join messages m on m.instance_id = due.instance_id and m.id = due.message_id
     join instances i on i.id = m.instance_id
     where m.instance_id = $2 and m.dsn is not null
     order by due.due_at limit 1 for no key update of m skip locked`,
    [gatherSeconds, instanceId],
  );
  if (group === undefined) return undefined;
  const recipients = await queryRows<DueRecipient>(
    transaction,
    `select id, action, recipient, dsn, words, reported, created_at as at from delivery_reports
     where instance_id = $1 and message_id = $2 and kind = $3 and state = 'due' and due_at <= now() order by id limit $4 for update skip locked`,
    [group.instanceId, group.messageId, group.kind, recipientsPerReport],
  );
  return { ...group, recipients };
}

/** Notes that a report tells them, or that none will. */
export async function endReports(
  transaction: Transaction,
  { instanceId, recipients }: Pick<DueGroup, "instanceId" | "recipients">,
  reportMessageId: number | null,
): Promise<void> {
  await transaction("delivery_reports")
    .where({ instance_id: instanceId })
    .whereIn(
      "id",
      recipients.map(({ id }) => id),
    )
    .update({ state: reportMessageId === null ? "withheld" : "told", report_message_id: reportMessageId });
}

/**
 * Leaves everything that is due to a sender for later, but what somebody else has in hand.
 * @param since when it was learnt, at the earliest: what is older is not told later
 * @returns how many recipients
 */
export async function putOffReports(
  transaction: Transaction,
  { instanceId, request }: Pick<DueGroup, "instanceId" | "request">,
  { seconds, since }: { readonly seconds: number; readonly since: Date },
): Promise<number> {
  const [row] = await queryRows<{ recipients: number }>(
    transaction,
    `with chosen as (
       select r.id from delivery_reports r
       join messages m on m.instance_id = r.instance_id and m.id = r.message_id
       where r.instance_id = $1 and m.instance_id = $1 and r.state = 'due' and r.due_at <= now() and r.created_at >= $2
         and m.dsn ->> 'mailFrom' = $3
       order by r.id for update of r skip locked
     ), put_off as (
       update delivery_reports r set due_at = now() + make_interval(secs => $4) from chosen
       where r.instance_id = $1 and r.id = chosen.id returning 1
     )
     select count(*)::int as recipients from put_off`,
    [instanceId, since, request.mailFrom, seconds],
  );
  return row!.recipients;
}

/** Counts one more report to an address in this hour. @returns false, and nothing is counted, where it has had as many */
export async function countReport(
  transaction: Transaction,
  instanceId: number,
  mailFrom: string,
  mostAnHour: number,
): Promise<boolean> {
  const rows = await queryRows(
    transaction,
    `insert into report_counts as kept values ($1, $2, date_trunc('hour', now(), 'UTC'), 1)
     on conflict (instance_id, mail_from, hour) do update set reports = kept.reports + 1 where kept.reports < $3
     returning 1`,
    [instanceId, mailFrom, mostAnHour],
  );
  return rows.length > 0;
}

/** Forgets counts that no longer matter. */
export async function purgeReportCounts(db: Db): Promise<void> {
  await queryRows(db, `delete from report_counts where hour < now() - interval '2 hours' and ${onPresent(db)}`);
}

/** The beginning of a submitted message, as much as is brought back of it. */
export async function readReturned(
  db: Db,
  { instanceId, messageId }: Pick<DueGroup, "instanceId" | "messageId">,
  mostOctets: number,
): Promise<{ readonly octets: Buffer; readonly isWhole: boolean; readonly tracking: MessageTracking | null }> {
  const [row] = await queryRows<{ octets: Buffer | null; size: number; tracking: MessageTracking | null }>(
    db,
    "select substring(octets for $1) as octets, length(octets) as size, tracking from messages where instance_id = $2 and id = $3",
    [mostOctets, instanceId, messageId],
  );
  const { octets, size = 0, tracking = null } = row ?? {};
  return { octets: octets ?? Buffer.alloc(0), isWhole: size <= mostOctets, tracking };
}
