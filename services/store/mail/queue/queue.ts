import type { RecipientDsn } from "../../../core/mail/dsn-parameters.ts";
import type { QueuedBooking } from "../../../core/mail/guard/sending-limits.ts";
import { type CampaignPool, poolFor } from "../../../core/mail/pools.ts";
import { bigints, integers, jsons, texts, trimNulls } from "../../../platform/postgres/array-columns.ts";
import { type Db, queryRows, type Transaction } from "../../../platform/postgres/db.ts";
import { isSpread } from "../by-instance.ts";
import { lockShared, wakeInstances } from "./mail-work.ts";

/** Where `announceMail` tells of new mail, with the ids of its instances, and `announceStop` of something stopped or changed. */
export const QUEUE_CHANNEL = "palomar_queue";
const STOP_NOTICE = "stop";
/** With more instances a notice is for all of them. */
const MOST_NOTICED = 200;

/**
 * Tells the workers that there is new mail, so that they need not wait for their next look. To be called after the
 * commit that made it visible, never within: a transaction that notifies holds back the commits of all others.
 * @param instanceIds whose it is; all of them unless given
 */
export async function announceMail(db: Db, instanceIds: readonly number[] = []): Promise<void> {
  await announce(db, instanceIds.length > MOST_NOTICED ? "" : instanceIds.join(" "));
}

/** What a notice tells: that something was stopped or changed, or of whom there is new mail. */
type QueueNotice =
  | { readonly kind: "stop" }
  | { readonly kind: "mail"; readonly instanceIds: "all" | readonly number[] };

export function readNotice(payload: string): QueueNotice {
  if (payload === STOP_NOTICE) return { kind: "stop" };
  return { kind: "mail", instanceIds: payload === "" ? "all" : payload.split(" ").map(Number) };
}

/** Tells the workers that a batch or a destination was stopped, or a message changed. To be called after the commit as well. */
export async function announceStop(db: Db): Promise<void> {
  await announce(db, STOP_NOTICE);
}

async function announce(db: Db, notice: string): Promise<void> {
  // A notice is no data: its commit need not wait for the disk.
  await db.raw("select set_config('synchronous_commit', 'off', true), pg_notify(?, ?)", [QUEUE_CHANNEL, notice]);
}

/** A delivery, with the instance whose it is. */
export interface DeliveryKey {
  readonly instanceId: number;
  readonly deliveryId: number;
}

/** A recipient about to be queued. */
export interface NewDelivery {
  readonly contactId: number | null;
  readonly role: "to" | "cc" | "bcc";
  /** Address as it was given. */
  readonly recipient: string;
  /** Its domain as A-labels. */
  readonly destination: string;
  readonly personal: PersonalData | null;
  /** What its sender wants to be told of it; undefined where it says nothing. */
  readonly dsn?: RecipientDsn | undefined;
}

/** What the rendering of a template needs of one recipient, kept until the last outcome. */
export interface PersonalData {
  /** Display name for the To field. */
  readonly name?: string;
  /** Values of the tags that the template uses, by name without wrapping; global variables are the template's. */
  readonly tags?: Readonly<Record<string, string>>;
}

/** Small enough that the connections of a destination share a batch, large enough that a lease is worth its cost. */
const RECIPIENTS_PER_PARTITION = 100;

/** The recipients of one message. */
interface MessageRecipients {
  readonly instanceId: number;
  readonly campaignNumid: number;
  readonly eeid: string;
  readonly messageId: number;
  readonly deliveries: readonly NewDelivery[];
  /** They go ahead of their instance's other mail. */
  readonly goesAhead?: boolean | undefined;
  /** When they go, in their order; all at once unless given. */
  readonly bookings?: readonly QueuedBooking[] | undefined;
}

/**
 * Queues the recipients of messages, cut into partitions by destination.
 * @returns the ids of the deliveries, for each message in the order given
 */
