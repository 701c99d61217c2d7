import { hearNotices } from "../platform/postgres/notices.ts";
import type { ServiceContext } from "../platform/service.ts";
import { QUEUE_CHANNEL, readNotice } from "../store/mail/queue/queue.ts";

/** What the notices of the queue call for. */
interface QueueListener {
  /** There may be new mail of these instances. */
  onMail(instanceIds: "all" | readonly number[]): void;
  /** A batch or a destination may have been stopped, or a message changed. */
  onStop(): void;
}

/** Calls back on every notice. While its connection is lost, the worker's own poll serves. */
export function listenForMail(
  { openListenConnection, observe }: Pick<ServiceContext, "openListenConnection" | "observe">,
  { onMail, onStop }: QueueListener,
): { stop(): Promise<void> } {
  const onNotice = (payload?: string) => {
    const notice = payload === undefined ? undefined : readNotice(payload);
    if (notice?.kind !== "mail") onStop();
    if (notice?.kind !== "stop") onMail(notice?.instanceIds ?? "all");
  };
  return hearNotices(openListenConnection, QUEUE_CHANNEL, onNotice, (err) =>
    observe({ kind: "queue-notices-lost", level: "warn", err }),
  );
}
