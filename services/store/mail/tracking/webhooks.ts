import { randomBytes } from "node:crypto";
import type { KeyRing } from "../../../core/key-ring.ts";
import { open, seal } from "../../../core/secret-box.ts";
import type { Sentence } from "../../../core/sentences.ts";
import { type Db, queryRows, type Transaction } from "../../../platform/postgres/db.ts";

/** Where an instance wants its events told. */
export interface Webhook {
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
 * Sets the webhook of an instance: events stored from now on are told.
 * @returns the secret that signs; of a webhook that only changes its URL the one it has
 */
export async function setWebhook(db: Db, keyRing: KeyRing, instanceId: number, url: string): Promise<string> {
  const signingSecret = randomBytes(24).toString("base64url");
  const [row] = await queryRows<{ secret_sealed: string }>(
    db,
    `insert into webhooks (instance_id, url, secret_sealed) values ($1, $2, $3)
     on conflict (instance_id) do update set url = excluded.url, failures = 0, next_attempt_at = now()
     returning secret_sealed`,
    [instanceId, url, seal(keyRing, SECRET_PURPOSE, signingSecret)],
  );
  return unseal(keyRing, row!.secret_sealed);
}

export async function findWebhook(db: Db, instanceId: number): Promise<Webhook | undefined> {
  return db("webhooks").where({ instance_id: instanceId }).first("url", "failures", "next_attempt_at as nextAttemptAt");
}

/** Removes a webhook with its log and what it was still to tell. @returns false when there is none */
export async function removeWebhook(db: Db, instanceId: number): Promise<boolean> {
  return (await db("webhooks").where({ instance_id: instanceId }).delete()) > 0;
}

/** The log, newest first. @param before only batches older than this id */
export async function listWebhookBatches(
  db: Db,
  instanceId: number,
  { limit, before }: { readonly limit: number; readonly before?: number },
): Promise<WebhookBatch[]> {
  const query = db("webhook_batches")
    .where({ instance_id: instanceId })
    .orderBy("id", "desc")
    .limit(limit)
    .select("id", "events", "state", "attempts", "outcome", "created_at as createdAt", "finished_at as finishedAt");
  return before === undefined ? query : query.where("id", "<", before);
}

/** Sends a batch once more, whatever became of it. @returns false when the instance has no such batch */
export async function replayWebhookBatch(db: Db, instanceId: number, batchId: number): Promise<boolean> {
  return db.transaction(async (transaction) => {
    const rows = await queryRows(
      transaction,
      `update webhooks set failures = 0, next_attempt_at = now()
       where instance_id = $1 and exists (select from webhook_batches b where b.instance_id = $2 and b.id = $3) returning 1`,
      [instanceId, instanceId, batchId],
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
    "delete from webhook_batches where state <> 'waiting' and created_at < now() - make_interval(days => $1)",
    [KEEP_DAYS],
  );
}

/** Keeps a webhook from being removed meanwhile; before its events and batches are touched, as their removal does. */
async function holdWebhook(transaction: Transaction, instanceId: number): Promise<void> {
  await transaction.raw("select from webhooks where instance_id = ? for key share", [instanceId]);
}

function unseal(keyRing: KeyRing, sealed: string): string {
  const opened = open(keyRing, SECRET_PURPOSE, sealed);
  if (!opened.ok) throw new Error("a webhook's secret was sealed under another secret");
  return opened.value.toString("utf8");
}

/** A webhook that one worker may serve until its lease runs out. */
export interface LeasedWebhook {
  readonly instanceId: number;
  readonly instanceName: string;
  readonly timeZone: string;
  readonly url: string;
  readonly signingSecret: string;
  readonly failures: number;
}

/** @returns a webhook that is due and has something to tell, or undefined */
export async function leaseWebhook(
  db: Db,
  keyRing: KeyRing,
  { workerId, leaseSeconds }: { readonly workerId: string; readonly leaseSeconds: number },
): Promise<LeasedWebhook | undefined> {
  const [row] = await queryRows<Omit<LeasedWebhook, "signingSecret"> & { sealed: string }>(
    db,
    `update webhooks set lease_owner = $1, lease_until = now() + make_interval(secs => $2)
     from instances i
     where i.id = webhooks.instance_id and webhooks.instance_id = (
       select w.instance_id from webhooks w
       where (w.lease_until is null or w.lease_until < now()) and w.next_attempt_at <= now()
         and (exists (select from webhook_events e where e.instance_id = w.instance_id)
           or exists (select from webhook_batches b where b.instance_id = w.instance_id and b.state = 'waiting'))
       order by w.next_attempt_at limit 1 for update skip locked)
     returning i.id as "instanceId", i.name as "instanceName", i.time_zone as "timeZone", url, failures,
       secret_sealed as sealed`,
    [workerId, leaseSeconds],
  );
  if (row === undefined) return undefined;
  const { sealed, ...webhook } = row;
  return { ...webhook, signingSecret: unseal(keyRing, sealed) };
}

/** An event as a webhook tells it. */
export interface WebhookEvent {
  readonly kind: number;
  readonly at: Date;
  readonly machine: boolean;
  readonly email: string;
  readonly campaignName: string;
  readonly campaignNumid: number | null;
  readonly eeid: string | null;
}

/** What is sent in one request. */
export interface WaitingBatch {
  readonly id: number;
  readonly body: string;
  readonly isPastTime: boolean;
}

/**
 * The batch that is next: one that waits, else a new one of the events that wait. Events that were erased meanwhile
 * are left out.
 * @param mostEvents of a batch
 * @param writeBody makes the request's body of at least one event
 */
export async function nextWebhookBatch(
  db: Db,
  instanceId: number,
  mostEvents: number,
  writeBody: (events: readonly WebhookEvent[]) => string,
): Promise<WaitingBatch | undefined> {
  return db.transaction(async (transaction) => {
    await holdWebhook(transaction, instanceId);
    const [waiting] = await queryRows<WaitingBatch>(
      transaction,
      `select id, body, give_up_at < now() as "isPastTime" from webhook_batches
       where instance_id = $1 and state = 'waiting' order by id limit 1`,
      [instanceId],
    );
    if (waiting !== undefined) return waiting;
    const events = await queryRows<WebhookEvent>(
      transaction,
      `with taken as (
         delete from webhook_events where instance_id = $1 and serial in
           (select serial from webhook_events where instance_id = $2 order by serial limit $3)
         returning at, event_id
       )
       select e.kind, e.at, e.machine, coalesce(contacts.email, e.email, '') as email,
         coalesce(campaigns.name, '') as "campaignName", e.campaign_numid as "campaignNumid", e.eeid
       from taken join events e on e.instance_id = $4 and e.at = taken.at and e.id = taken.event_id
       left join contacts on contacts.instance_id = e.instance_id and contacts.id = e.contact_id
       left join campaigns on campaigns.instance_id = e.instance_id and campaigns.numid = e.campaign_numid
       order by e.at, e.id`,
      [instanceId, instanceId, mostEvents, instanceId],
    );
    const newest = events.at(-1);
    if (newest === undefined) return undefined;
    // Counted from the event: behind a server that never answers, what waits would otherwise grow without end.
    const [row] = await queryRows<WaitingBatch>(
      transaction,
      `insert into webhook_batches (instance_id, body, events, give_up_at)
       values ($1, $2, $3, $4::timestamptz + make_interval(hours => $5)) returning id, body, give_up_at < now() as "isPastTime"`,
      [instanceId, writeBody(events), events.length, newest.at, GIVE_UP_HOURS],
    );
    return row;
  });
}

/** What an attempt came to. */
export type WebhookAttempt =
  | { readonly state: "delivered" | "failed"; readonly outcome: Sentence }
  | { readonly state: "waiting"; readonly outcome: Sentence; readonly retryInSeconds: number };

/** Stores the outcome of an attempt, and gives the webhook back. What was removed meanwhile stays removed. */
export async function settleWebhookBatch(
  db: Db,
  {
    instanceId,
    batchId,
    workerId,
  }: { readonly instanceId: number; readonly batchId: number; readonly workerId: string },
  attempt: WebhookAttempt,
): Promise<void> {
  const { state, outcome } = attempt;
  await db.transaction(async (transaction) => {
    await queryRows(
      transaction,
      `update webhooks set failures = case when $1 then 0 else failures + 1 end,
         next_attempt_at = now() + make_interval(secs => $2), lease_owner = null, lease_until = null
       where instance_id = $3 and lease_owner = $4`,
      [state === "delivered", state === "waiting" ? attempt.retryInSeconds : 0, instanceId, workerId],
    );
    await queryRows(
      transaction,
      `update webhook_batches set state = $1, outcome = $2::jsonb, attempts = attempts + 1,
         finished_at = case when $3 then null else now() end
       where id = $4 and instance_id = $5`,
      [state, JSON.stringify(outcome), state === "waiting", batchId, instanceId],
    );
  });
}

/** Gives a webhook back that had nothing to tell after all. */
export async function releaseWebhook(db: Db, instanceId: number, workerId: string): Promise<void> {
  await db("webhooks")
    .where({ instance_id: instanceId, lease_owner: workerId })
    .update({ lease_owner: null, lease_until: null });
}
