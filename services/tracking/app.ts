import Koa, { type Context } from "koa";
import { traceRequest } from "../platform/http/trace-request.ts";
import { CONTENT_SECURITY_POLICY, sendErrorPage } from "./pages.ts";
import { clickRoute } from "./routes/clicks.ts";
import { conversionRoute } from "./routes/conversions.ts";
import { openRoute } from "./routes/opens.ts";
import { subscriptionRoute } from "./routes/subscriptions.ts";
import type { Route, TrackingTools } from "./tools.ts";

/** `/<letter>/<token>`; a slash at the end is forgiven. */
const PATH = /^\/([ocvu])\/([^/]*)\/?$/;

const ROUTES: Readonly<Record<string, Route>> = {
  o: openRoute,
  c: clickRoute,
  v: conversionRoute,
  u: subscriptionRoute,
};

/** The public face: four kinds of URLs, each named by a signed token. What is wrong is answered without an echo of it. */
export function makeTrackingApp(tools: TrackingTools): Koa {
  const app = new Koa();
  app.silent = true;
  app.on("error", (error: Error) => tools.observe({ kind: "http-response-failed", level: "debug", err: error }));
  app.use(async (ctx) => {
    setHeaders(ctx);
    const [, letter] = PATH.exec(ctx.path) ?? [];
    await traceRequest(ctx, letter && `/${letter}/:token`, async () => {
      try {
        await answer(ctx, tools);
      } catch (error) {
        tools.observe({ kind: "tracking-request-failed", level: "error", err: error });
        sendErrorPage(ctx, 503, "unavailable");
        ctx.set("Retry-After", "60");
      }
    });
  });
  return app;
}

async function answer(ctx: Context, tools: TrackingTools): Promise<void> {
  if (ctx.path === "/robots.txt") {
    ctx.body = "User-agent: *\nDisallow: /\n";
    return;
  }
  // Browsers ask by themselves.
  if (ctx.path === "/favicon.ico") {
    ctx.status = 204;
    return;
  }
  const [, letter = "", token = ""] = PATH.exec(ctx.path) ?? [];
  const route = ROUTES[letter];
  if (route === undefined) return sendErrorPage(ctx, 404, "no-page");
  if (!route.methods.includes(ctx.method)) {
    ctx.set("Allow", route.methods.join(", "));
    return sendErrorPage(ctx, 405, "wrong-method");
  }
  await route.handle(ctx, token, tools);
}

function setHeaders(ctx: Context): void {
  ctx.set("Cache-Control", "no-store");
  ctx.set("Content-Security-Policy", CONTENT_SECURITY_POLICY);
  ctx.set("Referrer-Policy", "no-referrer");
  ctx.set("X-Content-Type-Options", "nosniff");
  ctx.set("X-Robots-Tag", "noindex, nofollow");
}
