import { type Db, queryRows, type Transaction } from "../../../platform/postgres/db.ts";
import { removeAttempts } from "../attempts/attempts.ts";

/** What an instance does not keep any more. */
interface ExpiredMessages {
  readonly instanceId: number;
  /** Batches whose last message left, or was given up, before it; see `expireBatches`. */
  readonly before: Date;
}

/** Batches of one look, and of one transaction. */
const BATCHES_AT_ONCE = 500;
/** Of one transaction: little enough to be done in a fraction of a second. */
const DELIVERIES_AT_ONCE = 5_000;
const PARTITIONS_AT_ONCE = 5_000;
const MESSAGES_AT_ONCE = 500;

/**
 * Removes an instance's old batches with their messages, attachments, links, partitions and deliveries, and the reports
 * that came back for these. Events stay. Portion by portion, and several processes may do it at the same time: what
 * somebody else holds is passed over and left to the next time, so that this never waits for anybody's deliveries, and
 * whoever waits for its locks waits for one portion. Subqueries are kept apart (`offset 0`): a portion looks rows up one
 * by one, and never reads a whole table for them.
 * @param signal ends it after the portion under way; the next time goes on from there
 */
export async function removeMessages(db: Db, expired: ExpiredMessages, signal?: AbortSignal): Promise<void> {
  await expireBatches(db, expired, signal);
  for (let last: string | undefined; ; ) {
    const eeids = await listExpired(db, expired.instanceId, last);
    while (!signal?.aborted && (await removePortion(db, expired.instanceId, eeids)) > 0);
    last = eeids.at(-1);
    if (signal?.aborted || last === undefined) return;
  }
}

/** Looks through all batches that are old enough, oldest first: those that must stay do not keep it from the others. */
async function expireBatches(db: Db, { instanceId, before }: ExpiredMessages, signal?: AbortSignal): Promise<void> {
  for (let last: { readonly eeid: string; readonly createdAt: string } | undefined; ; ) {
    const old: { readonly eeid: string; readonly createdAt: string }[] = await queryRows(
      db,
      // As a text the moment keeps its microseconds.
      `select eeid, created_at::text as "createdAt" from batches
       where instance_id = $1 and created_at < $2 and expired_at is null
         and (created_at, eeid) > (coalesce($3::timestamptz, '-infinity'), coalesce($4::uuid, '00000000-0000-0000-0000-000000000000'))
       order by created_at, eeid limit $5`,
      [instanceId, before, last?.createdAt ?? null, last?.eeid ?? null, BATCHES_AT_ONCE],
    );
    last = old.at(-1);
    if (signal?.aborted || last === undefined) return;
    const eeids = old.map(({ eeid }) => eeid);
    await db.transaction((transaction) => expireAmong(transaction, eeids, { instanceId, before }));
  }
}

/**
 * Ends batches of which nothing is to come any more and nothing has happened since: their campaign is over, their
 * partitions are finished, and nobody is gathering for them, holds or has joined them. None of their messages is younger
 * than `modified_at`, which a join renews, and which is judged anew once the row is locked. Batches with archived
 * messages stay as long as these.
 */
async function expireAmong(
  transaction: Transaction,
  eeids: readonly string[],
  { instanceId, before }: ExpiredMessages,
): Promise<void> {
  const rows = await queryRows<{ campaign: number }>(
    transaction,
    `with over as (
       select b.eeid from batches b
       where b.instance_id = $1 and b.eeid = any($2::uuid[]) and b.expired_at is null and b.modified_at < $3
         and not b.gathering and b.held_at is null
         and not exists (select 1 from campaign_sends s
           where s.instance_id = $1 and s.campaign_numid = b.campaign_numid and s.eeid = b.eeid
             and s.state not in ('sent', 'cancelled'))
         and not exists (select 1 from partitions p
           where p.instance_id = $1 and p.eeid = b.eeid and (p.state <> 'finished' or p.modified_at >= $4) offset 0)
         and not exists (select 1 from archived_messages a
           where a.instance_id = $1 and a.eeid = b.eeid offset 0)
       order by b.eeid for update skip locked
     )
     update batches b set expired_at = now() from over where b.instance_id = $1 and b.eeid = over.eeid
     returning b.campaign_numid as campaign`,
    [instanceId, eeids, before, before],
  );
  await queryRows(
    transaction,
    `with losing as (
       select numid from campaigns where instance_id = $1 and numid = any($2::bigint[]) and not lost_batches
       order by numid for no key update
     )
     update campaigns c set lost_batches = true
     from losing where c.instance_id = $1 and c.numid = losing.numid`,
    [instanceId, rows.map(({ campaign }) => campaign)],
  );
}

