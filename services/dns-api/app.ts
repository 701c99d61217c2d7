import type Koa from "koa";
import type { Context } from "koa";
import type { Config } from "../platform/config/config.ts";
import { KeyGuesses } from "../platform/guesses/key-guesses.ts";
import { API_KEY_GUESSES } from "../platform/guesses/policy.ts";
import { makeApp } from "../platform/http/app.ts";
import type { LargeRequests } from "../platform/http/large-requests.ts";
import { makeRateLimits } from "../platform/http/limits.ts";
import type { Observe } from "../platform/observability/observation.ts";
import { judgeNeeds } from "./caller.ts";
import type { DnsApiContext, DnsEndpoint } from "./context.ts";
import { makeDialect } from "./dialect.ts";
import { makePowerdnsDialect } from "./powerdns/dialect.ts";
import { makePowerdnsKeyEndpoints } from "./powerdns/routes/keys.ts";
import { makePowerdnsSearchEndpoints } from "./powerdns/routes/search.ts";
import { makePowerdnsServerEndpoints } from "./powerdns/routes/servers.ts";
import { makePowerdnsUpkeepEndpoints } from "./powerdns/routes/upkeep.ts";
import { makePowerdnsZoneEndpoints } from "./powerdns/routes/zones.ts";
import { makeAccessEndpoints } from "./routes/access.ts";
import { makeCompanyEndpoints } from "./routes/companies.ts";
import { makeDnssecEndpoints } from "./routes/dnssec.ts";
import { makeFollowerEndpoints } from "./routes/followers.ts";
import { makePreviewEndpoints } from "./routes/previews.ts";
import { makeQuotaEndpoints } from "./routes/quotas.ts";
import { makeRecordEndpoints } from "./routes/records.ts";
import { makeSoaEndpoints } from "./routes/soa.ts";
import { makeTokenEndpoints } from "./routes/tokens.ts";
import { makeUpdateEndpoints } from "./routes/updates.ts";
import { makeZoneFileEndpoints } from "./routes/zone-files.ts";
import { makeZoneEndpoints } from "./routes/zones.ts";

/** Every operation of the API. */
export function makeDnsEndpoints(context: DnsApiContext): readonly DnsEndpoint[] {
  return [
    makeCompanyEndpoints,
    makeQuotaEndpoints,
    makeZoneEndpoints,
    makeSoaEndpoints,
    makeRecordEndpoints,
    makeFollowerEndpoints,
    makeZoneFileEndpoints,
    makeDnssecEndpoints,
    makePreviewEndpoints,
    makeAccessEndpoints,
    makeTokenEndpoints,
    makeUpdateEndpoints,
  ]
    .flatMap((make) => make(context))
    .map(guarded);
}

/** Every operation of PowerDNS's API. */
export function makePowerdnsEndpoints(context: DnsApiContext): readonly DnsEndpoint[] {
  return [
    makePowerdnsServerEndpoints,
    makePowerdnsZoneEndpoints,
    makePowerdnsKeyEndpoints,
    makePowerdnsUpkeepEndpoints,
    makePowerdnsSearchEndpoints,
  ]
    .flatMap((make) => make(context))
    .map(guarded);
}

/** Where programs that speak PowerDNS's API begin. */
const DISCOVERY: Readonly<Record<string, object>> = {
  "/api": [{ version: 1, url: "/api/v1" }],
  "/api/v1": [{ api_features: [], server_url: "/api/v1/servers{/server}" }],
};

async function discover(ctx: Context): Promise<boolean> {
  const found = DISCOVERY[ctx.path];
  if (found) {
    ctx.body = found;
    ctx.set("Content-Type", "application/json");
  }
  return found !== undefined;
}

/** Puts what an operation needs of a token in front of who else may. */
function guarded(declared: DnsEndpoint): DnsEndpoint {
  return { ...declared, authorise: (caller) => judgeNeeds(caller, declared.needs) ?? declared.authorise?.(caller) };
}

export function makeDnsApi(
  context: DnsApiContext,
  config: Config,
  observe: Observe,
  largeRequests?: LargeRequests,
): Koa {
  const dialect = makeDialect(context);
  const powerdns = { dialect: makePowerdnsDialect(dialect, context), endpoints: makePowerdnsEndpoints(context) };
  return makeApp({
    dialect,
    endpoints: makeDnsEndpoints(context),
    ...(config.dns.powerdnsApi ? { otherDoor: powerdns, fallback: discover } : {}),
    bodyLimitOctets: config.apiBodyLimitOctets,
    largeRequests,
    // A preview is as much work as the change.
    countUse: async (caller, { method }, address) =>
      method === "GET" ? undefined : context.quotas.countChange(caller, address),
    limits: makeRateLimits(config.apiRequestsPerSecond, config.limitLoopback),
    guesses: new KeyGuesses({ policy: API_KEY_GUESSES, limitLoopback: config.limitLoopback, observe }),
    trustedProxies: config.trustedProxies,
    observe,
  });
}
