import { readDeliveryToken } from "../../core/mail/tracking-tokens.ts";
import { sendPixel } from "../pixel.ts";
import { type Route, recordVisit } from "../tools.ts";

/** What customers number their orders with: up to 200 printable characters. */
const REFERENCE = /^[^\p{C}]{1,200}$/u;

/**
 * `/v/<token>?ref=<order>`: the pixel of a customer's thank-you page. Visitors who did not come by a message see it
 * too, so it is a picture whatever the token is. Without an order's reference nothing is counted.
 */
export const conversionRoute: Route = {
  methods: ["GET", "HEAD"],
  async handle(ctx, token, tools) {
    const deliveryId = readDeliveryToken(tools.keyRing, "conversion", token);
    const reference = new URLSearchParams(ctx.querystring).get("ref") ?? "";
    if (deliveryId.ok && REFERENCE.test(reference)) {
      const atMs = tools.clock.nowMs();
      await recordVisit(ctx, tools, { kind: "conversion", deliveryId: deliveryId.value, atMs, reference });
    }
    sendPixel(ctx);
  },
};
