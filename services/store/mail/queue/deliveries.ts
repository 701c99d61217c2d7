import type { AttemptFacts } from "../../../core/mail/delivery-attempt.ts";
import type { TlsSession } from "../../../core/mail/reports/tls-session.ts";
import { type Db, queryRows, type Transaction } from "../../../platform/postgres/db.ts";
import { byInstance, ownRows } from "../by-instance.ts";
import { foundOnPresent, isWhole, onPresent } from "../machines.ts";
import type { PaceKey } from "../pace/source-paces.ts";
import { hearersOfDeliveries } from "../tracking/event-feed.ts";
import type { NewReport } from "./delivery-reports.ts";
import type { DeliveryKey } from "./queue.ts";

/** What a return path's token stands for. */
export interface DeliveryOwner extends DeliveryKey {
  /** Null for a copy to an address that is no contact. */
  readonly contactId: number | null;
  readonly eeid: string;
  readonly campaignNumid: number;
  /** Address as it was given. */
  readonly recipient: string;
}

/** @returns undefined when there is no such delivery, or no more @throws MachineAway */
export async function findDelivery(db: Db, deliveryId: number): Promise<DeliveryOwner | undefined> {
  const [place] = await queryRows<{ instanceId: number }>(
    db,
    `select instance_id as "instanceId" from deliveries where id = $1 and ${onPresent(db)}`,
    [deliveryId],
    isWhole(db) ? { name: "find-delivery-instance" } : {},
  );
  const { instanceId } = foundOnPresent(db, place) ?? {};
  return instanceId === undefined ? undefined : (await findDeliveries(db, [{ instanceId, deliveryId }]))[0];
}

/** @returns those that there are, in no order */
export async function findDeliveries(db: Db, deliveries: readonly DeliveryKey[]): Promise<DeliveryOwner[]> {
  const own = await ownRows(db);
  return byInstance(db, deliveries, (keys, instanceIds) =>
    queryRows<DeliveryOwner>(
      db,
      `select d.id as "deliveryId", d.instance_id as "instanceId", d.contact_id as "contactId", m.eeid,
              m.campaign_numid as "campaignNumid", d.recipient
       from deliveries d
       join partitions p on p.instance_id = d.instance_id and p.id = d.partition_id
       join messages m on m.instance_id = p.instance_id and m.id = p.message_id
       where ${own("d")} and d.id = any($2::bigint[])`,
      [instanceIds, keys.map(({ deliveryId }) => deliveryId)],
    ),
  );
}

/** Keeps a delivery from being removed until the transaction ends. @returns false where it has been */
export async function holdDelivery(
  transaction: Transaction,
  { instanceId, deliveryId }: DeliveryKey,
): Promise<boolean> {
  const rows = await queryRows(transaction, "select from deliveries where instance_id = $1 and id = $2 for key share", [
    instanceId,
    deliveryId,
  ]);
  return rows.length > 0;
}

/** What became of a recipient in one attempt. */
export interface DeliveryOutcome {
  readonly instanceId: number;
  readonly deliveryId: number;
  /** Address as it was given. */
  readonly recipient: string;
  /** `queued`: put off for `retryInSeconds`. */
  readonly state: "delivered" | "refused" | "queued";
  /** Completed attempts, this one included. */
  readonly attempts: number;
  readonly retryInSeconds?: number;
  /** The far side's words, on one line. */
  readonly reply: string;
  readonly attempt: AttemptFacts;
  /** Of a refusal. */
  readonly bounce?: { readonly hard: boolean; readonly detail: Readonly<Record<string, unknown>> };
  /** Exact octets that left, of a message sent with `archive`. */
  readonly archived?: { readonly eeid: string; readonly recipientKey: string; readonly octets: Buffer };
  /** The message is a report to a sender: it is nobody's statistics, and no event. */
  readonly isReport?: boolean;
  /** What who submitted it is to be told. */
  readonly report?: NewReport;
  /** What was opened for it, or not, where sessions are counted for reports about TLS. */
  readonly tlsSessions?: readonly TlsSession[];
  /** It left from a source that sends to its provider by a plan. */
  readonly warmUp?: PaceKey | undefined;
}

/** A delivery whose outcome was stored. */
export interface SettledDelivery {
  readonly instance_id: number;
  readonly id: number;
  readonly partition_id: number;
  readonly state: DeliveryOutcome["state"];
  readonly at: Date;
  /** Its instance wants to know what becomes of its deliveries. */
  readonly isHeard: boolean;
}

/**
 * Stores outcomes of deliveries that are not settled yet, and counts the last ones.
 * @param now the transaction's moment, of `beginWork`
 * @returns those that were stored
 */
