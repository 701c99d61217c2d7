import { showToast } from "./components/toasts.tsx";
import { describeSentence } from "./problem-words.ts";

/** What an API's answer warns of, in the reader's language; it stays until it is closed. */
export function showWarnings({ warnings = [] }: { readonly warnings?: readonly string[] }): void {
  if (warnings.length > 0) showToast(warnings.map(describeSentence).join(" "), "bad");
}
