import { randomUUID } from "node:crypto";
import { isIP } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { Counter, Gauge } from "prom-client";
import { Counts } from "../../core/counts.ts";
import { addToGroup } from "../../core/groups.ts";
import type { Sentence } from "../../core/sentences.ts";
import type { Clock } from "../../platform/clock.ts";
import { followPolicy } from "../../platform/config/follow-policy.ts";
import { runCheck } from "../../platform/health/run-check.ts";
import { isInBlocks, isReachable } from "../../platform/lookups/address-blocks.ts";
import { registry } from "../../platform/observability/metrics.ts";
import type { Observe } from "../../platform/observability/observation.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { RepeatedWork } from "../../platform/repeated-work.ts";
import {
  type NewVerdict,
  noteWorker,
  type OwnedProbe,
  readAllProbes,
  readVerdicts,
  removeWorker,
  writeVerdicts,
} from "../../store/dns/pool-probes.ts";
import { CheckBounds } from "./check-bounds.ts";

/** Whoever is not seen for so long has no checks any more: the others of its node make them. */
const LEASE_MS = 3_000;
const SEEN_EVERY_MS = 500;
const TICK_MS = 100;
/** Probes are read anew so often, and at once when pools were changed here. */
const READ_EVERY_MS = 5_000;
/** What is over the bounds is put off for so long. */
const PUT_OFF_MS = 250;
/** A clock that was put back by more ticks has all checks take their places anew; less is waited for. */
const MOST_TICKS_BACK = 10;

const { checks: policy } = followPolicy;

const checksMade = new Counter({
  name: "palomar_pool_checks_total",
  help: "Health checks made, by type and result",
  labelNames: ["type", "result"],
  registers: [registry],
});
const checksPutOff = new Counter({
  name: "palomar_pool_checks_put_off_total",
  help: "Health checks put off by the bounds on one company or one address",
  registers: [registry],
});
const probesHere = new Gauge({
  name: "palomar_pool_probes",
  help: "Addresses of pool members that this process checks",
  registers: [registry],
});

export interface HealthCheckerOptions {
  readonly db: Db;
  readonly clock: Clock;
  readonly observe: Observe;
  /** What the place is called that these checks are made from. */
  readonly node: string;
  /** Blocks that are not public and may be checked all the same, without bounds. */
  readonly allowed: readonly string[];
  /** Told when pools have to be judged anew. */
  readonly onVerdicts: () => void;
}

/** A probe on its way through time. */
interface Run {
  probe: OwnedProbe;
  /** Failures in a row. */
  failures: number;
  /** What this node says of it, whichever process made it say so; undefined until it has said something. */
  verdict: boolean | undefined;
  isUnderWay: boolean;
  isGone: boolean;
}

/**
 * Makes the health checks of one node. All processes of a node share them: each says twice a second that it is there, and takes
 * its part of the probes by the list of those that did. Each probe has its places in time, whoever checks it, so that one
 * who takes it over goes on where the other stopped; what was missed meanwhile is checked at once.
 */
export class HealthChecker {
  readonly #options: HealthCheckerOptions;
  readonly #id = randomUUID();
  readonly #runs = new Map<number, Run>();
  readonly #slots = new Map<number, Run[]>();
  /** Those that are still to be written. */
  readonly #verdicts = new Map<number, NewVerdict>();
  /** Probes whose verdicts were written since the last reading began, which may not know of it. */
  readonly #told = new Set<number>();
  /** Probes that cannot be looked at as they are stored, by id, and why. */
  #unreadable: ReadonlyMap<number, string> = new Map();
  #bounds = new CheckBounds(policy);
  readonly #reading: RepeatedWork;
  readonly #seen: RepeatedWork;
  readonly #telling: RepeatedWork;
  readonly #stopping = new AbortController();
  readonly #ticking: Promise<void>;
  #share: { readonly place: number; readonly of: number } | undefined;
  #lastSlot: number;
  #underWay = 0;
  readonly #underWayOf = new Counts<string>();
  readonly #underWayOfReseller = new Counts<string>();

  constructor(options: HealthCheckerOptions) {
    this.#options = options;
    this.#lastSlot = this.#slotAt(options.clock.nowMs());
    const failed = (err: unknown) => {
      options.observe({ kind: "followers-unreadable", level: "warn", err });
      return SEEN_EVERY_MS;
    };
    this.#reading = new RepeatedWork({ take: () => this.#read(), failed });
    this.#seen = new RepeatedWork({ take: () => this.#beSeen(), failed });
    this.#telling = new RepeatedWork({ take: () => this.#tell(), failed });
    this.#ticking = this.#tickOn();
  }

