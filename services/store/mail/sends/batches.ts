import type { ContactEvent } from "../../../core/mail/contact.ts";
import { type Db, queryRows, type Transaction } from "../../../platform/postgres/db.ts";
import { streamInSnapshot } from "../../transactions.ts";
import { eventKindOf } from "../events/event-kinds.ts";
import { type ArchiveSummary, summariseArchive } from "./archive.ts";

/** A batch as `eeid_info` shows it. */
export interface Batch {
  readonly instanceId: number;
  readonly eeid: string;
  readonly campaignNumid: number;
  readonly creator: string;
  readonly createdAt: Date;
  readonly modifiedAt: Date;
  readonly state: "queued" | "sending" | "sent" | "cancelled";
  readonly partitions: number;
  /** Recipients in them. */
  readonly recipients: number;
  /** Paused: nothing of it is taken. */
  readonly held: boolean;
  /** Partitions that some worker took, finished ones included. */
  readonly partitionsTaken: number;
  readonly partitionsFinished: number;
  /** Recipients refused for good. */
  readonly refused: number;
  /** Only of a batch sent with `archive`. */
  readonly archive?: ArchiveSummary;
}

/** @returns undefined when the instance has no such batch, or does not keep it any more (see message-retention.ts) */
export async function findBatch(db: Db, instanceId: number, eeid: string): Promise<Batch | undefined> {
  const rows = await queryRows<BatchRow>(
    db,
    `select b.*, p.*, (select bool_or(m.archive) from messages m where m.instance_id = $2 and m.eeid = b.eeid) as archive
     from batches b cross join lateral (${partitionCounts("$2")}) p
     where b.eeid = $1 and b.instance_id = $2 and b.expired_at is null and not b.is_report`,
    [eeid, instanceId],
  );
  const [row] = rows;
  return (
    row && { ...toBatch(row), ...(row.archive ? { archive: await summariseArchive(db, instanceId, row.eeid) } : {}) }
  );
}

/** Which batches, and how many of them. */
interface BatchSelection {
  readonly campaignNumid?: number | undefined;
  /** Only those older than this one. */
  readonly before?: string | undefined;
  readonly limit: number;
}

/** Batches of an instance, newest first; without those that it does not keep any more. */
export async function listBatches(
  db: Db,
  instanceId: number,
  { campaignNumid, before, limit }: BatchSelection,
): Promise<Batch[]> {
  const rows = await queryRows<BatchRow>(
    db,
    `select b.*, p.*, null::boolean as archive from (
       select * from batches
       where instance_id = $1 and created_at > '-infinity' and expired_at is null and not is_report
         and ($2::bigint is null or campaign_numid = $3)
         and ($4::uuid is null or (created_at, eeid) < (select created_at, eeid from batches where instance_id = $1 and eeid = $5))
       order by created_at desc, eeid desc limit $6
     ) b cross join lateral (${partitionCounts("$1")}) p order by b.created_at desc, b.eeid desc`,
    [instanceId, campaignNumid ?? null, campaignNumid ?? null, before ?? null, before ?? null, limit],
  );
  return rows.map(toBatch);
}

/** Of a batch `b`. @param instanceId what stands for its instance in the statement */
const partitionCounts = (instanceId: string) => `select count(*)::int as partitions, count(taken_at)::int as taken,
       (count(*) filter (where state = 'finished'))::int as finished, coalesce(sum(recipients), 0)::int as recipients,
       coalesce(sum(refused), 0)::int as refused, max(modified_at) as partitions_modified_at
     from partitions where partitions.instance_id = ${instanceId} and partitions.eeid = b.eeid`;

/** How far a batch has come, by recipients. */
interface BatchProgress {
  readonly recipients: number;
  readonly delivered: number;
  /** Refused for good, or given up. */
  readonly refused: number;
  /** Still to be tried, or tried again. */
  readonly queued: number;
  /** Taken back with the batch. */
  readonly cancelled: number;
  /** Hard bounces, in the session or reported later. */
  readonly hardBounces: number;
}

/** Counts recipients where they are under way; of untouched and finished partitions, however many, the row is enough. */
export async function readBatchProgress(db: Db, instanceId: number, eeid: string): Promise<BatchProgress> {
  const [row] = await queryRows<Omit<BatchProgress, "delivered" | "hardBounces"> & { hard_bounces: number }>(
    db,
    `select coalesce(sum(p.recipients), 0)::int as recipients, coalesce(sum(p.refused), 0)::int as refused,
       coalesce(sum(p.cancelled), 0)::int as cancelled, coalesce(sum(p.hard_bounces), 0)::int as hard_bounces,
       coalesce(sum(case when p.state = 'finished' then 0 when p.taken_at is null then p.recipients else d.queued end), 0)::int
         as queued
     from batches b left join partitions p on p.instance_id = $2 and p.eeid = b.eeid left join lateral (
       select count(*) filter (where deliveries.state = 'queued') as queued from deliveries
       where deliveries.instance_id = $2 and deliveries.partition_id = p.id and p.state <> 'finished' and p.taken_at is not null
     ) d on true
     where b.instance_id = $2 and b.eeid = $1`,
    [eeid, instanceId],
  );
  const { recipients = 0, refused = 0, queued = 0, cancelled = 0, hard_bounces: hardBounces = 0 } = row ?? {};
  return { recipients, refused, queued, cancelled, hardBounces, delivered: recipients - refused - queued - cancelled };
}

