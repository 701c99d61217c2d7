import { randomBytes } from "node:crypto";
import type { KeyRing } from "../../../core/key-ring.ts";
import { open, seal } from "../../../core/secret-box.ts";
import type { Sentence } from "../../../core/sentences.ts";
import { type Db, queryRows } from "../../../platform/postgres/db.ts";
import { onPresent } from "../machines.ts";
import {
  closeUnheardFeed,
  type FeedSelection,
  hasSettled,
  openFeed,
  placeEvents,
  readFeed,
  type ToldEvent,
} from "./event-feed.ts";

/** What the one webhook of an instance is called that has no name of its own. */
export const FIRST_WEBHOOK = "events";

/** Webhooks that an instance may have: each costs a request of its own for everything that happens. */
export const MOST_WEBHOOKS = 20;

/** What a webhook is told, and in which form. */
export interface WebhookChoice extends FeedSelection {
  /** Whether it is told why and how as well. */
  readonly isFull: boolean;
}

/** Where an instance wants its events told. */
export interface Webhook extends WebhookChoice {
  readonly name: string;
  readonly url: string;
  /** Failed attempts in a row. */
  readonly failures: number;
  readonly nextAttemptAt: Date;
}

/** A row of the log. */
export interface WebhookBatch {
  readonly id: number;
  readonly events: number;
  readonly state: "waiting" | "delivered" | "failed";
  readonly attempts: number;
  /** Of the last attempt: `status 200`, or why there was none. */
  readonly outcome: Sentence | null;
  readonly createdAt: Date;
  readonly finishedAt: Date | null;
}

const SECRET_PURPOSE = "webhook-secret";
const KEEP_DAYS = 30;
/** How long after its newest event, or a wish to send it once more, a batch is tried again; it is tried once in any case. */
const GIVE_UP_HOURS = 24;

/**
 * Sets a webhook of an instance, a new one or one that is there: events stored from now on are told.
 * @returns the secret that signs, of a webhook that is there already the one it has, unless it was sealed under a secret that
 *   is lost; undefined where the instance has as many as it may
 */
export async function addWebhook(
  db: Db,
  keyRing: KeyRing,
  instanceId: number,
  { name, url, kinds, campaigns, condition, isFull }: WebhookChoice & { readonly name: string; readonly url: string },
): Promise<string | undefined> {
  const signingSecret = randomBytes(24).toString("base64url");
  const sealed = seal(keyRing, SECRET_PURPOSE, signingSecret);
  await openFeed(db, instanceId);
  // What happened before it is not for it.
  await placeEvents(db, instanceId, 0);
  const [row] = await queryRows<{ secret_sealed: string }>(
    db,
    `insert into webhooks as webhook (instance_id, name, url, secret_sealed, kinds, campaigns, condition, is_full, position)
     select instance_id, $2, $3, $4, $5::smallint[], $6::bigint[], $7::jsonb, $8, position from event_feeds
     where instance_id = $1 and (select count(*) from webhooks where instance_id = $1 and name <> $2) < $9
     on conflict (instance_id, name) do update set url = excluded.url, kinds = excluded.kinds,
       campaigns = excluded.campaigns, condition = excluded.condition, is_full = excluded.is_full, failures = 0,
       next_attempt_at = excluded.next_attempt_at
     returning secret_sealed`,
    [
      ...[instanceId, name, url, sealed, kinds, campaigns],
      ...[condition === null ? null : JSON.stringify(condition), isFull, MOST_WEBHOOKS],
    ],
  );
  const kept = row && open(keyRing, SECRET_PURPOSE, row.secret_sealed);
  if (kept === undefined || kept.ok) return kept?.value.toString("utf8");
  await db("webhooks").where({ instance_id: instanceId, name }).update({ secret_sealed: sealed });
  return signingSecret;
}