  /** Pools were changed here. */
  readAgain(): void {
    this.#reading.wake();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await Promise.all([this.#reading.stop(), this.#seen.stop(), this.#telling.stop(), this.#ticking]);
    await removeWorker(this.#options.db, this.#id).catch(() => {});
  }

  async #beSeen(): Promise<number> {
    const { db, clock, node } = this.#options;
    const ids = await noteWorker(db, { id: this.#id, node, leaseMs: LEASE_MS }, new Date(clock.nowMs()));
    const share = { place: ids.indexOf(this.#id), of: ids.length };
    if (share.place === this.#share?.place && share.of === this.#share.of) return SEEN_EVERY_MS;
    this.#share = share;
    this.#reading.wake();
    return SEEN_EVERY_MS;
  }

  async #read(): Promise<number> {
    const share = this.#share;
    if (!share || share.place < 0) return SEEN_EVERY_MS;
    const { db, node } = this.#options;
    this.#told.clear();
    const mine = this.#readable((await readAllProbes(db)).filter(({ id }) => id % share.of === share.place));
    const said = mine.length > 0 ? await readVerdicts(db, node) : new Map<number, boolean>();
    const ids = new Set(mine.map(({ id }) => id));
    for (const [id, run] of this.#runs) {
      if (ids.has(id)) continue;
      run.isGone = true;
      this.#runs.delete(id);
      this.#verdicts.delete(id);
    }
    for (const probe of mine) {
      const run = this.#runs.get(probe.id);
      if (!run) {
        this.#begin(probe, said.get(probe.id));
        continue;
      }
      run.probe = probe;
      // Who had it before may have written something since it was taken over.
      if (!this.#verdicts.has(probe.id) && !this.#told.has(probe.id)) run.verdict = said.get(probe.id);
    }
    probesHere.set(this.#runs.size);
    return READ_EVERY_MS;
  }

  /** Those that can be looked at; of each other one its faults are told once. */
  #readable(probes: readonly OwnedProbe[]): readonly OwnedProbe[] {
    const unreadable = new Map<number, string>();
    const readable = probes.filter((probe) => {
      const fault = faultOf(probe);
      if (fault === undefined) return true;
      const { id, zone, name } = probe;
      unreadable.set(id, fault);
      if (this.#unreadable.get(id) === fault) return false;
      const err = new Error(`stored probe ${id} of the pool ${name} is corrupt: ${fault}`);
      this.#options.observe({ kind: "follower-failed", level: "error", zone, err });
      return false;
    });
    this.#unreadable = unreadable;
    return readable;
  }

  #begin(probe: OwnedProbe, verdict: boolean | undefined): void {
    const run = { probe, failures: 0, verdict, isUnderWay: false, isGone: false };
    this.#runs.set(probe.id, run);
    this.#place(run);
  }

  /** A probe that nobody has looked at, or whose turn may have been missed, has it soon. */
  #place(run: Run): void {
    const { probe, verdict } = run;
    const now = this.#options.clock.nowMs();
    const { tenant, address } = probe;
    if (verdict === undefined && !isInBlocks(address, this.#options.allowed)) {
      this.#put(run, this.#bounds.firstCheckAt(tenant, address, now));
      return;
    }
    const before = this.#nextPlace(run, now - LEASE_MS - SEEN_EVERY_MS);
    const spread = probe.id % (SEEN_EVERY_MS / TICK_MS);
    this.#put(run, verdict === undefined || before <= now ? now + spread * TICK_MS : before);
  }

  /** The next of a probe's places in time: they are an interval apart, those of different probes all over it. */
  #nextPlace({ probe }: Run, afterMs: number): number {
    const intervalMs = probe.health.interval * 1_000;
    const phase = (Math.imul(probe.id, 0x9e3779b1) >>> 0) % intervalMs;
    return Math.floor((afterMs - phase) / intervalMs + 1) * intervalMs + phase;
  }

  #slotAt(ms: number): number {
    return Math.floor(ms / TICK_MS);
  }

  #put(run: Run, atMs: number): void {
    // Never before its time, or the same place in time would come next.
    const slot = Math.max(Math.ceil(atMs / TICK_MS), this.#lastSlot + 1);
    addToGroup(this.#slots, slot, run);
  }

  async #tickOn(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      const slot = this.#slotAt(this.#options.clock.nowMs());
      if (slot < this.#lastSlot - MOST_TICKS_BACK) this.#placeAnew(slot);
      while (this.#lastSlot < slot) {
        this.#lastSlot += 1;
        const due = this.#slots.get(this.#lastSlot) ?? [];
        this.#slots.delete(this.#lastSlot);
        for (const run of due) this.#start(run);
      }
      await sleep(TICK_MS, undefined, { signal }).catch(() => {});
    }
  }

  /** The clock was put back: what has its place by the former time would wait until that comes again. */
  #placeAnew(slot: number): void {
    this.#lastSlot = slot;
    this.#slots.clear();
    this.#bounds = new CheckBounds(policy);
    for (const run of this.#runs.values()) if (!run.isUnderWay) this.#place(run);
  }

  #start(run: Run): void {
    if (run.isGone || run.isUnderWay) return;
    const { clock, allowed } = this.#options;
    const { address } = run.probe;
    const now = clock.nowMs();
    // The operator may have taken back what was allowed when the pool was made.
    if (!isReachable(address, allowed)) {
      this.#put(run, this.#nextPlace(run, now));
      return;
    }
    const isOwn = isInBlocks(address, allowed);
    if (!this.#hasRoom(run.probe) || !(isOwn || this.#bounds.take(run.probe, now))) {
      checksPutOff.inc();
      this.#put(run, now + PUT_OFF_MS);
      return;
    }
    void this.#check(run);
  }

  async #check(run: Run): Promise<void> {
    const { probe } = run;
    this.#count(probe, 1);
    run.isUnderWay = true;
    try {
      this.#judge(run, await runCheck(probe.health, probe));
    } catch (err) {
      // A bug: of this check nothing is known.
      this.#options.observe({ kind: "followers-unreadable", level: "error", err });
      this.#put(run, this.#nextPlace(run, this.#options.clock.nowMs()));
    } finally {
      run.isUnderWay = false;
      this.#count(probe, -1);
    }
  }

  /** Members that are silent hold up those of their own company, and of its reseller, alone. */
  #hasRoom({ tenant, reseller }: OwnedProbe): boolean {
    const isWithin = this.#underWayOf.of(tenant) < policy.aTenantAtOnce;
    return isWithin && this.#underWayOfReseller.of(reseller) < policy.aResellerAtOnce && this.#underWay < policy.atOnce;
  }

