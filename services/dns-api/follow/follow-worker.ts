import { Counter } from "prom-client";
import { deriveFollowers } from "../../operations/dns/follow-derivation.ts";
import { askTarget } from "../../operations/dns/follow-targets.ts";
import { followPolicy } from "../../platform/config/follow-policy.ts";
import { type LookUpAddresses, makeAddressLookup } from "../../platform/lookups/address-lookup.ts";
import { registry } from "../../platform/observability/metrics.ts";
import { hearNotices } from "../../platform/postgres/notices.ts";
import { RepeatedWork, repeatTasks } from "../../platform/repeated-work.ts";
import type { ServiceContext } from "../../platform/service.ts";
import { claimDueTargets, nextTargetDue, pruneTargets } from "../../store/dns/follow-targets.ts";
import {
  claimDueFollowers,
  type DueFollower,
  nextFollowerDue,
  stirFollowersInZones,
} from "../../store/dns/followers.ts";
import { prunePoolEvents } from "../../store/dns/pool-probes.ts";
import { ZONES_CHANNEL } from "../../store/dns/zone-notices.ts";
import { zoneName } from "../../store/dns/zones.ts";
import type { DnsApiContext } from "../context.ts";
import { HealthChecker } from "./health-checker.ts";
import { ZoneNotices } from "./zone-notices.ts";

/** Notices hasten the work of others; a look makes sure. */
const POLL_MS = 1_000;
/** Whoever was taken on and not settled is taken on again: its worker is gone. */
const LEASE_MS = 30_000;
const FOLLOWERS_A_LOOK = 2_000;
const ZONES_AT_A_TIME = 4;
const PRUNE_EVERY_MS = 60_000;
const EVENTS_KEPT_MS = 30 * 86_400_000;

const questionsAsked = new Counter({
  name: "palomar_follow_questions_total",
  help: "Names that aliases and pools follow, asked of the resolver",
  registers: [registry],
});
const versionsMade = new Counter({
  name: "palomar_follow_versions_total",
  help: "Versions of zones made because what their aliases and pools follow changed",
  registers: [registry],
});
const membersTurned = new Counter({
  name: "palomar_pool_members_turned_total",
  help: "Addresses of pool members that went down or came up",
  labelNames: ["to"],
  registers: [registry],
});

/**
 * Follows what aliases and pools follow, and writes it to their zones. Any number of processes may do it: what one has taken
 * on is left alone by the others, and the health checks of a node are shared.
 */
export async function startFollowing(
  context: DnsApiContext,
  { config, observe, openListenConnection }: Pick<ServiceContext, "config" | "observe" | "openListenConnection">,
): Promise<{ stop(): Promise<void> }> {
  const { db, clock } = context;
  const worker = new FollowWorker(context, {
    observe,
    allowed: config.followAllow,
    lookUp: await makeAddressLookup(config.resolver),
  });
  const failed = (err: unknown) => {
    observe({ kind: "followers-unreadable", level: "warn", err });
    return POLL_MS;
  };
  // Names that do not answer hold up nobody but each other.
  const [asking, retrying] = [false, true].map(
    (troubled) => new RepeatedWork({ take: () => worker.ask(troubled, () => deriving.wake()), failed }),
  ) as [RepeatedWork, RepeatedWork];
  const deriving: RepeatedWork = new RepeatedWork({
    take: () =>
      worker.derive(() => {
        asking.wake();
        checker?.readAgain();
      }),
    failed,
  });
  const { checkingNode: node } = config;
  const checking = { db, clock, observe, allowed: config.followAllow, onVerdicts: () => deriving.wake() };
  const checker = node === null ? undefined : new HealthChecker({ ...checking, node });
  const stirring = new ZoneNotices({
    stir: async (zoneIds) => {
      await stirFollowersInZones(db, zoneIds, new Date(clock.nowMs()));
      deriving.wake();
    },
    failed,
  });
  const hearing = hearNotices(openListenConnection, ZONES_CHANNEL, (payload) => stirring.note(payload));
  const prune = async () => {
    await pruneTargets(db);
    await prunePoolEvents(db, new Date(clock.nowMs() - EVENTS_KEPT_MS));
  };
  const pruning = repeatTasks([{ name: "prune targets", everyMs: PRUNE_EVERY_MS, run: prune }], (_task, err) => {
    failed(err);
  });
  return {
    stop: async () => {
      await Promise.all([
        hearing.stop(),
        pruning.stop(),
        asking.stop(),
        retrying.stop(),
        deriving.stop(),
        checker?.stop(),
      ]);
    },
  };
}

