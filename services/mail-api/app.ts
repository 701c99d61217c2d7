import type Koa from "koa";
import { makeApp } from "../platform/http/app.ts";
import { makeRateLimits } from "../platform/http/limits.ts";
import type { Observe } from "../platform/observation.ts";
import { makeMailDialect } from "./dialect.ts";
import { campaignEndpoints } from "./routes/campaigns.ts";
import { contactEndpoints } from "./routes/contacts.ts";
import { eventEndpoints } from "./routes/events.ts";
import { groupEndpoints } from "./routes/groups.ts";
import { sendingEndpoints } from "./routes/sending.ts";
import { validityEndpoints } from "./routes/validity.ts";
import { versionEndpoints } from "./routes/version.ts";
import type { MailServices } from "./services.ts";

/** The mail API as an app, ready to listen. */
export function makeMailApp(services: MailServices, observe: Observe): Koa {
  const { config, db, secret } = services;
  return makeApp({
    dialect: makeMailDialect(db, secret),
    endpoints: [
      ...versionEndpoints(),
      ...eventEndpoints(services),
      ...contactEndpoints(services),
      ...validityEndpoints(services),
      ...campaignEndpoints(services),
      ...sendingEndpoints(services),
      ...groupEndpoints(services),
    ],
    bodyLimitOctets: config.apiBodyLimitOctets,
    observe,
    limits: makeRateLimits(config.apiRequestsPerSecond, config.limitLoopback),
    trustedProxies: config.trustedProxies,
  });
}
