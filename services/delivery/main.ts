import { bounceRules } from "../core/mail/bounce/rules.ts";
import { readPaceReplies } from "../core/mail/pace/replies.ts";
import { chooseSchedule, type RetrySchedule, readRetryDefaults } from "../core/mail/retry.ts";
import { AttemptLog } from "../operations/mail/attempt-log.ts";
import { ContentScanner } from "../operations/mail/content-scan.ts";
import type { Config } from "../platform/config/config.ts";
import { readConfigFile } from "../platform/config/config-file.ts";
import { domainGroups } from "../platform/config/domain-groups.ts";
import { guardPolicy } from "../platform/config/guard-policy.ts";
import { type Lifecycle, serviceWithin } from "../platform/lifecycle.ts";
import { fetchText } from "../platform/lookups/fetch-html.ts";
import { postTo } from "../platform/lookups/post.ts";
import { makeResolver, type Resolver } from "../platform/lookups/resolver.ts";
import { makeSecureLookup } from "../platform/lookups/secure-lookup.ts";
import { makeSureTxtLookup, makeTxtLookup } from "../platform/lookups/txt-lookup.ts";
import type { Addresses, ServiceContext } from "../platform/service.ts";
import { CampaignRunner } from "./campaign-runner.ts";
import { startGuardWatch } from "./guard-watch.ts";
import { startHousekeeping } from "./housekeeping.ts";
import { listenForMail } from "./listen-for-mail.ts";
import { MessageCache } from "./message-cache.ts";
import { OctetBudget } from "./octet-budget.ts";
import { PaceKeeper } from "./pace/pace-keeper.ts";
import { configuredPerHour, type DeliveryPolicy, readDeliveryPolicy } from "./policy.ts";
import { startReporter } from "./reporter.ts";
import { type FindDane, makeFindDane } from "./routing/dane.ts";
import { makeFindRoute } from "./routing/route.ts";
import { SourcePools } from "./routing/source-pools.ts";
import { makeFindPolicy } from "./routing/sts-policies.ts";
import { SessionPool } from "./session-pool.ts";
import { TrafficShaping } from "./shaping.ts";
import { startTlsReporter, type TlsReporterOptions } from "./tls-reporter.ts";
import { WordingsInForce } from "./wordings-in-force.ts";
import { DeliveryWorker } from "./worker.ts";

/** Takes mail from the queue to where it goes. */
export const start = serviceWithin(begin);

async function begin(lifecycle: Lifecycle, context: ServiceContext): Promise<Addresses> {
  bounceRules(); // what is wrong with them ends the start
  const { db, clock, observe, config } = context;
  const policy = readConfigFile("delivery.json", readDeliveryPolicy);
  const schedule = chooseSchedule(readConfigFile("retry.json", readRetryDefaults), {
    isSandbox: config.delivery.kind === "sandbox",
    waitSeconds: config.retrySeconds,
    giveUpHours: config.giveUpHours,
  });
  const resolver = await makeResolver(config.resolver);
  const wordings = new WordingsInForce(context);
  lifecycle.onStop("wordings", () => wordings.stop());
  const worker = await makeWorker(context, { policy, schedule, resolver, wordings });
  const tlsReports = config.tlsReports ? await tlsReporting(context, policy, resolver) : undefined;
  const campaigns = new CampaignRunner({
    ...context,
    fetch: { config, resolver },
    bounceSpike: policy.bounceSpike,
    content: new ContentScanner(config.rspamd, guardPolicy.content, observe),
  });
  worker.start();
  campaigns.start();
  const listening = listenForMail(context, {
    onMail: (instanceIds) => worker.wake(instanceIds),
    onStop: () => worker.heedNotice(),
  });
  const { hostname } = config;
  const { giveUpHours } = schedule;
  const tlsReporter = tlsReports && startTlsReporter(tlsReports);
  const reporter = startReporter({ db, clock, observe, hostname, giveUpHours, policy: policy.reports });
  const housekeeping = startHousekeeping(context);
  const guard = startGuardWatch({ ...context, policy: guardPolicy, notices: config.notices, judges: config.guard });
  lifecycle.onStopTogether({
    worker: () => worker.stop(),
    campaigns: () => campaigns.stop(),
    listening: () => listening.stop(),
    "tls-reporter": () => tlsReporter?.stop(),
    reporter: () => reporter.stop(),
    housekeeping: () => housekeeping.stop(),
    guard: () => guard.stop(),
  });
  return {};
}

