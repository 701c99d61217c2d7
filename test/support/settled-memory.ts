import { setTimeout as sleep } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

/** What this process has in use once all garbage is gone. */
export function settledMemory(): NodeJS.MemoryUsage {
  collectGarbage();
  return process.memoryUsage();
}

/** The most octets that are in use at a time while work goes on, beyond what was before it. */
export async function mostHeldDuring(work: () => Promise<unknown>): Promise<number> {
  const held = () => {
    const { heapUsed, external } = settledMemory();
    return heapUsed + external;
  };
  const before = held();
  let most = 0;
  let isOver = false;
  const watched = (async () => {
    while (!isOver) {
      const from = performance.now();
      most = Math.max(most, held() - before);
      // All of the process is looked through: the work is to have most of the time.
      await sleep(50 + 10 * (performance.now() - from));
    }
  })();
  try {
    await work();
  } finally {
    isOver = true;
    await watched;
  }
  return most;
}
