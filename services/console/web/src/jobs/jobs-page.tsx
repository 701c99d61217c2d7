import { ListPage } from "../components/list-page.tsx";
import type { Column } from "../components/table.tsx";
import { useRows } from "../fetched.ts";
import { formatNumber, formatTime } from "../format.ts";
import { pathOf } from "../http.ts";
import { texts } from "../texts.ts";
import { type JobSummary, jobKind } from "./job.ts";
import { JobBadge } from "./job-badge.tsx";

const REFRESH_MS = 3_000;

/** Long work, found again after the page was left. */
export function JobsPage() {
  const words = texts().shell.job;
  const columns: Column<JobSummary>[] = [
    { id: "kind", label: words.kind, cell: (job) => <a href={`/jobs${pathOf(job.job)}`}>{jobKind(job, texts())}</a> },
    { id: "object", label: words.object, cell: ({ object }) => object, grows: true },
    {
      id: "state",
      label: words.state,
      cell: (job) => <JobBadge job={job} />,
    },
    {
      id: "progress",
      label: words.progress,
      align: "end",
      cell: ({ done, total }) => `${formatNumber(done)}${total === null ? "" : ` / ${formatNumber(total)}`}`,
    },
    { id: "started", label: words.started, cell: ({ created }) => formatTime(created), optional: true },
  ];
  return (
    <ListPage<JobSummary>
      words={words}
      icon="refresh"
      list={useRows<JobSummary>("/jobs", "jobs", REFRESH_MS)}
      rowName={({ job }) => job}
      columns={columns}
    />
  );
}
