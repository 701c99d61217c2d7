import { Counter } from "prom-client";
import { deriveFollowers } from "../../operations/dns/follow-derivation.ts";
import { registry } from "../../platform/observability/metrics.ts";
import type { Observe } from "../../platform/observability/observation.ts";
import { RepeatedWork } from "../../platform/repeated-work.ts";
import {
  claimDueFollowers,
  type DueFollower,
  listDueZones,
  nextFollowerDue,
  type ZoneDue,
} from "../../store/dns/followers.ts";
import { zoneName } from "../../store/dns/zones.ts";
import type { DnsApiContext } from "../context.ts";
import { LeastServedTurns } from "./least-served-turns.ts";

/** Notices hasten the work of others; a look makes sure. */
const POLL_MS = 1_000;
/** Whoever was taken on and not settled is taken on again: its worker is gone. */
const LEASE_MS = 30_000;
/** A zone of more followers is derived in several versions, so that others have their turns between. */
const FOLLOWERS_A_TURN = 1_000;
const TURNS_AT_ONCE = 4;
const MOST_TURNS = { ofCompany: 2, ofReseller: 3 };
/** So long a list of due zones is good for. */
const LISTED_MS = 200;

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
for (const to of ["up", "down"]) membersTurned.inc({ to }, 0);

export interface ZoneDeriverOptions {
  readonly context: DnsApiContext;
  readonly observe: Observe;
  /** Blocks that are not public and may be published all the same. */
  readonly allowed: readonly string[];
  /** Told after each turn: there may be targets that were never asked for. */
  readonly onDerived: () => void;
  readonly onOtherProbes: () => void;
  readonly failed: (error: unknown) => void;
}

/** Derives the followers that are due, zone by zone, some zones beside each other. */
export class ZoneDeriver {
  readonly #options: ZoneDeriverOptions;
  readonly #turns = new LeastServedTurns(MOST_TURNS, () => performance.now());
  readonly #underWay = new Map<number, Promise<void>>();
  readonly #work: RepeatedWork;
  #waiting: ZoneDue[] = [];
  #listedMs = 0;

  constructor(options: ZoneDeriverOptions) {
    this.#options = options;
    const failed = (error: unknown) => {
      options.failed(error);
      return POLL_MS;
    };
    this.#work = new RepeatedWork({ take: () => this.#takeOn(), failed });
  }

  /** Followers are due. */
  wake(): void {
    this.#work.wake();
  }

  async stop(): Promise<void> {
    await this.#work.stop();
    await Promise.all(this.#underWay.values());
  }

  /** @returns how long to rest, in ms */
  async #takeOn(): Promise<number> {
    const { db, clock } = this.#options.context;
    if (this.#underWay.size === TURNS_AT_ONCE) return POLL_MS;
    if (this.#waiting.length === 0 || performance.now() - this.#listedMs > LISTED_MS) {
      const due = await listDueZones(db, new Date(clock.nowMs()));
      this.#waiting = due.filter(({ zoneId }) => !this.#underWay.has(zoneId));
      this.#listedMs = performance.now();
    }
    while (this.#underWay.size < TURNS_AT_ONCE) {
      const zone = this.#turns.next(this.#waiting);
      if (!zone) break;
      this.#begin(zone);
    }
    if (this.#underWay.size > 0) return POLL_MS;
    const next = await nextFollowerDue(db);
    return next ? Math.max(0, Math.min(POLL_MS, next.getTime() - clock.nowMs())) : POLL_MS;
  }

  #begin(zone: ZoneDue): void {
    const { zoneId } = zone;
    const turn = this.#turns
      .run(zone, () => this.#derive(zoneId))
      .finally(() => {
        this.#underWay.delete(zoneId);
        this.#work.wake();
      });
    this.#underWay.set(zoneId, turn);
  }

  async #derive(zoneId: number): Promise<void> {
    const { context, onDerived, failed } = this.#options;
    try {
      const now = new Date(context.clock.nowMs());
      const due = await claimDueFollowers(context.db, zoneId, now, { limit: FOLLOWERS_A_TURN, leaseMs: LEASE_MS });
      if (due.length > 0) await this.#deriveZone(due);
      onDerived();
    } catch (error) {
      failed(error);
    }
  }

  /** One zone that cannot be changed must not keep all others as they are. */
  async #deriveZone(due: readonly DueFollower[]): Promise<void> {
    const { context, observe, allowed, onOtherProbes } = this.#options;
    const { db, keyRing, clock, announcer } = context;
    const [{ apex }] = due as [DueFollower];
    const name = zoneName(apex);
    try {
      const { zone, turned, hasOtherProbes } = await deriveFollowers(db, due, { signer: { keyRing, clock }, allowed });
      if (hasOtherProbes) onOtherProbes();
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
}
