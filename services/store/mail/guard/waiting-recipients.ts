import { bookedCounts, type WindowCount, WindowCounts } from "../../../core/mail/guard/sending-limits.ts";
import { type Db, queryRows, type Transaction } from "../../../platform/postgres/db.ts";
import { beginWork, wakeInstances } from "../queue/mail-work.ts";
import { waitsForLimit } from "../queue/queue.ts";
import { chargeValues, chargeWindows } from "./sending-counts.ts";

/** Recipients of an instance that wait for a window, and when the first of them goes on. */
interface WaitingRecipients {
  readonly recipients: number;
  readonly goesOnAt: Date | null;
}

// Nobody has tried what waits for a window: what was tried, and is put off, was taken.
const WAITING = "instance_id = $1 and state = 'deferred' and taken_at is null and recipients > 0";

export async function countWaiting(db: Db, instanceId: number): Promise<WaitingRecipients> {
  const [row] = await queryRows<WaitingRecipients>(
    db,
    `select coalesce(sum(recipients), 0)::int as recipients, min(due_at) as "goesOnAt" from partitions where ${WAITING}`,
    [instanceId],
  );
  return row!;
}

/** Lets what waits for a window go at once: it is counted in the present one instead. @returns how many recipients */
export async function releaseWaiting(db: Db, instanceId: number): Promise<number> {
  return db.transaction(async (transaction) => {
    await beginWork(transaction, [instanceId]);
    const released = await queryRows<GivenUpPlaces & { readonly now: Date }>(
      transaction,
      `with waiting as (
         select id, due_at, counted_as from partitions where ${WAITING} order by id for no key update
       ), clock as (select now() as at)
       update partitions p set state = 'ready', due_at = clock.at, counted_as = null, modified_at = clock.at from waiting, clock
       where p.instance_id = $1 and p.id = waiting.id and p.state = 'deferred'
       returning p.recipients, p.due_at as now, waiting.due_at as "dueAt", coalesce(waiting.counted_as, '{}') as "countedAs"`,
      [instanceId],
    );
    await wakeInstances(transaction, [{ instanceId }]);
    await giveUpPlaces(transaction, instanceId, released, released[0]?.now);
    return released.reduce((sum, { recipients }) => sum + recipients, 0);
  });
}

/** Recipients that wait no longer for the window in which they are counted. */
export interface GivenUpPlaces {
  /** `<grain> <key>` of each window; see `countedAs`. */
  readonly countedAs: readonly string[];
  readonly dueAt: Date;
  readonly recipients: number;
}

/**
 * The places that partitions have in windows to come, before they are changed.
 * @param partitionIds each as often as it has recipients less
 */
export async function findPlaces(
  transaction: Transaction,
  instanceId: number,
  partitionIds: readonly number[],
): Promise<GivenUpPlaces[]> {
  if (partitionIds.length === 0) return [];
  return queryRows<GivenUpPlaces>(
    transaction,
    `select p.counted_as as "countedAs", p.due_at as "dueAt", fewer.recipients
     from (select id, count(*)::int as recipients from unnest($2::bigint[]) as given (id) group by id) fewer
     join partitions p on p.instance_id = $1 and p.id = fewer.id
     where p.counted_as is not null and ${waitsForLimit("p")}`,
    [instanceId, partitionIds],
  );
}

/**
 * Takes what waits no longer off the counts of its windows; the last thing in a transaction, as all that counts.
 * @param insteadAt when those recipients go, and are counted, instead; undefined: never
 */
export async function giveUpPlaces(
  transaction: Transaction,
  instanceId: number,
  places: readonly GivenUpPlaces[],
  insteadAt?: Date,
): Promise<void> {
  const counts = new WindowCounts();
  for (const { countedAs, dueAt, recipients } of places) {
    const moved: WindowCount[] = bookedCounts(countedAs, { at: dueAt, count: -recipients });
    if (insteadAt) moved.push(...bookedCounts(countedAs, { at: insteadAt, count: recipients }));
    for (const window of moved) counts.add(window);
  }
  const charges = counts.added.map((window) => ({ ...window, instanceId }));
  if (charges.length === 0) return;
  await wakeCampaigns(transaction, instanceId);
  await queryRows(transaction, chargeWindows(1), chargeValues(charges));
}

/** Campaigns that wait for a window look again: there may be room now. One that is being queued from is passed over: it may wait for us. */
async function wakeCampaigns(transaction: Transaction, instanceId: number): Promise<void> {
  await queryRows(
    transaction,
    `with waiting as (
       select campaign_numid from campaign_sends where instance_id = $1 and waits_until is not null
       for no key update skip locked
     )
     update campaign_sends c set waits_until = null from waiting
     where c.instance_id = $1 and c.campaign_numid = waiting.campaign_numid`,
    [instanceId],
  );
}
