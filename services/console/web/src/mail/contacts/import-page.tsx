import { useState } from "preact/hooks";
import { Button, LinkButton } from "../../components/button.tsx";
import { CheckField } from "../../components/field.tsx";
import { FileChoice } from "../../components/file-choice.tsx";
import { Page, Section } from "../../components/page.tsx";
import { ProblemNote } from "../../components/problem.tsx";
import type { Problem } from "../../http.ts";
import { queryOf, request } from "../../http.ts";
import { JobProgress } from "../../jobs/job-progress.tsx";
import { useQuery } from "../../query.ts";
import { texts } from "../../texts.ts";
import { instancePath, mailPage } from "../addresses.ts";

/** Brings contacts in from a CSV file. */
export function ImportPage({ instance }: { readonly instance: string }) {
  const words = texts().mail.contacts;
  return (
    <CsvImport
      words={{ ...words, intro: words.importIntro, back: words.toContacts }}
      back={mailPage(instance, "contacts")}
      path={instancePath(instance, "contacts", "import")}
    />
  );
}

interface CsvImportProps {
  readonly words: {
    readonly title: string;
    readonly intro: string;
    /** What the file is to look like. */
    readonly fileHint: string;
    readonly back: string;
  };
  /** The page that shows what came in. */
  readonly back: string;
  /** Of the console's HTTP: takes the file, and begins a job. */
  readonly path: string;
}

/** Brings a list in from a CSV file; the page's address names the job, so that it can be left and found again. */
export function CsvImport({ words: own, back, path }: CsvImportProps) {
  const words = texts().mail.contacts;
  const [{ job }, setQuery] = useQuery();
  const [file, setFile] = useState<File>();
  const [dryRun, setDryRun] = useState(true);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem>();

  const send = async (event: Event) => {
    event.preventDefault();
    if (!file || busy) return;
    setBusy(true);
    const query = queryOf({ dry_run: dryRun ? "true" : "false" });
    const answer = await request<{ job: string }>("POST", path + query, { text: file });
    setBusy(false);
    setProblem(answer.ok ? undefined : answer.error);
    if (answer.ok) setQuery({ job: answer.value.job });
  };
  return (
    <Page title={words.import} crumbs={[{ label: own.title, href: back }]}>
      <p class="intro">{own.intro}</p>
      <form class="form" onSubmit={(event) => void send(event)}>
        <div class="field">
          <span class="field-name">{words.file}</span>
          <div class="row">
            <FileChoice label={words.chooseFile} accept=".csv,text/csv,text/plain" onFile={setFile} />
            <span class="mono">{file?.name ?? words.noFile}</span>
          </div>
          <p class="hint">{own.fileHint}</p>
        </div>
        <CheckField
          name="dry_run"
          checked={dryRun}
          onChecked={setDryRun}
          label={words.dryRun}
          hint={words.dryRunHint}
        />
        <ProblemNote problem={problem} />
        <Button submit kind="primary" icon="upload" busy={busy} disabled={file === undefined}>
          {dryRun ? words.tryImport : words.import}
        </Button>
      </form>
      {job && (
        <Section title={words.report} actions={<LinkButton href={back}>{own.back}</LinkButton>}>
          <JobProgress key={job} id={job} />
        </Section>
      )}
    </Page>
  );
}
