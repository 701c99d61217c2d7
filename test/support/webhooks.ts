import type { KeyRing } from "../../services/core/key-ring.ts";
import type { Db } from "../../services/platform/postgres/db.ts";
import { addWebhook, FIRST_WEBHOOK } from "../../services/store/mail/tracking/webhooks.ts";

/** Sets the webhook without a name of an instance, for all events in the short form. @returns the secret that signs */
export async function setWebhook(db: Db, keyRing: KeyRing, instanceId: number, url: string): Promise<string> {
  const everything = { kinds: null, campaigns: null, condition: null, isFull: false };
  const secret = await addWebhook(db, keyRing, instanceId, { ...everything, name: FIRST_WEBHOOK, url });
  if (secret === undefined) throw new Error(`instance ${instanceId} has too many webhooks`);
  return secret;
}
