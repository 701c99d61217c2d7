import type Koa from "koa";
import { makeApp } from "../platform/http/app.ts";
import { makeRateLimits } from "../platform/http/limits.ts";
import type { ConsoleContext } from "./context.ts";
import { BASIC_CHALLENGE, makeAdminDialect } from "./dialect.ts";
import { type ConsoleEndpoint, guard, type MakeConsoleEndpoints } from "./endpoint.ts";
import { makeAclEndpoints } from "./routes/acls.ts";
import { makeApiEndpoints } from "./routes/apis.ts";
import { makeAuditEndpoints } from "./routes/audit.ts";
import { makeBatchEndpoints } from "./routes/batches.ts";
import { makeBounceWordingEndpoints } from "./routes/bounce-wordings.ts";
import { makeCampaignControlEndpoints } from "./routes/campaign-control.ts";
import { makeCampaignPreviewEndpoints } from "./routes/campaign-preview.ts";
import { makeCampaignEndpoints } from "./routes/campaigns.ts";
import { makeCatalogEndpoints } from "./routes/catalogs.ts";
import { makeContactEndpoints } from "./routes/contacts.ts";
import { makeDnsStatisticsEndpoints } from "./routes/dns-statistics.ts";
import { makeDomainSetupEndpoints } from "./routes/domain-setup.ts";
import { makeFilterEndpoints } from "./routes/filters.ts";
import { makeGroupEndpoints } from "./routes/groups.ts";
import { makeGuardEndpoints } from "./routes/guards.ts";
import { makeInstanceCompanyEndpoints } from "./routes/instance-companies.ts";
import { makeInstanceEndpoints } from "./routes/instances.ts";
import { makeJobEndpoints } from "./routes/jobs.ts";
import { makeLookupEndpoints } from "./routes/lookup.ts";
import { makeMessageEndpoints } from "./routes/messages.ts";
import { makeNodeEndpoints } from "./routes/nodes.ts";
import { makePaceEndpoints } from "./routes/paces.ts";
import { makeQuarantineEndpoints } from "./routes/quarantine.ts";
import { makeQueueEndpoints } from "./routes/queues.ts";
import { makeResellerEndpoints } from "./routes/resellers.ts";
import { makeResolverBlockEndpoints } from "./routes/resolver-blocks.ts";
import { makeRpzEndpoints } from "./routes/rpz.ts";
import { makeSandboxEndpoints } from "./routes/sandbox.ts";
import { makeSenderDomainEndpoints } from "./routes/sender-domains.ts";
import { makeSenderReportEndpoints } from "./routes/sender-reports.ts";
import { makeSessionEndpoints } from "./routes/session.ts";
import { makeStatisticsEndpoints } from "./routes/statistics.ts";
import { makeSuppressionEndpoints } from "./routes/suppressions.ts";
import { makeTotpEndpoints } from "./routes/totp.ts";
import { makeUserEndpoints } from "./routes/users.ts";
import { makeWarmUpEndpoints } from "./routes/warm-ups.ts";
import { makeWebhookEndpoints } from "./routes/webhooks.ts";
import { makeZoneRecordEndpoints } from "./routes/zone-records.ts";
import { makeZoneEndpoints } from "./routes/zones.ts";
import type { WebFiles } from "./web-files.ts";

/** Every file of `routes/`: add yours here. */
const ROUTES: readonly MakeConsoleEndpoints[] = [
  makeCampaignEndpoints,
  makeCampaignControlEndpoints,
  makeCampaignPreviewEndpoints,
  makeMessageEndpoints,
  makeBatchEndpoints,
  makeStatisticsEndpoints,
  makeQueueEndpoints,
  makePaceEndpoints,
  makeWarmUpEndpoints,
  makeSessionEndpoints,
  makeTotpEndpoints,
  makeUserEndpoints,
  makeAuditEndpoints,
  makeJobEndpoints,
  makeApiEndpoints,
  makeResellerEndpoints,
  makeAclEndpoints,
  makeResolverBlockEndpoints,
  makeCatalogEndpoints,
  makeZoneEndpoints,
  makeZoneRecordEndpoints,
  makeRpzEndpoints,
  makeLookupEndpoints,
  makeDnsStatisticsEndpoints,
  makeInstanceEndpoints,
  makeGuardEndpoints,
  makeSenderDomainEndpoints,
  makeDomainSetupEndpoints,
  makeInstanceCompanyEndpoints,
  makeSenderReportEndpoints,
  makeSandboxEndpoints,
  makeContactEndpoints,
  makeFilterEndpoints,
  makeGroupEndpoints,
  makeSuppressionEndpoints,
  makeWebhookEndpoints,
  makeQuarantineEndpoints,
  makeBounceWordingEndpoints,
  makeNodeEndpoints,
];

/** Every operation of the console. */
export function makeConsoleEndpoints(context: ConsoleContext): readonly ConsoleEndpoint[] {
  return ROUTES.flatMap((make) => make(context));
}

/** The console as an app: its API, and the pages where they were built. */
export function makeConsoleApp(context: ConsoleContext, pages: WebFiles | undefined): Koa {
  const { config, observe } = context;
  const app = makeApp({
    dialect: makeAdminDialect(context),
    endpoints: makeConsoleEndpoints(context).map((declared) => guard(context, declared)),
    bodyLimitOctets: config.apiBodyLimitOctets,
    // Wrong passwords are counted where they are judged (sign-in.ts): per login and per address.
    limits: makeRateLimits(config.apiRequestsPerSecond, config.limitLoopback),
    trustedProxies: config.trustedProxies,
    observe,
    ...(pages ? { fallback: (ctx) => pages.serve(ctx) } : { home: "/docs" }),
  });
  app.middleware.unshift(hushBrowsers);
  return app;
}

/** A browser that is challenged for HTTP Basic puts a dialog of its own over our page; it has the page to sign in with. */
const hushBrowsers: Koa.Middleware = async (ctx, next) => {
  await next();
  if (ctx.response.get("WWW-Authenticate") === BASIC_CHALLENGE && ctx.get("User-Agent").startsWith("Mozilla/")) {
    ctx.set("WWW-Authenticate", 'Session realm="Palomar"');
  }
};
