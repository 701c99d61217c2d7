/** The tokens of what a recipient touches. They name a delivery and a link: row ids, and nothing about the person. */
import type { KeyRing } from "../key-ring.ts";
import { ok, type Result, refuse } from "../result.ts";
import { UNSUBSCRIBE_TAG } from "./personalise.ts";
import { makeToken, readToken, type TokenRefusal } from "./tokens.ts";
import { clickTag, type LinkId, OPEN_TAG } from "./tracking-html.ts";

type TrackingTokenRefusal = Exclude<TokenRefusal, "expired">;

/** What a click token stands for. */
export interface ClickClaims {
  readonly deliveryId: number;
  readonly messageId: number;
  readonly link: LinkId;
}

/** Whose URLs, under which public base (without a slash at its end). */
export interface TrackedDelivery {
  readonly keyRing: KeyRing;
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
  const { keyRing, trackingUrl, deliveryId, messageId } = delivery;
  const values = new Map([
    [OPEN_TAG, `${trackingUrl}/o/${makeDeliveryToken(keyRing, "open", deliveryId)}`],
    [UNSUBSCRIBE_TAG, makeUnsubscribeUrl(delivery)],
  ]);
  for (const link of links) {
    values.set(clickTag(link), `${trackingUrl}/c/${makeClickToken(keyRing, { deliveryId, messageId, link })}`);
  }
  return values;
}

/** The places of a message filled as its author wrote it: its links lead where they led, and nothing is counted. */
export function plainValues(links: Readonly<Record<LinkId, string>>): ReadonlyMap<string, string> {
  return new Map(Object.entries(links).map(([link, target]) => [clickTag(link), target]));
}

/** The page and the one-click target of a recipient (RFC 8058), for the body and for List-Unsubscribe. */
export function makeUnsubscribeUrl({
  keyRing,
  trackingUrl,
  deliveryId,
}: Pick<TrackedDelivery, "keyRing" | "trackingUrl" | "deliveryId">): string {
  return `${trackingUrl}/u/${makeDeliveryToken(keyRing, "unsubscribe", deliveryId)}`;
}

/** What a token may do that names a delivery and nothing else: one made for one purpose is forged for the others. */
export type DeliveryTokenPurpose = "open" | "unsubscribe" | "conversion";

export function makeDeliveryToken(keyRing: KeyRing, purpose: DeliveryTokenPurpose, deliveryId: number): string {
  return makeToken(keyRing, `tracking-${purpose}`, String(deliveryId));
}

/** @returns the delivery's id */
export function readDeliveryToken(
  keyRing: KeyRing,
  purpose: DeliveryTokenPurpose,
  token: string,
): Result<number, TrackingTokenRefusal> {
  const payload = readToken(keyRing, `tracking-${purpose}`, token);
  if (!payload.ok) return payload;
  const text = payload.value.toString("latin1");
  return /^\d{1,15}$/.test(text) ? ok(Number(text)) : refuse("malformed");
}

export function makeClickToken(keyRing: KeyRing, { deliveryId, messageId, link }: ClickClaims): string {
  return makeToken(keyRing, "tracking-click", `${deliveryId}.${messageId}.${link}`);
}

export function readClickToken(keyRing: KeyRing, token: string): Result<ClickClaims, TrackingTokenRefusal> {
  const payload = readToken(keyRing, "tracking-click", token);
  if (!payload.ok) return payload;
  const [, deliveryId, messageId, link] =
    /^(\d{1,15})\.(\d{1,15})\.([0-9a-f]{12})$/.exec(payload.value.toString("latin1")) ?? [];
  if (link === undefined) return refuse("malformed");
  return ok({ deliveryId: Number(deliveryId), messageId: Number(messageId), link });
}
