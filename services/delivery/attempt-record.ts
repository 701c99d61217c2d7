import type { BounceReason } from "../core/mail/bounce/reason.ts";
import type { AttemptPath } from "../core/mail/delivery-attempt.ts";
import { isNotified } from "../core/mail/dsn-parameters.ts";
import type { TlsSession } from "../core/mail/reports/tls-session.ts";
import type { DeliveryOutcome } from "../store/mail/queue/deliveries.ts";
import type { DueDelivery, LeasedPartition } from "../store/mail/queue/queue-leases.ts";
import { type AttemptResult, type Outcome, replyOf } from "./decide.ts";

/** An attempt at a recipient, as it is to be stored. */
interface EndedAttempt {
  readonly result: AttemptResult;
  readonly outcome: Outcome;
  /** By the database's clock. */
  readonly endedAt: Date;
  /** For how long the far side and the DNS had the turn. */
  readonly durationMs: number;
  /** Undefined where there was nobody to turn to. */
  readonly path: AttemptPath | undefined;
  /** Sessions that were opened, or failed, since the last outcome: for reports about TLS. */
  readonly tlsSessions: readonly TlsSession[];
  /** What left, if it is to be kept. */
  readonly archived?: DeliveryOutcome["archived"];
  /** It left from a source that is new. */
  readonly warmUp?: DeliveryOutcome["warmUp"];
}

/** What is stored of an attempt: what becomes of the recipient, and what who submitted the message is told. */
export function recordOf(
  partition: LeasedPartition,
  delivery: DueDelivery,
  { result, outcome, endedAt, durationMs, path, tlsSessions, archived, warmUp }: EndedAttempt,
): DeliveryOutcome {
  const { isReport } = partition.message;
  return {
    instanceId: partition.instanceId,
    deliveryId: delivery.id,
    recipient: delivery.recipient,
    attempts: delivery.attempts + 1,
    reply: outcome.words,
    isReport,
    attempt: { endedAt, durationMs, ...replyOf(result), reason: reasonOf(outcome), path },
    ...(tlsSessions.length > 0 ? { tlsSessions } : {}),
    ...(warmUp !== undefined && outcome.kind === "delivered" ? { warmUp } : {}),
    ...consequences(outcome, { archived, isReport }),
    ...reportOn(partition, delivery, result, outcome),
  };
}

/** The sender of a message is no contact: what becomes of a report to it is nobody's event. */
function consequences(
  outcome: Outcome,
  { archived, isReport }: Pick<EndedAttempt, "archived"> & { readonly isReport: boolean },
): Pick<DeliveryOutcome, "state" | "retryInSeconds" | "bounce" | "archived"> {
  const kept = archived === undefined ? {} : { archived };
  switch (outcome.kind) {
    case "delivered":
      return { state: "delivered", ...kept };
    case "deferred":
      return { state: "queued", retryInSeconds: outcome.retryInMs / 1000 };
    case "bounced": {
      const { hard, reason } = outcome.bounceClass;
      const bounce = { hard, detail: { reason, reply: outcome.words } };
      return { state: "refused", ...(isReport ? {} : { bounce }), ...kept };
    }
  }
}

function reportOn(
  { instanceId, message }: LeasedPartition,
  delivery: DueDelivery,
  result: AttemptResult,
  { kind, words }: Outcome,
): Pick<DeliveryOutcome, "report"> {
  if (!message.isReportedOn) return {};
  const told = kind === "bounced" ? FAILURE : kind === "delivered" && !tells(result) ? RELAY : undefined;
  if (told === undefined || !isNotified(delivery.dsn, told.kind)) return {};
  const { id: deliveryId, recipient, dsn } = delivery;
  return { report: { ...told, state: "due", instanceId, messageId: message.id, deliveryId, recipient, dsn, words } };
}

/** RFC 3461 §5.2.1, §5.2.2 */
const FAILURE = { kind: "failure", action: "failed" } as const;
const RELAY = { kind: "success", action: "relayed" } as const;

function tells(result: AttemptResult): boolean {
  return result.kind === "accepted" && result.tells === true;
}

function reasonOf(outcome: Outcome): BounceReason | "" {
  if (outcome.kind === "delivered") return "";
  return outcome.kind === "deferred" ? outcome.reason : outcome.bounceClass.reason;
}