export async function enqueue(transaction: Transaction, messages: readonly MessageRecipients[]): Promise<number[][]> {
  const chunks = messages.flatMap(({ deliveries, bookings, ...message }) =>
    cut(deliveries, bookings).flatMap(({ at, countedAs, booked }) =>
      partition(booked).map((chunk) => ({ ...chunk, ...message, dueAt: at, countedAs })),
    ),
  );
  // Those of a partition lie side by side, as they are taken and settled.
  const all = chunks.flatMap(({ deliveries }) => deliveries);
  if (all.length === 0) return messages.map(() => []);
  const instanceIds = [...new Set(messages.map(({ instanceId }) => instanceId))];
  const { partitionIds, deliveryIds, pools } = await prepareRows(transaction, instanceIds, chunks.length, all.length);
  const owners = [partitionIds, chunks.map(({ instanceId }) => instanceId)];
  const partitions = [
    ...owners,
    chunks.map(({ eeid }) => eeid),
    chunks.map(({ messageId }) => messageId),
    chunks.map(({ destination }) => destination),
    chunks.map(({ deliveries }) => deliveries.length),
    chunks.map(({ instanceId, campaignNumid }) => poolFor(pools.get(instanceId) ?? [], campaignNumid)),
    chunks.map(({ goesAhead = false }) => goesAhead),
  ];
  const queued = [
    bigints(deliveryIds),
    integers(chunks.flatMap(({ deliveries }, index) => deliveries.map(() => index + 1))),
    bigints(all.map(({ contactId }) => contactId)),
    texts(all.map(({ role }) => role)),
    texts(all.map(({ recipient }) => recipient)),
    jsons(trimNulls(all.map(({ personal }) => personal))),
    jsons(trimNulls(all.map(({ dsn = null }) => dsn))),
  ];
  if (await isSpread(transaction)) {
    // Each by itself Citus copies to where it belongs; of both in one it keeps results on every machine.
    await queryRows(transaction, insertPartitions(), partitions, { name: "enqueue-partitions" });
    await queryRows(transaction, insertDeliveries(owners.length + 1), [...owners, ...queued], {
      name: "enqueue-deliveries",
    });
  } else {
    const both = `with cut as (${insertPartitions()}) ${insertDeliveries(partitions.length + 1)}`;
    await queryRows(transaction, both, [...partitions, ...queued], { name: "enqueue" });
  }
  await putOff(
    transaction,
    chunks.flatMap(({ dueAt, countedAs = [], instanceId }, index) =>
      dueAt === null ? [] : [{ instanceId, partitionId: partitionIds[index]!, dueAt, countedAs }],
    ),
  );
  await wakeInstances(
    transaction,
    instanceIds.map((instanceId) => ({ instanceId })),
  );
  const idOf = new Map(all.map((delivery, index) => [delivery, deliveryIds[index]!]));
  return messages.map(({ deliveries }) => deliveries.map((delivery) => idOf.get(delivery)!));
}

function insertPartitions(): string {
  return `insert into partitions (id, instance_id, eeid, message_id, destination, recipients, pool, goes_ahead)
    overriding system value select * from unnest(
      $1::bigint[], $2::bigint[], $3::uuid[], $4::bigint[], $5::text[], $6::integer[], $7::text[], $8::boolean[])`;
}

/** @param first number of the parameter that has their ids; $1 and $2 are partitions and instances, by the number of the chunk */
function insertDeliveries(first: number): string {
  const types = ["bigint", "integer", "bigint", "text", "text", "jsonb", "jsonb"];
  return `insert into deliveries (id, instance_id, partition_id, contact_id, role, recipient, personal, dsn)
    overriding system value
    select id, ($2::bigint[])[chunk], ($1::bigint[])[chunk], contact_id, role, recipient, personal, dsn
    from unnest(${types.map((type, n) => `$${first + n}::${type}[]`).join(", ")})
      as given (id, chunk, contact_id, role, recipient, personal, dsn)`;
}

