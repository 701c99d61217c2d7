import type { LookupFunction } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { SharedLookups } from "../platform/lookups/shared-lookups.ts";
import { RepeatedWork } from "../platform/repeated-work.ts";
import type { ServiceContext } from "../platform/service.ts";
import {
  hastenMailbox,
  listPolledMailboxes,
  type SealedMailbox,
  withPassword,
} from "../store/mail/inbound/mailboxes.ts";
import { watchMailbox } from "./mailbox.ts";

const LOOK_MS = 2_000;
const WHILE_POLLED_MS = 1_000;
const RECONNECT_MS = 60_000;
/** A server that does not offer IDLE may after its next upgrade. */
const WITHOUT_IDLE_MS = 3_600_000;

interface Watch {
  readonly mailbox: SealedMailbox;
  readonly work: RepeatedWork;
}

/**
 * Idles (RFC 2177) in each mailbox that is polled well, and has it polled as soon as something arrives. This only
 * hastens polls: what it misses waits for the next one.
 */
export class MailboxWatcher {
  readonly #context: ServiceContext;
  readonly #lookup: LookupFunction;
  readonly #watches = new Map<string, Watch>();
  readonly #work: RepeatedWork;

  constructor(context: ServiceContext, lookup: LookupFunction) {
    this.#context = context;
    this.#lookup = lookup;
    this.#work = new RepeatedWork({
      take: () => this.#look(),
      failed: (err) => {
        context.observe({ kind: "mailbox-watcher-failed", level: "error", err });
        return LOOK_MS;
      },
    });
  }

  async stop(): Promise<void> {
    await this.#work.stop();
    await Promise.all([...this.#watches.keys()].map((name) => this.#end(name)));
  }

  /** Watches begin and end as mailboxes are added, changed, removed, or cannot be polled any more. */
  async #look(): Promise<number> {
    const { db } = this.#context;
    const mailboxes = new Map((await listPolledMailboxes(db)).map((mailbox) => [mailbox.name, mailbox]));
    for (const [name, { mailbox }] of this.#watches) {
      if (!isDeepStrictEqual(mailbox, mailboxes.get(name))) await this.#end(name);
    }
    for (const [name, mailbox] of mailboxes) {
      if (this.#watches.has(name)) continue;
      this.#watches.set(name, { mailbox, work: this.#watch(mailbox) });
    }
    return LOOK_MS;
  }

  async #end(name: string): Promise<void> {
    await this.#watches.get(name)?.work.stop();
    this.#watches.delete(name);
  }

  #watch(mailbox: SealedMailbox): RepeatedWork {
    const { name } = mailbox;
    // However many notices come: one hastens a poll, and one more for all that came meanwhile.
    const hastened = new SharedLookups<void>();
    return new RepeatedWork({
      take: async (signal) => {
        const session = { lookup: this.#lookup, signal };
        const onNews = () => void hastened.find(name, () => this.#hasten(name, signal));
        const idled = await watchMailbox(withPassword(mailbox, this.#context.keyRing), session, onNews);
        return idled ? RECONNECT_MS : WITHOUT_IDLE_MS;
      },
      failed: (err) => {
        this.#context.observe({ kind: "mailbox-not-watched", level: "info", mailbox: name, err });
        return RECONNECT_MS;
      },
    });
  }

  async #hasten(name: string, signal: AbortSignal): Promise<void> {
    try {
      while (!signal.aborted && !(await hastenMailbox(this.#context.db, name))) {
        await sleep(WHILE_POLLED_MS, undefined, { signal }).catch(() => {});
      }
    } catch (error) {
      this.#context.observe({ kind: "mailbox-watcher-failed", level: "error", err: error });
    }
  }
}
