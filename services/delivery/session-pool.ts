import { ok, type Result, refuse } from "../core/result.ts";
import {
  openSmtpSession,
  type SmtpClientOptions,
  type SmtpFailure,
  type SmtpPeer,
  type SmtpSession,
} from "../platform/smtp-client.ts";

/** Where a destination's mail goes: servers in the order in which they are tried. */
export interface Route {
  /** Equal for destinations whose sessions may be shared. */
  readonly key: string;
  readonly peers: readonly SmtpPeer[];
}

/** A session that is in use by one lane. */
export interface PooledSession {
  readonly session: SmtpSession;
  readonly route: Route;
  /** Messages that went over it, by this lane and others before. */
  messages: number;
}

export interface SessionPoolOptions {
  readonly client: SmtpClientOptions;
  readonly idleMs: number;
}

interface IdleSession {
  readonly pooled: PooledSession;
  readonly timer: NodeJS.Timeout;
}

/** Sessions between uses. How many there may be is decided by whoever hands out the partitions. */
export class SessionPool {
  readonly #options: SessionPoolOptions;
  readonly #idle = new Map<string, IdleSession[]>();

  constructor(options: SessionPoolOptions) {
    this.#options = options;
  }

  /** An idle session of the route, or a new one with the first of its servers that takes it. */
  async acquire(route: Route): Promise<Result<PooledSession, SmtpFailure>> {
    const idle = this.#takeIdle(route.key);
    return idle === undefined ? this.open(route) : ok(idle);
  }

  /** A new session. */
  async open(route: Route): Promise<Result<PooledSession, SmtpFailure>> {
    let failure: SmtpFailure = { kind: "broken", stage: "connect", text: "no server" };
    for (const peer of route.peers) {
      const opened = await openSmtpSession(peer, this.#options.client);
      if (opened.ok) return ok({ session: opened.value, route, messages: 0 });
      failure = opened.error;
    }
    return refuse(failure);
  }

  /** @param messagesPerConnection after which it is closed instead of kept */
  release(pooled: PooledSession, messagesPerConnection: number): void {
    if (!pooled.session.usable || pooled.messages >= messagesPerConnection) {
      pooled.session.close();
      return;
    }
    const timer = setTimeout(() => this.#drop(pooled), this.#options.idleMs);
    timer.unref();
    this.#idle.set(pooled.route.key, [...(this.#idle.get(pooled.route.key) ?? []), { pooled, timer }]);
  }

  close(): void {
    for (const { pooled } of [...this.#idle.values()].flat()) this.#drop(pooled);
  }

  #takeIdle(key: string): PooledSession | undefined {
    for (const { pooled } of (this.#idle.get(key) ?? []).toReversed()) {
      this.#forget(pooled);
      if (pooled.session.usable) return pooled;
      pooled.session.close();
    }
    return undefined;
  }

  #drop(pooled: PooledSession): void {
    this.#forget(pooled);
    pooled.session.close();
  }

  #forget(pooled: PooledSession): void {
    const { key } = pooled.route;
    const idle = this.#idle.get(key) ?? [];
    clearTimeout(idle.find((entry) => entry.pooled === pooled)?.timer);
    const kept = idle.filter((entry) => entry.pooled !== pooled);
    if (kept.length > 0) this.#idle.set(key, kept);
    else this.#idle.delete(key);
  }
}
