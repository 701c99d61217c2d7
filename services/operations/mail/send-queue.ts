import { setTimeout as sleep } from "node:timers/promises";
import { FairTurns, type TurnLimits } from "../../platform/fair-turns.ts";
import type { WithinSpan } from "../../platform/observability/tracer.ts";
import { keepSpan, traced } from "../../platform/observability/tracing.ts";
import { type Db, isDatabaseAway, isOverLimit, type Transaction } from "../../platform/postgres/db.ts";
import { announceMail } from "../../store/mail/queue/queue.ts";
import { sizeOf } from "../../store/mail/sends/messages.ts";
import { allowManyRows, inTransaction } from "../../store/transactions.ts";
import { acceptSend, acceptSends, type Send, type SendOutcome } from "./accept-sends.ts";

/** Of one transaction: above this a failure would be too much to do again, and the others would wait for too long. */
const MOST_RECIPIENTS = 500;
const MOST_OCTETS = 2 ** 20;
/** What is larger by itself has a transaction of its own, beside those of the small ones; instances take turns. */
const LARGE_AT_ONCE: TurnLimits = { atOnce: 2, perClient: 1 };
/** Notices to the workers are this far apart: they look for new mail no more often while they have some. */
const BETWEEN_NOTICES_MS = 20;

interface WaitingSend {
  readonly send: Send;
  readonly withinSpan: WithinSpan;
  resolve(outcome: SendOutcome): void;
  reject(error: unknown): void;
}

/**
 * Accepts sends that come at the same time in one transaction: while one commits, the next gather. A commit to the disk
 * and a round of statements are then shared by as many as there are connections, and nobody waits for longer than two.
 */
export class SendQueue {
  readonly #db: Db;
  readonly #large: FairTurns;
  #waiting: WaitingSend[] = [];
  #working = false;
  /** Workers are being told, or have just been. */
  #telling = false;
  /** Instances of which something was accepted since they were told. */
  readonly #untold = new Set<number>();

  /** @param large how many large sends there may be at a time */
  constructor(db: Db, large = LARGE_AT_ONCE) {
    this.#db = db;
    this.#large = new FairTurns(large);
  }

  /** Resolves when the send is durable, or refused; the workers are told then. @throws what `acceptSend` does */
  accept(send: Send): Promise<SendOutcome> {
    if (isLargeSend(send)) return this.acceptAlone(send, (transaction) => acceptSend(transaction, send));
    return new Promise((resolve, reject) => {
      this.#waiting.push({ send: traced(send), withinSpan: keepSpan(), resolve, reject });
      if (!this.#working) void this.#work();
    });
  }

  /**
   * As {@link accept}, in a transaction that is the caller's alone, when it is the instance's turn where the send is large.
   * @param work what is done in it, which comes to `acceptSend`
   */
  async acceptAlone<T>(send: Send, work: (transaction: Transaction) => Promise<T>): Promise<T> {
    const isLarge = isLargeSend(send);
    const accept = () =>
      inTransaction(this.#db, async (transaction) => {
        if (isLarge) await allowManyRows(transaction);
        return work(transaction);
      });
    const outcome = isLarge ? await this.#large.run(String(send.instanceId), accept) : await accept();
    this.#hasNews([send]);
    return outcome;
  }

  async #work(): Promise<void> {
    this.#working = true;
    while (this.#waiting.length > 0) {
      const together = this.#takeNext();
      await this.#acceptTogether(together);
      this.#hasNews(together.map(({ send }) => send));
    }
    this.#working = false;
  }

  #hasNews(sends: readonly Pick<Send, "instanceId">[]): void {
    for (const { instanceId } of sends) this.#untold.add(instanceId);
    if (!this.#telling) void this.#tell();
  }

  /** It only hastens: the delivery workers look by themselves, what was accepted is safe, and nobody waits for this. */
  async #tell(): Promise<void> {
    this.#telling = true;
    while (this.#untold.size > 0) {
      const instanceIds = [...this.#untold];
      this.#untold.clear();
      await announceMail(this.#db, instanceIds).catch(() => {});
      await sleep(BETWEEN_NOTICES_MS);
    }
    this.#telling = false;
  }

  #takeNext(): WaitingSend[] {
    let octets = 0;
    let recipients = 0;
    let count = 0;
    for (const { send } of this.#waiting) {
      octets += sizeOf(send.content);
      recipients += recipientsOf(send);
      if (count > 0 && (octets > MOST_OCTETS || recipients > MOST_RECIPIENTS)) break;
      count += 1;
    }
    return this.#waiting.splice(0, count);
  }

  async #acceptTogether(together: readonly WaitingSend[]): Promise<void> {
    try {
      const sends = together.map(({ send }) => send);
      // Of those that share it, the first one's trace shows the transaction.
      const outcomes = await together[0]!.withinSpan(() =>
        inTransaction(this.#db, (transaction) => acceptSends(transaction, sends)),
      );
      for (const [index, { resolve }] of together.entries()) resolve(outcomes[index]!);
    } catch (error) {
      // With the connection the answer to the commit may be lost: done again, they might all be sent twice.
      const mayBeDone = isDatabaseAway(error) && !isOverLimit(error);
      if (together.length === 1 || mayBeDone) for (const { reject } of together) reject(error);
      // One of them may be at fault: each by itself, so that the others do not suffer for it.
      else for (const waiting of together) await this.#acceptTogether([waiting]);
    }
  }
}

function isLargeSend(send: Send): boolean {
  return sizeOf(send.content) > MOST_OCTETS || recipientsOf(send) > MOST_RECIPIENTS;
}

function recipientsOf({ recipients, copies }: Send): number {
  return recipients.length + copies.length;
}
