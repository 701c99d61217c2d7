import { type LimitScope, type OverLimit, windowAfter, windowStart } from "../../core/mail/guard/sending-limits.ts";
import { type SendingPolicy, sendingPolicy } from "../../platform/config/sending-limits.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { readSending } from "../../store/mail/guard/sending-counts.ts";
import { countWaiting } from "../../store/mail/guard/waiting-recipients.ts";
import { limitsInForce, rampInForce, rampStart } from "./sending-gate.ts";

/** A limit with what is used of it, as the console and the command line show it. */
export interface ShownLimit {
  readonly scope: LimitScope | "ramp";
  /** Of which campaign or sender; '' of the instance, and of each that has none of its own. */
  readonly subject: string;
  readonly per_hour: number | null;
  readonly per_day: number | null;
  readonly over: OverLimit;
  /** Of the present hour and day; null where the limit is one for each. */
  readonly used_hour: number | null;
  readonly used_day: number | null;
  /** It goes for every instance (config/sending-limits.json). */
  readonly default: boolean;
}

/** What an instance may send and has sent. */
export interface SendingOverview {
  readonly limits: readonly ShownLimit[];
  /** From when on its ramp counts; null: it has none. */
  readonly ramp_from: string | null;
  /** Recipients that wait for a window with room, and when the first of them go. */
  readonly waiting: number;
  readonly goes_on_at: string | null;
  /** When the present hour and day end. */
  readonly hour_ends_at: string;
  readonly day_ends_at: string;
}

export async function readSendingOverview(
  db: Db,
  instanceId: number,
  now: Date,
  policy: SendingPolicy = sendingPolicy,
): Promise<SendingOverview> {
  const state = await readSending(db, instanceId, now);
  const waiting = await countWaiting(db, instanceId);
  const used = (key: string, grain: "hour" | "day") =>
    state.counts.find(
      (one) => one.key === key && one.grain === grain && one.startsAt.getTime() === windowStart(grain, now).getTime(),
    )?.count ?? 0;
  const ramp = rampInForce(state, policy, now);
  const inForce = [
    ...limitsInForce(state, policy).map((limit) => ({ ...limit, default: policy.default.includes(limit) })),
    ...(ramp === undefined ? [] : [{ ...ramp, scope: "ramp" as const, subject: "", default: false }]),
  ];
  return {
    limits: inForce.map(({ scope, subject, perHour, perDay, over, default: isDefault }) => {
      const isOfEach = subject === "" && (scope === "campaign" || scope === "sender");
      const key = scope === "instance" || scope === "ramp" ? "instance" : `${scope} ${subject}`;
      return {
        ...{ scope, subject, per_hour: perHour, per_day: perDay, over, default: isDefault },
        used_hour: isOfEach || perHour === null ? null : used(key, "hour"),
        used_day: isOfEach || perDay === null ? null : used(key, "day"),
      };
    }),
    ramp_from: rampStart(state, policy)?.toISOString() ?? null,
    waiting: waiting.recipients,
    goes_on_at: waiting.goesOnAt?.toISOString() ?? null,
    hour_ends_at: windowAfter("hour", now).toISOString(),
    day_ends_at: windowAfter("day", now).toISOString(),
  };
}
