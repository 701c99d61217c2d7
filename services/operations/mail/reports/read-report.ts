import { setTimeout as sleep } from "node:timers/promises";
import { DmarcAggregateReader } from "../../../core/mail/reports/dmarc-aggregate.ts";
import {
  fullBudget,
  type ReadingBudget,
  type ReportRefusal,
  type SenderReport,
} from "../../../core/mail/reports/report.ts";
import { readTlsReport } from "../../../core/mail/reports/tls-report.ts";
import { type Result, refuse } from "../../../core/result.ts";
import { readMimeContents } from "../../../platform/read-mime.ts";
import { openPacked, packingOf, withoutBase64 } from "../../../platform/unpack-report.ts";

/** Of what is unpacked, looked at in one go: others have as much time in between. */
const STEP_OCTETS = 16 * 2 ** 10;
/** Text that is no report is longer than what is said about one; JSON is parsed whole. */
const MOST_JSON_OCTETS = 4 * 2 ** 20;

/**
 * Finds the report in a message that came to a report address: within an archive, or as it is, however its part is
 * labelled. The first attachment that is one, or that is refused as one, is the message's; all that is read of a message
 * has one budget ({@link fullBudget}) of memory and time. It rejects for nothing that is written.
 */
export async function readReportMessage(octets: Buffer, now: Date): Promise<Result<SenderReport, ReportRefusal>> {
  const budget = fullBudget();
  let refusal: Result<SenderReport, ReportRefusal> = refuse("no-report");
  for (const { octets: content, type } of await readMimeContents(octets)) {
    const { plain, packing } = await inTurn(budget, () => {
      const plain = withoutBase64(content);
      return { plain, packing: packingOf(plain) };
    });
    if (budget.readingMs < 0) return refuse("too-slow");
    // What stands in a message for people to read may begin with a bracket as well.
    if (packing === "other" || /^text\/html/.test(type)) continue;
    const read = await readReport(plain, now, budget);
    // Words for people, before the attachment.
    const isText = type === "text/plain" && (packing === "xml" || packing === "json");
    if (read.ok || !isText) return read;
    refusal = read;
  }
  return refusal;
}

/**
 * Reads a report out of an attachment, a file, or the body of a request.
 * @param budget what there is for it; what it costs is taken off
 */
export async function readReport(
  content: Buffer,
  now: Date,
  budget: ReadingBudget = fullBudget(),
): Promise<Result<SenderReport, ReportRefusal>> {
  const isPacked = ["zip", "gzip"].includes(packingOf(content));
  try {
    const source = await openPacked(content);
    try {
      return await readUnpacked(source, now, budget);
    } finally {
      source.destroy();
    }
  } catch (error) {
    // What unpacking throws is about the archive; anything else is a fault of ours.
    if (!isPacked || error instanceof ReadingFailed) throw error;
    return refuse("corrupt-archive");
  }
}

async function readUnpacked(
  source: AsyncIterable<Buffer>,
  now: Date,
  budget: ReadingBudget,
): Promise<Result<SenderReport, ReportRefusal>> {
  let reader: TextReader | undefined;
  for await (const piece of source) {
    for (let at = 0; at < piece.length; at += STEP_OCTETS) {
      const step = piece.subarray(at, at + STEP_OCTETS);
      budget.octets -= step.length;
      if (budget.octets < 0) return refuse("too-large");
      const made = reader ?? readerFor(step, now, budget);
      if (typeof made === "string") return refuse(made);
      reader = made;
      const refusal = await inTurn(budget, () => failing(() => made.write(step)));
      if (refusal !== undefined) return refuse(refusal);
      if (budget.readingMs < 0) return refuse("too-slow");
    }
  }
  return reader === undefined ? refuse("no-report") : inTurn(budget, () => failing(reader.end));
}

/** Does a part of the reading, and leaves others as much time as it took. */
async function inTurn<T>(budget: ReadingBudget, read: () => T): Promise<T> {
  const startedAt = performance.now();
  const done = read();
  const tookMs = performance.now() - startedAt;
  budget.readingMs -= tookMs;
  await sleep(tookMs);
  return done;
}

interface TextReader {
  write(octets: Buffer): ReportRefusal | undefined;
  end(): Result<SenderReport, ReportRefusal>;
}

function readerFor(beginning: Buffer, now: Date, budget: ReadingBudget): TextReader | ReportRefusal {
  const decoder = new TextDecoder(encodingOf(beginning));
  switch (packingOf(beginning)) {
    case "xml": {
      const reader = new DmarcAggregateReader(budget);
      return {
        write: (octets) => reader.write(decoder.decode(octets, { stream: true })),
        end: () => reader.end(now),
      };
    }
    case "json": {
      let text = "";
      return {
        write: (octets) => {
          text += decoder.decode(octets, { stream: true });
          return text.length > MOST_JSON_OCTETS ? "too-large" : undefined;
        },
        end: () => readTlsReport(text, now),
      };
    }
    case "zip":
    case "gzip":
      return "nested-archive";
    case "other":
      return "no-report";
  }
}

function encodingOf(beginning: Buffer): string {
  const mark = beginning.toString("hex", 0, 2);
  return mark === "fffe" ? "utf-16le" : mark === "feff" ? "utf-16be" : "utf-8";
}

class ReadingFailed extends Error {}

/** Tells faults of the readers from those of an archive. */
function failing<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new ReadingFailed("a report cannot be read", { cause: error });
  }
}