  #count({ tenant, reseller }: OwnedProbe, by: 1 | -1): void {
    this.#underWay += by;
    this.#underWayOf.add(tenant, by);
    this.#underWayOfReseller.add(reseller, by);
  }

  #judge(run: Run, fault: Sentence | undefined): void {
    const { health, id } = run.probe;
    const now = this.#options.clock.nowMs();
    checksMade.inc({ type: health.type, result: fault ? "failed" : "well" });
    run.failures = fault ? run.failures + 1 : 0;
    const isTrying = fault !== undefined && run.verdict !== false && run.failures < health.tries;
    const verdict = fault === undefined;
    if (!isTrying && run.verdict !== verdict && !run.isGone) {
      run.verdict = verdict;
      this.#verdicts.set(id, { probeId: id, up: verdict, since: new Date(now), reason: fault ?? null });
      this.#telling.wake();
    }
    this.#put(run, isTrying ? now + policy.retryMs : this.#nextPlace(run, now));
  }

  /** Writes what has come together; kept where that fails, and told later. */
  async #tell(): Promise<number> {
    if (this.#verdicts.size === 0) return READ_EVERY_MS;
    const { db, node, clock, onVerdicts } = this.#options;
    const told = [...this.#verdicts.values()];
    await writeVerdicts(db, node, told, new Date(clock.nowMs()));
    for (const verdict of told) {
      this.#told.add(verdict.probeId);
      if (this.#verdicts.get(verdict.probeId) === verdict) this.#verdicts.delete(verdict.probeId);
    }
    onVerdicts();
    return this.#verdicts.size > 0 ? 0 : READ_EVERY_MS;
  }
}

/** What keeps a probe from being looked at as it is stored; what is wrong with it beyond that, the check itself tells. */
function faultOf({ address, health }: OwnedProbe): string | undefined {
  if (isIP(address) === 0) return "its address is none";
  if (!(health?.interval > 0 && health.timeout > 0 && health.tries > 0)) return "its check has no times";
  if (health.type !== "http" && health.type !== "https") return undefined;
  const { status, text = "" } = health;
  const isRead = Array.isArray(status) && status.every((range) => typeof range === "string");
  return isRead && typeof text === "string" ? undefined : "its check does not say what is well";
}
