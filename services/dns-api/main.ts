import { makeDsLookup } from "../platform/ds-lookup.ts";
import { listenHttp } from "../platform/http/listen.ts";
import type { StartService } from "../platform/service.ts";
import { makeDnsApi } from "./app.ts";
import { CallerQuotas } from "./caller-quotas.ts";
import { startJournalUpkeep } from "./journal-upkeep.ts";
import { LargeWork } from "./large-work.ts";
import { startSigningUpkeep } from "./signing-upkeep.ts";
import { ZoneAnnouncer } from "./zone-announcer.ts";

/** The DNS management API. */
export const start: StartService = async ({ config, keyRing, db, clock, observe }) => {
  const announcer = new ZoneAnnouncer(db, observe);
  const lookUpDs = await makeDsLookup(config.resolver);
  const quotas = new CallerQuotas({ db, clock, limitLoopback: config.limitLoopback });
  const context = { db, keyRing, clock, announcer, lookUpDs, quotas, largeWork: new LargeWork() };
  const app = makeDnsApi(context, config, observe);
  const listener = await listenHttp(app, config.listen.dnsApi);
  const journalUpkeep = startJournalUpkeep({ db, clock, observe, keep: config.dns });
  const signingUpkeep = startSigningUpkeep({ db, signer: { keyRing, clock }, lookUpDs, announcer, observe });
  return {
    addresses: listener ? { dns_api: listener.url } : {},
    stop: async () => {
      await listener?.close();
      await Promise.all([announcer.drained(), journalUpkeep.stop(), signingUpkeep.stop()]);
    },
  };
};
