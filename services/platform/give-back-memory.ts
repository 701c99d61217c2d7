import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** By then what a start leaves to be done in its own time is done. */
const AFTER_MS = 10_000;

/**
 * Has this process give back, a while after its start, what the start needed and nothing needs any more: V8 collects
 * that only when there is work again, and keeps the room for it. Gives nothing back where V8 does not let it.
 */
export function giveBackMemorySoon(): void {
  setTimeout(() => findCollector()?.(), AFTER_MS).unref();
}

function findCollector(): (() => void) | undefined {
  try {
    setFlagsFromString("--expose-gc");
    return runInNewContext("gc");
  } catch {
    return undefined;
  } finally {
    // V8 takes kept code (bin/run.cjs) only under the flags that it was made with; threads that begin later are to find it.
    setFlagsFromString("--no-expose-gc");
  }
}
