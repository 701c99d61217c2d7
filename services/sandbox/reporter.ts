import { validateAddress } from "../core/mail/address.ts";
import { makeEnvelope } from "../core/mail/envelope.ts";
import { describeSmtpReply } from "../core/mail/smtp-reply.ts";
import type { ServiceContext } from "../platform/service.ts";
import { openSmtpSession, type SmtpClientSession } from "../platform/smtp/client.ts";
import {
  listOwedReports,
  type OwedReport,
  readSandboxMessage,
  settleReport,
} from "../store/mail/inbound/sandbox-messages.ts";
import { makeReport } from "./reports.ts";

const REPORTS_AT_ONCE = 50;
const POLL_MS = 1_000;
const TIMEOUTS = { connectMs: 5_000, greetingMs: 10_000, commandMs: 30_000 };

/**
 * Sends the reports that the sandbox owes, through the stack's own MX listener. A report is owed until the listener
 * took or refused it, so that none is lost when either side is away.
 */
export class Reporter {
  readonly #context: ServiceContext;
  #timer: NodeJS.Timeout | undefined;
  #working: Promise<void> | undefined;
  #again = false;
  #stopping = false;

  constructor(context: ServiceContext) {
    this.#context = context;
    this.wake();
  }

  /** A report may be owed. */
  wake(): void {
    if (this.#stopping) return;
    clearTimeout(this.#timer);
    if (this.#working) {
      this.#again = true;
      return;
    }
    this.#again = false;
    this.#working = this.#work().finally(() => {
      this.#working = undefined;
      if (this.#again) this.wake();
      else if (!this.#stopping) this.#timer = setTimeout(() => this.wake(), POLL_MS);
    });
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    clearTimeout(this.#timer);
    await this.#working;
  }

  async #work(): Promise<void> {
    try {
      const owed = await listOwedReports(this.#context.db, REPORTS_AT_ONCE);
      if (owed.length > 0) await this.#sendAll(owed);
      this.#again ||= owed.length === REPORTS_AT_ONCE;
    } catch (error) {
      this.#context.observe({ kind: "sandbox-reports-waiting", level: "warn", err: error });
    }
  }

  async #sendAll(owed: readonly OwedReport[]): Promise<void> {
    const { config, observe } = this.#context;
    const { hostname, port } = new URL(`smtp://${await this.#context.addressOf("mx")}`);
    const host = hostname.replace(/^\[|\]$/g, "");
    const peer = { host, port: Number(port), name: host, tls: "never" } as const;
    const session = await openSmtpSession(peer, { hostname: config.hostname, timeouts: TIMEOUTS });
    if (!session.ok) {
      observe({ kind: "sandbox-reports-waiting", level: "warn", failure: session.error });
      return;
    }
    try {
      for (const message of owed) {
        if (this.#stopping || !(await this.#send(session.value, message))) return;
      }
    } finally {
      session.value.close();
    }
  }

  /** @returns false when the listener could not be spoken to: the report stays owed */
  async #send(session: SmtpClientSession, message: OwedReport): Promise<boolean> {
    const { config, clock, db, observe } = this.#context;
    const received = await readSandboxMessage(db, message.id);
    // Forgotten meanwhile.
    if (!received) return true;
    const surroundings = {
      hostname: config.hostname,
      feedbackAddress: config.feedbackAddresses[0]!,
      now: new Date(clock.nowMs()),
    };
    const report = makeReport({ ...message, octets: received }, surroundings);
    const recipient = validateAddress(report.rcptTo, { allowSmtputf8: true });
    const envelope = recipient.ok ? makeEnvelope("", [recipient.value]) : recipient;
    if (envelope.ok) {
      const sent = await session.send(envelope.value, report.octets);
      if (!sent.ok) {
        if (sent.error.kind === "broken" || sent.error.reply.code < 500) return false;
        observe({ kind: "sandbox-report-refused", reply: describeSmtpReply(sent.error.reply) });
      }
    }
    // A return path that is no address, or not of this stack, gets no report: that would be backscatter.
    await settleReport(db, message.id);
    return true;
  }
}
