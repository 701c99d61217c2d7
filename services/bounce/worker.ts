import { randomUUID } from "node:crypto";
import type { Phrases } from "../core/mail/bounce/phrases.ts";
import { readPhrases } from "../operations/mail/bounce-wordings.ts";
import { type Finding, interpret, isFailure } from "../operations/mail/interpret.ts";
import { type IsSignedBy, makeSignatureCheck } from "../platform/lookups/dkim-signature.ts";
import { inSpan } from "../platform/observability/tracing.ts";
import { type Db, isDatabaseAway, type Transaction } from "../platform/postgres/db.ts";
import { RepeatedWork } from "../platform/repeated-work.ts";
import type { ServiceContext } from "../platform/service.ts";
import {
  finishInboundMessage,
  type LeasedInboundMessage,
  leaseInboundMessages,
  putOffInboundMessage,
  quarantineInboundMessage,
  RECIPIENT_CLASSES,
  releaseInboundMessage,
  removeInboundMessage,
} from "../store/mail/inbound/inbound.ts";
import {
  finishUnexplained,
  purgeInboundMessages,
  trimInboundMessages,
} from "../store/mail/inbound/inbound-retention.ts";
import { MachineAway } from "../store/mail/machines.ts";
import { findDelivery } from "../store/mail/queue/deliveries.ts";
import { purgeReports } from "../store/mail/reports/report-retention.ts";
import { findTraceParent } from "../store/mail/sends/trace-parents.ts";
import { inTransaction } from "../store/transactions.ts";
import { applyFinding, deliveryOf } from "./apply.ts";
import { applyReport, LeaseLost } from "./apply-report.ts";
import { askedOnce, makeSampler, type NextSample, type UnexplainedReason } from "./intake.ts";
import { type InboundPolicy, loadInboundPolicy } from "./policy.ts";

const LEASE_SECONDS = 120;
const MESSAGES_PER_LEASE = 20;
/** Each may take its reading's time, so that they are all done before the lease ends. */
const REPORTS_PER_LEASE = 4;
const POLL_MS = 1_000;
const PURGE_MS = 3_600_000;
/** Raw messages stay readable this long, where there is room. */
const KEPT_DAYS = 30;
/** Reports about sender domains with their rows, and what they add up to by day. */
const REPORTS_KEPT = { reportDays: 90, dayDays: 400 };
/** It is looked whether there is room for what is kept this often, and after so much more of it. */
const TRIM_MS = 60_000;
const TRIM_MESSAGES = 5_000;
const TRIM_OCTETS = 64 * 2 ** 20;
/** After so many seconds whoever signed a report is asked for the key again, by attempts made; the last one goes without. */
const PUT_OFF_SECONDS = [60, 300, 900, 3_600];
/** A message that kept its workers from finishing this often is put aside. */
const MOST_ATTEMPTS = PUT_OFF_SECONDS.length + 1;

/** Understands what came back and applies it, a message in a transaction; any number of workers may run. */
export class BounceWorker {
  readonly #context: ServiceContext;
  readonly #owner = randomUUID();
  /** What is about deliveries, and beside it the reports about sender domains: neither waits for the other. */
  readonly #works: readonly RepeatedWork[];
  readonly #policy: InboundPolicy;
  readonly #nextSample: NextSample;
  readonly #isSignedBy: IsSignedBy;
  #purgedAtMs = Number.NEGATIVE_INFINITY;
  #trimmedAtMs = Number.NEGATIVE_INFINITY;
  #keptSince = { messages: 0, octets: 0 };

