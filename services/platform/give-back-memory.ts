import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** By then what a start leaves to be done in its own time is done. */
const AFTER_MS = 10_000;

/** As `giveBackMemory`, a while after this process's start, of what the start needed. */
export function giveBackMemorySoon(): void {
  setTimeout(giveBackMemory, AFTER_MS).unref();
}

/**
 * Has this process give back what nothing needs any more: V8 collects that only when there is work again, and keeps the
 * room for it. Holds the thread up for some tens of milliseconds. Gives nothing back where V8 does not let it.
 */
export function giveBackMemory(): void {
  const collect = findCollector();
  collect?.();
  // Pages that the first one has emptied are given back when the second one finds them so.
  collect?.();
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
