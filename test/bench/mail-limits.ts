import { setTimeout as sleep } from "node:timers/promises";
import type { LimitScope } from "../../services/core/mail/guard/sending-limits.ts";
import type { Db } from "../../services/platform/postgres/db.ts";
import { setSendingLimit } from "../../services/store/mail/guard/sending-limits.ts";
import type { ProcessorTime } from "./mail-processor-time.ts";
import { percentile } from "./percentile.ts";

const SCOPES: readonly LimitScope[] = ["instance", "campaign", "sender"];
/** Many and short ones: what PostgreSQL clears up now and then falls into a few of them. */
const ROUNDS = 30;
const UNREACHED = 1_000_000_000;

/** Whose mail is submitted: two instances without limits, one to compare by and one to tell what chance makes, and one with them. */
export const LIMITS_KINDS = ["without", "control", "with"] as const;
export type LimitsKind = (typeof LIMITS_KINDS)[number];

/** Milliseconds of a process for a submitted message. */
export interface LimitsCost {
  readonly process: string;
  /** The middle of the rounds without limits. */
  readonly withoutMs: number;
  /** The middle of what the rounds with limits took more than the ones beside them without. */
  readonly addedMs: number;
  /** The same of another instance without limits: what is no more than this is chance. */
  readonly chanceMs: number;
}

/**
 * What limits by hour and day of the instance, its campaigns and its senders cost submission: rounds of instances that have
 * none and of one that has all of them by turns, in processor time. No worker is to run beside. PostgreSQL's scatters by what
 * it clears up meanwhile.
 * @param limitedId the instance that is given the limits
 * @param measured processes by what they are
 * @param submit submits so many messages for one of the instances
 */
export async function measureLimits(
  db: Db,
  limitedId: number,
  load: { readonly measured: ReadonlyMap<string, ProcessorTime>; readonly messages: number; readonly rounds?: number },
  submit: (kind: LimitsKind) => Promise<unknown>,
): Promise<LimitsCost[]> {
  const { measured, messages, rounds = ROUNDS } = load;
  for (const scope of SCOPES) {
    const limit = { scope, subject: "", perHour: UNREACHED, perDay: UNREACHED, over: "refuse" as const };
    await setSendingLimit(db, limitedId, limit);
  }
  /** Milliseconds of each process for a message. */
  const round = async (kind: LimitsKind) => {
    const before = [...measured.values()].map((secondsOf) => secondsOf() ?? 0);
    await submit(kind);
    // What is written behind the answers counts as well.
    await sleep(200);
    return [...measured.values()].map((secondsOf, index) => (((secondsOf() ?? 0) - before[index]!) * 1_000) / messages);
  };
  for (const kind of LIMITS_KINDS) await round(kind);
  const taken: Record<LimitsKind, number[]>[] = [];
  for (let count = 0; count < rounds; count++) {
    const own: Record<LimitsKind, number[]> = { without: [], control: [], with: [] };
    for (let place = 0; place < LIMITS_KINDS.length; place++) {
      // Each comes first, second and last as often.
      const kind =
        LIMITS_KINDS[(count + (count % 2 === 0 ? place : LIMITS_KINDS.length - place)) % LIMITS_KINDS.length]!;
      own[kind] = await round(kind);
    }
    taken.push(own);
  }
  return [...measured.keys()].map((process, index) => {
    const middle = (of: (own: Record<LimitsKind, number[]>) => number) => percentile(taken.map(of), 50);
    return {
      process,
      withoutMs: middle((own) => own.without[index]!),
      addedMs: middle((own) => own.with[index]! - own.without[index]!),
      chanceMs: middle((own) => own.control[index]! - own.without[index]!),
    };
  });
}
