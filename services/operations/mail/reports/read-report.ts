import { setImmediate as otherWork } from "node:timers/promises";
import { DmarcAggregateReader } from "../../../core/mail/reports/dmarc-aggregate.ts";
import { REPORT_LIMITS, type ReportRefusal, type SenderReport } from "../../../core/mail/reports/report.ts";
import { readTlsReport } from "../../../core/mail/reports/tls-report.ts";
import { type Result, refuse } from "../../../core/result.ts";
import { readMimeContents } from "../../../platform/read-mime.ts";
import { openPacked, packingOf, withoutBase64 } from "../../../platform/unpack-report.ts";

/** Of what is unpacked, looked at in one go: others have their turn in between. */
const STEP_OCTETS = 64 * 2 ** 10;
/** Text that is no report is longer than what is said about one; JSON is parsed whole. */
const MOST_JSON_OCTETS = 4 * 2 ** 20;

/**
 * Finds the report in a message that came to a report address: within an archive, or as it is, however its part is
 * labelled. Its memory is bounded by {@link REPORT_LIMITS}, and so is its time; it rejects for nothing that is written.
 */
export async function readReportMessage(octets: Buffer, now: Date): Promise<Result<SenderReport, ReportRefusal>> {
  let refusal: Result<SenderReport, ReportRefusal> = refuse("no-report");
  for (const { octets: content, type } of await readMimeContents(octets)) {
    const plain = withoutBase64(content);
    const packing = packingOf(plain);
    // What stands in a message for people to read may begin with a bracket as well.
    if (packing === "other" || /^text\/html/.test(type)) continue;
    const read = await readReport(plain, now);
    if (read.ok) return read;
    refusal = read;
  }
  return refusal;
}

/** Reads a report out of an attachment, a file, or the body of a request. */
export async function readReport(content: Buffer, now: Date): Promise<Result<SenderReport, ReportRefusal>> {
  const isPacked = ["zip", "gzip"].includes(packingOf(content));
  try {
    const source = await openPacked(content);
    try {
      return await readUnpacked(source, now);
    } finally {
      source.destroy();
    }
  } catch (error) {
    // What unpacking throws is about the archive; anything else is a fault of ours.
    if (!isPacked || error instanceof ReadingFailed) throw error;
    return refuse("corrupt-archive");
  }
}

async function readUnpacked(source: AsyncIterable<Buffer>, now: Date): Promise<Result<SenderReport, ReportRefusal>> {
  let reader: TextReader | undefined;
  let octets = 0;
  for await (const piece of source) {
    for (let at = 0; at < piece.length; at += STEP_OCTETS) {
      const step = piece.subarray(at, at + STEP_OCTETS);
      octets += step.length;
      if (octets > REPORT_LIMITS.octets) return refuse("too-large");
      const made = reader ?? readerFor(step, now);
      if (typeof made === "string") return refuse(made);
      reader = made;
      const refusal = failing(() => made.write(step));
      if (refusal !== undefined) return refuse(refusal);
      await otherWork();
    }
  }
  return reader === undefined ? refuse("no-report") : failing(reader.end);
}

interface TextReader {
  write(octets: Buffer): ReportRefusal | undefined;
  end(): Result<SenderReport, ReportRefusal>;
}

function readerFor(beginning: Buffer, now: Date): TextReader | ReportRefusal {
  const decoder = new TextDecoder(encodingOf(beginning));
  switch (packingOf(beginning)) {
    case "xml": {
      const reader = new DmarcAggregateReader();
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