/** As numbers: pg gives an array of bigint as texts. */
const CAMPAIGNS = "campaigns::float8[] as campaigns";
/** Without the credentials in front of its host (RFC 3986 §3.2.1). */
const SHOWN_URL = "regexp_replace(url, '^([^:]*:[/\\\\]*)[^/\\\\?#]*@', '\\1') as url";
const WEBHOOK_COLUMNS = `name, ${SHOWN_URL}, failures, next_attempt_at as "nextAttemptAt", kinds, ${CAMPAIGNS}, condition, is_full as "isFull"`;

export async function findWebhook(db: Db, instanceId: number, name = FIRST_WEBHOOK): Promise<Webhook | undefined> {
  return (await listWebhooks(db, instanceId)).find((webhook) => webhook.name === name);
}

/** By name. */
export function listWebhooks(db: Db, instanceId: number): Promise<Webhook[]> {
  return queryRows(db, `select ${WEBHOOK_COLUMNS} from webhooks where instance_id = $1 order by name`, [instanceId]);
}

/** Removes a webhook with its log and what it was still to tell. @returns false when there is none */
export async function removeWebhook(db: Db, instanceId: number, name = FIRST_WEBHOOK): Promise<boolean> {
  return db.transaction(async (transaction) => {
    const removed = await transaction("webhooks").where({ instance_id: instanceId, name }).delete();
    if (removed > 0) await closeUnheardFeed(transaction, instanceId);
    return removed > 0;
  });
}

/** The log, newest first. @param before only batches older than this id */
export async function listWebhookBatches(
  db: Db,
  instanceId: number,
  { limit, before }: { readonly limit: number; readonly before?: number },
  name = FIRST_WEBHOOK,
): Promise<WebhookBatch[]> {
  const query = db("webhook_batches")
    .where({ instance_id: instanceId, webhook: name })
    .orderBy("id", "desc")
    .limit(limit)
    .select("id", "events", "state", "attempts", "outcome", "created_at as createdAt", "finished_at as finishedAt");
  return before === undefined ? query : query.where("id", "<", before);
}

/** Sends a batch once more, whatever became of it. @returns false when the webhook has no such batch */
export async function replayWebhookBatch(
  db: Db,
  instanceId: number,
  batchId: number,
  name = FIRST_WEBHOOK,
): Promise<boolean> {
  return db.transaction(async (transaction) => {
    const rows = await queryRows(
      transaction,
      `update webhooks set failures = 0, next_attempt_at = now()
       where instance_id = $1 and name = $2
         and exists (select 1 from webhook_batches b where b.instance_id = $1 and b.webhook = $2 and b.id = $3) returning 1`,
      [instanceId, name, batchId],
    );
    if (rows.length === 0) return false;
    await queryRows(
      transaction,
      `update webhook_batches set state = 'waiting', attempts = 0, outcome = null, finished_at = null,
         give_up_at = now() + make_interval(hours => $1)
       where instance_id = $2 and id = $3`,
      [GIVE_UP_HOURS, instanceId, batchId],
    );
    return true;
  });
}

/** Removes what the log keeps no longer. */
export async function removeOldWebhookBatches(db: Db): Promise<void> {
  await queryRows(
    db,
    `delete from webhook_batches
     where state <> 'waiting' and created_at < now() - make_interval(days => $1) and ${onPresent(db)}`,
    [KEEP_DAYS],
  );
}

function unseal(keyRing: KeyRing, sealed: string): string {
  const opened = open(keyRing, SECRET_PURPOSE, sealed);
  if (!opened.ok) throw new Error("a webhook's secret was sealed under another secret");
  return opened.value.toString("utf8");
}

/** A webhook that one worker may serve until its lease runs out. */
export interface LeasedWebhook extends WebhookChoice {
  readonly instanceId: number;
  readonly instanceName: string;
  readonly timeZone: string;
  readonly name: string;
  readonly url: string;
  readonly signingSecret: string;
  readonly failures: number;
}