interface FollowOptions {
  readonly observe: ServiceContext["observe"];
  readonly allowed: readonly string[];
  readonly lookUp: LookUpAddresses;
}

class FollowWorker {
  readonly #context: DnsApiContext;
  readonly #options: FollowOptions;

  constructor(context: DnsApiContext, options: FollowOptions) {
    this.#context = context;
    this.#options = options;
  }

  /** Asks for the targets that are due. @param troubled those that had no answer last, else the others @returns how long to rest, in ms */
  async ask(troubled: boolean, onAnswers: () => void): Promise<number> {
    const { db, clock } = this.#context;
    const { questionsAtOnce, troubledAtOnce } = followPolicy.alias;
    const limit = troubled ? troubledAtOnce : questionsAtOnce;
    const due = await claimDueTargets(db, new Date(clock.nowMs()), { limit, leaseMs: LEASE_MS, troubled });
    questionsAsked.inc(due.length);
    await Promise.all(due.map((target) => askTarget(db, target, this.#options, new Date(clock.nowMs()))));
    if (due.length > 0) onAnswers();
    return due.length === limit ? 0 : this.#restUntil(await nextTargetDue(db, troubled));
  }

  /** Derives the followers that are due. @returns how long to rest, in ms */
  async derive(onDerived: () => void): Promise<number> {
    const { db, clock } = this.#context;
    const now = new Date(clock.nowMs());
    const due = await claimDueFollowers(db, now, { limit: FOLLOWERS_A_LOOK, leaseMs: LEASE_MS });
    const zones = new Map<number, DueFollower[]>();
    for (const follower of due) {
      const ofZone = zones.get(follower.zoneId);
      if (ofZone) ofZone.push(follower);
      else zones.set(follower.zoneId, [follower]);
    }
    const waiting = zones.values();
    const work = async () => {
      for (const ofZone of waiting) await this.#deriveZone(ofZone);
    };
    await Promise.all(Array.from({ length: ZONES_AT_A_TIME }, work));
    if (due.length > 0) onDerived();
    return due.length === FOLLOWERS_A_LOOK ? 0 : this.#restUntil(await nextFollowerDue(db));
  }

  /** One zone that cannot be changed must not keep all others as they are. */
  async #deriveZone(due: readonly DueFollower[]): Promise<void> {
    const { db, keyRing, clock, announcer, zoneTurns } = this.#context;
    const { observe, allowed } = this.#options;
    const [{ apex }] = due as [DueFollower];
    const name = zoneName(apex);
    try {
      const { zone, turned } = await zoneTurns.run(apex.key, () =>
        deriveFollowers(db, due, { signer: { keyRing, clock }, allowed }),
      );
      for (const { probe, state } of turned) {
        const { member, address, name: pool } = probe;
        membersTurned.inc({ to: state.up ? "up" : "down" });
        observe({ kind: "pool-member-turned", level: "warn", zone: name, pool, member, address, up: state.up });
      }
      if (!zone) return;
      announcer.announce([zone.id]);
      versionsMade.inc();
      observe({ kind: "zone-followed", zone: zone.name, serial: zone.soa.serial });
    } catch (err) {
      observe({ kind: "follower-failed", level: "error", zone: name, err });
    }
  }

  #restUntil(due: Date | undefined): number {
    if (!due) return POLL_MS;
    return Math.max(0, Math.min(POLL_MS, due.getTime() - this.#context.clock.nowMs()));
  }
}
