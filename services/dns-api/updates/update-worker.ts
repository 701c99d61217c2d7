import { Counter } from "prom-client";
import { RCODE } from "../../core/dns/rr-types.ts";
import { registry } from "../../platform/observability/metrics.ts";
import type { Observe } from "../../platform/observability/observation.ts";
import { isDatabaseAway } from "../../platform/postgres/db.ts";
import { hearNotices } from "../../platform/postgres/notices.ts";
import { RepeatedWork, repeatTasks } from "../../platform/repeated-work.ts";
import type { ServiceContext } from "../../platform/service.ts";
import {
  finishUpdate,
  listWaitingUpdates,
  notifyUpdateAnswers,
  pruneUpdates,
  UPDATES_CHANNEL,
  type WaitingUpdate,
} from "../../store/dns/dns-updates.ts";
import type { DnsApiContext } from "../context.ts";
import { type JudgedUpdate, UpdateJudge } from "./update-judge.ts";

/** A look each second makes sure; notices only hasten it. */
const POLL_MS = 1_000;
/** Requests that are in work or wait here for their zone's turn. */
const MOST_IN_WORK = 200;
/** More is looked for when so many are done since the last look: fewer than a zone may have in work, so that none stands still. */
const DONE_A_LOOK = 4;
const PRUNE_EVERY_MS = 60_000;
/** Within so long the log has a client's refusal for one reason once, and so many refusals at most. */
const TOLD_MS = 60_000;
const MOST_TOLD = 100;

const updatesJudged = new Counter({
  name: "palomar_dns_updates_total",
  help: "Requests for dynamic updates that were judged, by response code",
  labelNames: ["rcode"],
  registers: [registry],
});

/**
 * Makes the updates that the name servers put in the queue. Updates of one zone take turns, with each other and with the
 * API's changes; those of several zones go side by side. Any number of processes may do it.
 */
export function startUpdateWorker(
  context: DnsApiContext,
  { observe, openListenConnection }: Pick<ServiceContext, "observe" | "openListenConnection">,
): { stop(): Promise<void> } {
  const { db } = context;
  const worker = new UpdateWorker(context, observe);
  const looking = new RepeatedWork({
    take: () => worker.look(),
    failed: (err) => {
      observe({ kind: "updates-unreadable", level: "warn", err });
      return POLL_MS;
    },
  });
  worker.onRoom = () => looking.wake();
  const hearing = hearNotices(openListenConnection, UPDATES_CHANNEL, () => looking.wake());
  const pruning = repeatTasks(
    [{ name: "prune updates", everyMs: PRUNE_EVERY_MS, run: () => pruneUpdates(db) }],
    (_task, err) => observe({ kind: "updates-unreadable", level: "warn", err }),
  );
  return {
    stop: async () => {
      await Promise.all([hearing.stop(), looking.stop(), pruning.stop()]);
      await worker.drained();
    },
  };
}

class UpdateWorker {
  /** Told when requests are done: there is room for more, of their zone as well. One that stays waits for the next look. */
  onRoom: () => void = () => {};
  readonly #context: DnsApiContext;
  readonly #observe: Observe;
  readonly #judge: UpdateJudge;
  readonly #inWork = new Map<number, Promise<void>>();
  #doneSinceLook = 0;
  #hasAnswers = false;
  #telling: Promise<void> | undefined;
  /** Refusals that the log has within the present minute. */
  readonly #told = new Set<string>();
  #toldUntilMs = 0;

  constructor(context: DnsApiContext, observe: Observe) {
    this.#context = context;
    this.#observe = observe;
    this.#judge = new UpdateJudge(context);
  }

  /** Takes on what waits. @returns how long to rest, in ms */
  async look(): Promise<number> {
    const room = MOST_IN_WORK - this.#inWork.size;
    if (room <= 0) return POLL_MS;
    this.#doneSinceLook = 0;
    const waiting = await listWaitingUpdates(this.#context.db, [...this.#inWork.keys()], room);
    for (const update of waiting) {
      const work = this.#work(update)
        .finally(() => this.#inWork.delete(update.id))
        .then((isDone) => {
          if (!isDone) return;
          this.#doneSinceLook += 1;
          if (this.#doneSinceLook >= DONE_A_LOOK || this.#inWork.size === 0) this.onRoom();
        });
      this.#inWork.set(update.id, work);
    }
    return POLL_MS;
  }

  /** Resolves when all that was taken on is done. */
  async drained(): Promise<void> {
    await Promise.all(this.#inWork.values());
    await this.#telling;
  }

  /** @returns whether it has an answer */
  async #work(update: WaitingUpdate): Promise<boolean> {
    const judged = await this.#judgeSafely(update);
    if (!judged) return false;
    updatesJudged.inc({ rcode: judged.rcode });
    const { rcode, refusal = "" } = judged;
    if (rcode !== RCODE.NOERROR) {
      const level = rcode === RCODE.REFUSED && this.#isNews(`${update.client} ${refusal}`) ? "info" : "debug";
      this.#observe({ kind: "update-refused", level, client: update.client, rcode, refusal });
    }
    this.#tell();
    if (judged.zoneId !== undefined) this.#context.announcer.announce([judged.zoneId]);
    return true;
  }

  /** Whether a refusal is the first of its client and reason within a minute: a program that repeats itself does not fill the log. */
  #isNews(refusal: string): boolean {
    const now = this.#context.clock.nowMs();
    if (now >= this.#toldUntilMs) {
      this.#told.clear();
      this.#toldUntilMs = now + TOLD_MS;
    }
    if (this.#told.has(refusal) || this.#told.size >= MOST_TOLD) return false;
    this.#told.add(refusal);
    return true;
  }

  /** While the database is away a request stays, and is taken up again as long as somebody waits for it. */
  async #judgeSafely(update: WaitingUpdate): Promise<JudgedUpdate | undefined> {
    try {
      return await this.#judge.judge(update);
    } catch (err) {
      this.#observe({ kind: "update-failed", level: isDatabaseAway(err) ? "warn" : "error", err });
      if (isDatabaseAway(err)) return undefined;
      const judged = { rcode: RCODE.SERVFAIL };
      return finishUpdate(this.#context.db, update.id, judged.rcode).then(
        () => judged,
        () => undefined,
      );
    }
  }

  /** One notice for all answers that came while the last one was sent. */
  #tell(): void {
    this.#hasAnswers = true;
    this.#telling ??= this.#tellAll().finally(() => {
      this.#telling = undefined;
    });
  }

  async #tellAll(): Promise<void> {
    while (this.#hasAnswers) {
      this.#hasAnswers = false;
      try {
        await notifyUpdateAnswers(this.#context.db);
      } catch {
        // The name servers look for answers from time to time by themselves.
      }
    }
  }
}
