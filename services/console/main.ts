import { makeApp } from "../platform/http/app.ts";
import { makeRateLimits } from "../platform/http/limits.ts";
import { listenHttp } from "../platform/http/listen.ts";
import type { StartService } from "../platform/service.ts";
import { makeAdminDialect } from "./dialect.ts";
import { makeSandboxEndpoints } from "./routes/sandbox.ts";

/** The operator API. */
export const start: StartService = async ({ config, db, observe }) => {
  const app = makeApp({
    dialect: makeAdminDialect(db),
    endpoints: makeSandboxEndpoints(db),
    bodyLimitOctets: config.apiBodyLimitOctets,
    limits: makeRateLimits(config.apiRequestsPerSecond, config.limitLoopback, true),
    observe,
    home: "/docs",
  });
  const listener = await listenHttp(app, config.listen.console);
  return {
    addresses: listener ? { console: listener.url } : {},
    stop: async () => listener?.close(),
  };
};