/**
 * @param lease.settleSeconds see `placeEvents`
 * @param lease.places what is served already: unless `troubled`, none that failed the last time, or that is in `slow`
 * @returns a webhook that is due and has something to tell, or undefined
 */
export async function leaseWebhook(
  db: Db,
  keyRing: KeyRing,
  lease: {
    readonly workerId: string;
    readonly leaseSeconds: number;
    readonly settleSeconds?: number;
    readonly places?: {
      readonly fullInstances: readonly number[];
      readonly troubled: boolean;
      readonly slow: readonly { readonly instanceId: number; readonly name: string }[];
    };
  },
): Promise<LeasedWebhook | undefined> {
  const { workerId, leaseSeconds, settleSeconds = 0 } = lease;
  const { fullInstances, troubled, slow } = lease.places ?? { fullInstances: [], troubled: true, slow: [] };
  const found = await queryRows<{ instance_id: number; name: string }>(
    db,
    `select w.instance_id, w.name from webhooks w
     where ${IS_DUE} and w.instance_id <> all($3::bigint[]) and ${onPresent(db, "w.instance_id")}
       and ($2 or w.failures = 0 and w.instance_id || ' ' || w.name <> all($4::text[]))
       and (exists (select 1 from webhook_batches b
           where b.instance_id = w.instance_id and b.webhook = w.name and b.state = 'waiting' and ${onPresent(db, "b.instance_id")})
         or exists (select 1 from webhook_events e
           where e.instance_id = w.instance_id and e.position > w.position and ${onPresent(db, "e.instance_id")})
         or exists (select 1 from webhook_events e
           where e.instance_id = w.instance_id and e.position is null and ${hasSettled("e", "$1")}
             and ${onPresent(db, "e.instance_id")}))
     order by w.next_attempt_at limit ${WEBHOOKS_AT_ONCE}`,
    [settleSeconds, troubled, fullInstances, slow.map(({ instanceId, name }) => `${instanceId} ${name}`)],
  );
  for (const { instance_id, name } of found) {
    const [row] = await queryRows<Omit<LeasedWebhook, "signingSecret"> & { sealed: string }>(
      db,
      `update webhooks set lease_owner = $1, lease_until = now() + make_interval(secs => $2)
       from instances i
       where i.id = $3 and webhooks.instance_id = $3 and webhooks.name = (
         select w.name from webhooks w where w.instance_id = $3 and w.name = $4 and ${IS_DUE} for update skip locked)
       returning i.id as "instanceId", i.name as "instanceName", i.time_zone as "timeZone", webhooks.name, url, failures,
         kinds, ${CAMPAIGNS}, condition, is_full as "isFull", secret_sealed as sealed`,
      [workerId, leaseSeconds, instance_id, name],
    );
    if (row === undefined) continue;
    const { sealed, ...webhook } = row;
    return { ...webhook, signingSecret: unseal(keyRing, sealed) };
  }
  return undefined;
}

const IS_DUE = "(w.lease_until is null or w.lease_until < now()) and w.next_attempt_at <= now()";
/** Looked at together: others may take some of them meanwhile. */
const WEBHOOKS_AT_ONCE = 20;

/** What is sent in one request. */
export interface WaitingBatch {
  readonly id: number;
  readonly body: string;
  readonly isPastTime: boolean;
}

/** A webhook whose next batch is to be sent. */
interface WebhookTurn {
  readonly instanceId: number;
  readonly name: string;
  /** See `placeEvents`. */
  readonly settleSeconds?: number;
}

/**
 * The batch that is next: one that waits, else a new one of what the feed has for this webhook. Events that were erased
 * meanwhile are left out.
 * @param mostEvents of a batch
 * @param writeBody makes the request's body of at least one event
 * @param whose an instance: its webhook without a name
 */
