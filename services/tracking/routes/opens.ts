import { readDeliveryToken } from "../../core/mail/tracking-tokens.ts";
import { sendPixel } from "../pixel.ts";
import { type Route, recordVisit } from "../tools.ts";

/** `/o/<token>`: the pixel of a message. Whatever the token is, the picture is there. */
export const openRoute: Route = {
  methods: ["GET", "HEAD"],
  async handle(ctx, token, tools) {
    const deliveryId = readDeliveryToken(tools.keyRing, "open", token);
    if (deliveryId.ok) {
      const visitor = tools.visitors.describe({ headers: ctx.headers, address: tools.clientAddress(ctx.req) });
      const atMs = tools.clock.nowMs();
      await recordVisit(ctx, tools, { kind: "open", deliveryId: deliveryId.value, atMs, visitor });
    }
    sendPixel(ctx);
  },
};
