import {
  evaluate,
  type FollowedAddresses,
  type FollowView,
  memberAddresses,
  type TargetAnswer,
  targetsBack,
} from "../../core/dns/follow/evaluate.ts";
import { absoluteText, targetsOf } from "../../core/dns/follow/follower.ts";
import { judgeProbe } from "../../core/dns/follow/probe-state.ts";
import { type DomainName, formatDomainName, nameSortKey } from "../../core/dns/name.ts";
import { type Refusal, sentenceOf } from "../../core/refusal.ts";
import { type Sentence, sentence } from "../../core/sentences.ts";
import { followPolicy } from "../../platform/config/follow-policy.ts";
import { isPublishable, isReachable } from "../../platform/lookups/address-blocks.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { addTargets, readTargetAnswers } from "../../store/dns/follow-targets.ts";
import { type DueFollower, type SettledFollower, settleFollowers, writeWays } from "../../store/dns/followers.ts";
import {
  type ChangedProbe,
  countProbes,
  type JudgedProbe,
  type Probe,
  readJudgedProbes,
  replaceProbes,
  writeProbeStates,
} from "../../store/dns/pool-probes.ts";
import type { Zone } from "../../store/dns/zones.ts";
import { type FollowedName, writeAddresses } from "./derived-addresses.ts";
import { followHosted } from "./hosted-addresses.ts";
import { findWaysBack } from "./zone-followers.ts";
import type { ZoneSigner } from "./zone-signing.ts";

/** A follower that nothing happens to is looked at so often all the same. */
const LOOK_EVERY_MS = 3_600_000;
const HELD_BACK_MS = 30_000;

export interface DerivationOptions {
  readonly signer: ZoneSigner;
  /** Blocks that are not public and may be published all the same. */
  readonly allowed: readonly string[];
}

/** What became of a zone whose followers were due. */
export interface Derived {
  /** As it is now, when it changed. */
  readonly zone?: Zone | undefined;
  /** Addresses of members that went down or came up. */
  readonly turned: readonly ChangedProbe[];
  /** Whether others are to be looked at than before. */
  readonly hasOtherProbes: boolean;
}

/**
 * Derives the addresses of due followers of one zone from what they follow, and writes those that are others than before
 * as one version of the zone. What fails leaves the zone as it is.
 */
export async function deriveFollowers(
  db: Db,
  due: readonly DueFollower[],
  options: DerivationOptions,
): Promise<Derived> {
  const now = new Date(options.signer.clock.nowMs());
  const answers = await resolveTargets(db, due, options.allowed, now);
  const { probes, changesAt, turned, hasOtherProbes, tooMany } = await judgeProbes(db, due, {
    answers,
    now,
    allowed: options.allowed,
  });
  const up = new Map(
    probes.map(({ followerId, member, address, state }) => [`${followerId} ${member} ${address}`, state.up]),
  );
  const leadsBack = await findWaysBack(db, due);
  const lines = due.map((follower): FollowedName => {
    const view = {
      target: (key: string) => answers.get(`${follower.companyId} ${key}`)?.answer,
      isUp: (member: string, address: string) => up.get(`${follower.id} ${member} ${address}`) ?? true,
      leadsBack: (target: DomainName) => leadsBack(follower, target),
    };
    const wanted = evaluate(follower, view, now.getTime());
    const problem = tooMany.has(follower.id) ? TOO_MANY_CHECKS : problemOf(follower, view, answers);
    const lawful = wanted === "loop" ? NOTHING : wanted && onlyAllowed(wanted, options.allowed);
    return { follower, wanted: lawful, problem };
  });
  const written = await writeAddresses(db, due[0]!.apex, lines, options.signer);
  const reasonOf = ({ id }: DueFollower): Refusal | undefined => {
    if (!written.ok) return written.error;
    return written.value.short?.ids.has(id) ? written.value.short.reason : undefined;
  };
  const settled = lines.map(({ follower, wanted, problem }): SettledFollower => {
    const reason = reasonOf(follower);
    const lookAgainMs = now.getTime() + (reason ? HELD_BACK_MS : LOOK_EVERY_MS);
    const next = [wanted?.changesAtMs, changesAt.get(follower.id), lookAgainMs];
    const dueAt = new Date(Math.min(...next.filter((ms) => ms !== undefined)));
    return { id: follower.id, stirred: follower.stirred, dueAt, problem: reason ? sentenceOf(reason) : problem };
  });
  await settleFollowers(db, settled);
  return { zone: written.ok ? written.value.zone : undefined, turned, hasOtherProbes };
}

