import { setTimeout as sleep } from "node:timers/promises";

/** The outcome of something that may hang. @throws when it takes longer; it goes on, but nobody waits for it */
export async function withDeadline<T>(running: Promise<T>, deadlineMs: number): Promise<T> {
  const abort = new AbortController();
  const late = sleep(deadlineMs, undefined, { signal: abort.signal }).then(() => {
    throw new Error(`no answer within ${deadlineMs} ms`);
  });
  late.catch(() => {});
  running.catch(() => {});
  try {
    return await Promise.race([running, late]);
  } finally {
    abort.abort();
  }
}
