import { useEffect, useState } from "preact/hooks";

/** Long enough that a word typed fast is one, short enough to feel live. */
export const TYPING_PAUSE_MS = 200;

/** What is typed, once the reader pauses: nothing is asked of the server for each key. */
export function useSettled(typed: string): string {
  const [settled, setSettled] = useState(typed);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(typed), TYPING_PAUSE_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  return settled;
}
