import { randomUUID } from "node:crypto";
import type { KeyRing } from "../../core/key-ring.ts";
import { sentence } from "../../core/sentences.ts";
import { FullEvents, toToldJson } from "../../operations/mail/told-events.ts";
import type { Clock } from "../../platform/clock.ts";
import type { FetchSurroundings } from "../../platform/lookups/pinned-agent.ts";
import { postTo } from "../../platform/lookups/post.ts";
import type { Observe } from "../../platform/observability/observation.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { RepeatedWork } from "../../platform/repeated-work.ts";
import { type ToldEvent, tidyFeeds } from "../../store/mail/tracking/event-feed.ts";
import {
  type LeasedWebhook,
  leaseWebhook,
  nextWebhookBatch,
  releaseWebhook,
  removeOldWebhookBatches,
  settleWebhookBatch,
  type WaitingBatch,
  type WebhookAttempt,
} from "../../store/mail/tracking/webhooks.ts";
import { WebhookPlaces } from "./places.ts";
import { SIGNATURE_HEADER, signWebhook } from "./signature.ts";

interface WebhookWorkerOptions {
  readonly db: Db;
  readonly keyRing: KeyRing;
  readonly clock: Clock;
  readonly observe: Observe;
  readonly surroundings: FetchSurroundings;
}

const EVENTS_PER_BATCH = 500;
const IDLE_MS = 1_000;
const LEASE_SECONDS = 60;
/** Events are told after so long: by then what happened before them is stored as well, whichever worker stores it. */
const SETTLE_SECONDS = 1;
const FIRST_WAIT_SECONDS = 5;
const LONGEST_WAIT_SECONDS = 3_600;
const HOUSEKEEPING_MS = 60_000;

/**
 * Tells instances of their events. A webhook gets one batch after the other, so the events of a contact arrive in
 * their order; a server that does not take them is asked again with growing waits, and holds up nobody else: see
 * `WebhookPlaces`.
 */
export class WebhookWorker {
  readonly #options: WebhookWorkerOptions;
  readonly #id = randomUUID();
  readonly #fullEvents: FullEvents;
  readonly #serving = new Set<Promise<void>>();
  readonly #places = new WebhookPlaces();
  #telling: RepeatedWork | undefined;
  #tidying: RepeatedWork | undefined;
  #isFailing = false;

  constructor(options: WebhookWorkerOptions) {
    this.#options = options;
    this.#fullEvents = new FullEvents(options.keyRing);
  }

  start(): void {
    this.#telling = this.#repeat(() => this.#serveDue());
    this.#tidying = this.#repeat(() => this.#tidyUp());
  }

  /** Lets requests that are under way end. */
  async stop(): Promise<void> {
    await Promise.all([this.#telling?.stop(), this.#tidying?.stop()]);
    await Promise.all(this.#serving);
  }

  #repeat(take: () => Promise<number>): RepeatedWork {
    return new RepeatedWork({
      take: async () => {
        const restMs = await take();
        this.#isFailing = false;
        return restMs;
      },
      failed: (err) => {
        // While the database is away, once is enough.
        this.#options.observe({ kind: "webhook-work-failed", level: this.#isFailing ? "debug" : "warn", err });
        this.#isFailing = true;
        return IDLE_MS;
      },
    });
  }

  async #tidyUp(): Promise<number> {
    await removeOldWebhookBatches(this.#options.db);
    await tidyFeeds(this.#options.db);
    return HOUSEKEEPING_MS;
  }

  /** Starts on all webhooks that are due; the next turn comes when one of them is served, or after a while. */
  async #serveDue(): Promise<number> {
    const { db, keyRing, observe } = this.#options;
    const lease = { workerId: this.#id, leaseSeconds: LEASE_SECONDS, settleSeconds: SETTLE_SECONDS };
    for (let places = this.#places.free(); places !== undefined; places = this.#places.free()) {
      const webhook = await leaseWebhook(db, keyRing, { ...lease, places });
      if (webhook === undefined) break;
      const giveBack = this.#places.take(webhook);
      let tookMs: number | undefined;
      const serving: Promise<void> = this.#serve(webhook)
        .then((answeredInMs) => {
          tookMs = answeredInMs;
        })
        .catch((error: unknown) => observe({ kind: "webhook-not-served", level: "warn", err: error }))
        .finally(() => {
          giveBack(tookMs);
          this.#serving.delete(serving);
          this.#telling?.wake();
        });
      this.#serving.add(serving);
    }
    return IDLE_MS;
  }

  /** @returns how long its server took; undefined where there was nothing to tell */
  async #serve(webhook: LeasedWebhook): Promise<number | undefined> {
    const { db, observe } = this.#options;
    const { instanceId, name } = webhook;
    const held = { instanceId, name, workerId: this.#id };
    const write = (events: readonly ToldEvent[], reading: Db) => this.#writeBody(webhook, events, reading);
    const turn = { instanceId, name, settleSeconds: SETTLE_SECONDS };
    const batch = await nextWebhookBatch(db, turn, EVENTS_PER_BATCH, write);
    if (batch === undefined) {
      await releaseWebhook(db, held);
      return undefined;
    }
    const askedAtMs = performance.now();
    const attempt = await this.#post(webhook, batch);
    const tookMs = performance.now() - askedAtMs;
    await settleWebhookBatch(db, held, batch.id, attempt);
    observe({ kind: `webhook-${attempt.state}`, instanceId, batchId: batch.id, outcome: attempt.outcome.message });
    return tookMs;
  }

  /** Events in the words of the API. */
  async #writeBody(webhook: LeasedWebhook, events: readonly ToldEvent[], db: Db): Promise<string> {
    const { instanceId, instanceName, timeZone, isFull } = webhook;
    const eventos = isFull
      ? await this.#fullEvents.toJson(db, { id: instanceId, timeZone }, events)
      : events.map((event) => toToldJson(event, timeZone));
    return JSON.stringify({ instancia: instanceName, eventos });
  }

  async #post(webhook: LeasedWebhook, batch: WaitingBatch): Promise<WebhookAttempt> {
    const now = new Date(this.#options.clock.nowMs());
    const headers = {
      [SIGNATURE_HEADER]: signWebhook(webhook.signingSecret, batch.body, now),
      "Palomar-Batch": String(batch.id),
    };
    const answer = await postTo(webhook.url, { body: batch.body, headers }, this.#options.surroundings);
    const outcome = answer.ok ? sentence("http-status", { status: answer.value }) : answer.error;
    if (answer.ok && answer.value >= 200 && answer.value < 300) return { state: "delivered", outcome };
    if (batch.isPastTime) return { state: "failed", outcome };
    return { state: "waiting", outcome, retryInSeconds: webhookWaitSeconds(webhook.failures) };
  }
}

/** Doubles from five seconds to an hour. @param failures in a row before this one */
export function webhookWaitSeconds(failures: number): number {
  return Math.min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2 ** Math.min(failures, 20));
}