const TOO_MANY_CHECKS = sentence("too-many-checks", { most: followPolicy.checks.aTenantHas });

const NOTHING: FollowedAddresses = { ipv4: [], ipv6: [], ttl: 0 };

/** An answer, and the problem of the target that it came from. */
interface Known {
  readonly answer: TargetAnswer | undefined;
  readonly problem: Sentence | null;
}

/** What is known of all targets, each by company and key. A target that was never asked for is so from now on. */
async function resolveTargets(
  db: Db,
  due: readonly DueFollower[],
  allowed: readonly string[],
  now: Date,
): Promise<Map<string, Known>> {
  const ways = new Map<string, Awaited<ReturnType<typeof followHosted>>>();
  for (const follower of due) {
    for (const name of targetsOf(follower)) {
      const key = `${follower.companyId} ${name.key}`;
      if (!ways.has(key)) ways.set(key, await followHosted(db, follower.companyId, name));
    }
  }
  const wireOf = ({ chain, end }: Way) => (end.kind === "elsewhere" ? [chain.at(-1)!] : []);
  await writeWays(
    db,
    due.map((follower) => {
      const own = targetsOf(follower).map((name) => ways.get(`${follower.companyId} ${name.key}`)!);
      return { id: follower.id, wire: own.flatMap(wireOf), hosted: own.flatMap(({ chain }) => chain) };
    }),
  );
  const wire = [...ways.values()].flatMap(wireOf);
  await addTargets(db, wire, due[0]!.companyId, now);
  const told = await readTargetAnswers(
    db,
    wire.map((name) => nameSortKey(name.wire)),
  );
  const byKey = new Map(told.map((one) => [one.name.key, one]));
  return new Map([...ways].map(([key, way]) => [key, knownOf(way, byKey.get(way.chain.at(-1)!.key), allowed)]));
}

type Way = Awaited<ReturnType<typeof followHosted>>;

function knownOf(
  { chain, ttl, end }: Way,
  told: { readonly answer: TargetAnswer | null; readonly problem: Sentence | null } | undefined,
  allowed: readonly string[],
): Known {
  const keys = chain.map(absoluteText);
  const { least, most } = followPolicy.alias.ttlSeconds;
  const bounded = (seconds: number) => Math.min(most, Math.max(least, seconds));
  if (end.kind === "suspended") return { answer: undefined, problem: sentence("target-suspended") };
  if (end.kind === "loop") return { answer: { ...NOTHING, chain: keys }, problem: sentence("alias-loop") };
  if (end.kind === "addresses") {
    const lawful = onlyAllowed({ ...end, ttl: bounded(ttl) }, allowed);
    const isShort = lawful.ipv4.length + lawful.ipv6.length < end.ipv4.length + end.ipv6.length;
    const problem = isShort ? sentence("target-private") : end.exists ? null : sentence("target-nxdomain");
    return { answer: { ...lawful, chain: keys }, problem };
  }
  const answer = told?.answer ?? undefined;
  const whole = answer && { ...answer, ttl: bounded(Math.min(ttl, answer.ttl)), chain: [...keys, ...answer.chain] };
  return { answer: whole, problem: told?.problem ?? null };
}

