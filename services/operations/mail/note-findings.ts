import type { DsnAction } from "../../core/mail/bounce/dsn.ts";
import { readRemoteWords } from "../../core/mail/bounce/remote-words.ts";
import { isNotified, type Notification } from "../../core/mail/dsn-parameters.ts";
import type { Transaction } from "../../platform/postgres/db.ts";
import { readMimeMessage } from "../../platform/read-mime.ts";
import { addReports, findReporting, type NewReport } from "../../store/mail/queue/delivery-reports.ts";
import { type Finding, isFailure } from "./interpret.ts";

const KINDS: Readonly<Record<DsnAction, Notification>> = {
  failed: "failure",
  delayed: "delay",
  delivered: "success",
  relayed: "success",
  expanded: "success",
};

/** A report that came back to a return path, and which delivery that names. */
interface ReturnedReport {
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
  const addresses = finding.results.map(({ recipient }) => recipient);
  const said = readRemoteWords(await readMimeMessage(report.octets), addresses);
  const told = new Map<Notification, NewReport>();
  for (const [index, result] of finding.results.entries()) {
    const action = isFailure(result) ? "failed" : result.action;
    const kind = KINDS[action];
    if (!isNotified(reporting.dsn ?? {}, kind) || told.has(kind)) continue;
    const { status } = result;
    const { words, diagnosticType } = said[index]!;
    const reported = { status, diagnosticType };
    told.set(kind, { ...reporting, ...{ deliveryId, kind, state: "due", action, words, reported } });
  }
  await addReports(transaction, [...told.values()]);
}