  constructor(context: ServiceContext, policy: InboundPolicy = loadInboundPolicy()) {
    this.#context = context;
    this.#policy = policy;
    this.#isSignedBy = makeSignatureCheck(context.config.resolver);
    this.#nextSample = makeSampler(policy);
    const failed = (err: unknown) => {
      context.observe({ kind: "bounce-worker-failed", level: "error", err });
      return POLL_MS;
    };
    const takeAboutDeliveries = async (signal: AbortSignal) => {
      const found = await this.#takeMessages(signal, { reports: false, limit: MESSAGES_PER_LEASE });
      await this.#purgeNowAndThen();
      await this.#trimNowAndThen();
      return found === 0 ? POLL_MS : 0;
    };
    const takeReports = async (signal: AbortSignal) =>
      (await this.#takeMessages(signal, { reports: true, limit: REPORTS_PER_LEASE })) === 0 ? POLL_MS : 0;
    this.#works = [takeAboutDeliveries, takeReports].map((take) => new RepeatedWork({ take, failed }));
  }

  /** There is something to do: do not wait for the next poll. */
  wake(): void {
    for (const work of this.#works) work.wake();
  }

  async stop(): Promise<void> {
    await Promise.all(this.#works.map((work) => work.stop()));
  }

  async #purgeNowAndThen(): Promise<void> {
    if (performance.now() - this.#purgedAtMs <= PURGE_MS) return;
    this.#purgedAtMs = performance.now();
    while ((await purgeInboundMessages(this.#context.db, KEPT_DAYS)) > 0);
    while ((await purgeReports(this.#context.db, REPORTS_KEPT)) > 0);
  }

  async #trimNowAndThen(): Promise<void> {
    const { messages, octets } = this.#keptSince;
    // The first time it is not known what others have left.
    const isFirst = this.#trimmedAtMs === Number.NEGATIVE_INFINITY;
    const isLate = performance.now() - this.#trimmedAtMs > TRIM_MS && (messages > 0 || isFirst);
    if (!isLate && messages < TRIM_MESSAGES && octets < TRIM_OCTETS) return;
    this.#trimmedAtMs = performance.now();
    this.#keptSince = { messages: 0, octets: 0 };
    for (const recipientClass of RECIPIENT_CLASSES) {
      const { kept } = this.#policy[recipientClass];
      for (let gone = 1; gone > 0; ) {
        gone = await trimInboundMessages(this.#context.db, { recipientClass, kept });
        if (gone > 0) this.#context.observe({ kind: "inbound-trimmed", level: "info", recipientClass, messages: gone });
      }
    }
  }

  /** @returns how many messages it took */
  async #takeMessages(
    signal: AbortSignal,
    which: { readonly reports: boolean; readonly limit: number },
  ): Promise<number> {
    const messages = await leaseInboundMessages(this.#context.db, {
      owner: this.#owner,
      seconds: LEASE_SECONDS,
      ...which,
    });
    if (messages.length === 0) return 0;
    const phrases = await readPhrases(this.#context.db);
    for (const message of messages) {
      if (signal.aborted) await releaseInboundMessage(this.#context.db, message.id, this.#owner);
      else await this.#handle(message, phrases);
    }
    return messages.length;
  }

  async #handle(message: LeasedInboundMessage, phrases: Phrases): Promise<void> {
    const { db, observe } = this.#context;
    try {
      if (message.attempts > MOST_ATTEMPTS) throw new PoisonMessage("its workers never finished");
      if (message.isReport) await this.#applyReport(message);
      else await this.#apply(message, phrases);
    } catch (error) {
      if (error instanceof LeaseLost) return;
      // It is no fault of the message: it stays this worker's, who takes it again with the next lease.
      if (isDatabaseAway(error)) throw error;
      const isPoison = error instanceof PoisonMessage || message.attempts >= MOST_ATTEMPTS;
      observe({ kind: "inbound-not-applied", level: isPoison ? "error" : "warn", id: message.id, err: error });
      if (isPoison && (await isAboutNobody(db, message))) await removeInboundMessage(db, message.id, this.#owner);
      else if (isPoison)
        await quarantineInboundMessage(db, { id: message.id, owner: this.#owner, problem: String(error) });
      else await releaseInboundMessage(db, message.id, this.#owner);
    }
  }

  async #applyReport(message: LeasedInboundMessage): Promise<void> {
    const isLast = message.attempts >= MOST_ATTEMPTS;
    const nextSample = askedOnce(this.#nextSample);
    const held = { message, owner: this.#owner, nextSample, isSignedBy: this.#isSignedBy, isLast };
    const done = await inSpan("apply report", { kind: "consumer" }, () => applyReport(this.#context, held));
    if (done === "counted") this.#countKept(message);
    if (done !== "put-off") return;
    const seconds = PUT_OFF_SECONDS[message.attempts - 1]!;
    await putOffInboundMessage(this.#context.db, { id: message.id, owner: this.#owner, seconds });
  }

  #countKept({ octets }: LeasedInboundMessage): void {
    this.#keptSince.messages += 1;
    this.#keptSince.octets += octets.length;
  }

  async #apply(message: LeasedInboundMessage, phrases: Phrases): Promise<void> {
    const { db, keyRing, config, clock } = this.#context;
    const finding = await interpretOrPoison(message.octets, phrases);
    const at = new Date(clock.nowMs());
    const delivery = deliveryOf(message, finding, { keyRing, now: at });
    const { hardBouncesToInvalidate } = config;
    const parent = async () => ({ traceparent: await findTraceParent(db, delivery?.deliveryId) });
    const nextSample = askedOnce(this.#nextSample);
    const apply = async (transaction: Transaction) => {
      const done = await applyFinding(transaction, finding, {
        ...{ delivery, at, hardBouncesToInvalidate, octets: message.octets },
      });
      const became = { done, deliveryId: delivery?.deliveryId, nextSample };
      // Last, as an erasure comes to the reports about somebody after all else that a finding changes.
      if (!(await this.#finish(transaction, message, finding, became))) throw new LeaseLost();
      return done;
    };
    await inSpan("apply bounce", { kind: "consumer", parent }, async () => {
      const done = await inTransaction(db, apply);
      this.#tell(message, finding, { done, deliveryId: delivery?.deliveryId });
    });
  }

  /** Counts a message, and tells of it, once what it says has been committed. */
  #tell(
    message: LeasedInboundMessage,
    finding: Finding,
    { done, deliveryId }: { readonly done: Done; readonly deliveryId: number | undefined },
  ): void {
    const { observe } = this.#context;
    const failed = finding.results.filter(isFailure);
    observe({
      ...{ kind: "inbound-applied", level: "info", id: message.id, finding: finding.kind, consequence: done },
      // Without the recipients: the delivery tells who it was, for as long as anybody may know.
      ...{ deliveryId, bounces: failed.map(({ hard, reason }) => ({ hard, reason })) },
    });
    const reason = unexplainedReason(finding, done);
    const recipientClass = message.deliveryId === null ? "feedback" : "returnPath";
    if (reason === undefined) this.#countKept(message);
    else observe({ kind: "inbound-dropped", recipientClass, reason });
  }

  async #finish(
    transaction: Transaction,
    message: LeasedInboundMessage,
    finding: Finding,
    { done, deliveryId, nextSample }: { done: Done; deliveryId: number | undefined; nextSample: NextSample },
  ): Promise<boolean> {
    const { kind, results, feedbackType, unknown } = finding;
    const end = { id: message.id, owner: this.#owner, finding: { kind, results, feedbackType, unknown } };
    const reason = unexplainedReason(finding, done);
    if (reason !== undefined) {
      // Of what is about somebody who was erased no sample is kept.
      const sample = done === "gone" ? undefined : await nextSample();
      return finishUnexplained(transaction, { ...end, reason, sample });
    }
    return finishInboundMessage(transaction, { ...end, aboutDeliveryId: deliveryId });
  }
}

type Done = Awaited<ReturnType<typeof applyFinding>>;

/** Why nothing followed from a message, and nobody needs to see the whole of it again. */
function unexplainedReason(finding: Finding, done: Done): UnexplainedReason | undefined {
  if (done === "unidentified" || done === "gone") return "not-ours";
  return finding.kind === "not-bounce" ? "not-understood" : undefined;
}

/** Whether a message is about a delivery that there is no more, as who it went to was erased. */
async function isAboutNobody(db: Db, { deliveryId, aboutDeliveryId }: LeasedInboundMessage): Promise<boolean> {
  const about = deliveryId ?? aboutDeliveryId;
  if (about === null) return false;
  try {
    return (await findDelivery(db, about)) === undefined;
  } catch (error) {
    // It cannot be told while the machine that may have it is away.
    if (error instanceof MachineAway) return false;
    throw error;
  }
}

/** A message that no later attempt would cope with better. */
class PoisonMessage extends Error {}

async function interpretOrPoison(octets: Buffer, phrases: Phrases): Promise<Finding> {
  try {
    return await interpret(octets, phrases);
  } catch (error) {
    throw new PoisonMessage(`cannot be interpreted: ${error}`, { cause: error });
  }
}
