import { claimedReporter } from "../core/mail/reports/known-reporters.ts";
import type { ReportRefusal, SenderReport } from "../core/mail/reports/report.ts";
import { readReportLocalPart } from "../core/mail/tokens.ts";
import { type Result, refuse } from "../core/result.ts";
import { type CountedReport, countReport } from "../operations/mail/reports/count-report.ts";
import { readReportMessage } from "../operations/mail/reports/read-report.ts";
import type { IsSignedBy } from "../platform/lookups/dkim-signature.ts";
import type { ServiceContext } from "../platform/service.ts";
import { finishInboundMessage, type LeasedInboundMessage } from "../store/mail/inbound/inbound.ts";
import { finishUnexplained } from "../store/mail/inbound/inbound-retention.ts";
import { inTransaction } from "../store/transactions.ts";
import type { NextSample } from "./intake.ts";

/** Sources that an observation names; the others are in the database. */
const MOST_NAMED = 20;

/** A message at a report address that a worker holds. */
interface HeldReport {
  readonly message: LeasedInboundMessage;
  readonly owner: string;
  /** Where it counts for nothing, what is noted of it; the same each time that it is asked. */
  readonly nextSample: NextSample;
  readonly isSignedBy: IsSignedBy;
  /** It is not looked up again whether it is signed. */
  readonly isLast: boolean;
}

/**
 * Reads the report in a message and counts it, in the transaction that ends the message's way. It is unpacked before the
 * transaction: that may take its time.
 * @returns "lease-lost": another worker has it, nothing was kept; "put-off": whether it is signed cannot be told for now, it
 * is still held and is to come again later
 */
export async function applyReport(
  { db, keyRing, clock, observe }: Pick<ServiceContext, "db" | "keyRing" | "clock" | "observe">,
  { message, owner, nextSample, isSignedBy, isLast }: HeldReport,
): Promise<"counted" | "refused" | "lease-lost" | "put-off"> {
  const { id, feedbackAddress, octets, receivedAt } = message;
  const to = readReportLocalPart(keyRing, feedbackAddress!.split("@")[0]!);
  const read = await readReportMessage(octets, new Date(clock.nowMs()));
  const signer = read.ok && read.value.kind === "dmarc" ? await signerOf(octets, isSignedBy) : "";
  if (signer === undefined && !isLast) return "put-off";
  const signedBy = signer ?? "";
  const outcome = await inTransaction(db, async (transaction) => {
    // A key that has changed since leaves the address without a domain.
    const counted: Result<CountedReport, ReportRefusal> = !to.ok
      ? refuse("unknown-domain")
      : read.ok
        ? await countReport(transaction, to.value, read.value, { receivedAt, signedBy })
        : read;
    const end = { id, owner, finding: findingOf(read, counted) };
    const isOurs = counted.ok
      ? await finishInboundMessage(transaction, { ...end, aboutDeliveryId: undefined })
      : await finishUnexplained(transaction, {
          ...{ ...end, reason: counted.error },
          // The same report again says nothing that is not known.
          sample: counted.error === "duplicate" ? undefined : await nextSample(),
        });
    if (!isOurs) throw new LeaseLost();
    return counted;
  }).catch((error) => (error instanceof LeaseLost ? ("lease-lost" as const) : Promise.reject(error)));
  if (outcome === "lease-lost") return outcome;
  if (!outcome.ok) {
    observe({ kind: "inbound-dropped", recipientClass: "report", reason: outcome.error });
    return "refused";
  }
  const { kind: report, newlyPassing, newlyFailing, ...counted } = outcome.value;
  observe({
    ...{ kind: "report-counted", level: "info", report, ...counted },
    ...{ newlyPassing: newlyPassing.slice(0, MOST_NAMED), newlyFailing: newlyFailing.slice(0, MOST_NAMED) },
  });
  return "counted";
}

/** The domain of the known reporter that the message comes from; empty: nobody known signed it; undefined: not known now. */
async function signerOf(octets: Buffer, isSignedBy: IsSignedBy): Promise<string | undefined> {
  const claimed = claimedReporter(octets);
  const isSigned = claimed !== undefined && (await isSignedBy(octets, claimed));
  if (isSigned === "unknown") return undefined;
  return isSigned ? claimed.domain : "";
}

/** Another worker has the message, or it was erased: nothing of ours is kept. */
export class LeaseLost extends Error {}

/** What is kept with the message of what it says. */
function findingOf(read: Result<SenderReport, ReportRefusal>, counted: Result<CountedReport, ReportRefusal>) {
  const { kind, reporter, reportId } = read.ok ? read.value : {};
  return { kind: "report", report: kind, reporter, reportId, refused: counted.ok ? undefined : counted.error };
}
