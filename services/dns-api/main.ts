import { LargeRequests } from "../platform/http/large-requests.ts";
import { listenHttp, listenHttps } from "../platform/http/listen.ts";
import type { StartService } from "../platform/service.ts";
import { makeDnsApi } from "./app.ts";
import { openContext } from "./context.ts";
import { startFollowing } from "./follow/follow-worker.ts";
import { startJournalUpkeep } from "./journal-upkeep.ts";
import { LargeWork, SmallWork } from "./large-work.ts";
import { startSigningUpkeep } from "./signing-upkeep.ts";
import { startUpdateWorker } from "./updates/update-worker.ts";

/** The DNS management API. */
export const start: StartService = async (surroundings) => {
  const { config, keyRing, db, clock, observe, openLargeRequests } = surroundings;
  const context = await openContext(surroundings, openLargeRequests ? new SmallWork() : new LargeWork());
  const { announcer, lookUpDs } = context;
  const largeRequests = openLargeRequests && new LargeRequests(openLargeRequests, observe);
  const app = makeDnsApi(context, config, observe, largeRequests);
  const listener = await listenHttp(app, config.listen.dnsApi, { observe });
  const secure = await listenHttps(app, config.listen.dnsApiTls, { config, observe });
  const journalUpkeep = startJournalUpkeep({ db, clock, observe, keep: config.dns });
  const signingUpkeep = startSigningUpkeep({ db, signer: { keyRing, clock }, lookUpDs, announcer, observe });
  const updates = startUpdateWorker(context, surroundings);
  const following = await startFollowing(context, surroundings);
  return {
    addresses: {
      ...(listener ? { dns_api: listener.url } : {}),
      ...(secure ? { dns_api_tls: secure.address } : {}),
    },
    stop: async () => {
      await Promise.all([listener?.close(), secure?.close()]);
      await Promise.all([largeRequests?.stop(), updates.stop(), following.stop()]);
      await Promise.all([announcer.drained(), journalUpkeep.stop(), signingUpkeep.stop()]);
    },
  };
};