async function listExpired(db: Db, instanceId: number, after: string | undefined): Promise<string[]> {
  const rows = await queryRows<{ eeid: string }>(
    db,
    `select eeid from batches where instance_id = $1 and expired_at is not null and ($2::uuid is null or eeid > $3::uuid)
     order by eeid limit $4`,
    [instanceId, after ?? null, after ?? null, BATCHES_AT_ONCE],
  );
  return rows.map(({ eeid }) => eeid);
}

/** Removes a portion of what hangs on expired batches, and those on which nothing hangs. @returns how many rows went */
async function removePortion(db: Db, instanceId: number, expired: readonly string[]): Promise<number> {
  return db.transaction(async (transaction) => {
    const rows = await queryRows<{ eeid: string }>(
      transaction,
      "select eeid from batches where instance_id = $1 and eeid = any($2::uuid[]) order by eeid for update skip locked",
      [instanceId, expired],
    );
    const owned = { instanceId, eeids: rows.map(({ eeid }) => eeid) };
    if (owned.eeids.length === 0) return 0;
    const deliveries = await removeDeliveries(transaction, owned);
    if (deliveries === DELIVERIES_AT_ONCE) return deliveries;
    const partitions = await removePartitions(transaction, owned);
    const messages = await removeContents(transaction, owned);
    return deliveries + partitions + messages + (await removeBatches(transaction, owned));
  });
}

/** Expired batches that this transaction has locked. */
interface OwnedBatches {
  readonly instanceId: number;
  readonly eeids: readonly string[];
}

/** A delivery waits for the report that somebody is working on, as the report names the recipient. */
async function removeDeliveries(transaction: Transaction, { instanceId, eeids }: OwnedBatches): Promise<number> {
  const awaited = await queryRows<{ id: number }>(
    transaction,
    "select distinct delivery_id as id from inbound_messages where state in ('waiting', 'leased') and delivery_id is not null",
  );
  const rows = await queryRows<{ id: number }>(
    transaction,
    `select own.id from partitions p cross join lateral (
       select d.id from deliveries d
       where d.instance_id = $1 and d.partition_id = p.id and d.id <> all($4::bigint[])
       for update skip locked
     ) own where p.instance_id = $1 and p.eeid = any($2::uuid[]) limit $3`,
    [instanceId, eeids, DELIVERIES_AT_ONCE, awaited.map(({ id }) => id)],
  );
  const ids = rows.map(({ id }) => id);
  await queryRows(
    transaction,
    `delete from inbound_messages where id in (
       select id from inbound_messages
       where (delivery_id = any($1::bigint[]) or about_delivery_id = any($2::bigint[])) and state in ('applied', 'quarantined')
       for update skip locked)`,
    [ids, ids],
  );
  await removeAttempts(transaction, instanceId, ids);
  const named = await queryRows<{ id: number }>(
    transaction,
    `select delivery_id as id from inbound_messages where delivery_id = any($1::bigint[])
     union select about_delivery_id from inbound_messages where about_delivery_id = any($1::bigint[])`,
    [ids],
  );
  return countRemoved(
    transaction,
    "delete from deliveries where instance_id = $1 and id = any($2::bigint[]) and id <> all($3::bigint[])",
    [instanceId, ids, named.map(({ id }) => id)],
  );
}

async function removePartitions(transaction: Transaction, { instanceId, eeids }: OwnedBatches): Promise<number> {
  return countRemoved(
    transaction,
    `delete from partitions where instance_id = $1 and id in (
       select p.id from partitions p
       where p.instance_id = $1 and p.eeid = any($2::uuid[]) and not exists
         (select 1 from deliveries d where d.instance_id = $1 and d.partition_id = p.id offset 0)
       limit $3 for update skip locked)`,
    [instanceId, eeids, PARTITIONS_AT_ONCE],
  );
}

/** Messages with their attachments and links, which go by their foreign keys. */
async function removeContents(transaction: Transaction, { instanceId, eeids }: OwnedBatches): Promise<number> {
  return countRemoved(
    transaction,
    `delete from messages where instance_id = $1 and id in (
       select m.id from messages m
       where m.instance_id = $1 and m.eeid = any($2::uuid[]) and not exists
         (select 1 from partitions p where p.instance_id = $1 and p.message_id = m.id offset 0)
       limit $3 for update skip locked)`,
    [instanceId, eeids, MESSAGES_AT_ONCE],
  );
}

async function removeBatches(transaction: Transaction, { instanceId, eeids }: OwnedBatches): Promise<number> {
  return countRemoved(
    transaction,
    `delete from batches b where b.instance_id = $1 and b.eeid = any($2::uuid[])
       and not exists (select 1 from messages m where m.instance_id = $1 and m.eeid = b.eeid offset 0)
       and not exists (select 1 from partitions p where p.instance_id = $1 and p.eeid = b.eeid offset 0)`,
    [instanceId, eeids],
  );
}

async function countRemoved(transaction: Transaction, deletion: string, values: readonly unknown[]): Promise<number> {
  return (await queryRows(transaction, `${deletion} returning 1`, values)).length;
}
