import { effect } from "@preact/signals";
import { session } from "../../session.ts";
import { texts } from "../../texts.ts";
import { countChanges, NO_CHANGES, type PendingChanges } from "../pending-changes.ts";

/**
 * Pending changes outlive a walk to another page, and the end of a session, for whoever made them; not the closing of the
 * window, which is asked about first.
 */
const kept = new Map<string, PendingChanges>();
let madeBy: string | undefined;

effect(() => {
  const login = session.value?.login;
  if (login === undefined || login === madeBy) return;
  kept.clear();
  madeBy = login;
});

export function keptChanges(zoneKey: string): PendingChanges {
  return kept.get(zoneKey) ?? NO_CHANGES;
}

export function keepChanges(zoneKey: string, changes: PendingChanges): void {
  if (countChanges(changes) === 0) kept.delete(zoneKey);
  else kept.set(zoneKey, changes);
}

addEventListener("beforeunload", (event) => {
  if (kept.size === 0) return;
  event.preventDefault();
  event.returnValue = texts().dns.pending.leave;
});