export async function settleDeliveries(
  transaction: Transaction,
  outcomes: readonly DeliveryOutcome[],
  now: string,
): Promise<SettledDelivery[]> {
  const own = await ownRows(transaction);
  const nowMs = Date.parse(now);
  const inOrder = outcomes.toSorted((a, b) => a.deliveryId - b.deliveryId);
  const rows = await byInstance(transaction, inOrder, (given) =>
    queryRows<SettledRow>(
      transaction,
      `with settled as (
         update deliveries d
         set state = o.state, attempts = o.attempts, due_at = coalesce(o.due_at, d.due_at), reply = o.reply,
             finished_at = case when o.state <> 'queued' then $7::timestamptz end,
             personal = case when o.state = 'queued' then d.personal end
         from unnest($1::bigint[], $2::bigint[], $3::text[], $4::integer[], $5::timestamptz[], $6::text[], $8::boolean[])
           as o (instance_id, id, state, attempts, due_at, reply, is_report)
         where ${own("d", "$2")} and d.instance_id = o.instance_id and d.id = o.id
           and d.state = 'queued'
         returning d.instance_id, d.id, d.partition_id, d.state, o.is_report
       )
       select instance_id, id, partition_id, state, is_report,
         not is_report and instance_id in (${hearersOfDeliveries(own)}) as "isHeard" from settled`,
      [
        given.map(({ instanceId }) => instanceId),
        given.map(({ deliveryId }) => deliveryId),
        given.map(({ state }) => state),
        given.map(({ attempts }) => attempts),
        given.map(({ retryInSeconds }) =>
          retryInSeconds === undefined ? null : new Date(nowMs + retryInSeconds * 1000).toISOString(),
        ),
        given.map(({ reply }) => reply),
        now,
        given.map(({ isReport = false }) => String(isReport)),
      ],
    ),
  );
  await countTried(transaction, rows, nowMs);
  const at = new Date(nowMs);
  return rows.map(({ is_report: _isReport, ...row }) => ({ ...row, at }));
}

interface SettledRow extends Omit<SettledDelivery, "at"> {
  readonly is_report: boolean;
}

const MINUTE_MS = 60_000;

/** Adds last outcomes to what each instance has tried. */
async function countTried(transaction: Transaction, settled: readonly SettledRow[], nowMs: number): Promise<void> {
  const tried = new Map<number, number>();
  for (const { instance_id: instanceId, state, is_report: isReport } of settled) {
    if (state !== "queued" && !isReport) tried.set(instanceId, (tried.get(instanceId) ?? 0) + 1);
  }
  if (tried.size === 0) return;
  const minute = new Date(nowMs - (nowMs % MINUTE_MS)).toISOString();
  const counts = [...tried].map(([instanceId, count]) => ({ instanceId, count }));
  await byInstance(transaction, counts, (own) =>
    own.length === 1
      ? queryRows(
          transaction,
          "insert into outcome_deltas (instance_id, minute, tried) values ($1, $2, $3)",
          [own[0]!.instanceId, minute, own[0]!.count],
          { name: "count-tried-of-instance" },
        )
      : queryRows(
          transaction,
          `insert into outcome_deltas (instance_id, minute, tried)
           select instance_id, $3::timestamptz, tried from unnest($1::bigint[], $2::integer[]) as counted (instance_id, tried)`,
          [own.map(({ instanceId }) => instanceId), own.map(({ count }) => count), minute],
          { name: "count-tried" },
        ),
  );
}

/** Adds to the counts of partitions. @param refused recipients whose partitions are locked already */
export async function countRefusals(transaction: Transaction, refused: readonly SettledDelivery[]): Promise<void> {
  const own = await ownRows(transaction);
  const keys = refused.map((row) => ({ instanceId: row.instance_id, id: row.partition_id }));
  await byInstance(transaction, keys, (given) =>
    queryRows(
      transaction,
      `update partitions p set refused = p.refused + refusals.refused, modified_at = now()
       from (select instance_id, id, count(*) as refused
             from unnest($1::bigint[], $2::bigint[]) as given (instance_id, id) group by 1, 2) refusals
       where ${own("p", "$2")} and p.id = refusals.id`,
      [given.map(({ instanceId }) => instanceId), given.map(({ id }) => id)],
    ),
  );
}

/** A failure for good, learnt in the SMTP session or from a report. */
export interface DeliveryBounce {
  readonly instanceId: number;
  readonly deliveryId: number;
  readonly hard: boolean;
  readonly at: Date;
  /** Kept with the event: reason, status, the far side's words. */
  readonly detail: Readonly<Record<string, unknown>>;
}

/**
 * Marks deliveries that have not bounced yet, and counts the hard ones in their partitions.
 * @returns the ids of those that were marked
 */
