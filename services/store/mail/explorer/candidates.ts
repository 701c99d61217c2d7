import { type Db, queryRows } from "../../../platform/postgres/db.ts";
import { type MessageState, STATE } from "./found-messages.ts";

/**
 * Where a search takes deliveries from: each way goes through an index, newest first, and gives all that are sought, and
 * others as well. What they are sifted by is `found-messages.ts`.
 */
export type CandidateSource =
  | { readonly kind: "all"; readonly ids: IdRange }
  /** All of a period that is narrow enough to be looked through, in this state if any. */
  | { readonly kind: "period"; readonly ids: IdRange; readonly state: MessageState | null }
  | { readonly kind: "contact"; readonly contactId: number | null; readonly local: string }
  | { readonly kind: "deliveries"; readonly ids: readonly number[] }
  | { readonly kind: "messages"; readonly ids: readonly number[] }
  | { readonly kind: "campaign"; readonly numid: number }
  | { readonly kind: "destination"; readonly destination: string }
  | { readonly kind: "unfinished" }
  | { readonly kind: "bounced" }
  /** Attempts with one of these results, or ways. */
  | { readonly kind: "attempts"; readonly by: "result_id" | "path_id"; readonly ids: readonly number[] }
  /** Bounces for this reason, and attempts that ended so of what has not bounced. */
  | { readonly kind: "reason"; readonly reason: string; readonly resultIds: readonly number[] };

/** Deliveries that may have been accepted in a period. */
export interface IdRange {
  readonly from: number;
  readonly until: number;
}

/** The place of a candidate in its source's order: what follows it comes behind. Numbers, or moments as texts. */
export type Place = readonly (number | string)[];

interface Candidate {
  /** Null: the same delivery comes at another place. */
  readonly deliveryId: number | null;
  readonly place: Place;
}

/** The candidates that follow a place of the source's, at most so many; fewer: there are no more. */
export async function listCandidates(
  db: Db,
  instanceId: number,
  source: CandidateSource,
  { after, take }: { readonly after: Place | undefined; readonly take: number },
): Promise<Candidate[]> {
  const { sql, values } = statementOf(source, after);
  const rows = await queryRows<{ delivery: number | null; a: number | string; b: number | null }>(db, sql, [
    instanceId,
    take,
    ...values,
  ]);
  return rows.map(({ delivery, a, b }) => ({ deliveryId: delivery, place: b === null ? [a] : [a, b] }));
}

/** What the places of each source's order are made of. */
const PLACES: Readonly<Record<CandidateSource["kind"], "id" | "pair" | "moment">> = {
  all: "id",
  period: "id",
  contact: "id",
  deliveries: "id",
  messages: "pair",
  campaign: "moment",
  destination: "pair",
  unfinished: "pair",
  bounced: "moment",
  attempts: "moment",
  reason: "moment",
};

/** Whether a place may be one of this source's order; another search's are not. */
export function isPlaceOf({ kind }: CandidateSource, [first, second]: Place): boolean {
  if (PLACES[kind] === "id") return typeof first === "number" && second === undefined;
  return typeof first === (PLACES[kind] === "moment" ? "string" : "number") && second !== undefined;
}

interface Statement {
  readonly sql: string;
  /** From `$3` on: the instance and how many are taken come first. */
  readonly values: readonly unknown[];
}

const MOST_ID = Number.MAX_SAFE_INTEGER;

function statementOf(source: CandidateSource, after: Place | undefined): Statement {
  const [first, second] = after ?? [];
  const below = first ?? MOST_ID;
  const belowPair = [first ?? MOST_ID, second ?? MOST_ID];
  const belowMoment = [first ?? "infinity", second ?? MOST_ID];
  switch (source.kind) {
    case "all":
      return { sql: ALL, values: [Math.min(Number(below), source.ids.until), source.ids.from] };
    case "period":
      return { sql: PERIOD, values: [Math.min(Number(below), source.ids.until), source.ids.from, source.state] };
    case "contact":
      return { sql: CONTACT, values: [source.contactId, below, source.local] };
    case "deliveries":
      return { sql: DELIVERIES, values: [source.ids, below] };
    case "messages":
      return { sql: MESSAGES, values: [source.ids, ...belowPair] };
    case "campaign":
      return { sql: CAMPAIGN, values: [source.numid, ...belowMoment] };
    case "destination":
      return { sql: DESTINATION, values: [source.destination, ...belowPair] };
    case "unfinished":
      return { sql: UNFINISHED, values: belowPair };
    case "bounced":
      return { sql: BOUNCED, values: belowMoment };
    case "attempts":
      return {
        sql: `${MOMENTS_IN_ORDER} from (${attemptsBy(source.by)}) tried order by at desc, delivery_id desc`,
        values: [source.ids, ...belowMoment],
      };
    case "reason":
      return { sql: REASON, values: [source.resultIds, ...belowMoment, source.reason] };
  }
}

