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

/** Milliseconds of a process for a submitted message, without and with sending limits: the middle of the rounds. */
export interface LimitsCost {
  readonly process: string;
  readonly withoutMs: number;
  readonly withMs: number;
}

/**
 * What limits by hour and day of the instance, its campaigns and its senders cost submission: rounds of an instance that has
 * none and of one that has all of them by turns, in processor time. No worker is to run beside. PostgreSQL's scatters by what
 * it clears up meanwhile.
 * @param limitedId the instance that is given the limits
 * @param measured processes by what they are
 * @param submit submits so many messages for one of the two
 */
export async function measureLimits(
  db: Db,
  limitedId: number,
  { measured, messages }: { readonly measured: ReadonlyMap<string, ProcessorTime>; readonly messages: number },
  submit: (isLimited: boolean) => Promise<unknown>,
): Promise<LimitsCost[]> {
  for (const scope of SCOPES) {
    const limit = { scope, subject: "", perHour: UNREACHED, perDay: UNREACHED, over: "refuse" as const };
    await setSendingLimit(db, limitedId, limit);
  }
  /** Seconds of each process. */
  const round = async (isLimited: boolean) => {
    const before = [...measured.values()].map((secondsOf) => secondsOf() ?? 0);
    await submit(isLimited);
    // What is written behind the answers counts as well.
    await sleep(200);
    return [...measured.values()].map((secondsOf, index) => (secondsOf() ?? 0) - before[index]!);
  };
  for (const isLimited of [false, true]) await round(isLimited);
  const rounds: { readonly isLimited: boolean; readonly seconds: readonly number[] }[] = [];
  for (let pair = 0; pair < ROUNDS; pair++) {
    for (const isLimited of [pair % 2 === 1, pair % 2 === 0])
      rounds.push({ isLimited, seconds: await round(isLimited) });
  }
  return [...measured.keys()].map((process, index) => {
    const middleMs = (limited: boolean) => {
      const own = rounds.filter(({ isLimited }) => isLimited === limited).map(({ seconds }) => seconds[index]!);
      return (percentile(own, 50) * 1_000) / messages;
    };
    return { process, withoutMs: middleMs(false), withMs: middleMs(true) };
  });
}
