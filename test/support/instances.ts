import { inject } from "vitest";
import type { NewDkimKey } from "../../services/core/mail/dkim.ts";
import { addInstance } from "../../services/store/mail/instances/instances.ts";

/** Domains that are added one after another have different keys. */
let taken = 0;

async function nextDkimKey(): Promise<NewDkimKey> {
  const keys = inject("dkimKeys");
  taken = (taken + 1) % keys.length;
  return keys[taken]!;
}

/** As `addInstance`, with keys that global-set-up.ts generated: for tests whose matter is not how keys come about. */
export function addTestInstance(...[db, keyRing, instance]: Parameters<typeof addInstance>) {
  return addInstance(db, keyRing, { ...instance, makeDkimKey: nextDkimKey });
}
