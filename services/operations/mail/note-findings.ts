import { type DsnAction, findDeliveryReport } from "../../core/mail/bounce/dsn.ts";
import { remoteWords } from "../../core/mail/bounce/notice.ts";
import { isNotified, type Notification } from "../../core/mail/dsn-parameters.ts";
import { parseSmtpReply } from "../../core/mail/smtp-reply.ts";
import type { Transaction } from "../../platform/postgres/db.ts";
import { readMimeMessage } from "../../platform/read-mime.ts";
import { addReports, findReporting, type NewReport } from "../../store/mail/queue/delivery-reports.ts";
import type { BounceResult, Finding } from "./interpret.ts";

const KINDS: Readonly<Record<DsnAction, Notification>> = {
  failed: "failure",
  delayed: "delay",
  delivered: "success",
  relayed: "success",
  expanded: "success",
};
/** Stands for the reply where a report tells none. */
const CODES: Readonly<Record<Notification, number>> = { failure: 550, delay: 450, success: 250 };
const MOST_CHARACTERS = 1_000;

/** A report that came back to a return path, and which delivery that names. */
export interface ReturnedReport {
  readonly instanceId: number;
  readonly deliveryId: number;
  readonly finding: Finding;
  readonly octets: Uint8Array;
}

/** What mail systems further on report of a delivery is told to who submitted it, as far as that asked for it. */
export async function noteFinding(transaction: Transaction, report: ReturnedReport): Promise<void> {
  const { finding, deliveryId } = report;
  if (finding.kind !== "dsn" || finding.results.length === 0) return;
  const reporting = await findReporting(transaction, report);
  if (reporting === undefined) return;
  const words = await wordsByRecipient(report.octets);
  const told = new Map<Notification, NewReport>();
  for (const result of finding.results) {
    const kind = KINDS[result.action];
    if (!isNotified(reporting.dsn ?? {}, kind) || told.has(kind)) continue;
    const { action } = result;
    told.set(kind, {
      ...reporting,
      ...{ deliveryId, kind, state: "due", action, words: replyOf(result, words.get(result.recipient) ?? "") },
    });
  }
  await addReports(transaction, [...told.values()]);
}

async function wordsByRecipient(octets: Uint8Array): Promise<ReadonlyMap<string, string>> {
  const found = findDeliveryReport(await readMimeMessage(octets));
  return new Map(
    found?.recipients.map(({ address, diagnostic }) => [
      address,
      remoteWords(diagnostic)
        .replace(/^\s*[\w-]{1,30};/, "")
        .replace(/[\x00-\x1f\x7f]+/g, " ")
        .slice(0, MOST_CHARACTERS)
        .trim(),
    ]),
  );
}

/** The words as a reply, with the code and the status that the report gives beside them. */
function replyOf({ action, status, replycode }: BounceResult, words: string): string {
  const reply = parseSmtpReply(words);
  if (reply?.enhancedStatus !== undefined) return words;
  const code = reply?.code ?? replycode ?? CODES[KINDS[action]];
  const text = reply === undefined ? words : reply.lines.join(" ");
  return [code, ...(status === null ? [] : [status]), text].join(" ").trim();
}
