import { ContentScanner } from "../operations/mail/content-scan.ts";
import { CredentialPlaces } from "../operations/mail/credential-places.ts";
import { guardPolicy } from "../platform/config/guard-policy.ts";
import { openPlaces } from "../platform/lookups/places.ts";
import { makeResolver } from "../platform/lookups/resolver.ts";
import type { StartLargeRequests } from "../platform/service.ts";
import { makeEventStreams, makeMailEndpoints } from "./app.ts";
import { makeMailDialect } from "./dialect.ts";

/** What comes here has waited for its turn before (app.ts, `HEAVY_REQUESTS`). */
const LARGE_SENDS = { atOnce: 3, perClient: 2 };

/** The operations of the API where they may take long. */
export const start: StartLargeRequests = async ({ config, keyRing, db, clock, observe }) => {
  const resolver = await makeResolver(config.resolver);
  const content = new ContentScanner(config.rspamd, guardPolicy.content, observe);
  const places = new CredentialPlaces(db, openPlaces(config.placeDatabase), observe);
  const services = { db, keyRing, config, clock, resolver, places, content, largeSends: LARGE_SENDS };
  const streams = makeEventStreams(services, observe);
  return {
    dialect: makeMailDialect(services),
    endpoints: makeMailEndpoints(services, streams),
    stop: () => streams.stop(),
  };
};