const ALL = `select id as delivery, id as a, null::bigint as b from deliveries
  where instance_id = $1 and id < $3 and id >= $4 order by id desc limit $2`;

const PERIOD = `select id as delivery, id as a, null::bigint as b from deliveries d
  where instance_id = $1 and id < $3 and id >= $4 and ($5::text is null or ${STATE} = $5) order by id desc limit $2`;

/** Those of the contact, and copies to an address of the same local part. */
const CONTACT = `select * from (
    (select id as delivery, id as a, null::bigint as b from deliveries
     where instance_id = $1 and contact_id = $3 and id < $4 order by id desc limit $2)
    union all
    (select id, id, null from deliveries
     where instance_id = $1 and contact_id is null and split_part(recipient, '@', 1) = $5 and id < $4
     order by id desc limit $2)
  ) as both_kinds order by a desc limit $2`;

const DELIVERIES = `select id as delivery, id as a, null::bigint as b from deliveries
  where instance_id = $1 and id = any($3::bigint[]) and id < $4 order by id desc limit $2`;

const MESSAGES = `select d.id as delivery, p.id as a, d.id as b
  from partitions p join lateral (
    select id from deliveries where instance_id = $1 and partition_id = p.id and (p.id < $4 or id < $5) order by id desc
  ) d on true
  where p.instance_id = $1 and p.message_id = any($3::bigint[]) and p.id <= $4
  order by p.id desc, d.id desc limit $2`;

/** In the order of batches: as a text the moment keeps its microseconds. */
const CAMPAIGN = `select d.id as delivery, b.created_at::text as a, d.id as b
  from batches b
    join lateral (select id from partitions where instance_id = $1 and eeid = b.eeid order by id desc) p on true
    join lateral (
      select id from deliveries where instance_id = $1 and partition_id = p.id
        and (b.created_at < $4::timestamptz or id < $5) order by id desc
    ) d on true
  where b.instance_id = $1 and b.campaign_numid = $3 and b.created_at <= $4::timestamptz and b.expired_at is null
  order by b.created_at desc, d.id desc limit $2`;

const DESTINATION = `select d.id as delivery, p.id as a, d.id as b
  from partitions p join lateral (
    select id from deliveries where instance_id = $1 and partition_id = p.id and (p.id < $4 or id < $5) order by id desc
  ) d on true
  where p.instance_id = $1 and p.destination = $3 and p.id <= $4
  order by p.id desc, d.id desc limit $2`;

const UNFINISHED = `select d.id as delivery, p.id as a, d.id as b
  from partitions p join lateral (
    select id from deliveries
    where instance_id = $1 and partition_id = p.id and (p.id < $3 or id < $4) and state = 'queued' order by id desc
  ) d on true
  where p.instance_id = $1 and p.state <> 'finished' and p.id <= $3
  order by p.id desc, d.id desc limit $2`;

const BOUNCED = `select delivery_id as delivery, at::text as a, delivery_id as b from events
  where instance_id = $1 and kind in (4, 5) and delivery_id is not null
    and at <= $3::timestamptz and (at < $3::timestamptz or delivery_id < $4)
  order by at desc, delivery_id desc limit $2`;

/** Attempts by result or way; but the latest of each delivery that fits, they name none: it has been shown. */
function attemptsBy(column: "result_id" | "path_id"): string {
  return `select case when not exists (
      select 1 from delivery_attempts later
      where later.instance_id = $1 and later.delivery_id = a.delivery_id and later.at > a.at and later.${column} = any($3::bigint[])
    ) then a.delivery_id end as delivery, a.at, a.delivery_id
  from (
    select one.at, one.delivery_id from unnest($3::bigint[]) as given (id), lateral (
      select at, delivery_id from delivery_attempts
      where instance_id = $1 and ${column} = given.id and at <= $4::timestamptz and (at < $4::timestamptz or delivery_id < $5)
      order by at desc, delivery_id desc limit $2
    ) one order by one.at desc, one.delivery_id desc limit $2
  ) a`;
}

const MOMENTS_IN_ORDER = `select delivery, at::text as a, delivery_id as b`;

const REASON = `${MOMENTS_IN_ORDER} from (
    (select case when not exists (select 1 from deliveries d where d.instance_id = $1 and d.id = tried.delivery and d.bounce is not null)
       then delivery end as delivery, at, delivery_id from (${attemptsBy("result_id")}) tried)
    union all
    (select delivery_id, at, delivery_id from events
     where instance_id = $1 and kind in (4, 5) and detail ->> 'reason' = $6 and delivery_id is not null
       and at <= $4::timestamptz and (at < $4::timestamptz or delivery_id < $5)
     order by at desc, delivery_id desc limit $2)
  ) as found order by at desc, delivery_id desc limit $2`;
