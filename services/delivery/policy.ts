import { z } from "zod";
import { ok, type Result, refuse } from "../core/result.ts";

const atLeastOne = z.int().min(1);

const groupPolicy = z.strictObject({
  connections: atLeastOne,
  messagesPerConnection: atLeastOne,
  messagesPerMinute: atLeastOne.nullable(),
});

const poolPolicy = z.strictObject({
  addresses: z.array(
    z.strictObject({
      address: z.union([z.ipv4(), z.ipv6()]),
      weight: z.int().min(1).default(1),
      hostname: z.hostname().optional(),
    }),
  ),
  connections: atLeastOne.nullable(),
  messagesPerMinute: atLeastOne.nullable(),
});

const deliveryPolicy = z.strictObject({
  lanes: atLeastOne,
  waitingLanes: z.int().min(0).default(200),
  leaseSeconds: z.int().min(10),
  flushMs: z.int().min(0).max(1000),
  flushOutcomes: atLeastOne,
  idleSessionMs: atLeastOne,
  mostBackOffSeconds: atLeastOne,
  composingOctets: atLeastOne,
  timeouts: z.strictObject({ connectMs: atLeastOne, greetingMs: atLeastOne, commandMs: atLeastOne }),
  groups: z.object({ default: groupPolicy }).catchall(groupPolicy),
  pools: z.object({ default: poolPolicy }).catchall(poolPolicy),
  poolOf: z.array(z.strictObject({ instance: z.string(), campaign: z.int().optional(), pool: z.string() })),
  reports: z.strictObject({
    delayHours: z.number().positive(),
    gatherSeconds: z.number().min(0).max(60),
    recipientsPerReport: atLeastOne,
    reportsPerHour: atLeastOne,
    withheldAfterHours: z.number().positive(),
    returnedOctets: atLeastOne,
  }),
  tlsReports: z.strictObject({
    leastSeconds: z.int().min(0),
    mostSeconds: z.int().min(0),
    perMinute: atLeastOne,
    perTargetAndDay: atLeastOne,
    mostAttempts: atLeastOne,
    retrySeconds: atLeastOne,
  }),
  bounceSpike: z.strictObject({ leastTried: atLeastOne, hardBouncePercent: z.number().min(1).max(100) }),
});

/**
 * How mail of one source goes to a group of domains (config/domain-groups.json); `default` goes for each other domain by
 * itself. `connections` are those of one worker, `messagesPerMinute` those of all workers together, but in a sandbox and
 * through a smart host of each; null: as fast as it goes.
 */
export type GroupPolicy = z.output<typeof groupPolicy>;

/**
 * The addresses that mail leaves from: each for its share of the weights, with the name that its PTR record has
 * (PALOMAR_HOSTNAME unless given); none: the system chooses. `connections` and `messagesPerMinute` are the most that
 * one worker has of the pool; null: no limit.
 */
export type PoolPolicy = z.output<typeof poolPolicy>;

/** When a campaign pauses itself: so many per cent hard bounces among the recipients tried, once there are enough. */
export type BounceSpikeRule = DeliveryPolicy["bounceSpike"];

/**
 * The content of config/delivery.json.
 * `lanes`: partitions that a worker delivers at once, on Citus twice as many. `waitingLanes`: how many more it has under
 * way while far sides let it wait, for a connection or a reply. `leaseSeconds`: after which a dead worker's partitions
 * go to others. `flushMs`, `flushOutcomes`: outcomes are gathered for that long or until there are so many, on Citus
 * three times as long and as many, and then stored (see `mostUnnoted`). `mostBackOffSeconds`: the longest that a
 * destination in trouble is left alone. `composingOctets`: memory for the messages that are on their way at once, half
 * of it at most for one instance, and for one destination; above it lanes wait for each other. `poolOf`: the pool of an
 * instance, or of one of its campaigns; the first row that fits decides, `default` goes for all others. `reports`: how
 * senders are told what became of their messages (`ReportPolicy`); of a delay after `delayHours` in the queue.
 * `tlsReports`: about a day that is over, at some time from `leastSeconds` to `mostSeconds` after it; by all processes
 * together so many a minute, and to one registrable domain so many about a day; tried `mostAttempts` times, the first
 * time again after `retrySeconds`.
 */
export type DeliveryPolicy = z.output<typeof deliveryPolicy>;

/** Where each instance's outcomes are a transaction of their own, a window is so many times as long and as large. */
const SPREAD_WINDOW = 3;
/** Where each instance's partitions are leased by a statement of their own, there are so many times as many lanes. */
const SPREAD_LANES = 2;

/** How much a worker has under way, and stores together. */
export type Scale = Pick<DeliveryPolicy, "lanes" | "flushMs" | "flushOutcomes">;

/** @param isSpread whether instances may be on several machines of the database */
export function scaleOf({ lanes, flushMs, flushOutcomes }: Scale, isSpread: boolean): Scale {
  if (!isSpread) return { lanes, flushMs, flushOutcomes };
  return {
    lanes: lanes * SPREAD_LANES,
    flushMs: flushMs * SPREAD_WINDOW,
    flushOutcomes: flushOutcomes * SPREAD_WINDOW,
  };
}

/**
 * What a worker that dies may have sent without a note of it, at most, and what is then sent again: a window of outcomes
 * that is being stored, the next one, and a message on the wire for each partition that it held.
 */
export function mostUnnoted({ flushOutcomes }: Pick<Scale, "flushOutcomes">, partitions: number): number {
  return 2 * flushOutcomes + partitions;
}

/**
 * Messages an hour that one source may send to a provider.
 * @param provider a group of config/domain-groups.json, or a domain that is in none
 * @returns null: as fast as it goes
 */
export function configuredPerHour({ groups }: Pick<DeliveryPolicy, "groups">, provider: string): number | null {
  const { messagesPerMinute } = (Object.hasOwn(groups, provider) ? groups[provider] : undefined) ?? groups.default;
  return messagesPerMinute === null ? null : messagesPerMinute * 60;
}

/** Checks the content of the file. @returns refused with a sentence */
export function readDeliveryPolicy(data: unknown): Result<DeliveryPolicy, string> {
  const parsed = deliveryPolicy.safeParse(data);
  if (!parsed.success) return refuse(z.prettifyError(parsed.error));
  const unknown = parsed.data.poolOf.find(({ pool }) => !Object.hasOwn(parsed.data.pools, pool));
  return unknown === undefined ? ok(parsed.data) : refuse(`poolOf: there is no pool ${unknown.pool}`);
}
