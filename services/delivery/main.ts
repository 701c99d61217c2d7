import { readFileSync } from "node:fs";
import { join } from "node:path";
import { readRetrySchedule } from "../core/mail/retry.ts";
import type { Result } from "../core/result.ts";
import { domainGroups } from "../platform/domain-groups.ts";
import { fetchText } from "../platform/fetch-html.ts";
import { packageFolder } from "../platform/package-folder.ts";
import { makeResolver } from "../platform/resolver.ts";
import type { ServiceContext, StartService } from "../platform/service.ts";
import { makeTxtLookup } from "../platform/txt-lookup.ts";
import { startHousekeeping } from "./housekeeping.ts";
import { listenForMail } from "./listen-for-mail.ts";
import { MessageCache } from "./message-cache.ts";
import { OctetBudget } from "./octet-budget.ts";
import { readDeliveryPolicy } from "./policy.ts";
import { makeFindRoute } from "./route.ts";
import { SessionPool } from "./session-pool.ts";
import { TrafficShaping } from "./shaping.ts";
import { makeFindPolicy } from "./sts-policies.ts";
import { DeliveryWorker } from "./worker.ts";

/** Takes mail from the queue to where it goes. */
export const start: StartService = async (context) => {
  const worker = await makeWorker(context);
  worker.start();
  const listening = listenForMail(context, () => worker.wake());
  const housekeeping = startHousekeeping(context.db, context.observe);
  return {
    addresses: {},
    stop: async () => {
      await Promise.all([housekeeping.stop(), listening.stop()]);
      await worker.stop();
    },
  };
};

async function makeWorker(context: ServiceContext): Promise<DeliveryWorker> {
  const { config, secret, db, clock, observe } = context;
  const resolver = await makeResolver(config.resolver);
  const policy = readConfigFile("delivery.json", readDeliveryPolicy);
  const { jitter } = readConfigFile("retry.json", readRetrySchedule);
  const schedule = { waitSeconds: config.retrySeconds, giveUpHours: config.giveUpHours, jitter };
  return new DeliveryWorker({
    db,
    policy,
    schedule,
    observe,
    shaping: new TrafficShaping(policy, domainGroups, clock),
    hardBouncesToInvalidate: config.hardBouncesToInvalidate,
    tools: {
      messages: new MessageCache(db, secret),
      budget: new OctetBudget(policy.composingOctets),
      sessions: new SessionPool({
        client: { hostname: config.hostname, timeouts: policy.timeouts },
        idleMs: policy.idleSessionMs,
      }),
      findRoute: makeFindRoute({
        config,
        resolver,
        findPolicy: makeFindPolicy({
          db,
          observe,
          lookUpTexts: await makeTxtLookup(config.resolver),
          fetchPolicy: (url) => fetchText(url, "text", { config, resolver, mostRedirects: 0 }),
        }),
        sandboxAddress: () => context.addressOf("sandbox"),
      }),
      compose: {
        secret,
        bounceDomain: config.bounceDomain,
        trackingUrl: config.trackingUrl ?? (await context.addressOf("tracking")),
      },
      schedule,
      clock,
      random: Math.random,
      observe,
    },
  });
}

function readConfigFile<T>(name: string, read: (data: unknown) => Result<T, string>): T {
  const content = read(JSON.parse(readFileSync(join(packageFolder, "config", name), "utf8")));
  if (!content.ok) throw new Error(`config/${name}: ${content.error}`);
  return content.value;
}
