import type { TargetAnswer } from "../../core/dns/follow/evaluate.ts";
import { absoluteText } from "../../core/dns/follow/follower.ts";
import { TYPE } from "../../core/dns/rr-types.ts";
import { type Sentence, sentence } from "../../core/sentences.ts";
import { followPolicy } from "../../platform/config/follow-policy.ts";
import { isPublishable } from "../../platform/lookups/address-blocks.ts";
import type { AddressAnswer, LookUpAddresses } from "../../platform/lookups/address-lookup.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { type DueTarget, writeAskedTarget } from "../../store/dns/follow-targets.ts";
import { stirFollowersOfTargets } from "../../store/dns/followers.ts";

export interface AskingOptions {
  readonly lookUp: LookUpAddresses;
  /** Blocks that are not public and may be published all the same. */
  readonly allowed: readonly string[];
}

/**
 * Asks for a target, and has what follows it derived anew where the answer is another. What cannot be answered, and
 * addresses that are not public, leave the last answer in force; that the name does not exist withdraws it when it was
 * said a number of times.
 */
export async function askTarget(
  db: Db,
  target: DueTarget,
  { lookUp, allowed }: AskingOptions,
  now: Date,
): Promise<void> {
  const { name } = target;
  if (name === undefined) throw new Error(`stored target is corrupt: ${target.nameKey.toString("hex")} is no name`);
  const from = performance.now();
  const answers = await Promise.all([lookUp(name, TYPE.A), lookUp(name, TYPE.AAAA)]);
  const isSlow = performance.now() - from > SLOW_MS;
  const { seconds, ...outcome } = judge(target, answers, allowed);
  const { answer, problem } = outcome;
  const dueAt = new Date(now.getTime() + seconds * 1_000);
  await writeAskedTarget(db, { ...outcome, nameKey: target.nameKey, isSlow, dueAt }, now);
  const isNew = JSON.stringify(inOrder(answer)) !== JSON.stringify(inOrder(target.answer));
  if (isNew || problem?.code !== target.problem?.code) await stirFollowersOfTargets(db, [target.nameKey], now);
}

/** What takes longer to answer is asked for after what does not. */
const SLOW_MS = 1_000;

/** JSON from the database, an answer that is kept included, has its members in an order of its own. */
function inOrder(answer: TargetAnswer | null): TargetAnswer | null {
  return answer && { ipv4: answer.ipv4, ipv6: answer.ipv6, ttl: answer.ttl, chain: answer.chain };
}

interface Outcome {
  readonly answer: TargetAnswer | null;
  readonly problem: Sentence | null;
  readonly nxdomains: number;
  readonly failures: number;
  readonly isAnswered: boolean;
  /** Until it is asked for again. */
  readonly seconds: number;
}

const { alias: policy } = followPolicy;

function judge(
  { answer: last, nxdomains, failures }: DueTarget,
  [ipv4, ipv6]: readonly AddressAnswer[],
  allowed: readonly string[],
): Outcome {
  const failed = [ipv4!, ipv6!].find(({ kind }) => kind === "failure");
  if (failed?.kind === "failure") {
    const { first, most } = policy.retrySeconds;
    const wait = Math.min(most, first * 2 ** failures);
    return { ...keep(last, failed.reason, wait, 0), failures: failures + 1 };
  }
  if (ipv4!.kind === "nxdomain" || ipv6!.kind === "nxdomain") {
    const { confirmations, everySeconds } = policy.nxdomain;
    const said = nxdomains + 1;
    const reason = sentence("target-nxdomain");
    if (said < confirmations) return keep(last, reason, everySeconds, said);
    const nothing = { ipv4: [], ipv6: [], ttl: policy.ttlSeconds.least, chain: [] };
    return { ...keep(nothing, reason, policy.nodataSeconds.most, said), isAnswered: true };
  }
  const [a, aaaa] = [ipv4, ipv6].map((one) => (one?.kind === "found" ? one : undefined));
  const told = { ipv4: a?.addresses ?? [], ipv6: aaaa?.addresses ?? [] };
  const isAllowed = (address: string) => isPublishable(address, allowed);
  const lawful = { ipv4: told.ipv4.filter(isAllowed).sort(), ipv6: told.ipv6.filter(isAllowed).sort() };
  const count = lawful.ipv4.length + lawful.ipv6.length;
  const seconds = holdsFor(count, [a, aaaa]);
  const isShort = count < told.ipv4.length + told.ipv6.length;
  if (count === 0 && isShort) return keep(last, sentence("target-private"), seconds, 0);
  const chain = [...new Set([...(a?.chain ?? []), ...(aaaa?.chain ?? [])].map(absoluteText))];
  const answer = { ...lawful, ttl: publishedTtl(last, lawful, seconds), chain };
  const problem = isShort ? sentence("target-private") : null;
  return { answer, problem, nxdomains: 0, failures: 0, isAnswered: true, seconds };
}

function keep(answer: TargetAnswer | null, problem: Sentence, seconds: number, nxdomains: number): Outcome {
  return { answer, problem, nxdomains, failures: 0, isAnswered: false, seconds };
}

/** Of the families that have addresses the one that ends first; that one is missing is looked for as often. */
function holdsFor(
  count: number,
  answers: readonly ({ addresses: readonly string[]; ttl: number } | undefined)[],
): number {
  const { least, most } = count === 0 ? policy.nodataSeconds : policy.ttlSeconds;
  const ttls = answers.flatMap((one) => (one && (count === 0 || one.addresses.length > 0) ? [one.ttl] : []));
  return Math.min(most, Math.max(least, ...[Math.min(...ttls)].filter(Number.isFinite)));
}

/**
 * What is left of a TTL in a resolver's cache is no reason for another version of the zones: the larger one is the
 * target's own. One of less than half says that the target has another now.
 */
function publishedTtl(last: TargetAnswer | null, now: Pick<TargetAnswer, "ipv4" | "ipv6">, seconds: number): number {
  const isSame = last && `${last.ipv4} ${last.ipv6}` === `${now.ipv4} ${now.ipv6}`;
  return isSame && seconds <= last.ttl && seconds * 2 >= last.ttl ? last.ttl : seconds;
}
