import { z } from "zod";
import { ok, type Result, refuse } from "../core/result.ts";

const atLeastOne = z.int().min(1);

const groupPolicy = z.strictObject({
  connections: atLeastOne,
  messagesPerConnection: atLeastOne,
  messagesPerMinute: atLeastOne.nullable(),
});

const deliveryPolicy = z.strictObject({
  lanes: atLeastOne,
  leaseSeconds: z.int().min(10),
  flushMs: z.int().min(0).max(1000),
  idleSessionMs: atLeastOne,
  mostBackOffSeconds: atLeastOne,
  composingOctets: atLeastOne,
  timeouts: z.strictObject({ connectMs: atLeastOne, greetingMs: atLeastOne, commandMs: atLeastOne }),
  groups: z.object({ default: groupPolicy }).catchall(groupPolicy),
});

/**
 * How one worker behaves towards a group of domains (config/domain-groups.json); `default` goes for each other domain
 * by itself. `messagesPerMinute` null: as fast as it goes.
 */
export type GroupPolicy = z.output<typeof groupPolicy>;

/**
 * The content of config/delivery.json.
 * `lanes`: partitions that a worker delivers at once. `leaseSeconds`: after which a dead worker's partitions go to
 * others. `flushMs`: outcomes are gathered for that long; what a crash repeats is at most one such window.
 * `mostBackOffSeconds`: the longest that a destination in trouble is left alone. `composingOctets`: memory for the
 * messages that are on their way at once; above it lanes wait for each other.
 */
export type DeliveryPolicy = z.output<typeof deliveryPolicy>;

/** Checks the content of the file. @returns refused with a sentence */
export function readDeliveryPolicy(data: unknown): Result<DeliveryPolicy, string> {
  const parsed = deliveryPolicy.safeParse(data);
  return parsed.success ? ok(parsed.data) : refuse(z.prettifyError(parsed.error));
}
