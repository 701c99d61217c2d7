import { type Db, queryRows } from "../../../platform/postgres/db.ts";

/** How the sandbox treated a message that it took. */
export type SandboxOutcome = "accepted" | "bounced" | "full" | "complained";

export interface NewSandboxMessage {
  /** Return path, empty for <>. */
  readonly mailFrom: string;
  readonly rcptTo: string;
  /** Address of the From field. */
  readonly sender: string;
  readonly subject: string;
  /** Exactly as received. */
  readonly octets: Buffer;
  readonly outcome: SandboxOutcome;
  /** A report to the sender is owed. */
  readonly reportDue: boolean;
}

export interface SandboxMessageSummary {
  readonly id: number;
  readonly sender: string;
  readonly rcptTo: string;
  readonly subject: string;
  readonly receivedAt: Date;
  readonly outcome: SandboxOutcome;
}

/** A report that is owed. */
export interface OwedReport {
  readonly id: number;
  readonly mailFrom: string;
  readonly rcptTo: string;
  readonly receivedAt: Date;
  readonly outcome: SandboxOutcome;
}

const COLUMNS = {
  id: "id",
  mailFrom: "mail_from",
  rcptTo: "rcpt_to",
  sender: "sender",
  subject: "subject",
  receivedAt: "received_at",
  outcome: "outcome",
} as const;

/** Stores what came in one transaction, a row for each recipient. */
export async function addSandboxMessages(db: Db, messages: readonly NewSandboxMessage[]): Promise<void> {
  await db("sandbox_messages").insert(
    messages.map((message) => ({
      mail_from: message.mailFrom,
      rcpt_to: message.rcptTo,
      sender: message.sender,
      subject: message.subject,
      octets: message.octets,
      outcome: message.outcome,
      report_due: message.reportDue,
    })),
  );
}

/** Newest first. @param before only older ones than this id */
export async function listSandboxMessages(
  db: Db,
  page: { readonly limit: number; readonly before?: number },
): Promise<SandboxMessageSummary[]> {
  const { id, sender, rcptTo, subject, receivedAt, outcome } = COLUMNS;
  const query = db("sandbox_messages")
    .select({ id, sender, rcptTo, subject, receivedAt, outcome })
    .orderBy("id", "desc")
    .limit(page.limit);
  if (page.before !== undefined) query.where("id", "<", page.before);
  return query;
}

/** The octets of a message, exactly as received; undefined when there is no such message. */
export async function readSandboxMessage(db: Db, id: number): Promise<Buffer | undefined> {
  return (await db("sandbox_messages").where({ id }).first("octets"))?.octets;
}

/** Oldest first; their messages are read one at a time. */
export async function listOwedReports(db: Db, limit: number): Promise<OwedReport[]> {
  const { id, mailFrom, rcptTo, receivedAt, outcome } = COLUMNS;
  return db("sandbox_messages")
    .where({ report_due: true })
    .select({ id, mailFrom, rcptTo, receivedAt, outcome })
    .orderBy("id")
    .limit(limit);
}

export async function settleReport(db: Db, id: number): Promise<void> {
  await db("sandbox_messages").where({ id }).update({ report_due: false });
}

/** Counts an attempt to deliver to a mailbox that puts off. @returns the attempts so far, this one included */
export async function countDeferral(db: Db, mailFrom: string, rcptTo: string): Promise<number> {
  const [row] = await queryRows<{ attempts: number }>(
    db,
    `insert into sandbox_deferrals as known (mail_from, rcpt_to, attempts) values ($1, $2, 1)
     on conflict (mail_from, rcpt_to) do update set attempts = known.attempts + 1, updated_at = now()
     returning attempts`,
    [mailFrom, rcptTo],
  );
  return row!.attempts;
}

/** Forgets what is older. */
export async function purgeSandbox(db: Db, days: number): Promise<void> {
  await db.raw("delete from sandbox_messages where received_at < now() - make_interval(days => ?)", [days]);
  await db.raw("delete from sandbox_deferrals where updated_at < now() - make_interval(days => ?)", [days]);
}
