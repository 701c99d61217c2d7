import { randomUUID } from "node:crypto";
import type { LookupFunction } from "node:net";
import addressparser from "nodemailer/lib/addressparser";
import { withTime } from "../platform/deadline.ts";
import { readMimeMessage } from "../platform/read-mime.ts";
import { RepeatedWork } from "../platform/repeated-work.ts";
import type { ServiceContext } from "../platform/service.ts";
import { type LeasedMailbox, leaseMailbox, settleMailbox } from "../store/mail/inbound/mailboxes.ts";
import { Admission } from "./admission.ts";
import { classOf, type InboundTarget, Intake } from "./intake.ts";
import { type MailboxMessage, takeMessages } from "./mailbox.ts";
import { findTarget } from "./mx-session.ts";
import type { InboundPolicy } from "./policy.ts";

/** One poll of a mailbox ends within its lease, or is given up. */
const LEASE_SECONDS = 180;
const POLL_DEADLINE_MS = 150_000;
const MESSAGES_PER_POLL = 200;
const EVERY_SECONDS = 60;
const AFTER_A_PROBLEM_SECONDS = 300;
const LOOK_MS = 1_000;
/** Where mail servers write whom a message came for; the most trustworthy first. */
const RECIPIENT_FIELDS = ["delivered-to", "x-original-to", "envelope-to", "x-envelope-to", "x-rcpt-to", "to", "cc"];

/** Polls mailboxes at providers, as an alternative to the MX listener; any number of pollers may run. */
export class MailboxPoller {
  readonly #context: ServiceContext;
  readonly #lookup: LookupFunction;
  readonly #admission: Admission;
  readonly #intake: Intake;
  readonly #onStored: () => void;
  readonly #owner = randomUUID();
  readonly #work: RepeatedWork;

  /** @param onStored called after each message that is safe */
  constructor(
    context: ServiceContext,
    { lookup, policy }: { readonly lookup: LookupFunction; readonly policy: InboundPolicy },
    onStored: () => void,
  ) {
    this.#context = context;
    this.#lookup = lookup;
    const { db, config } = context;
    // Whoever wrote to the mailbox is not known: its provider's limits hold for rates.
    this.#admission = new Admission({ db, policy, mostOctets: config.mxMaxOctets, isLimited: () => false });
    this.#intake = new Intake(context, policy, this.#admission);
    this.#onStored = onStored;
    this.#work = new RepeatedWork({
      take: (signal) => this.#pollNext(signal),
      failed: (err) => {
        context.observe({ kind: "mailbox-poller-failed", level: "error", err });
        return LOOK_MS;
      },
    });
  }

  stop(): Promise<void> {
    return this.#work.stop();
  }

  async #pollNext(stopping: AbortSignal): Promise<number> {
    const { db, keyRing } = this.#context;
    const mailbox = await leaseMailbox(db, keyRing, { owner: this.#owner, seconds: LEASE_SECONDS });
    if (mailbox === undefined) return LOOK_MS;
    await this.#poll(mailbox, stopping);
    return 0;
  }

  async #poll(mailbox: LeasedMailbox, stopping: AbortSignal): Promise<void> {
    const { db, observe } = this.#context;
    const { name } = mailbox;
    try {
      const limits = { messages: MESSAGES_PER_POLL, octets: this.#admission.sizeFor(["report"]).keptOctets };
      const taken = await withTime({ limitMs: POLL_DEADLINE_MS, stop: stopping }, (signal) => {
        const session = { lookup: this.#lookup, signal, ...limits };
        return takeMessages(mailbox, session, (message) => this.#store(mailbox, message));
      });
      observe({ kind: "mailbox-polled", mailbox: name, taken });
      const nextInSeconds = taken < MESSAGES_PER_POLL ? EVERY_SECONDS : 0;
      await settleMailbox(db, name, this.#owner, { problem: null, nextInSeconds });
    } catch (error) {
      // Who stops has no fault to find with the mailbox: the next poller goes on where this one was.
      if (stopping.aborted) return settleMailbox(db, name, this.#owner, { problem: null, nextInSeconds: 0 });
      observe({ kind: "mailbox-not-polled", level: "warn", mailbox: name, err: error });
      const nextInSeconds = AFTER_A_PROBLEM_SECONDS;
      await settleMailbox(db, name, this.#owner, { problem: problemOf(error), nextInSeconds });
    }
  }

  /** @returns false when there is no room: the message stays where it is */
  async #store(mailbox: LeasedMailbox, { source, octets, size }: MailboxMessage): Promise<boolean> {
    const target = (await this.#findTarget(octets)) ?? { feedbackAddress: mailbox.feedback };
    const recipientClass = classOf(target);
    const { observe } = this.#context;
    if (this.#admission.judgeSize(recipientClass, size)) {
      observe({ kind: "inbound-dropped", recipientClass, reason: "size" });
      return true;
    }
    const received = { mailFrom: "", clientAddress: null, octets, source };
    const stored = await this.#intake.store(received, [target], { isLimited: true });
    if (stored === "no-room") observe({ kind: "inbound-refused", recipientClass, reason: "waiting" });
    else this.#onStored();
    return stored === "stored";
  }

  /** Whoever writes a header may write an address; a return path counts for its token alone, here as in a session. */
  async #findTarget(octets: Buffer): Promise<InboundTarget | undefined> {
    const { config, keyRing, clock } = this.#context;
    const key = { keyRing, now: new Date(clock.nowMs()) };
    const { headers } = await readMimeMessage(octets);
    for (const field of RECIPIENT_FIELDS) {
      for (const { value } of headers.filter(({ name }) => name === field)) {
        for (const { address } of addressparser(value, { flatten: true })) {
          const found = findTarget(address ?? "", { bounceDomain: config.bounceDomain, feedbackAddresses: [] }, key);
          if (found.ok) return found.value;
        }
      }
    }
    return undefined;
  }
}

/** What an operator needs to read of it. imapflow keeps the server's words apart. */
function problemOf(error: unknown): string {
  const { message = String(error), responseText } = (error ?? {}) as { message?: string; responseText?: string };
  return (responseText === undefined ? message : `${message}: ${responseText}`).slice(0, 500);
}