export async function nextWebhookBatch(
  db: Db,
  whose: number | WebhookTurn,
  mostEvents: number,
  writeBody: (events: readonly ToldEvent[], reading: Db) => string | Promise<string>,
): Promise<WaitingBatch | undefined> {
  const turn: WebhookTurn = typeof whose === "number" ? { instanceId: whose, name: FIRST_WEBHOOK } : whose;
  const { instanceId, name, settleSeconds = 0 } = turn;
  await placeEvents(db, instanceId, settleSeconds);
  return db.transaction(async (transaction) => {
    // Before its events and batches are touched, as whoever removes or changes it does.
    const webhook = await transaction("webhooks")
      .where({ instance_id: instanceId, name })
      .forNoKeyUpdate()
      .first("kinds", "campaigns", "condition", "position", transaction.raw("now() as now"));
    if (webhook === undefined) return undefined;
    const [waiting] = await queryRows<WaitingBatch>(
      transaction,
      `select id, body, give_up_at < now() as "isPastTime" from webhook_batches
       where instance_id = $1 and webhook = $2 and state = 'waiting' order by id limit 1`,
      [instanceId, name],
    );
    if (waiting !== undefined) return waiting;
    const { position, now } = webhook;
    const { events, through } = await readFeed(transaction, instanceId, webhook, {
      after: position,
      most: mostEvents,
      now,
    });
    await transaction("webhooks").where({ instance_id: instanceId, name }).update({ position: through });
    const newest = Math.max(...events.map(({ at }) => at.getTime()));
    if (events.length === 0) return undefined;
    // Counted from the event: behind a server that never answers, what waits would otherwise grow without end.
    const [row] = await queryRows<WaitingBatch>(
      transaction,
      `with added as (
         insert into webhook_batches (instance_id, webhook, body, events, give_up_at)
         values ($1, $2, $3, $4, $5::timestamptz + make_interval(hours => $6)) returning id, body, give_up_at
       )
       select id, body, give_up_at < now() as "isPastTime" from added`,
      [instanceId, name, await writeBody(events, transaction), events.length, new Date(newest), GIVE_UP_HOURS],
    );
    return row;
  });
}

/** What an attempt came to. */
export type WebhookAttempt =
  | { readonly state: "delivered" | "failed"; readonly outcome: Sentence }
  | { readonly state: "waiting"; readonly outcome: Sentence; readonly retryInSeconds: number };

/** A webhook that a worker has leased. */
interface HeldWebhook {
  readonly instanceId: number;
  readonly name: string;
  readonly workerId: string;
}

/** Stores the outcome of an attempt, and gives the webhook back. What was removed meanwhile stays removed. */
export async function settleWebhookBatch(
  db: Db,
  { instanceId, name, workerId }: HeldWebhook,
  batchId: number,
  attempt: WebhookAttempt,
): Promise<void> {
  const { state, outcome } = attempt;
  await db.transaction(async (transaction) => {
    await queryRows(
      transaction,
      `update webhooks set failures = case when $1 then 0 else failures + 1 end,
         next_attempt_at = now() + make_interval(secs => $2), lease_owner = null, lease_until = null
       where instance_id = $3 and name = $4 and lease_owner = $5`,
      [state === "delivered", state === "waiting" ? attempt.retryInSeconds : 0, instanceId, name, workerId],
    );
    await queryRows(
      transaction,
      `update webhook_batches set state = $1, outcome = $2::jsonb, attempts = attempts + 1,
         finished_at = ${state === "waiting" ? "null" : "now()"}
       where id = $3 and instance_id = $4`,
      [state, JSON.stringify(outcome), batchId, instanceId],
    );
  });
}

/** Gives a webhook back that had nothing to tell after all. */
export async function releaseWebhook(db: Db, { instanceId, name, workerId }: HeldWebhook): Promise<void> {
  await db("webhooks")
    .where({ instance_id: instanceId, name, lease_owner: workerId })
    .update({ lease_owner: null, lease_until: null });
}
