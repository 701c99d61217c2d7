import type { Sentence } from "../../../../core/sentences.ts";
import type { Texts } from "../texts/en/index.ts";

/** Long work, as the server lists it. */
export interface JobSummary {
  readonly job: string;
  readonly kind: string;
  readonly state: "running" | "done" | "failed";
  readonly done: number;
  readonly total: number | null;
  readonly result: Readonly<Record<string, unknown>> | null;
  /** Why the whole work failed. */
  readonly failure: JobError | null;
  readonly object: string;
  readonly created: string;
}

/** With what was left out. */
export interface Job extends JobSummary {
  readonly errors: readonly JobError[];
}

/** A line that was left out, or why the whole work failed. */
export interface JobError extends Pick<Sentence, "code" | "values"> {
  readonly line?: number;
  readonly msg: string;
}

/** What came of a job: `failed` by no fault of what it was given, `refused` because of that. */
export type JobOutcome = JobSummary["state"] | "refused";

/** What a job does; a kind that this page does not know yet by its own name. */
export function jobKind({ kind }: JobSummary, { shell }: Texts): string {
  return (shell.job.kinds as Readonly<Record<string, string>>)[kind] ?? kind;
}

/** Ends of a job that are not of its input's making. */
const BROKEN_OFF: readonly Sentence["code"][] = ["internal", "job-interrupted"];

/** An import of which nothing was taken is refused as well, line by line. */
export function jobOutcome({ state, failure, result }: Pick<JobSummary, "state" | "failure" | "result">): JobOutcome {
  if (state === "failed") return failure && BROKEN_OFF.includes(failure.code) ? "failed" : "refused";
  if (state === "running") return state;
  const { created, updated, added, duplicates, rejected } = result ?? {};
  const taken = [created, updated, added, duplicates].some((figure) => Number(figure ?? 0) > 0);
  return !taken && Number(rejected ?? 0) > 0 ? "refused" : "done";
}
