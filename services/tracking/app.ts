import { Router } from "@koa/router";
import Koa, { type Context } from "koa";
import { allowedMethods } from "../platform/http/allowed-methods.ts";
import { traceRequest } from "../platform/http/trace-request.ts";
import { CONTENT_SECURITY_POLICY, sendErrorPage } from "./pages.ts";
import { clickRoute } from "./routes/clicks.ts";
import { conversionRoute } from "./routes/conversions.ts";
import { openRoute } from "./routes/opens.ts";
import { makeReportRoute } from "./routes/reports.ts";
import { serveStsPolicy } from "./routes/sts-policy.ts";
import { subscriptionRoute } from "./routes/subscriptions.ts";
import type { Route, TrackingTools } from "./tools.ts";

/** What is named by a signed token, by the start of its path. */
const makeRoutes = (): Readonly<Record<string, Route>> => ({
  o: openRoute,
  c: clickRoute,
  v: conversionRoute,
  u: subscriptionRoute,
  r: makeReportRoute(),
});

/** The public face: five kinds of URLs, each named by a signed token. What is wrong is answered without an echo of it. */
export function makeTrackingApp(tools: TrackingTools): Koa {
  const router = new Router({ sensitive: true });
  for (const [letter, { methods, handle }] of Object.entries(makeRoutes())) {
    // A URL that lost its token is a broken link, as one with a wrong token is.
    router.register(`/${letter}/{:token}`, [...methods], (ctx) =>
      answer(ctx, `/${letter}/:token`, () => handle(ctx, ctx.params.token ?? "", tools)),
    );
  }
  // Browsers and crawlers ask by themselves.
  router.get("/robots.txt", (ctx) => {
    ctx.body = "User-agent: *\nDisallow: /\n";
  });
  router.get("/.well-known/mta-sts.txt", (ctx) =>
    answer(ctx, "/.well-known/mta-sts.txt", () => serveStsPolicy(ctx, tools)),
  );
  router.get("/favicon.ico", (ctx) => {
    ctx.status = 204;
  });
  const app = new Koa();
  app.silent = true;
  app.on("error", (error: Error) => tools.observe({ kind: "http-response-failed", level: "debug", err: error }));
  app.use((ctx, next) => {
    setHeaders(ctx);
    return next();
  });
  app.use(router.routes());
  app.use((ctx) =>
    answer(ctx, undefined, async () => {
      const allowed = allowedMethods(router, ctx.path);
      if (allowed.length === 0) return sendErrorPage(ctx, 404, "no-page");
      ctx.set("Allow", allowed.join(", "));
      sendErrorPage(ctx, 405, "wrong-method");
    }),
  );
  return app;

  function answer(ctx: Context, route: string | undefined, handle: () => Promise<void>): Promise<void> {
    return traceRequest(ctx, route, async () => {
      try {
        await handle();
      } catch (error) {
        // Whoever broke off hears nothing, and is no failure of ours.
        if (ctx.req.destroyed && !ctx.req.complete) return;
        tools.observe({ kind: "tracking-request-failed", level: "error", err: error });
        sendErrorPage(ctx, 503, "unavailable");
        ctx.set("Retry-After", "60");
      }
    });
  }
}

function setHeaders(ctx: Context): void {
  ctx.set("Cache-Control", "no-store");
  ctx.set("Content-Security-Policy", CONTENT_SECURITY_POLICY);
  ctx.set("Referrer-Policy", "no-referrer");
  ctx.set("X-Content-Type-Options", "nosniff");
  ctx.set("X-Robots-Tag", "noindex, nofollow");
}