/** Cuts recipients into those that go at once and those that wait for windows. */
function cut(
  deliveries: readonly NewDelivery[],
  bookings: readonly QueuedBooking[] = [{ at: null, count: deliveries.length }],
): (Omit<QueuedBooking, "count"> & { readonly booked: readonly NewDelivery[] })[] {
  let start = 0;
  return bookings.map(({ count, ...booking }) => {
    const booked = deliveries.slice(start, start + count);
    start += count;
    return { ...booking, booked };
  });
}

/**
 * Whether a row of partitions waits for a window of its instance's limits: nobody has taken it, as its time has not come.
 * A pause of its batch does not end that.
 */
export function waitsForLimit(row: string): string {
  return `${row}.state in ('deferred', 'held') and ${row}.taken_at is null and ${row}.due_at > now()`;
}

/** Has partitions that were just queued wait. */
async function putOff(
  transaction: Transaction,
  waiting: readonly {
    readonly instanceId: number;
    readonly partitionId: number;
    readonly dueAt: Date;
    readonly countedAs: readonly string[];
  }[],
): Promise<void> {
  for (const instanceId of new Set(waiting.map((one) => one.instanceId))) {
    const own = waiting.filter((one) => one.instanceId === instanceId);
    await queryRows(
      transaction,
      `update partitions p set state = 'deferred', due_at = given.due_at, counted_as = string_to_array(given.counted_as, E'\\n')
       from unnest($2::bigint[], $3::timestamptz[], $4::text[]) as given (id, due_at, counted_as)
       where p.instance_id = $1 and p.id = given.id`,
      [
        instanceId,
        own.map(({ partitionId }) => partitionId),
        own.map(({ dueAt }) => dueAt.toISOString()),
        own.map(({ countedAs }) => countedAs.join("\n")),
      ],
      { name: "put-off-partitions" },
    );
  }
}

function partition(deliveries: readonly NewDelivery[]): { destination: string; deliveries: NewDelivery[] }[] {
  const open = new Map<string, NewDelivery[]>();
  const chunks: { destination: string; deliveries: NewDelivery[] }[] = [];
  for (const delivery of deliveries) {
    const { destination } = delivery;
    let chunk = open.get(destination);
    if (chunk === undefined || chunk.length === RECIPIENTS_PER_PARTITION) {
      chunk = [];
      open.set(destination, chunk);
      chunks.push({ destination, deliveries: chunk });
    }
    chunk.push(delivery);
  }
  return chunks;
}

/** Ids ahead of the rows, so that rows which refer to each other are inserted in bulk, and the pools of the instances. */
async function prepareRows(
  transaction: Transaction,
  instanceIds: readonly number[],
  partitions: number,
  deliveries: number,
): Promise<{
  readonly partitionIds: readonly number[];
  readonly deliveryIds: readonly number[];
  readonly pools: ReadonlyMap<number, readonly CampaignPool[]>;
}> {
  const [row] = await queryRows<{
    partition_ids: number[];
    delivery_ids: number[];
    pools: (CampaignPool & { readonly instance: number })[] | null;
  }>(
    transaction,
    `select (select json_agg(nextval('partitions_id_seq')) from generate_series(1, $1)) as partition_ids,
            (select json_agg(nextval('deliveries_id_seq')) from generate_series(1, $2)) as delivery_ids,
            (select json_agg(json_build_object('instance', i.id, 'campaignNumid', a.campaign_numid, 'pool', a.pool)
                             order by a.position)
             from unnest($3::bigint[]) as given (id), lateral (select id, name from instances where id = given.id offset 0) i,
             lateral (select * from pool_assignments where instance = i.name offset 0) a) as pools,
            (select count(${lockShared("id")}) from unnest($3::bigint[]) as own (id)) as locked`,
    [partitions, deliveries, instanceIds.toSorted((one, other) => one - other)],
    { name: "prepare-queue-rows" },
  );
  const pools = new Map<number, CampaignPool[]>();
  for (const { instance, ...own } of row!.pools ?? []) pools.set(instance, [...(pools.get(instance) ?? []), own]);
  return { partitionIds: row!.partition_ids, deliveryIds: row!.delivery_ids, pools };
}
