import { join } from "node:path";
import type { Readable } from "node:stream";
import { type Refusal, unacceptable } from "../core/refusal.ts";
import { ok, type Result, refuse } from "../core/result.ts";
import { type ImportOptions, type ImportReport, wholeRefusal } from "../operations/mail/contact-import.ts";
import { jobError } from "../store/jobs.ts";
import type { ConsoleContext } from "./context.ts";
import { type JobDescription, MOST_ERRORS } from "./jobs.ts";
import { receiveUpload } from "./upload.ts";

const MOST_CSV_OCTETS = 2 ** 28;

/** A CSV on its way in. */
export interface IncomingCsv {
  readonly incoming: Readable;
  readonly dryRun: boolean;
}

/** Takes a CSV whole, and begins the job that imports it. The job tells what became of each line. */
export async function startImportJob(
  { jobs, config }: Pick<ConsoleContext, "jobs" | "config">,
  description: JobDescription,
  { incoming, dryRun }: IncomingCsv,
  importCsv: (csv: Readable, options: ImportOptions) => Promise<ImportReport>,
): Promise<Result<{ readonly job: string }, Refusal>> {
  const receive = () => receiveUpload(incoming, join(config.dataDir, "uploads"), MOST_CSV_OCTETS);
  const job = await jobs.startWith(description, receive, async (csv, { progress, problem }) => {
    const report = await importCsv(csv, { dryRun, onProgress: progress, mostErrors: MOST_ERRORS });
    const refusal = wholeRefusal(report);
    if (refusal !== undefined) return refuse(unacceptable(refusal));
    for (const { line, reason } of report.errors) problem(jobError(reason, line));
    const { created, updated, rejected } = report;
    progress(created + updated + rejected);
    return ok({ created, updated, rejected, dry_run: dryRun });
  });
  return job.ok ? ok({ job: job.value }) : job;
}
