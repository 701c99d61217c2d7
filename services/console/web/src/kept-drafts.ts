import { effect } from "@preact/signals";
import { useLayoutEffect } from "preact/hooks";
import { session } from "./session.ts";
import { texts } from "./texts.ts";

/**
 * What was written and not stored outlives a walk to another page, and the end of a session, for whoever wrote it; not the
 * closing of the window, which is asked about first.
 */
const kept = new Map<string, unknown>();
let writtenBy: string | undefined;

effect(() => {
  const login = session.value?.login;
  if (login === undefined || login === writtenBy) return;
  kept.clear();
  writtenBy = login;
});

/** @param key what kind of thing it is of, and which: `zone-file demo example.org`; a key has drafts of one type */
export function keptDraft<T>(key: string): T | undefined {
  return kept.get(key) as T | undefined;
}

/** Keeps what is written, as it is drawn: the end of the session takes the page away at once. @param draft undefined: nothing */
export function useKeptDraft<T>(key: string, draft: T | undefined): void {
  useLayoutEffect(() => {
    if (draft === undefined) kept.delete(key);
    else kept.set(key, draft);
  }, [key, draft]);
}

addEventListener("beforeunload", (event) => {
  if (kept.size === 0) return;
  event.preventDefault();
  event.returnValue = texts().shell.leave;
});
