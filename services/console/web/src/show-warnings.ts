import type { Sentence } from "../../../core/sentences.ts";
import { showToast } from "./components/toasts.tsx";
import { describeSentence } from "./problem-words.ts";

/** What an answer warns of: in codes, as `request` asks for them. */
export interface Warned {
  readonly warnings?: readonly Sentence[];
}

/** What an answer warns of, in the reader's language; it stays until it is closed. */
export function showWarnings({ warnings = [] }: Warned): void {
  if (warnings.length > 0) showToast(warnings.map(describeSentence).join(" "), "bad");
}
