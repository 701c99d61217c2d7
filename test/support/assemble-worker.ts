import { readFileSync } from "node:fs";
import type { KeyRing } from "../../services/core/key-ring.ts";
import { compileDomainGroups } from "../../services/core/mail/address-group.ts";
import { knownPhrases } from "../../services/core/mail/bounce/class.ts";
import { MessageCache } from "../../services/delivery/message-cache.ts";
import { OctetBudget } from "../../services/delivery/octet-budget.ts";
import { type DeliveryPolicy, readDeliveryPolicy } from "../../services/delivery/policy.ts";
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
  readonly observe: Observe;
  readonly clock?: Clock;
  /** As config/domain-groups.json has them. */
  readonly providers?: readonly object[];
  /** Sessions are counted for reports about TLS. */
  readonly countsTls?: boolean;
}

/** A worker with the parts that the service gives it, for a test or for a process of its own. */
export function assembleWorker(findRoute: FindRoute, plan: WorkerPlan): DeliveryWorker {
  const { db, keyRing, timeouts, changes, waitSeconds, observe, clock = systemClock, providers = [] } = plan;
  const read = readDeliveryPolicy(JSON.parse(readFileSync("config/delivery.json", "utf8")));
  const groups = compileDomainGroups(providers);
  if (!read.ok || !groups.ok) throw new Error("unreadable");
  const policy = { ...read.value, ...changes };
  const schedule = { waitSeconds, giveUpHours: 72, jitter: 0.1 };
  return new DeliveryWorker({
    db,
    policy,
    schedule,
    observe,
    shaping: new TrafficShaping(policy, groups.value, clock),
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
      wordings: { phrases: knownPhrases },
      clock,
      random: Math.random,
      observe,
    },
  });
}
