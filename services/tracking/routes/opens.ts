import { readDeliveryToken } from "../../core/mail/tracking-tokens.ts";
import { sendPixel } from "../pixel.ts";
import { type Route, recordVisit, visitOf } from "../tools.ts";

/** `/o/<token>`: the pixel of a message. Whatever the token is, the picture is there. */
export const openRoute: Route = {
  methods: ["GET", "HEAD"],
  async handle(ctx, token, tools) {
    const deliveryId = readDeliveryToken(tools.keyRing, "open", token);
    if (deliveryId.ok) await recordVisit(ctx, tools, { kind: "open", ...visitOf(ctx, deliveryId.value, tools) });
    sendPixel(ctx);
  },
};
