import type { ServiceContext } from "../platform/service.ts";
import { QUEUE_CHANNEL, readNotice } from "../store/mail/queue/queue.ts";
import { WakeUp } from "./wake-up.ts";

const RECONNECT_MS = 2_000;

/** What the notices of the queue call for. */
export interface QueueListener {
  /** There may be new mail of these instances. */
  onMail(instanceIds: "all" | readonly number[]): void;
  /** A batch or a destination may have been stopped, or a message changed. */
  onStop(): void;
}

/** Calls back on every notice. A lost connection is opened again; meanwhile the worker's own poll serves. */
export function listenForMail(
  context: Pick<ServiceContext, "openListenConnection" | "observe">,
  { onMail, onStop }: QueueListener,
): { stop(): Promise<void> } {
  const wakeUp = new WakeUp();
  let stopping = false;
  const running = listen();
  return {
    stop: async () => {
      stopping = true;
      wakeUp.ring();
      await running;
    },
  };

  async function listen(): Promise<void> {
    while (!stopping) {
      try {
        await listenOnce();
      } catch (error) {
        context.observe({ kind: "queue-notices-lost", level: "warn", err: error });
      }
      if (!stopping) await wakeUp.wait(RECONNECT_MS);
    }
  }

  async function listenOnce(): Promise<void> {
    const client = await context.openListenConnection();
    let isLost = false;
    const lose = () => {
      isLost = true;
      wakeUp.ring();
    };
    try {
      client.once("end", lose);
      client.on("notification", ({ payload = "" }) => {
        const notice = readNotice(payload);
        if (notice.kind === "stop") onStop();
        else onMail(notice.instanceIds);
      });
      await client.query(`listen ${QUEUE_CHANNEL}`);
      onStop();
      onMail("all");
      while (!stopping && !isLost) await wakeUp.wait(60_000);
    } finally {
      client.off("end", lose);
      await client.end().catch(() => {});
    }
  }
}
