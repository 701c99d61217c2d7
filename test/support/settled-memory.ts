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
  const timer = setInterval(() => (most = Math.max(most, held() - before)), 50);
  try {
    await work();
  } finally {
    clearInterval(timer);
  }
  return most;
}
