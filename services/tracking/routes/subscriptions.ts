import type { Context } from "koa";
import { readDeliveryToken } from "../../core/mail/tracking-tokens.ts";
import {
  changeSubscription,
  SUBSCRIPTION_CHOICES,
  type SubscriptionChoice,
} from "../../operations/mail/tracking-subscriptions.ts";
import { withDeadline } from "../../platform/deadline.ts";
import { findSubscription, type Subscription } from "../../store/mail/tracking/subscriptions.ts";
import { sendErrorPage, sendPreferencePage } from "../pages.ts";
import { type Route, readWhole, refuseToken, type TrackingTools } from "../tools.ts";

const MOST_BODY_OCTETS = 8 * 2 ** 10;
const DATABASE_DEADLINE_MS = 3_000;

/**
 * `/u/<token>`: a GET shows what can be chosen and changes nothing; a POST acts at once, without cookie, redirect or
 * another question, also when a mail program sends it.
 * @see RFC 8058 §3.1, §3.2
 */
export const subscriptionRoute: Route = {
  methods: ["GET", "HEAD", "POST"],
  async handle(ctx, token, tools) {
    const deliveryId = readDeliveryToken(tools.keyRing, "unsubscribe", token);
    if (!deliveryId.ok) return refuseToken(ctx, tools);
    let choice: SubscriptionChoice | undefined;
    if (ctx.method === "POST") {
      const body = await readWhole(ctx.req, MOST_BODY_OCTETS);
      // No form and no mail program sends more.
      if (body === undefined) return sendErrorPage(ctx, 413, "too-large");
      choice = readChoice(body.toString("utf8"));
      await apply(deliveryId.value, choice, tools);
    }
    await showPreferences(ctx, { deliveryId: deliveryId.value, choice }, tools);
  },
};

/** What a form of ours says; anything else, such as `List-Unsubscribe=One-Click`, means the campaign. */
function readChoice(body: string): SubscriptionChoice {
  const given = new URLSearchParams(body).get("choice");
  return SUBSCRIPTION_CHOICES.find((choice) => choice === given) ?? "campaign";
}

/** At once; while the database is away, as soon as it is back: no message can be accepted before that. */
async function apply(deliveryId: number, choice: SubscriptionChoice, tools: TrackingTools): Promise<void> {
  const atMs = tools.clock.nowMs();
  const change = tools.db.transaction((transaction) =>
    changeSubscription(transaction, deliveryId, choice, new Date(atMs)),
  );
  try {
    await withDeadline(change, DATABASE_DEADLINE_MS);
  } catch (error) {
    tools.observe({ kind: "subscription-change-waits", level: "warn", err: error });
    await tools.record({ kind: "subscription", deliveryId, atMs, choice });
  }
}

async function showPreferences(
  ctx: Context,
  { deliveryId, choice }: { readonly deliveryId: number; readonly choice: SubscriptionChoice | undefined },
  tools: TrackingTools,
): Promise<void> {
  let subscription: Subscription | undefined;
  try {
    subscription = await withDeadline(findSubscription(tools.db, deliveryId), DATABASE_DEADLINE_MS);
    if (subscription === undefined) return sendErrorPage(ctx, 410, "gone");
  } catch (error) {
    tools.observe({ kind: "preferences-not-shown", level: "warn", err: error });
  }
  sendPreferencePage(ctx, subscription, choice);
}
