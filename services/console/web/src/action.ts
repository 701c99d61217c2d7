import { useState } from "preact/hooks";
import { showToast } from "./components/toasts.tsx";
import type { Answer } from "./http.ts";
import { describeProblem } from "./problem-words.ts";

/** Something a button does. */
export interface Action<Arguments extends readonly unknown[]> {
  readonly busy: boolean;
  readonly run: (...args: Arguments) => Promise<void>;
}

/**
 * Runs a change once at a time; a refusal is shown as a toast.
 * @param change what to ask of the server
 * @param done what follows when it succeeded
 */
export function useAction<Arguments extends readonly unknown[], T>(
  change: (...args: Arguments) => Promise<Answer<T>>,
  done: (value: T, ...args: Arguments) => void,
): Action<Arguments> {
  const [busy, setBusy] = useState(false);
  const run = async (...args: Arguments) => {
    if (busy) return;
    setBusy(true);
    const answer = await change(...args);
    setBusy(false);
    if (answer.ok) done(answer.value, ...args);
    else showToast(describeProblem(answer.error), "bad");
  };
  return { busy, run };
}
