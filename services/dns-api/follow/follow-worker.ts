import { makeAddressLookup } from "../../platform/lookups/address-lookup.ts";
import { hearNotices } from "../../platform/postgres/notices.ts";
import { repeatTasks } from "../../platform/repeated-work.ts";
import type { ServiceContext } from "../../platform/service.ts";
import { pruneTargets } from "../../store/dns/follow-targets.ts";
import { stirFollowersInZones } from "../../store/dns/followers.ts";
import { prunePoolEvents } from "../../store/dns/pool-probes.ts";
import { ZONES_CHANNEL } from "../../store/dns/zone-notices.ts";
import type { DnsApiContext } from "../context.ts";
import { HealthChecker } from "./health-checker.ts";
import { TargetAsker } from "./target-asker.ts";
import { ZoneDeriver } from "./zone-deriver.ts";
import { ZoneNotices } from "./zone-notices.ts";

const PRUNE_EVERY_MS = 60_000;
const EVENTS_KEPT_MS = 30 * 86_400_000;

/**
 * Follows what aliases and pools follow, and writes it to their zones. Any number of processes may do it: what one has taken
 * on is left alone by the others, and the health checks of a node are shared.
 */
export async function startFollowing(
  context: DnsApiContext,
  { config, observe, openListenConnection }: Pick<ServiceContext, "config" | "observe" | "openListenConnection">,
): Promise<{ stop(): Promise<void> }> {
  const { db, clock } = context;
  const { followAllow: allowed, checkingNode: node } = config;
  const failed = (err: unknown) => observe({ kind: "followers-unreadable", level: "warn", err });
  const lookUp = await makeAddressLookup(config.resolver);
  const asker = new TargetAsker({ db, clock, allowed, lookUp, failed, onAnswer: () => deriver.wake() });
  const deriver: ZoneDeriver = new ZoneDeriver({
    ...{ context, observe, allowed, failed },
    onDerived: () => asker.wake(),
    onOtherProbes: () => checker?.readAgain(),
  });
  const onVerdicts = () => deriver.wake();
  const checker = node === null ? undefined : new HealthChecker({ db, clock, observe, allowed, node, onVerdicts });
  const stirring = new ZoneNotices({
    stir: async (zoneIds) => {
      if (await stirFollowersInZones(db, zoneIds, new Date(clock.nowMs()))) deriver.wake();
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
        stirring.stop(),
        pruning.stop(),
        asker.stop(),
        deriver.stop(),
        checker?.stop(),
      ]);
    },
  };
}
