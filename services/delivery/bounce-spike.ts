import { isAboveShare } from "../core/mail/guard/behaviour.ts";
import { type Sentence, sentence } from "../core/sentences.ts";
import type { BounceSpikeRule } from "./policy.ts";

/** Recipients that have a last outcome, and hard bounces among them. */
interface BounceCounts {
  readonly tried: number;
  readonly bounced: number;
}

/**
 * Whether so much of a campaign bounces that it had better stop: providers judge a sender by just that.
 * @param judged the counts when a person last let it go on; only what came since counts
 * @returns the reason, in the words of the API; undefined when all is well, or not enough is known
 */
export function judgeBounces(
  counts: BounceCounts,
  judged: BounceCounts,
  { leastTried, hardBouncePercent }: BounceSpikeRule,
): Sentence | undefined {
  const tried = counts.tried - judged.tried;
  const bounced = counts.bounced - judged.bounced;
  const rule = { leastTried, leastWrong: 0, percent: hardBouncePercent };
  if (!isAboveShare({ tried, wrong: bounced }, rule)) return undefined;
  return sentence("bounces-above", { bounced, tried, limit: hardBouncePercent });
}
