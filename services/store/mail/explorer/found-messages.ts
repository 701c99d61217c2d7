import { type Db, queryRows, StatementValues } from "../../../platform/postgres/db.ts";
import { waitsForLimit } from "../queue/queue.ts";

export const MESSAGE_STATES = ["queued", "deferred", "delivered", "bounced", "cancelled"] as const;

/** `queued`: not tried yet; `bounced`: refused, given up, or reported as undelivered later. */
export type MessageState = (typeof MESSAGE_STATES)[number];

/** One message to one recipient, as a search shows it. */
export interface FoundMessage {
  readonly id: number;
  readonly eeid: string;
  /** Address as it was given. */
  readonly recipient: string;
  readonly role: "to" | "cc" | "bcc";
  readonly state: MessageState;
  readonly acceptedAt: Date;
  readonly campaignNumid: number;
  /** `api`, `smtp`, or a console login. */
  readonly creator: string;
  readonly subject: string | null;
  readonly sender: string | null;
  /** Of a message that came finished: as its program wrote it. */
  readonly messageId: string | null;
  readonly attempts: number;
  /** The far side's last words. */
  readonly reply: string | null;
  readonly finishedAt: Date | null;
  /** Of what is queued: when it is tried next. */
  readonly dueAt: Date;
  /** That is when its instance's sending limits have room for it. */
  readonly waitsForLimit: boolean;
  readonly bounce: "hard" | "soft" | null;
  readonly complained: boolean;
}

/** What deliveries are sifted by; what is absent restricts nothing. */
export interface MessageConditions {
  readonly contactId?: number | null;
  readonly local?: string;
  readonly destination?: string;
  /** All of them are among the message's. */
  readonly terms?: readonly string[];
  readonly campaignNumid?: number;
  readonly creator?: string;
  readonly state?: MessageState;
  readonly from?: Date;
  readonly until?: Date;
  readonly reason?: string;
  /** Results, or ways, of which some attempt has one. */
  readonly resultIds?: readonly number[];
  readonly pathIds?: readonly number[];
  /** Parts of what was replied in some attempt, or last, whatever their case. */
  readonly replyParts?: readonly string[];
}

/**
 * Deliveries of an instance that fulfil conditions, in the order in which they are given. Reports to senders are left out:
 * they are nobody's messages.
 */
export async function siftDeliveries(
  db: Db,
  instanceId: number,
  ids: readonly number[],
  conditions: MessageConditions,
): Promise<FoundMessage[]> {
  const values = new StatementValues(instanceId, ids);
  const where = compile(conditions, values).map((condition) => ` and ${condition}`);
  return queryRows<FoundMessage>(
    db,
    // Row by row through the keys: tables of any size are never joined as a whole.
    `select d.id, p.eeid, d.recipient, d.role, ${STATE} as state, m.created_at as "acceptedAt",
       m.campaign_numid as "campaignNumid", b.creator, m.subject, m.sender, m.message_id as "messageId", d.attempts, d.reply,
       d.finished_at as "finishedAt", greatest(d.due_at, p.due_at) as "dueAt",
       d.state = 'queued' and ${waitsForLimit("p")} as "waitsForLimit", d.bounce, d.complained_at is not null as complained
     from unnest($2::bigint[]) with ordinality as given (id, position)
       cross join lateral (select * from deliveries where id = given.id and instance_id = $1 offset 0) d
       cross join lateral (select * from partitions where id = d.partition_id and instance_id = $1 offset 0) p
       cross join lateral (select id, created_at, campaign_numid, subject, sender, message_id, terms, is_report
         from messages where id = p.message_id and instance_id = $1 offset 0) m
       cross join lateral (select creator from batches
         where eeid = p.eeid and instance_id = $1 and expired_at is null offset 0) b
     where not m.is_report${where.join("")} order by given.position`,
    values.all,
  );
}

/** The state of a row `d` of deliveries. */
export const STATE = `case when d.bounce is not null or d.state = 'refused' then 'bounced'
  when d.state = 'queued' and d.attempts > 0 then 'deferred' else d.state end`;

function compile(conditions: MessageConditions, values: StatementValues): string[] {
  const { contactId, local, terms, resultIds, pathIds, replyParts, reason } = conditions;
  const equal = {
    "p.destination": conditions.destination,
    "m.campaign_numid": conditions.campaignNumid,
    "b.creator": conditions.creator,
    [STATE]: conditions.state,
  };
  return [
    ...Object.entries(equal).flatMap(([column, value]) =>
      value === undefined ? [] : [`${column} = ${values.add(value)}`],
    ),
    ...(local === undefined
      ? []
      : [
          `(d.contact_id = ${values.add(contactId ?? null)}
            or d.contact_id is null and split_part(d.recipient, '@', 1) = ${values.add(local)})`,
        ]),
    ...(terms === undefined ? [] : [`m.terms @> ${values.add(terms)}::bigint[]`]),
    ...(conditions.from === undefined ? [] : [`m.created_at >= ${values.add(conditions.from)}`]),
    ...(conditions.until === undefined ? [] : [`m.created_at < ${values.add(conditions.until)}`]),
    ...(resultIds === undefined ? [] : [someAttempt(`a.result_id = any(${values.add(resultIds)}::bigint[])`)]),
    ...(pathIds === undefined ? [] : [someAttempt(`a.path_id = any(${values.add(pathIds)}::bigint[])`)]),
    ...(reason === undefined ? [] : [hasReason(values.add(reason))]),
    ...(replyParts ?? []).map((part) => wasReplied(values.add(part.toLowerCase()))),
  ];
}

function someAttempt(condition: string): string {
  return `exists (select 1 from delivery_attempts a where a.delivery_id = d.id and a.instance_id = $1 and ${condition})`;
}

/** Of what has bounced the bounce's reason, else that of some attempt. */
function hasReason(value: string): string {
  return `case when d.bounce is not null
    then exists (select 1 from events e where e.instance_id = $1 and e.kind in (4, 5) and e.detail ->> 'reason' = ${value}
      and e.at = d.bounced_at and e.delivery_id = d.id)
    else exists (select 1 from delivery_attempts a join attempt_results r on r.id = a.result_id and r.instance_id = $1
      where a.delivery_id = d.id and a.instance_id = $1 and r.reason = ${value}) end`;
}

/** What an attempt keeps no reply of was said in the words of its result, where nothing is particular. */
function wasReplied(part: string): string {
  return `(strpos(lower(d.reply), ${part}) > 0
    or ${someAttempt(`strpos(lower(a.reply), ${part}) > 0`)})`;
}
