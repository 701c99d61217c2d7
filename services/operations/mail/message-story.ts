import type { Db } from "../../platform/postgres/db.ts";
import { type FoundMessage, siftDeliveries } from "../../store/mail/explorer/found-messages.ts";
import {
  listAttempts,
  listDeliveryEvents,
  readWaiting,
  type ToldAttempt,
  type ToldEvent,
  type Waiting,
} from "../../store/mail/explorer/stories.ts";
import {
  listReturnedReports,
  type ReturnedReport,
  readReturnedReport,
} from "../../store/mail/inbound/returned-reports.ts";

/** What happened to a message, or that nothing more will: somebody took it back, or its recipient is not mailed any more. */
type StoryEvent = ToldEvent | (Omit<ToldEvent, "kind"> & { readonly kind: "cancelled" });

/** All that is known of one message to one recipient. */
export interface MessageStory {
  readonly message: FoundMessage;
  readonly attempts: readonly ToldAttempt[];
  /** Oldest first. */
  readonly events: readonly StoryEvent[];
  readonly waiting: Waiting;
  readonly reports: readonly ReturnedReport[];
}

/** @returns undefined when the instance has no such delivery, or does not keep it any more */
export async function readMessageStory(
  db: Db,
  instanceId: number,
  deliveryId: number,
): Promise<MessageStory | undefined> {
  const [message] = await siftDeliveries(db, instanceId, [deliveryId], {});
  const waiting = message && (await readWaiting(db, instanceId, deliveryId));
  if (message === undefined || waiting === undefined) return undefined;
  const attempts = await listAttempts(db, instanceId, deliveryId);
  const events = await listDeliveryEvents(db, instanceId, deliveryId);
  const reports = await listReturnedReports(db, deliveryId);
  return { message, attempts, events: [...events, ...cancellationOf(message)].sort(byMoment), waiting, reports };
}

/**
 * The octets of what came back about a message, as they were stored.
 * @param of.reportId as the message's story has it
 * @returns undefined when the instance has no such delivery, or nothing such came back about it, or it is kept no longer
 */
export async function readMessageReport(
  db: Db,
  instanceId: number,
  of: { readonly deliveryId: number; readonly reportId: number },
): Promise<Buffer | undefined> {
  const [message] = await siftDeliveries(db, instanceId, [of.deliveryId], {});
  return message && readReturnedReport(db, of.deliveryId, of.reportId);
}

const byMoment = (one: StoryEvent, other: StoryEvent) => one.at.getTime() - other.at.getTime();

/** A cancellation is no event of the contact: the delivery itself has it. */
function cancellationOf({ state, finishedAt }: FoundMessage): StoryEvent[] {
  if (state !== "cancelled" || finishedAt === null) return [];
  return [{ at: finishedAt, kind: "cancelled", machine: false, detail: null }];
}
