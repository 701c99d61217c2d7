import type Koa from "koa";
import type { Config } from "../platform/config/config.ts";
import { KeyGuesses } from "../platform/guesses/key-guesses.ts";
import { API_KEY_GUESSES } from "../platform/guesses/policy.ts";
import { makeApp } from "../platform/http/app.ts";
import type { LargeRequests } from "../platform/http/large-requests.ts";
import { makeRateLimits } from "../platform/http/limits.ts";
import type { Observe } from "../platform/observability/observation.ts";
import type { DnsApiContext, DnsEndpoint } from "./context.ts";
import { makeDialect } from "./dialect.ts";
import { makeAccessEndpoints } from "./routes/access.ts";
import { makeCompanyEndpoints } from "./routes/companies.ts";
import { makeDnssecEndpoints } from "./routes/dnssec.ts";
import { makePreviewEndpoints } from "./routes/previews.ts";
import { makeQuotaEndpoints } from "./routes/quotas.ts";
import { makeRecordEndpoints } from "./routes/records.ts";
import { makeSoaEndpoints } from "./routes/soa.ts";
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
    makeZoneFileEndpoints,
    makeDnssecEndpoints,
    makePreviewEndpoints,
    makeAccessEndpoints,
  ].flatMap((make) => make(context));
}

export function makeDnsApi(
  context: DnsApiContext,
  config: Config,
  observe: Observe,
  largeRequests?: LargeRequests,
): Koa {
  return makeApp({
    dialect: makeDialect(context.db, context.keyRing),
    endpoints: makeDnsEndpoints(context),
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
