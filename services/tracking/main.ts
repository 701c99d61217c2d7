import { join } from "node:path";
import { recentMap } from "../core/recent-map.ts";
import { ok } from "../core/result.ts";
import type { Touch } from "../operations/mail/tracking-events.ts";
import { readConfigFile } from "../platform/config/config-file.ts";
import { LOOPBACK_PROXIES, makeClientAddress } from "../platform/http/client-address.ts";
import { makeRateLimits } from "../platform/http/limits.ts";
import { listenHttp, listenHttps } from "../platform/http/listen.ts";
import { openPlaces } from "../platform/lookups/places.ts";
import { makeResolver } from "../platform/lookups/resolver.ts";
import type { StartService } from "../platform/service.ts";
import { makeTrackingApp } from "./app.ts";
import { EventWriter } from "./event-writer.ts";
import { HostCertificates } from "./host-certificates.ts";
import { LinkDirectory } from "./link-directory.ts";
import { Spool } from "./spool.ts";
import { compileVisitorRules } from "./visitor.ts";
import { WebhookWorker } from "./webhooks/worker.ts";

/** Machines that look before they leap, as many as come within seconds. */
const REMEMBERED_HEADS = 10_000;

/** What recipients touch: opens, clicks, unsubscriptions, conversions; and the webhooks that tell of all events. */
export const start: StartService = async ({ config, keyRing, db, clock, observe }) => {
  const visitors = compileVisitorRules(readConfigFile("user-agents.json", ok), openPlaces(config.placeDatabase));
  const spool = await Spool.open<Touch>(join(config.dataDir, "tracking"));
  const rule = { machineSeconds: config.machineSeconds, allLinks: visitors.allLinks, recall: visitors.recall };
  const writer = new EventWriter({ db, spool, rule, observe });
  const links = new LinkDirectory(db, observe);
  const surroundings = { config, resolver: await makeResolver(config.resolver) };
  const webhooks = new WebhookWorker({ db, keyRing, clock, observe, surroundings });
  const app = makeTrackingApp({
    keyRing,
    db,
    clock,
    links,
    visitors,
    heads: recentMap<string, number>(REMEMBERED_HEADS),
    limits: makeRateLimits(config.apiRequestsPerSecond, config.limitLoopback),
    clientAddress: makeClientAddress([...LOOPBACK_PROXIES, ...config.trustedProxies]),
    observe,
    record: async (touch) => {
      await spool.append(touch);
      writer.wake();
    },
  });
  writer.start();
  links.start();
  webhooks.start();
  const listener = await listenHttp(app, config.listen.tracking, { observe });
  const hosts = new HostCertificates(db, keyRing, observe);
  const find = (name: string) => hosts.find(name);
  const secure = await listenHttps(app, config.listen.trackingTls, { config, observe, find });
  return {
    addresses: {
      ...(listener ? { tracking: listener.url } : {}),
      ...(secure ? { tracking_tls: secure.address } : {}),
    },
    stop: async () => {
      await Promise.all([listener?.close(), secure?.close()]);
      await Promise.all([links.stop(), webhooks.stop(), writer.stop()]);
      await spool.close();
    },
  };
};
