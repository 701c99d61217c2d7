import { isNotified, type RecipientDsn } from "../../core/mail/dsn-parameters.ts";
import type { Transaction } from "../../platform/postgres/db.ts";
import { addReports, type NewReport } from "../../store/mail/queue/delivery-reports.ts";
import type { NewDelivery } from "../../store/mail/queue/queue.ts";
import type { ReportRequest } from "../../store/mail/sends/messages.ts";

/** A message that was queued. */
interface QueuedMessage {
  readonly instanceId: number;
  readonly messageId: number;
  readonly audience: {
    readonly addressees: readonly NewDelivery[];
    readonly leftOut: readonly { readonly recipient: string; readonly dsn?: RecipientDsn }[];
  };
  readonly dsn?: ReportRequest | undefined;
}

/** What a sender is told of somebody that nothing is sent to: an address that is invalid, or that unsubscribed. */
const LEFT_OUT = "550 5.7.1 the recipient takes no mail of this sender: invalid, or unsubscribed";

/**
 * Notes at the acceptance of messages what their senders may have to be told: of delays, should there be any, and of recipients
 * that nothing is sent to.
 * @param deliveryIds of each message, in the order of its addressees
 */
export async function noteReportRequests(
  transaction: Transaction,
  messages: readonly QueuedMessage[],
  deliveryIds: readonly (readonly number[])[],
): Promise<void> {
  const reports = messages.flatMap((message, index) =>
    message.dsn === undefined ? [] : [...delaysOf(message, deliveryIds[index]!), ...failuresOf(message)],
  );
  await addReports(transaction, reports);
}

function delaysOf({ instanceId, messageId, audience }: QueuedMessage, ids: readonly number[]): NewReport[] {
  return audience.addressees.flatMap(({ recipient, dsn = {} }, index) => {
    if (!isNotified(dsn, "delay")) return [];
    const delay = { kind: "delay", state: "watching", action: "delayed", words: "" } as const;
    return [{ ...delay, instanceId, messageId, deliveryId: ids[index]!, recipient, dsn }];
  });
}

function failuresOf({ instanceId, messageId, audience }: QueuedMessage): NewReport[] {
  return audience.leftOut.flatMap(({ recipient, dsn = {} }) => {
    if (!isNotified(dsn, "failure")) return [];
    const failure = { kind: "failure", state: "due", action: "failed", words: LEFT_OUT } as const;
    return [{ ...failure, instanceId, messageId, deliveryId: null, recipient, dsn }];
  });
}
