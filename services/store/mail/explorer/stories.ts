import type { AttemptPath } from "../../../core/mail/delivery-attempt.ts";
import { ANY_SOURCE, SYSTEM_SOURCE } from "../../../core/mail/queue/destination-queue.ts";
import type { Sentence } from "../../../core/sentences.ts";
import { type Db, queryRows } from "../../../platform/postgres/db.ts";
import { type EventKind, eventKindOf } from "../events/event-kinds.ts";
import type { PacedBy } from "../queue/queue-leases.ts";

/** An attempt as it is told. */
export interface ToldAttempt {
  /** When it ended. */
  readonly at: Date;
  readonly attempt: number;
  readonly outcome: "delivered" | "deferred" | "bounced";
  readonly durationMs: number;
  /** The step of the session that failed; empty where none did. */
  readonly stage: string;
  /** 0: nothing was replied. */
  readonly code: number;
  readonly status: string;
  readonly reason: string;
  readonly reply: string;
  /** Null: there was nobody to turn to. */
  readonly path: AttemptPath | null;
}

/** The attempts of a delivery, oldest first, as far as they are kept. */
export async function listAttempts(db: Db, instanceId: number, deliveryId: number): Promise<ToldAttempt[]> {
  return queryRows<ToldAttempt>(
    db,
    `select a.at, a.attempt, r.outcome, a.duration_ms as "durationMs", r.stage, r.code, r.status, r.reason,
       coalesce(a.reply, r.words) as reply,
       case when p.id is not null then jsonb_build_object('exchanger', p.exchanger, 'address', p.address, 'source', p.source,
         'tls', p.tls, 'cipher', p.cipher, 'certificate', p.certificate, 'policy', p.policy) end as path
     from delivery_attempts a
       join attempt_results r on r.id = a.result_id and r.instance_id = $1
       left join attempt_paths p on p.id = a.path_id and p.instance_id = $1
     where a.delivery_id = $2 and a.instance_id = $1 order by a.at`,
    [instanceId, deliveryId],
  );
}

/** What happened to a message beside its attempts. */
export interface ToldEvent {
  readonly at: Date;
  readonly kind: EventKind;
  readonly machine: boolean;
  readonly detail: Readonly<Record<string, unknown>> | null;
}

/** Events of a delivery, oldest first: of its contact, or of its batch where it is a copy. */
export async function listDeliveryEvents(db: Db, instanceId: number, deliveryId: number): Promise<ToldEvent[]> {
  const rows = await queryRows<Omit<ToldEvent, "kind"> & { kind: number }>(
    db,
    `select e.at, e.kind, e.machine, e.detail
     from (select d.id, d.contact_id, p.eeid from deliveries d
         join partitions p on p.id = d.partition_id and p.instance_id = $1
       where d.id = $2 and d.instance_id = $1) own
       cross join lateral (
         select * from events where instance_id = $1 and contact_id = own.contact_id and delivery_id = own.id
         union all
         select * from events where instance_id = $1
           and own.contact_id is null and contact_id is null and eeid = own.eeid and delivery_id = own.id
       ) e order by e.at, e.id`,
    [instanceId, deliveryId],
  );
  return rows.map(({ kind, ...event }) => ({ ...event, kind: eventKindOf(kind) }));
}

/** What a message waits for. */
export interface Waiting {
  /** Somebody is sending it at this moment. */
  readonly isLeased: boolean;
  /** Since when its batch is paused, or its instance held; why, where a campaign's runner, a guard or a person said so. */
  readonly pausedAt: Date | null;
  readonly pauseReason: Sentence | null;
  /** Since when an operator holds its destination. */
  readonly heldAt: Date | null;
  /** Until when its destination is left alone, by everybody or from the source that it was tried from last, and why. */
  readonly backedOffUntil: Date | null;
  readonly backOffReason: string | null;
  /** Until when it waits for leave to send, by the pace of its provider or by a plan of ours, and of which provider. */
  readonly pacedUntil: Date | null;
  readonly pacedBy: PacedBy | null;
  /** Its exact octets are kept. */
  readonly isArchived: boolean;
}

export async function readWaiting(db: Db, instanceId: number, deliveryId: number): Promise<Waiting | undefined> {
  const [row] = await queryRows<OwnWaiting>(
    db,
    `select p.state = 'leased' as "isLeased", coalesce(b.held_at, g.held_at) as "pausedAt",
       coalesce((select s.pause_reason from campaign_sends s
         where s.instance_id = $1 and s.eeid = p.eeid and s.paused_at is not null limit 1), g.held_reason) as "pauseReason",
       paced.due_at as "pacedUntil", paced.paced_by as "pacedBy",
       exists (select 1 from archived_messages a where a.delivery_id = d.id and a.instance_id = $1) as "isArchived",
       p.destination, (select w.source from delivery_attempts a
         join attempt_paths w on w.id = a.path_id and w.instance_id = $1
         where a.delivery_id = d.id and a.instance_id = $1 order by a.at desc limit 1) as source
     from deliveries d
       join partitions p on p.id = d.partition_id and p.instance_id = $1
       join batches b on b.eeid = p.eeid and b.instance_id = $1
       left join instance_guards g on g.instance_id = $1
       left join lateral (
         select p.due_at, p.paced_by where p.state = 'deferred' and p.due_at > now() and p.paced_by is not null
       ) paced on true
     where d.id = $2 and d.instance_id = $1`,
    [instanceId, deliveryId],
  );
  if (row === undefined) return undefined;
  const { destination, source, ...waiting } = row;
  return { ...waiting, ...(await readDestination(db, destination, source || SYSTEM_SOURCE)) };
}

type DestinationWaiting = Pick<Waiting, "heldAt" | "backedOffUntil" | "backOffReason">;
type OwnWaiting = Omit<Waiting, "heldAt" | "backedOffUntil" | "backOffReason"> & {
  readonly destination: string;
  /** That it was tried from last; empty: the system's choice. */
  readonly source: string | null;
};

async function readDestination(db: Db, destination: string, source: string): Promise<DestinationWaiting> {
  const [row] = await queryRows<DestinationWaiting>(
    db,
    `select h.held_at as "heldAt", o.until as "backedOffUntil", o.reason as "backOffReason"
     from (values ($1::text)) as of (destination)
       left join destination_holds h on h.destination = of.destination
       left join lateral (
         select until, reason from destination_backoffs
         where destination = of.destination and until > now() and source in ($2, $3) order by until desc limit 1
       ) o on true`,
    [destination, ANY_SOURCE, source],
  );
  return row!;
}
