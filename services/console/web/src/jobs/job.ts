import type { Sentence } from "../../../../core/sentences.ts";
import type { Tone } from "../components/badge.tsx";
import type { Texts } from "../texts/en/index.ts";

/** Long work, as the server tells of it. */
export interface Job {
  readonly job: string;
  readonly kind: string;
  readonly state: "running" | "done" | "failed";
  readonly done: number;
  readonly total: number | null;
  readonly result: Readonly<Record<string, unknown>> | null;
  readonly errors: readonly JobError[];
  readonly object: string;
  readonly created: string;
}

/** A line that was left out, or why the whole work failed. */
export interface JobError extends Pick<Sentence, "code" | "values"> {
  readonly line?: number;
  readonly msg: string;
}

export const JOB_TONES: { readonly [S in Job["state"]]: Tone } = { running: "accent", done: "good", failed: "bad" };

/** What a job does; a kind that this page does not know yet by its own name. */
export function jobKind({ kind }: Job, { shell }: Texts): string {
  return (shell.job.kinds as Readonly<Record<string, string>>)[kind] ?? kind;
}

export function jobState({ state }: Job, { shell }: Texts): string {
  return shell.job[state];
}
