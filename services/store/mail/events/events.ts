import { bigints, integers, jsons, texts, trimNulls } from "../../../platform/postgres/array-columns.ts";
import { type Db, queryRows } from "../../../platform/postgres/db.ts";
import { byInstance, isSpread } from "../by-instance.ts";
import { type Charge, type ChargedWindow, chargeValues, chargeWindows } from "../guard/sending-counts.ts";
import { isHeard, tellEvents } from "../tracking/event-feed.ts";
import { COUNT_AGGREGATES, COUNT_COLUMNS, EVENT_KINDS, type EventKind } from "./event-kinds.ts";
import { ensureEventMonths } from "./event-partitions.ts";

/** Something that happened, about to be stored. */
export interface NewEvent {
  readonly instanceId: number;
  readonly at: Date;
  readonly kind: EventKind;
  /** Null for a copy to an address that is no contact; `email` then says whose event it is. */
  readonly contactId: number | null;
  readonly email?: string;
  readonly campaignNumid?: number;
  readonly eeid?: string;
  readonly deliveryId?: number;
  /** An open or click that no person made: kept, and left out of the counts. */
  readonly machine?: boolean;
  /** What an operator may want to know of it: reason, status, the far side's words. Never a secret. */
  readonly detail?: Readonly<Record<string, unknown>>;
}

/** Rows in one statement: enough to amortise it, little enough to keep its parameters below a few megabytes. */
const ROWS_PER_STATEMENT = 10_000;

/**
 * Stores events and what they add to the counts, in the caller's transaction or, on the pool, a statement each
 * `ROWS_PER_STATEMENT`, and queues those that a webhook is to be told. Takes no locks that another writer could wait for,
 * but for the windows that what was sent is counted in.
 * @param charges of sends among the events, counted by the last statement
 * @returns the windows of the charges, as they count now
 */
export async function recordEvents(
  db: Db,
  events: readonly NewEvent[],
  charges: readonly Charge[] = [],
): Promise<readonly ChargedWindow[]> {
  if (events.length === 0 && charges.length > 0) throw new Error("something is charged, and nothing was sent");
  if (events.length === 0) return [];
  await ensureEventMonths(db, new Set(events.map((event) => event.at)));
  let start = 0;
  for (; start + ROWS_PER_STATEMENT < events.length; start += ROWS_PER_STATEMENT) {
    await insertEvents(db, events.slice(start, start + ROWS_PER_STATEMENT), []);
  }
  return insertEvents(db, events.slice(start), charges);
}

/** What the counts are of, of an event by the number of its series. */
const COMMON_COLUMNS = `($1::bigint[])[series] as instance_id, ($2::timestamptz[])[series] as at,
    ($3::smallint[])[series] as kind, ($4::boolean[])[series] as machine`;
const EVENT_ROWS = `insert into events
    (instance_id, at, kind, machine, campaign_numid, eeid, contact_id, delivery_id, email, detail)
  select ${COMMON_COLUMNS}, ($5::bigint[])[series], ($6::uuid[])[series], contact_id, delivery_id, email, detail
  from unnest($7::integer[], $8::bigint[], $9::bigint[], $10::text[], $11::jsonb[])
    as given (series, contact_id, delivery_id, email, detail)`;
const INSERT_EVENTS = `with inserted as (
    ${EVENT_ROWS} returning instance_id, at, id, kind, machine
  ), told as (
    insert into webhook_events (instance_id, at, event_id, kind)
    select instance_id, at, id, kind from inserted
    where exists (select from webhook_instances where instance_id = any($1::bigint[]))
      and instance_id in (select instance_id from webhook_instances)
    order by at, id
  )`;
const COUNT_EVENTS = `insert into event_count_deltas (instance_id, minute, ${COUNT_COLUMNS.join(", ")})
  select instance_id, date_trunc('minute', at, 'UTC'), ${COUNT_AGGREGATES} from inserted group by 1, 2`;

async function insertEvents(
  db: Db,
  events: readonly NewEvent[],
  charges: readonly Charge[],
): Promise<readonly ChargedWindow[]> {
  if (await isSpread(db)) {
    if (!db.isTransaction) return db.transaction((transaction) => insertSpread(transaction, events, charges));
    return insertSpread(db, events, charges);
  }
  const charging = charges.length > 0;
  return queryRows<ChargedWindow>(
    db,
    charging
      ? `${INSERT_EVENTS}, counted as (${COUNT_EVENTS}) ${chargeWindows(12)}`
      : `${INSERT_EVENTS} ${COUNT_EVENTS}`,
    [...valuesOf(events), ...(charging ? chargeValues(charges) : [])],
    { name: charging ? "insert-events-and-charge" : "insert-events" },
  );
}

/**
 * The same in statements of one table each, which Citus copies to the shard of an instance; of several tables in one it
 * keeps results on every machine.
 */
async function insertSpread(
  db: Db,
  events: readonly NewEvent[],
  charges: readonly Charge[],
): Promise<readonly ChargedWindow[]> {
  await byInstance(db, events, async (own, [instanceId]) => {
    const values = valuesOf(own);
    const [instanceIds, moments, kinds, machines, , , series] = values;
    if (await isHeard(db, instanceId!)) {
      const told = await queryRows<{ id: number; at: Date; kind: number }>(
        db,
        `${EVENT_ROWS} returning id, at, kind`,
        values,
      );
      await tellEvents(db, instanceId!, told);
    } else {
      await queryRows(db, EVENT_ROWS, values, { name: "insert-events-of-instance" });
    }
    const counted = `with inserted as (
      select ${COMMON_COLUMNS} from unnest($5::integer[]) as given (series)
    ) ${COUNT_EVENTS}`;
    return queryRows(db, counted, [instanceIds, moments, kinds, machines, series], {
      name: "count-events-of-instance",
    });
  });
  return byInstance(db, charges, (own) => queryRows<ChargedWindow>(db, chargeWindows(1), chargeValues(own)));
}

/** What events that follow each other have in common stands once, as a series: all that a call sends are one. */
function valuesOf(events: readonly NewEvent[]): unknown[] {
  const firsts: NewEvent[] = [];
  const series = events.map((event) => {
    const last = firsts.at(-1);
    if (last === undefined || !isOfSeries(event, last)) firsts.push(event);
    return firsts.length;
  });
  const emails = events.map(({ contactId, email = "" }) => (contactId === null ? email : null));
  const details = events.map(({ detail = null }) => detail);
  return [
    firsts.map(({ instanceId }) => instanceId),
    firsts.map(({ at }) => at.toISOString()),
    firsts.map(({ kind }) => EVENT_KINDS[kind]),
    firsts.map(({ machine = false }) => machine),
    firsts.map(({ campaignNumid = null }) => campaignNumid),
    firsts.map(({ eeid = null }) => eeid),
    integers(series),
    bigints(events.map(({ contactId }) => contactId)),
    bigints(events.map(({ deliveryId = null }) => deliveryId)),
    texts(trimNulls(emails)),
    jsons(trimNulls(details)),
  ];
}

function isOfSeries(event: NewEvent, first: NewEvent): boolean {
  return (
    event.eeid === first.eeid &&
    event.at.getTime() === first.at.getTime() &&
    event.kind === first.kind &&
    event.instanceId === first.instanceId &&
    event.campaignNumid === first.campaignNumid &&
    event.machine === first.machine
  );
}