async function tlsReporting(
  context: ServiceContext,
  { tlsReports }: DeliveryPolicy,
  resolver: Resolver,
): Promise<TlsReporterOptions> {
  const { config } = context;
  const ways = { config, resolver, sandboxAddress: () => context.addressOf("sandbox") };
  return {
    ...context,
    bounceDomain: config.bounceDomain,
    policy: tlsReports,
    hostname: config.hostname,
    findRoute: makeFindRoute({ ...ways, findPolicy: async () => undefined }),
    lookUpTexts: await makeSureTxtLookup(config.resolver),
    post: (url, message, signal) => postTo(url, message, { config, resolver, signal }),
  };
}

interface WorkerParts {
  readonly policy: DeliveryPolicy;
  readonly schedule: RetrySchedule;
  readonly resolver: Resolver;
  readonly wordings: WordingsInForce;
}

async function makeWorker(
  context: ServiceContext,
  { policy, schedule, resolver, wordings }: WorkerParts,
): Promise<DeliveryWorker> {
  const { config, keyRing, db, clock, observe } = context;
  // A sandbox has no pace, and a smart host's is not that of those behind it.
  const pace = config.delivery.kind === "mx" ? makePaceKeeper(context, policy, wordings) : undefined;
  return new DeliveryWorker({
    db,
    policy,
    schedule,
    observe,
    shaping: new TrafficShaping(policy, domainGroups, clock, pace),
    pace,
    hardBouncesToInvalidate: config.hardBouncesToInvalidate,
    attempts: config.attemptRetentionDays > 0 ? new AttemptLog() : undefined,
    tools: {
      messages: new MessageCache(db, keyRing, config.bounceDomain),
      budget: new OctetBudget(policy.composingOctets, policy.lanes),
      sessions: new SessionPool({
        client: { hostname: config.hostname, timeouts: policy.timeouts },
        idleMs: policy.idleSessionMs,
      }),
      sources: new SourcePools(policy, clock, Math.random),
      findRoute: makeFindRoute({
        config,
        resolver,
        findDane: await findDaneBy(config),
        findPolicy: makeFindPolicy({
          db,
          observe,
          lookUpTexts: await makeTxtLookup(config.resolver),
          fetchPolicy: (url) => fetchText(url, "text", { config, resolver, mostRedirects: 0 }),
        }),
        sandboxAddress: () => context.addressOf("sandbox"),
      }),
      compose: {
        keyRing,
        bounceDomain: config.bounceDomain,
        trackingUrl: config.trackingUrl ?? (await context.addressOf("tracking")),
        feedbackAddress: config.feedbackAddresses.find((address) => address.endsWith(`@${config.bounceDomain}`)),
      },
      schedule,
      countsTls: config.tlsReports,
      wordings,
      clock,
      random: Math.random,
      observe,
    },
  });
}

function makePaceKeeper(
  { db, observe }: ServiceContext,
  policy: DeliveryPolicy,
  wordings: WordingsInForce,
): PaceKeeper {
  return new PaceKeeper({
    db,
    observe,
    wordings,
    replies: readConfigFile("pace-replies.json", readPaceReplies),
    configuredPerHour: (provider) => configuredPerHour(policy, provider),
  });
}

/** Without a resolver of our own nobody validates: the system's may be anybody's. */
async function findDaneBy({ resolver, dane }: Config): Promise<FindDane | undefined> {
  return dane === "off" || resolver === null ? undefined : makeFindDane(await makeSecureLookup(resolver));
}
