import type { AttemptPath } from "../core/mail/delivery-attempt.ts";
import { type DestinationQueue, queueOf } from "../core/mail/queue/destination-queue.ts";
import type { TlsSession } from "../core/mail/reports/tls-session.ts";
import { ok, type Result, refuse } from "../core/result.ts";
import type { LeasedPartition } from "../store/mail/queue/queue-leases.ts";
import type { Tried } from "./attempt.ts";
import { LaneLeave } from "./pace/lane-leave.ts";
import type { FindRoute } from "./routing/route.ts";
import type { SourcePlace } from "./routing/source-pools.ts";
import { tlsSessionOf } from "./routing/tls-counts.ts";
import type { PooledSession, Route, SessionPool, SessionWish, SourceGate } from "./session-pool.ts";
import type { TrafficShaping } from "./shaping.ts";

export interface WayTools {
  readonly sessions: SessionPool;
  readonly findRoute: FindRoute;
  readonly shaping: TrafficShaping;
  /** Whether sessions are counted for reports about TLS. */
  readonly countsTls: boolean;
}

/**
 * The way of a lane to its destination: the session in hand, the sources that one may be opened from, leave to send, and
 * for how long the far side lets it wait.
 */
export class LaneWay {
  readonly #destination: string;
  readonly queue: DestinationQueue;
  readonly #tools: WayTools;
  readonly leave: LaneLeave;
  /** Sources in back-off there, with the seconds for which they stay so. */
  readonly resting: Map<string, number>;
  #session: PooledSession | undefined;
  #key: string;
  #attemptPath: AttemptPath | undefined;
  /** For the message of the attempt under way. */
  #attemptsMade = 0;
  /** Sessions that were opened, or failed, since they were taken last. */
  readonly #tlsSessions: TlsSession[] = [];
  /** Since when the far side has the turn; undefined while it has not. */
  #waitsSinceMs: number | undefined;
  /** Milliseconds that the far side took at its last turn. */
  #lastWaitMs = 0;
  /** Milliseconds that the far side took in the attempt under way. */
  #waitedInAttemptMs = 0;
  readonly #gate: SourceGate = {
    mayUse: (source) => this.#mayUse(source),
    mayOpen: (source) => this.#mayUse(source) && this.#tools.shaping.mayOpen(this.queue, source),
    opened: (source) => this.#tools.shaping.opened(this.queue, source),
  };

  constructor({ destination, pool, resting }: LeasedPartition, tools: WayTools) {
    this.#destination = destination;
    this.#key = destination;
    this.queue = queueOf(destination, pool);
    this.#tools = tools;
    this.leave = new LaneLeave(tools.shaping, this.queue, (wait) => this.waitAside(wait));
    this.resting = new Map(resting);
  }

  /**
   * For how long the far side lets it wait, for a connection, a reply, or by its pace: now, or the time before, as one that
   * is slow stays so. 0 while it is not the far side's turn.
   */
  get waitedMs(): number {
    if (this.#waitsSinceMs === undefined) return 0;
    return Math.max(performance.now() - this.#waitsSinceMs, this.#lastWaitMs);
  }

  /** For how long it did in the attempt under way. */
  get waitedInAttemptMs(): number {
    return this.#waitedInAttemptMs;
  }

  /** Equal for lanes that wait for the same servers. */
  get key(): string {
    return this.#key;
  }

  /** How far the attempt under way came; undefined where there was nobody to turn to. */
  get attemptPath(): AttemptPath | undefined {
    return this.#attemptPath;
  }

  /** That the attempt under way turned to last; empty where it did to none. */
  get exchanger(): string {
    return this.#attemptPath?.exchanger ?? "";
  }

  /** An attempt begins, after others for the message. */
  begin(attemptsMade: number): void {
    this.#attemptsMade = attemptsMade;
    this.#waitedInAttemptMs = 0;
  }

  /** An attempt ended before anybody was turned to. */
  forgetPath(): void {
    this.#attemptPath = undefined;
  }

  takeTlsSessions(): TlsSession[] {
    return this.#tlsSessions.splice(0);
  }

  /** @returns undefined while the destination's provider takes no more sessions, or no source may be used */
  async acquire(place: SourcePlace): Promise<Result<PooledSession, Tried> | undefined> {
    if (this.#session?.session.usable && this.#mayUse(this.#session.source)) {
      this.#attemptPath = this.#session.path;
      return ok(this.#session);
    }
    this.#attemptPath = undefined;
    this.release();
    const { findRoute, shaping, sessions } = this.#tools;
    const route = await this.waitFor(findRoute(this.#destination, this.#attemptsMade));
    if (!route.ok) {
      if (this.#tools.countsTls && route.error.unmet) this.#tlsSessions.push(route.error.unmet);
      return refuse({ kind: "tried", result: { kind: "unroutable", reply: route.error } });
    }
    this.#key = route.value.key;
    const exchangers = route.value.peers.map(({ name }) => name);
    shaping.learn(this.queue, exchangers);
    if (shaping.hasTooManySessions(this.queue)) return undefined;
    const acquired = await this.waitFor(sessions.acquire(route.value, place, this.#wish(route.value)));
    this.#attemptPath = acquired.ok ? acquired.value.path : acquired.error.path;
    if (acquired.ok) {
      this.#session = acquired.value;
      return acquired;
    }
    const { failure, source, resting } = acquired.error;
    if (source === undefined && resting) return undefined;
    return refuse({ kind: "tried", result: { kind: "failed", failure }, source });
  }

  /** The sources that are not in back-off; that of the session in hand comes first. */
  usableOf(sources: readonly string[]): string[] {
    const usable = sources.filter((source) => !this.resting.has(source));
    const usual = this.#session?.source;
    if (usual === undefined) return usable;
    return usable.sort((one, other) => Number(other === usual) - Number(one === usual));
  }

  /** Gives the session back, for others to use. */
  release(): void {
    if (this.#session === undefined) return;
    this.#tools.sessions.release(this.#session, this.#messagesPerConnection(this.#session.source));
    this.#session = undefined;
  }

  /** Gives it back when it can take no more. */
  releaseIfUsedUp(pooled: PooledSession): void {
    if (!pooled.session.usable || pooled.messages >= this.#messagesPerConnection(pooled.source)) this.release();
  }

  /** Until the first of the sources may be used again, in seconds; 0 while one of them may. */
  restSeconds(own: readonly string[]): number {
    const warming = this.#tools.shaping.warming(this.queue, own);
    // What is new waits for no trouble of others.
    const usual = warming.length < own.length ? own.filter((source) => !warming.includes(source)) : own;
    return Math.min(...usual.map((source) => this.resting.get(source) ?? 0));
  }

  /** Waits for the far side, in an attempt. */
  async waitFor<T>(farSide: Promise<T>): Promise<T> {
    try {
      return await this.waitAside(farSide);
    } finally {
      this.#waitedInAttemptMs += this.#lastWaitMs;
    }
  }

  /** Waits with room made for other lanes. */
  async waitAside<T>(farSide: Promise<T>): Promise<T> {
    this.#waitsSinceMs = performance.now();
    try {
      return await farSide;
    } finally {
      this.#lastWaitMs = performance.now() - this.#waitsSinceMs;
      this.#waitsSinceMs = undefined;
    }
  }

  #mayUse(source: string): boolean {
    return !this.resting.has(source) && this.leave.mayUse(source);
  }

  #messagesPerConnection(source: string): number {
    return this.#tools.shaping.messagesPerConnection(this.queue, source);
  }

  #wish({ demands }: Route): SessionWish {
    if (!this.#tools.countsTls || demands === undefined) return this.#gate;
    return {
      ...this.#gate,
      hearOfTls: (peer, seen) => this.#tlsSessions.push(tlsSessionOf(this.#destination, demands.sts, peer, seen)),
    };
  }
}
