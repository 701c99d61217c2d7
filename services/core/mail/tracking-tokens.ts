/** The tokens of what a recipient touches. They name a delivery and a link: row ids, and nothing about the person. */
import { ok, type Result, refuse } from "../result.ts";
import { UNSUBSCRIBE_TAG } from "./personalise.ts";
import { makeToken, readToken, type TokenRefusal } from "./tokens.ts";
import { clickTag, type LinkId, OPEN_TAG } from "./tracking-html.ts";

export type TrackingTokenRefusal = Exclude<TokenRefusal, "expired">;

/** What a click token stands for. */
export interface ClickClaims {
  readonly deliveryId: number;
  readonly messageId: number;
  readonly link: LinkId;
}

/** Whose URLs, under which public base (without a slash at its end). */
export interface TrackedDelivery {
  readonly secret: string;
  readonly trackingUrl: string;
  readonly deliveryId: number;
  readonly messageId: number;
}

/**
 * The values of all tracking tags of one recipient's copy: each link, the pixel, the unsubscribe URL.
 * @param links as `trackHtml` found them
 * @returns the `system` values for personalise.ts
 */
export function trackingValues(delivery: TrackedDelivery, links: Iterable<LinkId>): Map<string, string> {
  const { secret, trackingUrl, deliveryId, messageId } = delivery;
  const values = new Map([
    [OPEN_TAG, `${trackingUrl}/o/${makeDeliveryToken(secret, "open", deliveryId)}`],
    [UNSUBSCRIBE_TAG, makeUnsubscribeUrl(delivery)],
  ]);
  for (const link of links) {
    values.set(clickTag(link), `${trackingUrl}/c/${makeClickToken(secret, { deliveryId, messageId, link })}`);
  }
  return values;
}

/** The page and the one-click target of a recipient (RFC 8058), for the body and for List-Unsubscribe. */
export function makeUnsubscribeUrl({
  secret,
  trackingUrl,
  deliveryId,
}: Pick<TrackedDelivery, "secret" | "trackingUrl" | "deliveryId">): string {
  return `${trackingUrl}/u/${makeDeliveryToken(secret, "unsubscribe", deliveryId)}`;
}

/** What a token may do that names a delivery and nothing else: one made for one purpose is forged for the others. */
export type DeliveryTokenPurpose = "open" | "unsubscribe" | "conversion";

export function makeDeliveryToken(secret: string, purpose: DeliveryTokenPurpose, deliveryId: number): string {
  return makeToken(secret, purpose, String(deliveryId));
}

/** @returns the delivery's id */
export function readDeliveryToken(
  secret: string,
  purpose: DeliveryTokenPurpose,
  token: string,
): Result<number, TrackingTokenRefusal> {
  const payload = readToken(secret, purpose, token);
  if (!payload.ok) return payload;
  const text = payload.value.toString("latin1");
  return /^\d{1,15}$/.test(text) ? ok(Number(text)) : refuse("malformed");
}

export function makeClickToken(secret: string, { deliveryId, messageId, link }: ClickClaims): string {
  return makeToken(secret, "click", `${deliveryId}.${messageId}.${link}`);
}

export function readClickToken(secret: string, token: string): Result<ClickClaims, TrackingTokenRefusal> {
  const payload = readToken(secret, "click", token);
  if (!payload.ok) return payload;
  const [, deliveryId, messageId, link] =
    /^(\d{1,15})\.(\d{1,15})\.([0-9a-f]{12})$/.exec(payload.value.toString("latin1")) ?? [];
  if (link === undefined) return refuse("malformed");
  return ok({ deliveryId: Number(deliveryId), messageId: Number(messageId), link });
}
