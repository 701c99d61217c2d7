import { type AttemptPath, generalWords } from "../../core/mail/delivery-attempt.ts";
import { type RecentMap, recentMap } from "../../core/recent-map.ts";
import type { Db, Transaction } from "../../platform/postgres/db.ts";
import { ensureAttemptWeeks } from "../../store/mail/attempts/attempt-weeks.ts";
import {
  type AttemptResultRow,
  findPathIds,
  findResultIds,
  type NewAttempt,
  storeAttempts,
} from "../../store/mail/attempts/attempts.ts";
import type { DeliveryOutcome } from "../../store/mail/queue/deliveries.ts";

/** Ways and results, each, that are remembered. */
const MOST_REMEMBERED = 20_000;
/** An id is asked for again after so long: that it is in use is noted, or it would be removed. */
const REMEMBERED_MS = 86_400_000;

const OUTCOME_OF_STATE = { delivered: "delivered", queued: "deferred", refused: "bounced" } as const;

/** An outcome whose attempt has the ids of its way and its result. */
interface Identified {
  readonly outcome: DeliveryOutcome;
  readonly result: AttemptResultRow;
}

interface KnownId {
  readonly id: number;
  readonly untilMs: number;
}

/** A kind of thing that attempts have in common, and how its ids are found. */
interface Kind<T> {
  readonly known: RecentMap<string, KnownId>;
  find(db: Db, instanceId: number, things: readonly T[]): Promise<number[]>;
}

/**
 * Keeps what was seen of every attempt. Ways and results are looked up before the transaction of the outcomes, each once
 * a day and process, so that this transaction has one statement more and waits for nobody.
 */
export class AttemptLog {
  readonly #paths: Kind<AttemptPath> = { known: recentMap(MOST_REMEMBERED), find: findPathIds };
  readonly #results: Kind<AttemptResultRow> = { known: recentMap(MOST_REMEMBERED), find: findResultIds };

  /**
   * Prepares the rows of attempts, and the weeks that they fall into.
   * @param db outside of the transaction that is to store them
   */
  async prepare(db: Db, outcomes: readonly DeliveryOutcome[]): Promise<NewAttempt[]> {
    await ensureAttemptWeeks(
      db,
      outcomes.map(({ attempt }) => attempt.endedAt),
    );
    const identified = outcomes.map((outcome): Identified => ({ outcome, result: resultOf(outcome) }));
    const pathIds = await idsOf(
      db,
      this.#paths,
      identified.map(({ outcome: { instanceId, attempt } }) => ({ instanceId, thing: attempt.path })),
    );
    const resultIds = await idsOf(
      db,
      this.#results,
      identified.map(({ outcome: { instanceId }, result }) => ({ instanceId, thing: result })),
    );
    return identified.map(({ outcome, result }, index) => ({
      instanceId: outcome.instanceId,
      deliveryId: outcome.deliveryId,
      at: outcome.attempt.endedAt,
      pathId: pathIds[index] ?? null,
      resultId: resultIds[index]!,
      attempt: outcome.attempts,
      durationMs: Math.round(outcome.attempt.durationMs),
      reply: outcome.reply === result.words ? null : outcome.reply,
    }));
  }

  /** @param settled the deliveries whose outcomes the transaction has stored: what is settled already has no attempt more */
  async store(transaction: Transaction, attempts: readonly NewAttempt[], settled: ReadonlySet<number>): Promise<void> {
    const fresh = attempts.filter(({ deliveryId }) => settled.has(deliveryId));
    if (fresh.length > 0) await storeAttempts(transaction, fresh);
  }
}

function resultOf({ state, reply, recipient, attempt }: DeliveryOutcome): AttemptResultRow {
  const { stage, code, status, reason } = attempt;
  return { outcome: OUTCOME_OF_STATE[state], stage, code, status, reason, words: generalWords(reply, recipient) };
}

/** Things of instances that are to have ids; without a thing there is none. */
type Wanted<T> = readonly { readonly instanceId: number; readonly thing: T | undefined }[];

async function idsOf<T extends object>(db: Db, kind: Kind<T>, wanted: Wanted<T>): Promise<(number | undefined)[]> {
  const keys = wanted.map(({ instanceId, thing }) => thing && keyOf(instanceId, thing));
  const unknown = new Map<number, Map<string, T>>();
  const found = new Map<string, number>();
  const nowMs = performance.now();
  wanted.forEach(({ instanceId, thing }, index) => {
    const key = keys[index];
    if (thing === undefined || key === undefined) return;
    const known = kind.known.get(key);
    if (known !== undefined && known.untilMs > nowMs) found.set(key, known.id);
    else unknown.set(instanceId, (unknown.get(instanceId) ?? new Map()).set(key, thing));
  });
  for (const [instanceId, things] of unknown) {
    const ids = await kind.find(db, instanceId, [...things.values()]);
    [...things.keys()].forEach((key, index) => {
      const id = ids[index]!;
      found.set(key, id);
      kind.known.set(key, { id, untilMs: nowMs + REMEMBERED_MS });
    });
  }
  return keys.map((key) => (key === undefined ? undefined : found.get(key)));
}

function keyOf(instanceId: number, thing: object): string {
  return `${instanceId} ${Object.values(thing).join("\n")}`;
}
