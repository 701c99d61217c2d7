import { makeResolver } from "../platform/lookups/resolver.ts";
import type { StartLargeRequests } from "../platform/service.ts";
import { makeMailEndpoints } from "./app.ts";
import { makeMailDialect } from "./dialect.ts";

/** The operations of the API where they may take long. */
export const start: StartLargeRequests = async ({ config, keyRing, db, clock }) => {
  const resolver = await makeResolver(config.resolver);
  return {
    dialect: makeMailDialect(db, keyRing),
    endpoints: makeMailEndpoints({ db, keyRing, config, clock, resolver }),
    stop: async () => {},
  };
};
