import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** By then what a start leaves to be done in its own time is done. */
const AFTER_MS = 10_000;

/**
 * Has this process give back, a while after its start, what the start needed and nothing needs any more: V8 collects
 * that only when there is work again, and keeps the room for it.
 */
export function giveBackMemorySoon(): void {
  setTimeout(() => {
    setFlagsFromString("--expose-gc");
    const collect: () => void = runInNewContext("gc");
    // Compiled code is taken by who has the same options alone, such as threads that begin later.
    setFlagsFromString("--no-expose-gc");
    collect();
  }, AFTER_MS).unref();
}
