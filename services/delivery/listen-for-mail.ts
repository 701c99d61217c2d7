import type { ServiceContext } from "../platform/service.ts";
import { QUEUE_CHANNEL } from "../store/queue.ts";
import { WakeUp } from "./wake-up.ts";

const RECONNECT_MS = 2_000;

/** Calls back on every notice of new mail. A lost connection is opened again; meanwhile the worker's own poll serves. */
export function listenForMail(
  context: Pick<ServiceContext, "openListenConnection" | "observe">,
  onMail: () => void,
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
    try {
      const ended = new Promise<void>((resolve) => client.once("end", resolve));
      client.on("notification", onMail);
      await client.query(`listen ${QUEUE_CHANNEL}`);
      onMail();
      while (!stopping) {
        const lost = await Promise.race([ended.then(() => true), wakeUp.wait(60_000).then(() => false)]);
        if (lost) return;
      }
    } finally {
      await client.end().catch(() => {});
    }
  }
}
