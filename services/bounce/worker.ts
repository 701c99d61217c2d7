import { randomUUID } from "node:crypto";
import type { Transaction } from "../platform/db.ts";
import { RepeatedWork } from "../platform/repeated-work.ts";
import type { ServiceContext } from "../platform/service.ts";
import { inSpan } from "../platform/tracing.ts";
import {
  finishInboundMessage,
  type LeasedInboundMessage,
  leaseInboundMessages,
  purgeInboundMessages,
  quarantineInboundMessage,
  releaseInboundMessage,
} from "../store/mail/inbound.ts";
import { findTraceParent } from "../store/mail/trace-parents.ts";
import { inTransaction } from "../store/transactions.ts";
import { applyFinding, deliveryOf } from "./apply.ts";
import { interpret } from "./interpret.ts";

const LEASE_SECONDS = 120;
const MESSAGES_PER_LEASE = 20;
const POLL_MS = 1_000;
const PURGE_MS = 3_600_000;
/** Raw messages stay readable this long. */
const KEPT_DAYS = 30;
/** A message that kept its workers from finishing this often is put aside. */
const MOST_ATTEMPTS = 5;

/** Understands what came back and applies it, a message in a transaction; any number of workers may run. */
export class BounceWorker {
  readonly #context: ServiceContext;
  readonly #owner = randomUUID();
  readonly #work: RepeatedWork;
  #purgedAt = 0;

  constructor(context: ServiceContext) {
    this.#context = context;
    this.#work = new RepeatedWork({
      take: async (signal) => {
        const found = await this.#takeMessages(signal);
        await this.#purgeNowAndThen();
        return found === 0 ? POLL_MS : 0;
      },
      failed: (err) => {
        context.observe({ kind: "bounce-worker-failed", level: "error", err });
        return POLL_MS;
      },
    });
  }

  /** There is something to do: do not wait for the next poll. */
  wake(): void {
    this.#work.wake();
  }

  stop(): Promise<void> {
    return this.#work.stop();
  }

  async #purgeNowAndThen(): Promise<void> {
    if (Date.now() - this.#purgedAt <= PURGE_MS) return;
    this.#purgedAt = Date.now();
    while ((await purgeInboundMessages(this.#context.db, KEPT_DAYS)) > 0);
  }

  /** @returns how many messages it took */
  async #takeMessages(signal: AbortSignal): Promise<number> {
    const messages = await leaseInboundMessages(this.#context.db, {
      owner: this.#owner,
      seconds: LEASE_SECONDS,
      limit: MESSAGES_PER_LEASE,
    });
    for (const message of messages) {
      if (signal.aborted) await releaseInboundMessage(this.#context.db, message.id, this.#owner);
      else await this.#handle(message);
    }
    return messages.length;
  }

  async #handle(message: LeasedInboundMessage): Promise<void> {
    const { db, observe } = this.#context;
    try {
      if (message.attempts > MOST_ATTEMPTS) throw new PoisonMessage("its workers never finished");
      await this.#apply(message);
    } catch (error) {
      if (error instanceof LeaseLost) return;
      const isPoison = error instanceof PoisonMessage || message.attempts >= MOST_ATTEMPTS;
      observe({ kind: "inbound-not-applied", level: isPoison ? "error" : "warn", id: message.id, err: error });
      if (isPoison) await quarantineInboundMessage(db, { id: message.id, owner: this.#owner, problem: String(error) });
      else await releaseInboundMessage(db, message.id, this.#owner);
    }
  }

  async #apply(message: LeasedInboundMessage): Promise<void> {
    const { db, secret, config, clock, observe } = this.#context;
    const finding = interpretOrPoison(message.octets);
    const at = new Date(clock.nowMs());
    const deliveryId = deliveryOf(message, finding, { secret, now: at });
    const { hardBouncesToInvalidate } = config;
    const parent = async () => ({ traceparent: await findTraceParent(db, deliveryId) });
    const apply = async (transaction: Transaction) => {
      const { kind, results, feedbackType } = finding;
      const noted = { kind, results, feedbackType };
      const end = { id: message.id, owner: this.#owner, finding: noted, aboutDeliveryId: deliveryId };
      const done = await applyFinding(transaction, finding, { deliveryId, at, hardBouncesToInvalidate });
      // Last, as an erasure comes to the reports about somebody after all else that a finding changes.
      if (!(await finishInboundMessage(transaction, end))) throw new LeaseLost();
      const bounces = results.filter(({ action }) => action === "failed");
      observe({ kind: "inbound-applied", level: "info", id: message.id, finding: kind, consequence: done, bounces });
    };
    await inSpan("apply bounce", { kind: "consumer", parent }, () => inTransaction(db, apply));
  }
}

/** A message that no later attempt would cope with better. */
class PoisonMessage extends Error {}

/** Another worker has the message, or it was erased: nothing of ours is kept. */
class LeaseLost extends Error {}

function interpretOrPoison(octets: Buffer) {
  try {
    return interpret(octets);
  } catch (error) {
    throw new PoisonMessage(`cannot be interpreted: ${error}`, { cause: error });
  }
}
