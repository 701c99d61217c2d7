import Koa from "koa";
import { listenHttp } from "../platform/http/listen.ts";
import type { StartService } from "../platform/service.ts";
import { sendPixel } from "./pixel.ts";

/** What recipients touch: opens, clicks, unsubscriptions, conversions. */
export const start: StartService = async ({ config }) => {
  const app = new Koa();
  app.use((ctx) => {
    if (ctx.path.startsWith("/o/")) sendPixel(ctx);
    else ctx.status = 404;
  });
  const listener = await listenHttp(app, config.listen.tracking);
  return {
    addresses: listener ? { tracking: listener.url } : {},
    stop: async () => listener?.close(),
  };
};
