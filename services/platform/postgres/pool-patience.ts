import type { Knex } from "knex";

/** What the driver says of an attempt to connect that has taken too long. */
const TOO_LATE = /^timeout expired$/;

/** Timers may be early by a little. */
const TIMER_MS = 50;

/**
 * Has whoever wants a connection wait for as long as is said. A pool refuses who waits first as soon as an attempt to connect is
 * given up, also where that was begun long before, for somebody who has been served since.
 * @param patienceMs that of the driver for an attempt
 */
export function waitForLaterAttempts({ client }: Knex, patienceMs: number): void {
  const acquire = client.acquireConnection.bind(client) as () => Promise<unknown>;
  client.acquireConnection = async () => {
    const givesUpAtMs = performance.now() + patienceMs - TIMER_MS;
    for (;;) {
      try {
        return await acquire();
      } catch (error) {
        if (!TOO_LATE.test((error as Error).message) || performance.now() >= givesUpAtMs) throw error;
      }
    }
  };
}
