import { createHash } from "node:crypto";
import type pg from "pg";
import { RCODE } from "../../core/dns/rr-types.ts";
import { readUpdateRequest } from "../../core/dns/update/update-request.ts";
import type { Observe } from "../../platform/observability/observation.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { hearNotices } from "../../platform/postgres/notices.ts";
import { RepeatedWork } from "../../platform/repeated-work.ts";
import {
  BEGIN_WITHIN_SECONDS,
  type QueuedUpdate,
  queueUpdates,
  type ReceivedUpdate,
  readUpdateAnswers,
  UPDATE_ANSWERS_CHANNEL,
} from "../../store/dns/dns-updates.ts";
import type { Client } from "../message/client.ts";

/** A look at the answers each half second makes sure; notices only hasten it. */
const POLL_MS = 500;
/** So long an answer is waited for: what waits is not begun after 5 s, and then takes a moment. */
const PATIENCE_MS = 8_000;
/** Requests that one statement puts in the queue. */
const QUEUED_AT_ONCE = 100;
/** How often a request is put there that another server put there in the same moment. */
const MOST_TRIES = 5;

export interface UpdateQueueOptions {
  readonly db: Db;
  readonly openConnection: () => Promise<pg.Client>;
  readonly isDatabaseAway: () => boolean;
  readonly observe: Observe;
}

/**
 * Has updates made: puts them in the database's queue, where the workers of the DNS API take them up, and waits for what
 * becomes of them. Requests that come while others are put there, and answers while others are read, go together.
 */
export class UpdateQueue {
  readonly #options: UpdateQueueOptions;
  #received: WaitingClient[] = [];
  #queueing = false;
  /** Who waits for an answer, by the request's id: of a request that came twice each time. */
  readonly #waiting = new Map<number, Set<WaitingClient>>();
  readonly #looking: RepeatedWork;
  /** The database's clock less ours, which runs evenly; minus infinity while it is not known. */
  #databaseAheadMs = Number.NEGATIVE_INFINITY;
  #notices = 0;
  /** From the first update on: a server that has none holds no connection for their answers. */
  #hearing: { stop(): Promise<void> } | null = null;

