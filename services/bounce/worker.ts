import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { ServiceContext } from "../platform/service.ts";
import {
  finishInboundMessage,
  type LeasedInboundMessage,
  leaseInboundMessages,
  purgeInboundMessages,
  quarantineInboundMessage,
  releaseInboundMessage,
} from "../store/inbound.ts";
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
  readonly #stop = new AbortController();
  #wake: (() => void) | undefined;
  #purgedAt = 0;
  readonly #running: Promise<void>;

  constructor(context: ServiceContext) {
    this.#context = context;
    this.#running = this.#run();
  }

  /** There is something to do: do not wait for the next poll. */
  wake(): void {
    this.#wake?.();
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    this.wake();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { observe, db } = this.#context;
    while (!this.#stop.signal.aborted) {
      try {
        const found = await this.#work();
        if (Date.now() - this.#purgedAt > PURGE_MS) {
          this.#purgedAt = Date.now();
          while ((await purgeInboundMessages(db, KEPT_DAYS)) > 0);
        }
        if (found === 0) await this.#pause();
      } catch (error) {
        observe({ kind: "bounce-worker-failed", level: "error", err: error });
        await this.#pause();
      }
    }
  }

  async #pause(): Promise<void> {
    const woken = new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
    await Promise.race([woken, sleep(POLL_MS, undefined, { ref: false })]);
    this.#wake = undefined;
  }

  /** @returns how many messages it took */
  async #work(): Promise<number> {
    const messages = await leaseInboundMessages(this.#context.db, {
      owner: this.#owner,
      seconds: LEASE_SECONDS,
      limit: MESSAGES_PER_LEASE,
    });
    for (const message of messages) {
      if (this.#stop.signal.aborted) await releaseInboundMessage(this.#context.db, message.id, this.#owner);
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
      const isPoison = error instanceof PoisonMessage || message.attempts >= MOST_ATTEMPTS;
      observe({ kind: "inbound-not-applied", level: isPoison ? "error" : "warn", id: message.id, err: error });
      if (isPoison) await quarantineInboundMessage(db, message.id, String(error));
      else await releaseInboundMessage(db, message.id, this.#owner);
    }
  }

  async #apply(message: LeasedInboundMessage): Promise<void> {
    const { db, secret, config, clock, observe } = this.#context;
    const finding = interpretOrPoison(message.octets);
    const at = new Date(clock.nowMs());
    const deliveryId = deliveryOf(message, finding, { secret, now: at });
    const { hardBouncesToInvalidate } = config;
    await db.transaction(async (transaction) => {
      const { kind, results, feedbackType } = finding;
      const noted = { kind, results, feedbackType };
      if (!(await finishInboundMessage(transaction, { id: message.id, owner: this.#owner, finding: noted }))) return;
      const done = await applyFinding(transaction, finding, { deliveryId, at, hardBouncesToInvalidate });
      observe({ kind: "inbound-applied", level: "info", id: message.id, finding: kind, consequence: done });
    });
  }
}

/** A message that no later attempt would cope with better. */
class PoisonMessage extends Error {}

function interpretOrPoison(octets: Buffer) {
  try {
    return interpret(octets);
  } catch (error) {
    throw new PoisonMessage(`cannot be interpreted: ${error}`, { cause: error });
  }
}
