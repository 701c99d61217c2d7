import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type { Db } from "../../services/platform/postgres/db.ts";
import { ensureEventMonths } from "../../services/store/mail/events/event-partitions.ts";
import { haveLookedAt } from "../../services/store/mail/queue/mail-work.ts";
import { announceMail } from "../../services/store/mail/queue/queue.ts";
import { addMessages, type StoredTemplate } from "../../services/store/mail/sends/messages.ts";
import type { ProcessorTime } from "./mail-processor-time.ts";

/** What a message costs, with so many recipients queued. */
export interface QueueCost {
  /** When the worker began. */
  readonly queued: number;
  /** Milliseconds of processor time for a message. */
  readonly workerMs: number;
  readonly postgresMs: number;
  /** Resident memory of the worker at its most, in MiB. */
  readonly workerMiB: number;
}

export interface QueueLoad {
  readonly instanceId: number;
  readonly campaignNumid: number;
  readonly senderDomain: string;
  readonly template: StoredTemplate;
}

/** A worker under measure. */
export interface MeasuredWorker {
  readonly pid: number;
  readonly seconds: ProcessorTime;
  readonly postgresSeconds: ProcessorTime;
}

/** As `store/queue` cuts them. */
const RECIPIENTS_PER_PARTITION = 100;
const DESTINATIONS = 20;
/**
 * Before it is measured, a worker delivers so many: code is compiled, connections are made, and what was written in bulk has
 * been read for the first time.
 */
const WARM_UP = 20_000;
const MEASURED = 10_000;
const POLL_MS = 500;

/** Has a worker deliver with so many recipients queued; where they are fewer than are measured, again and again. */
export async function measureQueue(
  db: Db,
  worker: MeasuredWorker,
  { load, queued }: { readonly load: QueueLoad; readonly queued: number },
): Promise<QueueCost> {
  let left = 0;
  let batch = "";
  const spent = { worker: 0, postgres: 0, messages: 0 };
  for (let delivered = 0; delivered < WARM_UP + MEASURED; ) {
    if (left === 0) {
      batch = await fillQueue(db, load, queued);
      left = queued;
    }
    const before = { worker: worker.seconds() ?? 0, postgres: worker.postgresSeconds() ?? 0 };
    const isWarm = delivered >= WARM_UP;
    const stretch = await untilFinished(db, batch, Math.min(left, isWarm ? MEASURED : WARM_UP));
    left = Math.max(0, left - stretch);
    delivered += stretch;
    if (!isWarm) continue;
    spent.worker += (worker.seconds() ?? 0) - before.worker;
    spent.postgres += (worker.postgresSeconds() ?? 0) - before.postgres;
    spent.messages += stretch;
  }
  const status = readFileSync(`/proc/${worker.pid}/status`, "utf8");
  return {
    queued,
    workerMs: (spent.worker * 1000) / spent.messages,
    postgresMs: (spent.postgres * 1000) / spent.messages,
    workerMiB: Number(/^VmHWM:\s+(\d+)/m.exec(status)?.[1]) / 1024,
  };
}

/** @returns how many were delivered, at least as many as asked for */
async function untilFinished(db: Db, batch: string, recipients: number): Promise<number> {
  const before = await countFinished(db, batch);
  await announceMail(db);
  for (;;) {
    await sleep(POLL_MS);
    const finished = (await countFinished(db, batch)) - before;
    if (finished >= recipients) return finished;
  }
}

/** By partition, and of the batch alone: to count more would cost more than to deliver it. */
async function countFinished(db: Db, batch: string): Promise<number> {
  const { rows } = await db.raw(
    "select coalesce(sum(recipients), 0)::int as sum from partitions where eeid = ? and state = 'finished'",
    [batch],
  );
  return rows[0].sum;
}

/**
 * Queues recipients as one batch: the rows that a `send_many` or a campaign would write, by few statements, since what
 * is measured here is the taking out and not the putting in.
 * @returns the batch
 */
async function fillQueue(db: Db, load: QueueLoad, recipients: number): Promise<string> {
  const eeid = randomUUID();
  const { instanceId, campaignNumid, senderDomain, template } = load;
  const numbered = `generate_series(0, ${recipients - 1}) as n`;
  const partition = `n / ${RECIPIENTS_PER_PARTITION}`;
  const destination = `'d' || ${partition} % ${DESTINATIONS} || '.example.net'`;
  const recipient = `'q' || n || '@' || ${destination}`;
  await ensureEventMonths(db, [new Date()]);
  await db.transaction(async (transaction) => {
    const batch = { eeid, instance_id: instanceId, campaign_numid: campaignNumid, creator: "bench" };
    await transaction("batches").insert(batch);
    const content = { kind: "template" as const, template, attachments: [] };
    const message = { instanceId, eeid, campaignNumid, senderDomain, archive: false, content };
    const [messageId] = await addMessages(transaction, [message]);
    await transaction.raw(
      `insert into contacts (instance_id, email, email_key)
       select ?, address, address from (select ${recipient} as address from ${numbered}) addresses
       on conflict do nothing`,
      [instanceId],
    );
    const { rows } = await transaction.raw("select coalesce(max(id), 0)::int + 1 as first from partitions");
    const partitionId = `${rows[0].first} + ${partition}`;
    await transaction.raw(
      `insert into partitions (id, instance_id, eeid, message_id, destination, recipients) overriding system value
       select ${partitionId}, ?, ?, ?, min(${destination}), count(*) from ${numbered} group by ${partition}`,
      [instanceId, eeid, messageId!],
    );
    await transaction.raw("select setval('partitions_id_seq', (select max(id) from partitions))");
    await transaction.raw(
      `with queued as (
         insert into deliveries (instance_id, partition_id, contact_id, role, recipient, personal)
         select instance_id, ${partitionId}, contacts.id, 'to', email,
           jsonb_build_object('name', '', 'tags', jsonb_build_object('NOMBRE', n::text))
         from ${numbered} join contacts on instance_id = ? and email_key = ${recipient}
         returning id, contact_id
       )
       insert into events (instance_id, at, kind, contact_id, campaign_numid, delivery_id, eeid)
       select ?, now(), 1, contact_id, ?, id, ? from queued`,
      [instanceId, instanceId, campaignNumid, eeid],
    );
    await haveLookedAt(transaction, [instanceId]);
  });
  return eeid;
}
