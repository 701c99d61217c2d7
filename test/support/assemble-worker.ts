import { readFileSync } from "node:fs";
import type { KeyRing } from "../../services/core/key-ring.ts";
import { compileDomainGroups } from "../../services/core/mail/address-group.ts";
import { knownPhrases } from "../../services/core/mail/bounce/class.ts";
import { readPaceReplies } from "../../services/core/mail/pace/replies.ts";
import { MessageCache } from "../../services/delivery/message-cache.ts";
import { OctetBudget } from "../../services/delivery/octet-budget.ts";
import type { SimulatedTime } from "../../services/delivery/pace/pace-exchanger.ts";
import { PaceKeeper } from "../../services/delivery/pace/pace-keeper.ts";
import { configuredPerHour, type DeliveryPolicy, readDeliveryPolicy } from "../../services/delivery/policy.ts";
import type { FindRoute } from "../../services/delivery/routing/route.ts";
import { SourcePools } from "../../services/delivery/routing/source-pools.ts";
import { SessionPool } from "../../services/delivery/session-pool.ts";
import { TrafficShaping } from "../../services/delivery/shaping.ts";
import { DeliveryWorker } from "../../services/delivery/worker.ts";
import { AttemptLog } from "../../services/operations/mail/attempt-log.ts";
import { type Clock, systemClock } from "../../services/platform/clock.ts";
import type { Observe } from "../../services/platform/observability/observation.ts";
import type { Db } from "../../services/platform/postgres/db.ts";

export interface WorkerPlan {
  readonly db: Db;
  readonly keyRing: KeyRing;
  readonly timeouts: { readonly connectMs: number; readonly greetingMs: number; readonly commandMs: number };
  readonly changes: Partial<DeliveryPolicy>;
  readonly waitSeconds: number[];
  /** 72 unless given. */
  readonly giveUpHours?: number;
  readonly observe: Observe;
  readonly clock?: Clock;
  /** As config/domain-groups.json has them. */
  readonly providers?: readonly object[];
  /** Sessions are counted for reports about TLS. */
  readonly countsTls?: boolean;
  /** Whether the pace is kept for all workers together, and learnt. */
  readonly paced?: boolean;
  readonly simulated?: SimulatedTime;
}

/** A worker with the parts that the service gives it, for a test or for a process of its own. */
export function assembleWorker(findRoute: FindRoute, plan: WorkerPlan): DeliveryWorker {
  const {
    db,
    keyRing,
    timeouts,
    changes,
    waitSeconds,
    giveUpHours = 72,
    observe,
    clock = systemClock,
    providers = [],
  } = plan;
  const read = readDeliveryPolicy(JSON.parse(readFileSync("config/delivery.json", "utf8")));
  const groups = compileDomainGroups(providers);
  const replies = readPaceReplies(JSON.parse(readFileSync("config/pace-replies.json", "utf8")));
  if (!read.ok || !groups.ok || !replies.ok) throw new Error("unreadable");
  const policy = { ...read.value, ...changes };
  const schedule = { waitSeconds, giveUpHours, jitter: 0.1 };
  const wordings = { phrases: knownPhrases };
  const pace = plan.paced
    ? new PaceKeeper({
        db,
        replies: replies.value,
        wordings,
        observe,
        configuredPerHour: (provider) => configuredPerHour(policy, provider),
        ...(plan.simulated === undefined ? {} : { simulated: plan.simulated }),
      })
    : undefined;
  return new DeliveryWorker({
    db,
    policy,
    schedule,
    observe,
    pace,
    shaping: new TrafficShaping(policy, groups.value, clock, pace),
    hardBouncesToInvalidate: 2,
    attempts: new AttemptLog(),
    tools: {
      messages: new MessageCache(db, keyRing, "bounces.example.org"),
      budget: new OctetBudget(policy.composingOctets, policy.lanes),
      sessions: new SessionPool({ client: { hostname: "localhost", timeouts }, idleMs: 500 }),
      sources: new SourcePools(policy, clock, Math.random),
      findRoute,
      compose: {
        keyRing,
        bounceDomain: "bounces.example.org",
        trackingUrl: "http://track.example.org",
        feedbackAddress: "fbl@bounces.example.org",
      },
      schedule,
      countsTls: plan.countsTls ?? false,
      wordings,
      clock,
      random: Math.random,
      observe,
    },
  });
}