  constructor(options: UpdateQueueOptions) {
    this.#options = options;
    this.#looking = new RepeatedWork({
      take: () => this.#look(),
      failed: (err) => {
        options.observe({ kind: "updates-unreadable", level: "warn", err });
        return POLL_MS;
      },
    });
  }

  /**
   * Has an update made whose signature is good.
   * @param message the octets as they came
   * @returns the response code, once what was made is committed; SERVFAIL when the database does not say in time
   */
  async submit(message: Uint8Array, client: Client): Promise<number> {
    const request = readUpdateRequest(message);
    if (!request.ok) return request.error;
    if (this.#options.isDatabaseAway()) return RCODE.SERVFAIL;
    this.#hear();
    const digest = createHash("sha256").update(message).digest();
    const { apex } = request.value;
    const update = { apex, message, digest, client: client.addressText };
    return new Promise((resolve) => {
      this.#received.push(new WaitingClient(update, resolve, (waiting) => this.#forget(waiting)));
      void this.#queueAll();
    });
  }

  #hear(): void {
    this.#hearing ??= hearNotices(this.#options.openConnection, UPDATE_ANSWERS_CHANNEL, () => {
      this.#notices += 1;
      this.#looking.wake();
    });
  }

  /** A request that is held up here or on its way to the database is not to be begun when its client has given up. */
  #withTimes({ update, receivedAtMs }: WaitingClient): ReceivedUpdate {
    if (!Number.isFinite(this.#databaseAheadMs)) return { ...update, beginBy: null };
    const beginBy = new Date(receivedAtMs + this.#databaseAheadMs + BEGIN_WITHIN_SECONDS * 1_000);
    return { ...update, beginBy };
  }

  async stop(): Promise<void> {
    await Promise.all([this.#hearing?.stop(), this.#looking.stop()]);
    const waiting = [...this.#waiting.values()].flatMap((clients) => [...clients]);
    for (const client of [...this.#received, ...waiting]) client.answer(RCODE.SERVFAIL);
  }

  async #queueAll(): Promise<void> {
    if (this.#queueing) return;
    this.#queueing = true;
    while (this.#received.length > 0) {
      const clients = this.#received.splice(0, QUEUED_AT_ONCE).filter(({ isAnswered }) => !isAnswered);
      if (clients.length > 0) await this.#queueSome(clients);
    }
    this.#queueing = false;
  }

  async #queueSome(clients: readonly WaitingClient[]): Promise<void> {
    const noticesBefore = this.#notices;
    const sentMs = performance.now();
    try {
      const { queued, at } = await queueUpdates(
        this.#options.db,
        clients.map((client) => this.#withTimes(client)),
      );
      const between = { sentMs, answeredMs: performance.now() };
      this.#databaseAheadMs = databaseAhead(this.#databaseAheadMs, at.getTime(), between);
      for (const [index, client] of clients.entries()) this.#take(client, queued[index]!);
      // An answer may be there before it is known here what was waited for.
      if (this.#notices !== noticesBefore) this.#looking.wake();
    } catch (err) {
      this.#options.observe({ kind: "updates-not-queued", level: "warn", err });
      for (const client of clients) client.answer(RCODE.SERVFAIL);
    }
  }

  #take(client: WaitingClient, queued: QueuedUpdate): void {
    // The database took longer than the client was kept waiting: nobody asks for what becomes of it.
    if (client.isAnswered) return;
    switch (queued.kind) {
      case "no-zone":
        client.answer(RCODE.NOTAUTH);
        return;
      case "not-taken":
        client.answer(RCODE.REFUSED);
        return;
      case "judged":
        client.answer(queued.rcode);
        return;
      case "try-again":
        client.tries += 1;
        if (client.tries === MOST_TRIES) client.answer(RCODE.SERVFAIL);
        else this.#received.push(client);
        return;
      case "waiting": {
        client.id = queued.id;
        const others = this.#waiting.get(queued.id);
        if (others) others.add(client);
        else this.#waiting.set(queued.id, new Set([client]));
      }
    }
  }

  async #look(): Promise<number> {
    if (this.#waiting.size === 0) return POLL_MS;
    const answers = await readUpdateAnswers(this.#options.db, [...this.#waiting.keys()]);
    for (const [id, rcode] of answers) for (const client of this.#waiting.get(id) ?? []) client.answer(rcode);
    return POLL_MS;
  }

  #forget(client: WaitingClient): void {
    const clients = client.id === undefined ? undefined : this.#waiting.get(client.id);
    clients?.delete(client);
    if (clients?.size === 0) this.#waiting.delete(client.id!);
  }
}

/**
 * How far another clock is ahead of ours, by what it said between two moments of ours. What was known before stays as long as
 * it can be true, since the answer that took least says most of it; where it cannot, as a clock has been set, the nearest
 * that can does.
 */
export function databaseAhead(
  knownMs: number,
  saidMs: number,
  { sentMs, answeredMs }: { readonly sentMs: number; readonly answeredMs: number },
): number {
  return Math.min(Math.max(knownMs, saidMs - answeredMs), saidMs - sentMs);
}

/** Somebody who waits for what becomes of a request. */
class WaitingClient {
  readonly update: Omit<ReceivedUpdate, "beginBy">;
  /** By the clock of `performance.now()`. */
  readonly receivedAtMs = performance.now();
  /** Of the request in the queue, once it is there. */
  id: number | undefined;
  tries = 0;
  isAnswered = false;
  readonly #resolve: (rcode: number) => void;
  readonly #forget: (client: WaitingClient) => void;
  readonly #deadline: NodeJS.Timeout;

  constructor(
    update: WaitingClient["update"],
    resolve: (rcode: number) => void,
    forget: (client: WaitingClient) => void,
  ) {
    this.update = update;
    this.#resolve = resolve;
    this.#forget = forget;
    this.#deadline = setTimeout(() => this.answer(RCODE.SERVFAIL), PATIENCE_MS);
  }

  answer(rcode: number): void {
    clearTimeout(this.#deadline);
    this.isAnswered = true;
    this.#forget(this);
    this.#resolve(rcode);
  }
}
