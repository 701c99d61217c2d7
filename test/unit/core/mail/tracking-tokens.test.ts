import { expect, it } from "vitest";
import { KeyRing } from "../../../../services/core/key-ring.ts";
import { makeToken } from "../../../../services/core/mail/tokens.ts";
import {
  makeClickToken,
  makeDeliveryToken,
  makeUnsubscribeUrl,
  readClickToken,
  readDeliveryToken,
  trackingValues,
} from "../../../../services/core/mail/tracking-tokens.ts";

const keyRing = KeyRing.ofSecret("a secret for tests only");
const claims = { deliveryId: 9_007_199_254_740, messageId: 7, link: "0123456789ab" };

it("reads what it made", () => {
  expect(readClickToken(keyRing, makeClickToken(keyRing, claims))).toEqual({ ok: true, value: claims });
  expect(readDeliveryToken(keyRing, "open", makeDeliveryToken(keyRing, "open", 12))).toEqual({ ok: true, value: 12 });
});

it.each([
  ["of another purpose", makeDeliveryToken(keyRing, "open", 12), "forged"],
  ["of another secret", makeDeliveryToken(KeyRing.ofSecret("another secret for tests"), "unsubscribe", 12), "forged"],
  ["cut off", makeDeliveryToken(keyRing, "unsubscribe", 12).slice(0, -4), "malformed"],
  ["empty", "", "malformed"],
  ["of other letters", "ñ/..%00", "malformed"],
  ["signed, but no delivery", makeToken(keyRing, "tracking-unsubscribe", "12; drop"), "malformed"],
])("refuses a token %s", (_name, token, error) => {
  expect(readDeliveryToken(keyRing, "unsubscribe", token)).toEqual({ ok: false, error });
});

it("refuses every change of a click token", () => {
  const token = makeClickToken(keyRing, claims);
  for (let i = 0; i < token.length; i++) {
    const changed = token.slice(0, i) + (token[i] === "A" ? "B" : "A") + token.slice(i + 1);
    expect(readClickToken(keyRing, changed).ok, changed).toBe(false);
  }
});

it("makes a URL for each tag, and nothing in them tells who the recipient is", () => {
  const delivery = { keyRing, trackingUrl: "https://track.example.org", deliveryId: 12, messageId: 3 };
  const values = trackingValues(delivery, ["0123456789ab"]);
  expect([...values.keys()]).toEqual(["_OPEN", "DESUSC", "_CLICK-0123456789ab"]);
  expect(values.get("DESUSC")).toBe(makeUnsubscribeUrl(delivery));
  for (const url of values.values()) expect(url).toMatch(/^https:\/\/track\.example\.org\/[ocu]\/[A-Za-z0-9_-]+$/);
});
