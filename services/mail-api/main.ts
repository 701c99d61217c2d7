import { ContentScanner } from "../operations/mail/content-scan.ts";
import { CredentialPlaces } from "../operations/mail/credential-places.ts";
import { guardPolicy } from "../platform/config/guard-policy.ts";
import { LargeRequests } from "../platform/http/large-requests.ts";
import { listenHttp } from "../platform/http/listen.ts";
import { openPlaces } from "../platform/lookups/places.ts";
import { makeResolver } from "../platform/lookups/resolver.ts";
import type { StartService } from "../platform/service.ts";
import { makeEventStreams, makeMailApp } from "./app.ts";
import { startMaintenance } from "./maintenance.ts";

/** Serves the mail API, and keeps the event tables in order beside it. */
export const start: StartService = async ({ config, keyRing, db, clock, observe, openLargeRequests }) => {
  const resolver = await makeResolver(config.resolver);
  const content = new ContentScanner(config.rspamd, guardPolicy.content, observe);
  const places = new CredentialPlaces(db, openPlaces(config.placeDatabase), observe);
  const largeRequests = openLargeRequests && new LargeRequests(openLargeRequests, observe);
  const services = { db, keyRing, config, clock, resolver, places, content };
  const streams = makeEventStreams(services, observe);
  const app = makeMailApp(services, observe, largeRequests, streams);
  const listener = await listenHttp(app, config.listen.mailApi, { observe });
  const maintenance = startMaintenance({ db, clock, config }, observe);
  return {
    addresses: listener ? { mail_api: listener.url } : {},
    stop: async () => {
      await streams.stop();
      await listener?.close();
      await largeRequests?.stop();
      await maintenance.stop();
    },
  };
};
