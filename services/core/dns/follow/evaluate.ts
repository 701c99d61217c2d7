import { createHash } from "node:crypto";
import { type DomainName, nameFromStoredText } from "../name.ts";
import {
  absoluteText,
  type Follower,
  MOST_ADDRESSES,
  type PoolDefinition,
  type PoolMember,
  targetsOf,
} from "./follower.ts";

/** What is known of a name that others follow. */
export interface TargetAnswer {
  /** The addresses to follow: those that were told last. */
  readonly ipv4: readonly string[];
  readonly ipv6: readonly string[];
  /** Seconds for which the answer holds. */
  readonly ttl: number;
  /** The names that the answer came by, as {@link absoluteText} writes them, the target's first. */
  readonly chain: readonly string[];
}

/** What evaluation asks of the world. */
export interface FollowView {
  /** By `DomainName.key`; undefined when the target was never asked for. */
  target(key: string): TargetAnswer | undefined;
  /** Whether a member's address is up; so is what was never looked at. */
  isUp(member: string, address: string): boolean;
  /** Whether what it follows leads back to it by way of other followers; its answer leaves that out. */
  leadsBack(target: DomainName): boolean;
}

/** The addresses that a follower's name is to have. */
export interface FollowedAddresses {
  readonly ipv4: readonly string[];
  readonly ipv6: readonly string[];
  readonly ttl: number;
  /** When time by itself changes this; ms since the epoch. */
  readonly changesAtMs?: number;
}

/**
 * What a follower comes to now. A member of a pool that leads back to it gives nothing: else what the pool gave once would
 * stay for good.
 * @param follower.id gives each pool turns of its own
 * @returns undefined while nothing is known yet, and `loop` where it follows nothing but itself
 */
export function evaluate(
  follower: Follower & { readonly id: number },
  view: FollowView,
  nowMs: number,
): FollowedAddresses | "loop" | undefined {
  const back = targetsBack(follower, view);
  const target = (key: string) => (back.has(key) ? undefined : view.target(key));
  const found =
    follower.kind === "pool"
      ? evaluatePool(follower, { ...view, target }, nowMs)
      : targetsOf(follower)
          .map(({ key }) => target(key))
          .map((answer) => answer && limited(answer, answer.ttl))[0];
  return found ?? (back.size > 0 ? "loop" : undefined);
}

/** The keys of what a follower follows that leads back to it, by CNAME records or by other followers. */
export function targetsBack(follower: Follower, view: Pick<FollowView, "target" | "leadsBack">): ReadonlySet<string> {
  const own = absoluteText(follower.owner);
  const isBack = (name: DomainName) => view.leadsBack(name) || view.target(name.key)?.chain.includes(own);
  return new Set(
    targetsOf(follower)
      .filter(isBack)
      .map(({ key }) => key),
  );
}

/** A member with its addresses, each of which is looked at by itself. */
export interface MemberAddresses {
  readonly member: PoolMember & { readonly name: string };
  readonly addresses: readonly string[];
}

/** The members of a pool with the addresses they have now. */
export function memberAddresses(pool: PoolDefinition, target: FollowView["target"]): MemberAddresses[] {
  return pool.members.map((member) => {
    const named = { ...member, name: member.name ?? member.value };
    if (!member.value.endsWith(".")) return { member: named, addresses: [member.value] };
    const { ipv4 = [], ipv6 = [] } = target(nameFromStoredText(member.value).key) ?? {};
    return { member: named, addresses: [...ipv4, ...ipv6].slice(0, MOST_ADDRESSES) };
  });
}

function evaluatePool(
  { definition, id }: { readonly definition: PoolDefinition; readonly id: number },
  view: FollowView,
  nowMs: number,
): FollowedAddresses | undefined {
  // A member by name that was not asked for yet has none; the pool waits only while nobody has any.
  const known = memberAddresses(definition, (key) => view.target(key)).filter(({ addresses }) => addresses.length > 0);
  if (known.length === 0) return undefined;
  const all = known.filter(({ member }) => !member.drain);
  const healthy = all.flatMap(({ member, addresses }) => {
    const up = addresses.filter((address) => view.isUp(member.name, address));
    return up.length > 0 ? [{ member, addresses: up }] : [];
  });
  const given = healthy.length < definition.minimum ? all : healthy;
  const { chosen, changesAtMs } = choose(given, definition, { id, nowMs });
  const addresses = [...new Set(chosen.flatMap((one) => one.addresses))];
  return {
    ...limited({ ipv4: addresses.filter(isIpv4), ipv6: addresses.filter((one) => !isIpv4(one)) }, definition.ttl),
    ...(changesAtMs !== undefined && { changesAtMs }),
  };
}

function choose(
  members: readonly MemberAddresses[],
  { rule, answers, rotate }: PoolDefinition,
  { id, nowMs }: { readonly id: number; readonly nowMs: number },
): { readonly chosen: readonly MemberAddresses[]; readonly changesAtMs?: number } {
  if (rule === "priority") {
    const first = Math.min(...members.map(({ member }) => member.priority));
    return { chosen: members.filter(({ member }) => member.priority === first) };
  }
  if (rule === "all" || members.length <= answers) return { chosen: members };
  const turn = Math.floor(nowMs / (rotate * 1_000));
  const ranked = members
    .map((one) => ({ one, rank: rankOf(`${id} ${turn} ${one.member.name}`, one.member.weight) }))
    .sort((a, b) => a.rank - b.rank);
  return { chosen: ranked.slice(0, answers).map(({ one }) => one), changesAtMs: (turn + 1) * rotate * 1_000 };
}

/**
 * A member's place in a turn: the smallest are given. The logarithm of a uniform number by the weight makes each come
 * first in a part of all turns that is its weight's part (Efraimidis and Spirakis, weighted random sampling).
 */
function rankOf(seed: string, weight: number): number {
  const uniform = (createHash("sha256").update(seed).digest().readUInt32BE(0) + 1) / (2 ** 32 + 1);
  return -Math.log(uniform) / weight;
}

function isIpv4(address: string): boolean {
  return !address.includes(":");
}

function limited(
  { ipv4, ipv6 }: { readonly ipv4: readonly string[]; readonly ipv6: readonly string[] },
  ttl: number,
): FollowedAddresses {
  return { ipv4: ipv4.slice(0, MOST_ADDRESSES), ipv6: ipv6.slice(0, MOST_ADDRESSES), ttl };
}