/** What happened to somebody that a batch was for. */
export interface BatchEvent extends Pick<ContactEvent, "kind" | "at"> {
  readonly email: string;
}

const EVENTS_PER_READ = 1_000;

/**
 * The events of everybody who has one of a batch, copies and invalid contacts included: somebody's are together, oldest
 * first, and who had one first comes first. Portion by portion, so that their number does not matter.
 */
export function streamBatchEvents(db: Db, instanceId: number, eeid: string): AsyncGenerator<readonly BatchEvent[]> {
  return streamInSnapshot(db, async function* (snapshot) {
    await queryRows(
      snapshot,
      `declare batch_events no scroll cursor for
       select email, kind, at from (
         select addressed.*, first_value(at) over own as first_at, first_value(id) over own as first_id from (
           select coalesce((select contacts.email from contacts where contacts.instance_id = $2 and contacts.id = events.contact_id),
             email) as email, kind, at, id
           from events where eeid = $1 and instance_id = $2
         ) as addressed window own as (partition by email order by at, id)
       ) as told order by first_at, first_id, at, id`,
      [eeid, instanceId],
    );
    for (;;) {
      const rows = await queryRows<{ email: string; kind: number; at: Date }>(
        snapshot,
        `fetch ${EVENTS_PER_READ} from batch_events`,
      );
      yield rows.map((row) => ({ ...row, kind: eventKindOf(row.kind) }));
      if (rows.length < EVENTS_PER_READ) return;
    }
  });
}

interface BatchRow {
  instance_id: number;
  eeid: string;
  campaign_numid: number;
  creator: string;
  created_at: Date;
  modified_at: Date;
  cancelled_at: Date | null;
  gathering: boolean;
  held_at: Date | null;
  recipients: number;
  partitions: number;
  taken: number;
  finished: number;
  refused: number;
  partitions_modified_at: Date | null;
  archive: boolean | null;
}

function toBatch(row: BatchRow): Batch {
  return {
    instanceId: row.instance_id,
    eeid: row.eeid,
    campaignNumid: row.campaign_numid,
    creator: row.creator,
    createdAt: row.created_at,
    modifiedAt: new Date(Math.max(row.modified_at.getTime(), row.partitions_modified_at?.getTime() ?? 0)),
    state: stateOf(row),
    held: row.held_at !== null,
    partitions: row.partitions,
    recipients: row.recipients,
    partitionsTaken: row.taken,
    partitionsFinished: row.finished,
    refused: row.refused,
  };
}

function stateOf(row: BatchRow): Batch["state"] {
  if (row.cancelled_at !== null) return "cancelled";
  if (row.finished === row.partitions && !row.gathering) return "sent";
  return row.taken === 0 ? "queued" : "sending";
}

/** What is stored of a batch when it begins. */
export interface NewBatch {
  readonly eeid: string;
  readonly instanceId: number;
  readonly campaignNumid: number;
  readonly creator: string;
  /** It is a report to a sender: no batch of anybody's. */
  readonly isReport?: boolean;
}

/** Takes back batches that were opened in the same transaction, of which nothing is accepted. */
export async function removeEmptyBatches(
  transaction: Transaction,
  batches: readonly Pick<NewBatch, "instanceId" | "eeid">[],
): Promise<void> {
  if (batches.length === 0) return;
  await queryRows(transaction, "delete from batches where eeid = any($1::uuid[]) and instance_id = any($2::bigint[])", [
    batches.map(({ eeid }) => eeid),
    batches.map(({ instanceId }) => instanceId),
  ]);
}

/** Opens a batch whose recipients come portion by portion. */
export async function addGatheringBatch(transaction: Transaction, batch: NewBatch): Promise<void> {
  const { eeid, instanceId: instance_id, campaignNumid: campaign_numid, creator } = batch;
  await transaction("batches").insert({ eeid, instance_id, campaign_numid, creator, gathering: true });
}

/** Notes that the last portion has come. */
export async function endGathering(transaction: Transaction, instanceId: number, eeid: string): Promise<void> {
  const batch = transaction("batches").where({ instance_id: instanceId, eeid });
  await batch.update({ gathering: false, modified_at: transaction.fn.now() });
}

/** From the commit on nothing of the batch leaves any more. */
export async function setBatchCancelled(db: Db, instanceId: number, eeid: string): Promise<void> {
  await queryRows(
    db,
    `update batches set cancelled_at = coalesce(cancelled_at, clock.at), held_at = null, gathering = false,
       modified_at = clock.at from (select now() as at) as clock where instance_id = $2 and eeid = $1`,
    [eeid, instanceId],
  );
}