export async function markBounced(transaction: Transaction, bounces: readonly DeliveryBounce[]): Promise<number[]> {
  const own = await ownRows(transaction);
  const rows = await byInstance(transaction, bounces, (given) =>
    // Partitions are locked in one order, as by lockPartitions: reports come while they are being delivered.
    queryRows<{ id: number }>(
      transaction,
      `with changed as (
         update deliveries d set bounce = b.bounce, bounced_at = b.at
         from unnest($1::bigint[], $2::bigint[], $3::text[], $4::timestamptz[]) as b (instance_id, id, bounce, at)
         where ${own("d", "$2")} and d.instance_id = b.instance_id and d.id = b.id
           and d.bounce is null
         returning d.id, d.partition_id, d.bounce
       ), hard as (
         select partition_id as id, count(*) as bounces from changed where bounce = 'hard' group by 1
       ), locked as (
         select p.id from partitions p where ${own("p")} and p.id = any(array(select id from hard))
         order by p.id for no key update
       ), counted as (
         update partitions p set hard_bounces = p.hard_bounces + hard.bounces
         from locked join hard using (id) where ${own("p")} and p.id = locked.id
       )
       select id from changed`,
      [
        given.map(({ instanceId }) => instanceId),
        given.map(({ deliveryId }) => deliveryId),
        given.map(({ hard }) => (hard ? "hard" : "soft")),
        given.map(({ at }) => at.toISOString()),
      ],
    ),
  );
  return rows.map(({ id }) => id);
}

/** Notes a spam complaint. @returns false where there was one before, or there is no such delivery */
export async function markComplained(
  transaction: Transaction,
  { instanceId, deliveryId }: DeliveryKey,
  at: Date,
): Promise<boolean> {
  const marked = await transaction("deliveries")
    .where({ instance_id: instanceId, id: deliveryId, complained_at: null })
    .update({ complained_at: at });
  return marked > 0;
}

/** A copy's address has become a contact. */
export async function assignContact(
  transaction: Transaction,
  { instanceId, deliveryId }: DeliveryKey,
  contactId: number,
): Promise<void> {
  await transaction("deliveries").where({ instance_id: instanceId, id: deliveryId }).update({ contact_id: contactId });
}

/** A contact with the address by which it is locked. */
interface AddressedContact {
  readonly id: number;
  readonly instanceId: number;
  readonly emailKey: string;
}

/** Contacts that deliveries went to, in the order in which everything locks them. */
export async function listContactsOf(db: Db, deliveries: readonly DeliveryKey[]): Promise<AddressedContact[]> {
  const own = await ownRows(db);
  return byInstance(db, deliveries, (keys, instanceIds) =>
    queryRows<AddressedContact>(
      db,
      `select distinct contacts.id, contacts.instance_id as "instanceId", contacts.email_key as "emailKey"
       from deliveries d
       join contacts on contacts.instance_id = d.instance_id and contacts.id = d.contact_id
       where ${own("d")} and d.id = any($2::bigint[]) order by "instanceId", "emailKey"`,
      [instanceIds, keys.map(({ deliveryId }) => deliveryId)],
    ),
  );
}

/** Keeps the octets that left, for messages sent with `archive`; what is kept already stays. */
export async function archiveMessages(transaction: Transaction, outcomes: readonly DeliveryOutcome[]): Promise<void> {
  const kept = outcomes.flatMap(({ deliveryId, instanceId, archived }) =>
    archived ? [{ deliveryId, instanceId, ...archived }] : [],
  );
  for (const portion of portionsOf(kept, ({ octets }) => octets.length, ARCHIVE_PORTION_OCTETS)) {
    await transaction("archived_messages")
      .insert(
        portion.map(({ deliveryId, instanceId, eeid, recipientKey, octets }) => ({
          delivery_id: deliveryId,
          instance_id: instanceId,
          eeid,
          recipient_key: recipientKey,
          octets,
          sent_at: transaction.fn.now(),
        })),
      )
      .onConflict(["delivery_id", "instance_id"])
      .ignore();
  }
}

/** Of one statement: PostgreSQL takes no message above 1 GiB, and copies what it takes. */
const ARCHIVE_PORTION_OCTETS = 32 * 1024 * 1024;

/** Things in order, in portions of at most so much together; what alone is more is a portion of its own. */
function* portionsOf<T>(things: readonly T[], sizeOf: (thing: T) => number, most: number): Generator<T[]> {
  let portion: T[] = [];
  let size = 0;
  for (const thing of things) {
    if (portion.length > 0 && size + sizeOf(thing) > most) {
      yield portion;
      portion = [];
      size = 0;
    }
    portion.push(thing);
    size += sizeOf(thing);
  }
  if (portion.length > 0) yield portion;
}
