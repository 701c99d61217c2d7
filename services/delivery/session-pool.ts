import type { AttemptPath } from "../core/mail/delivery-attempt.ts";
import type { AppliedSts } from "../core/mail/reports/tls-session.ts";
import { ok, type Result, refuse } from "../core/result.ts";
import {
  openSmtpSession,
  type SeenTls,
  type SmtpClientOptions,
  type SmtpClientSession,
  type SmtpFailure,
  type SmtpPeer,
} from "../platform/smtp/client.ts";
import type { SourceAddress, SourcePlace } from "./routing/source-pools.ts";

/** Where a destination's mail goes: servers in the order in which they are tried. */
export interface Route {
  /** Equal for destinations whose sessions may be shared. */
  readonly key: string;
  readonly peers: readonly SmtpPeer[];
  /** Of a way by a domain's exchangers: what the domain asks of those who send to it. */
  readonly demands?: { readonly sts: AppliedSts | undefined };
  /** The way does not leave this machine: addresses to leave from do not matter. */
  readonly local?: boolean;
}

/** A session that is in use by one lane. */
export interface PooledSession {
  readonly session: SmtpClientSession;
  readonly path: AttemptPath;
  /** It leaves from there; see `SourcePlace`. */
  readonly source: string;
  /** What it is kept under: who goes the same way from the same pool may use it. */
  readonly key: string;
  /** Messages that went over it, by this lane and others before. */
  messages: number;
  /** Recipients that were refused over it. */
  refusals: number;
  /** By the monotonic clock. */
  readonly openedAtMs: number;
  /** Ends it, whoever has it. */
  close(): void;
}

/** Which sources of a pool may be spoken from, and who is told of sessions. */
export interface SourceGate {
  /** Whether an idle session from there may be used. */
  mayUse(source: string): boolean;
  /** Whether a new one may be opened. */
  mayOpen(source: string): boolean;
  /** One is being opened. @returns to be called once when it is closed, or was never open */
  opened(source: string): () => void;
}

interface SessionPoolOptions {
  readonly client: SmtpClientOptions;
  readonly idleMs: number;
}

interface IdleSession {
  readonly pooled: PooledSession;
  readonly timer: NodeJS.Timeout;
}

/** Why there is no session. */
interface NoSession {
  readonly failure: SmtpFailure;
  /** What it was said to; undefined where nobody was reached, or where no source may be used. */
  readonly source: string | undefined;
  /** Some server was not turned to, as the sources that reach it rest. */
  readonly resting: boolean;
  /** How far it came. */
  readonly path?: AttemptPath;
}

/** Hears what came of TLS with each server that a new session was tried with. */
type HearOfTls = (peer: SmtpPeer, seen: SeenTls) => void;

/** Who may be spoken from, and who hears of it. */
export interface SessionWish extends SourceGate {
  readonly hearOfTls?: HearOfTls | undefined;
}

/** Sessions between uses. How many there may be is decided by whoever hands out the partitions. */
export class SessionPool {
  readonly #options: SessionPoolOptions;
  readonly #idle = new Map<string, IdleSession[]>();

  constructor(options: SessionPoolOptions) {
    this.#options = options;
  }

  /** An idle session of the route from the pool, or a new one with the first of its servers that takes it. */
  async acquire(route: Route, place: SourcePlace, gate: SessionWish): Promise<Result<PooledSession, NoSession>> {
    const key = `${route.key} from ${place.pool}`;
    const idle = this.#takeIdle(key, gate);
    return idle === undefined ? this.#open(key, route, { place, gate }) : ok(idle);
  }

