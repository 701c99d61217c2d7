import { Badge, type Tone } from "../components/badge.tsx";
import { texts } from "../texts.ts";
import { type JobOutcome, type JobSummary, jobOutcome } from "./job.ts";

const TONES: { readonly [O in JobOutcome]: Tone } = {
  running: "accent",
  done: "good",
  failed: "bad",
  refused: "bad",
};

/** How a job stands, in a word. */
export function JobBadge({ job }: { readonly job: JobSummary }) {
  const outcome = jobOutcome(job);
  return <Badge tone={TONES[outcome]}>{texts().shell.job[outcome]}</Badge>;
}