function onlyAllowed<Addresses extends Pick<FollowedAddresses, "ipv4" | "ipv6">>(
  addresses: Addresses,
  allowed: readonly string[],
): Addresses {
  const isLawful = (address: string) => isPublishable(address, allowed);
  return { ...addresses, ipv4: addresses.ipv4.filter(isLawful), ipv6: addresses.ipv6.filter(isLawful) };
}

function problemOf(follower: DueFollower, view: FollowView, answers: Map<string, Known>) {
  if (targetsBack(follower, view).size > 0) return sentence("alias-loop");
  const problems = targetsOf(follower).map(({ key }) => answers.get(`${follower.companyId} ${key}`)?.problem);
  return problems.find((problem) => problem) ?? null;
}

/** Brings the pools' probes in line with their members, and judges them by what the nodes say. */
async function judgeProbes(
  db: Db,
  due: readonly DueFollower[],
  {
    answers,
    now,
    allowed,
  }: { readonly answers: Map<string, Known>; readonly now: Date; readonly allowed: readonly string[] },
) {
  const pools = due.filter(({ kind }) => kind === "pool");
  const ids = pools.map(({ id }) => id);
  let probes = ids.length > 0 ? await readJudgedProbes(db, ids, now) : [];
  let hasOtherProbes = false;
  const tooMany = new Set<number>();
  let count: number | undefined;
  for (const pool of pools) {
    const wanted = probesOf(pool, answers).filter(({ address }) => isReachable(address, allowed));
    const have = probes.filter(({ followerId }) => followerId === pool.id);
    if (sameProbes(have, wanted)) continue;
    count ??= await countProbes(db, `${pool.companyId}`);
    const left = Math.max(0, followPolicy.checks.aTenantHas - count + have.length);
    if (wanted.length > left) tooMany.add(pool.id);
    const fitting = wanted.slice(0, left);
    count += fitting.length - have.length;
    if (sameProbes(have, fitting)) continue;
    await replaceProbes(db, pool.id, fitting);
    hasOtherProbes = true;
  }
  if (hasOtherProbes) probes = await readJudgedProbes(db, ids, now);
  const changesAt = new Map<number, number>();
  const changed: ChangedProbe[] = [];
  const judged = probes.map((probe) => {
    const { state, changesAtMs } = judgeProbe(probe.state, probe.verdicts, probe.health, now.getTime());
    if (state !== probe.state) changed.push({ probe, state });
    const { followerId } = probe;
    if (changesAtMs) changesAt.set(followerId, Math.min(changesAtMs, changesAt.get(followerId) ?? changesAtMs));
    return { ...probe, state };
  });
  const differing = changed.filter(({ probe, state }) => JSON.stringify(probe.state) !== JSON.stringify(state));
  await writeProbeStates(db, differing, now);
  const turned = differing.filter(({ probe, state }) => probe.state.up !== state.up);
  return { probes: judged, changesAt, turned, hasOtherProbes, tooMany };
}

type WantedProbe = Omit<Probe, "id" | "followerId">;

function probesOf(pool: DueFollower, answers: Map<string, Known>): WantedProbe[] {
  if (pool.kind !== "pool") return [];
  const { definition, companyId, owner } = pool;
  const name = formatDomainName(owner).toLowerCase().slice(0, -1);
  const members = memberAddresses(definition, (key) => answers.get(`${companyId} ${key}`)?.answer);
  return members.flatMap(({ member, addresses }) => {
    const health = member.check === undefined ? definition.check : member.check;
    if (!health) return [];
    return addresses.map((address) => ({ member: member.name, address, name, health, tenant: `${companyId}` }));
  });
}

function sameProbes(have: readonly JudgedProbe[], wanted: readonly WantedProbe[]): boolean {
  const textOf = ({ member, address, health }: WantedProbe) =>
    `${member} ${address} ${JSON.stringify(Object.entries(health).sort(([a], [b]) => (a < b ? -1 : 1)))}`;
  const texts = new Set(have.map(textOf));
  return have.length === wanted.length && wanted.every((probe) => texts.has(textOf(probe)));
}