  async #open(
    key: string,
    route: Route,
    { place, gate }: { readonly place: SourcePlace; readonly gate: SessionWish },
  ): Promise<Result<PooledSession, NoSession>> {
    let refusal: NoSession = { failure: noServer("no server"), source: undefined, resting: false };
    for (const peer of route.peers) {
      const from = route.local ? undefined : place.pick(peer.host, gate.mayOpen);
      const source = from?.address ?? place.sources[0]!;
      if (from === null || (from === undefined && !gate.mayOpen(source))) {
        const resting = refusal.resting || place.pick(peer.host) !== null;
        const failure = noServer(`no address of pool ${place.pool} reaches ${peer.host}`);
        refusal = { ...refusal, resting };
        if (refusal.failure.kind === "broken") refusal = { ...refusal, failure, path: pathTo(peer) };
        continue;
      }
      const closed = gate.opened(source);
      const opened = await openSmtpSession(peer, this.#clientOf(peer, from, gate));
      if (opened.ok) {
        const path = { ...pathTo(peer), ...opened.value.connection };
        return ok(pooledSession(opened.value, { source, path, key, closed }));
      }
      closed();
      // What a server said tells more than that another one, or its other address, is not there.
      if (refusal.failure.kind === "broken" || opened.error.kind !== "broken") {
        const path = { ...pathTo(peer), source: from?.address ?? "", ...opened.connection };
        refusal = { ...refusal, failure: opened.error, source, path };
      }
    }
    return refuse(refusal);
  }

  #clientOf(peer: SmtpPeer, from: SourceAddress | undefined, { hearOfTls }: SessionWish): SmtpClientOptions {
    const client = withSource(this.#options.client, from);
    return hearOfTls === undefined ? client : { ...client, onTls: (seen) => hearOfTls(peer, seen) };
  }

  /** One that was used may be used again. @param messagesPerConnection after which it is closed instead of kept */
  release(pooled: PooledSession, messagesPerConnection: number): void {
    const isUsed = pooled.messages > 0 && pooled.messages < messagesPerConnection;
    if (!pooled.session.usable || !isUsed) {
      pooled.close();
      return;
    }
    const timer = setTimeout(() => this.#drop(pooled), this.#options.idleMs);
    timer.unref();
    this.#idle.set(pooled.key, [...(this.#idle.get(pooled.key) ?? []), { pooled, timer }]);
  }

  close(): void {
    for (const { pooled } of [...this.#idle.values()].flat()) this.#drop(pooled);
  }

  #takeIdle(key: string, { mayUse }: SourceGate): PooledSession | undefined {
    for (const { pooled } of (this.#idle.get(key) ?? []).toReversed()) {
      if (!mayUse(pooled.source)) continue;
      this.#forget(pooled);
      if (pooled.session.usable) return pooled;
      pooled.close();
    }
    return undefined;
  }

  #drop(pooled: PooledSession): void {
    this.#forget(pooled);
    pooled.close();
  }

  #forget(pooled: PooledSession): void {
    const { key } = pooled;
    const idle = this.#idle.get(key) ?? [];
    clearTimeout(idle.find((entry) => entry.pooled === pooled)?.timer);
    const kept = idle.filter((entry) => entry.pooled !== pooled);
    if (kept.length > 0) this.#idle.set(key, kept);
    else this.#idle.delete(key);
  }
}

function pathTo({ name, host, tls }: SmtpPeer): AttemptPath {
  const policy = tls === "dane" ? "dane" : tls === "required" ? "mta-sts" : "";
  return { exchanger: name, address: host, source: "", tls: "", cipher: "", certificate: "", policy };
}

function pooledSession(
  session: SmtpClientSession,
  { closed, ...kept }: Pick<PooledSession, "source" | "path" | "key"> & { closed(): void },
): PooledSession {
  let isClosed = false;
  const close = () => {
    if (isClosed) return;
    isClosed = true;
    session.close();
    closed();
  };
  return { session, ...kept, messages: 0, refusals: 0, openedAtMs: performance.now(), close };
}

function noServer(text: string): SmtpFailure {
  return { kind: "broken", stage: "connect", text };
}

function withSource(client: SmtpClientOptions, from: SourceAddress | undefined): SmtpClientOptions {
  if (from === undefined) return client;
  return { ...client, localAddress: from.address, hostname: from.hostname ?? client.hostname };
}
