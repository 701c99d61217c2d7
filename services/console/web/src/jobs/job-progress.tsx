import { useEffect } from "preact/hooks";
import { Loaded } from "../components/loaded.tsx";
import { Progress } from "../components/progress.tsx";
import { Table } from "../components/table.tsx";
import { useFetched } from "../fetched.ts";
import { formatNumber } from "../format.ts";
import { pathOf } from "../http.ts";
import { describeSentence } from "../problem-words.ts";
import { texts } from "../texts.ts";
import { type Job, type JobError, jobKind } from "./job.ts";
import { JobBadge } from "./job-badge.tsx";

const REFRESH_MS = 1_000;

interface JobProgressProps {
  readonly id: string;
  /** Told once, when the job is over. */
  readonly onEnd?: (job: Job) => void;
}

/** How far a job is, and what came of it. */
export function JobProgress({ id, onEnd }: JobProgressProps) {
  const path = `/jobs${pathOf(id)}`;
  const isOver = (job: Job | undefined) => job !== undefined && job.state !== "running";
  const running = useFetched<Job>(path, (newest) => (isOver(newest) ? undefined : REFRESH_MS));
  const ended = isOver(running.value) ? running.value : undefined;
  // Told once, whatever is drawn meanwhile.
  useEffect(() => {
    if (ended) onEnd?.(ended);
  }, [ended?.state]);
  return <Loaded of={running}>{(job) => <JobReport job={job} />}</Loaded>;
}

function JobReport({ job }: { readonly job: Job }) {
  const words = texts().shell.job;
  return (
    <div class="job">
      <p class="job-head">
        <strong>{jobKind(job, texts())}</strong> {job.object} <JobBadge job={job} />
      </p>
      <Progress label={words.progress} done={job.done} total={job.total} />
      {job.result && <Figures of={job.result} />}
      {job.errors.length > 0 && (
        <>
          <h3>{words.errors}</h3>
          <Errors errors={job.errors} />
        </>
      )}
    </div>
  );
}

/** A result is shown figure by figure; what was rejected stands among the errors already. */
function Figures({ of }: { readonly of: NonNullable<Job["result"]> }) {
  const { job } = texts().shell;
  const shown = Object.entries(of).filter(([, value]) => ["string", "number", "boolean"].includes(typeof value));
  return (
    <dl class="figures">
      {shown.map(([name, value]) => (
        <div key={name}>
          <dt>{(job.figures as Readonly<Record<string, string>>)[name] ?? name}</dt>
          <dd>{shownFigure(value)}</dd>
        </div>
      ))}
    </dl>
  );
}

function shownFigure(value: unknown): string {
  const { yes, no } = texts().shell;
  if (typeof value === "boolean") return value ? yes : no;
  return typeof value === "number" ? formatNumber(value) : String(value);
}

function Errors({ errors }: { readonly errors: readonly JobError[] }) {
  const words = texts().shell.job;
  return (
    <Table
      label={words.errors}
      rows={errors.map((error, index) => ({ index, ...error }))}
      rowKey={({ index }) => index}
      columns={[
        { id: "line", label: words.line, align: "end", cell: ({ line }) => line ?? "" },
        {
          id: "reason",
          label: words.reason,
          grows: true,
          cell: ({ msg: message, ...told }) => describeSentence({ ...told, message }),
        },
      ]}
      empty={<p>{words.noErrors}</p>}
    />
  );
}
