import { Page } from "../components/page.tsx";
import { texts } from "../texts.ts";
import { JobProgress } from "./job-progress.tsx";

/** One job: its progress while it runs, its report when it is over. */
export function JobPage({ id }: { readonly id: string }) {
  const words = texts().shell.job;
  return (
    <Page title={id.slice(0, 8)} crumbs={[{ label: words.title, href: "/jobs" }]}>
      <JobProgress id={id} />
    </Page>
  );
}
