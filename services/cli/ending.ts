import { constants } from "node:os";

type Undo = () => Promise<unknown>;

/** What a command has begun and does not leave behind where it is ended before its time. */
const begun = new Set<Undo>();

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/**
 * Runs `use`, and `undo` after it; and should a signal end the command meanwhile, or nobody read its output any more.
 * A second signal ends it at once.
 */
export async function undoneAfterwards<T>(undo: Undo, use: () => Promise<T>): Promise<T> {
  if (begun.size === 0) for (const signal of SIGNALS) process.once(signal, endBySignal);
  begun.add(undo);
  try {
    return await use();
  } finally {
    await undo();
    begun.delete(undo);
    if (begun.size === 0) for (const signal of SIGNALS) process.off(signal, endBySignal);
  }
}

/** Undoes what is begun, the last first, and ends the process. */
export async function endNow(status: number): Promise<void> {
  for (const undo of [...begun].reverse()) await undo().catch(() => {});
  process.exit(status);
}

function endBySignal(signal: (typeof SIGNALS)[number]): void {
  void endNow(128 + constants.signals[signal]);
}
