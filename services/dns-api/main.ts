import { listenHttp } from "../platform/http/listen.ts";
import type { StartService } from "../platform/service.ts";
import { makeDnsApi } from "./app.ts";
import { ZoneAnnouncer } from "./zone-announcer.ts";

/** The DNS management API. */
export const start: StartService = async ({ config, secret, db, clock, observe }) => {
  const announcer = new ZoneAnnouncer(db, observe);
  const app = makeDnsApi({ db, secret, clock, announcer }, config, observe);
  const listener = await listenHttp(app, config.listen.dnsApi);
  return {
    addresses: listener ? { dns_api: listener.url } : {},
    stop: async () => {
      await listener?.close();
      await announcer.drained();
    },
  };
};
