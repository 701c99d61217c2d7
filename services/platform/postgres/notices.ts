import { setTimeout as sleep } from "node:timers/promises";
import type pg from "pg";

/** Between two attempts to reach the database. */
const RETRY_MS = 1_000;

/**
 * Hears the notices of a channel over a connection of its own, which is opened anew when it is lost. Notices hasten a
 * poll and replace none: those of the time between are lost.
 * @param onNotice told the payload; also called, without one, once the connection stands, for what was missed
 * @param onLost told why there is no connection, or no longer: for whoever has no poll that says that the database is away
 */
export function hearNotices(
  openConnection: () => Promise<pg.Client>,
  channel: string,
  onNotice: (payload?: string) => void,
  onLost: (error: unknown) => void = () => {},
): { stop(): Promise<void> } {
  const stopping = new AbortController();
  const running = (async () => {
    while (!stopping.signal.aborted) {
      await hearUntilLost(openConnection, { channel, onNotice, signal: stopping.signal }).catch(onLost);
      await sleep(RETRY_MS, undefined, { signal: stopping.signal }).catch(() => {});
    }
  })();
  return {
    stop: async () => {
      stopping.abort();
      await running;
    },
  };
}

async function hearUntilLost(
  openConnection: () => Promise<pg.Client>,
  {
    channel,
    onNotice,
    signal,
  }: { readonly channel: string; readonly onNotice: (payload?: string) => void; readonly signal: AbortSignal },
): Promise<void> {
  const client = await openConnection();
  let stop = () => {};
  try {
    await new Promise<void>((resolve, reject) => {
      stop = resolve;
      client.on("error", reject);
      client.on("end", resolve);
      client.on("notification", ({ payload }) => onNotice(payload));
      signal.addEventListener("abort", stop);
      if (signal.aborted) resolve();
      client.query(`listen ${channel}`).then(() => onNotice(), reject);
    });
  } finally {
    signal.removeEventListener("abort", stop);
    await client.end().catch(() => {});
  }
}
