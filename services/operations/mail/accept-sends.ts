import { randomUUID } from "node:crypto";
import { traced } from "../../platform/observability/tracing.ts";
import type { Transaction } from "../../platform/postgres/db.ts";
import type { RecipientAddress } from "../../store/mail/contacts/recipients.ts";
import { addBatches, touchBatch } from "../../store/mail/sends/batches.ts";
import { addMessages, type MessageContent } from "../../store/mail/sends/messages.ts";
import { gatherAudiences, queueAudiences, type SendCopy } from "./audience.ts";

/** One call that sends: an operation of the API, or a message submitted by SMTP. */
export interface Send {
  readonly instanceId: number;
  readonly campaignNumid: number;
  /** `api`, `smtp`, or the console user's login. */
  readonly creator: string;
  readonly content: MessageContent;
  /** Domain of the From field as A-labels: whose DKIM key signs. */
  readonly senderDomain: string;
  /** An address given twice gets one message. */
  readonly recipients: readonly RecipientAddress[];
  readonly copies: readonly SendCopy[];
  /** Keep the exact octets that each recipient gets. */
  readonly archive: boolean;
  /** An earlier batch of the same instance (see `findBatch`) that this send joins. */
  readonly reuseEeid?: string | undefined;
  /** What it follows from; `acceptSend` finds it out, where traces are made. */
  readonly traceParent?: string | undefined;
}

export interface AcceptedSend {
  readonly eeid: string;
  /** Messages that will be sent, copies included; invalid and unsubscribed contacts are left out. */
  readonly sent: number;
}

/**
 * Accepts a send: recipients become contacts, and batch, message, partitions, deliveries and events are stored.
 * Durable, and visible to the delivery workers, when the caller's transaction commits: then `announceMail`, and answer.
 * An invalid contact gets a `not-sent` event and no message; one that unsubscribed from the campaign gets neither,
 * recipient or copy.
 * @throws UnknownBatch when `reuseEeid` is no batch of the instance, or none any more
 */
export async function acceptSend(transaction: Transaction, send: Send): Promise<AcceptedSend> {
  return (await acceptSends(transaction, [traced(send)]))[0]!;
}

/** There is nothing to join. Who looks before (`findBatch`) meets it where the batch's time ended in between. */
export class UnknownBatch extends Error {}

/** As `acceptSend`, several at once, in as many statements as one takes. */
export async function acceptSends(transaction: Transaction, sends: readonly Send[]): Promise<AcceptedSend[]> {
  const { eeids, at } = await openBatches(transaction, sends);
  const audiences = await gatherAudiences(transaction, sends);
  const addressed = sends.map((send, index) => ({ ...send, eeid: eeids[index]!, audience: audiences[index]! }));
  const going = addressed.filter(({ audience }) => audience.addressees.length > 0);
  const ids = await addMessages(transaction, going);
  const messageIds = new Map(going.map((message, index) => [message, ids[index]!]));
  await queueAudiences(
    transaction,
    addressed.map((message) => ({ ...message, messageId: messageIds.get(message) })),
    at,
  );
  return addressed.map(({ eeid, audience }) => ({ eeid, sent: audience.addressees.length }));
}

/** @returns the batches of the sends, and the moment of acceptance by the database's clock */
async function openBatches(
  transaction: Transaction,
  sends: readonly Send[],
): Promise<{ readonly eeids: readonly string[]; readonly at: Date }> {
  const eeids = sends.map(({ reuseEeid }) => reuseEeid ?? randomUUID());
  const fresh = sends.flatMap((send, index) =>
    send.reuseEeid === undefined ? [{ ...send, eeid: eeids[index]! }] : [],
  );
  let at = await addBatches(transaction, fresh);
  const joined = sends.flatMap(({ reuseEeid, instanceId }) =>
    reuseEeid === undefined ? [] : { reuseEeid, instanceId },
  );
  // In one order, as all who lock several rows do.
  for (const { reuseEeid, instanceId } of joined.sort((a, b) => (a.reuseEeid < b.reuseEeid ? -1 : 1))) {
    at = await touchBatch(transaction, instanceId, reuseEeid);
    if (at === undefined) throw new UnknownBatch(`${reuseEeid} is no batch of instance ${instanceId}`);
  }
  return { eeids, at: at! };
}
