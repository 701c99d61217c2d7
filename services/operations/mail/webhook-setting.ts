import type { KeyRing } from "../../core/key-ring.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import type { Sentence } from "../../core/sentences.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { findForeignCampaign } from "../../store/mail/campaigns/campaigns.ts";
import { addWebhook } from "../../store/mail/tracking/webhooks.ts";
import { judgeSelections, type Selection } from "./judge-selection.ts";
import { readToldKinds } from "./told-events.ts";

/** A webhook as somebody wants it, its fields by themselves being right (`core/mail/webhook-input`). */
export interface WebhookWish {
  readonly name: string;
  readonly url: string;
  /** Names of events; those of `ver_eventos` when absent. */
  readonly kinds?: readonly string[] | undefined;
  /** All, and what is of none, when absent. */
  readonly campaigns?: readonly number[] | undefined;
  /** Of contacts that it selects, as it is now; of all when absent. */
  readonly filter?: Selection | undefined;
  /** Whether it is told why and how as well. */
  readonly isFull: boolean;
}

/** Why a webhook is not set. */
export type WebhookFault =
  | { readonly kind: "no-event"; readonly name: string }
  /** The instance has no campaign of that number. */
  | { readonly kind: "no-campaign"; readonly numid: number }
  /** A group that the filter names. */
  | { readonly kind: "group-gone"; readonly reason: Sentence }
  /** The instance has as many webhooks as it may. */
  | { readonly kind: "many" };

/**
 * Sets a webhook of an instance, in place of what that of the name was.
 * @returns the secret that signs
 */
export async function setWebhook(
  { db, keyRing }: { readonly db: Db; readonly keyRing: KeyRing },
  instanceId: number,
  { name, url, filter, isFull, ...wish }: WebhookWish,
): Promise<Result<string, WebhookFault>> {
  const kinds = wish.kinds && readToldKinds(wish.kinds);
  if (kinds && !kinds.ok) return refuse({ kind: "no-event", name: kinds.error });
  const numid = wish.campaigns && (await findForeignCampaign(db, instanceId, wish.campaigns));
  if (numid !== undefined) return refuse({ kind: "no-campaign", numid });
  const reason = filter && (await judgeSelections(db, instanceId, [filter]));
  if (reason !== undefined) return refuse({ kind: "group-gone", reason });
  const choice = {
    kinds: kinds?.value ?? null,
    campaigns: wish.campaigns ?? null,
    condition: filter?.condition ?? null,
    isFull,
  };
  const secret = await addWebhook(db, keyRing, instanceId, { ...choice, name, url });
  return secret === undefined ? refuse({ kind: "many" }) : ok(secret);
}
