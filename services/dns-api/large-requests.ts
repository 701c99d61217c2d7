import type { StartLargeRequests } from "../platform/service.ts";
import { makeDnsEndpoints, makePowerdnsEndpoints } from "./app.ts";
import { openContext } from "./context.ts";
import { makeDialect } from "./dialect.ts";
import { LargeWork, ONE_AT_A_TIME } from "./large-work.ts";

/** The operations of the API where they may take long. */
export const start: StartLargeRequests = async (surroundings) => {
  const context = await openContext(surroundings, new LargeWork(ONE_AT_A_TIME));
  return {
    dialect: makeDialect(context),
    endpoints: [...makeDnsEndpoints(context), ...makePowerdnsEndpoints(context)],
    stop: () => context.announcer.drained(),
  };
};
