import { useState } from "preact/hooks";
import { Badge, type Tone } from "../../components/badge.tsx";
import { Button, LinkButton } from "../../components/button.tsx";
import { ConfirmDialog, FormDialog } from "../../components/dialog.tsx";
import { SelectField, TextField } from "../../components/field.tsx";
import { ListPage } from "../../components/list-page.tsx";
import type { Column } from "../../components/table.tsx";
import { showToast } from "../../components/toasts.tsx";
import { usePages } from "../../fetched.ts";
import { useForm } from "../../form.ts";
import { formatTime } from "../../format.ts";
import { API, pathOf, queryOf, request } from "../../http.ts";
import { useQuery } from "../../query.ts";
import { texts } from "../../texts.ts";
import { instancePath, mailPage } from "../addresses.ts";
import { describeCause, describeEvent } from "../event-words.ts";
import { AudienceTabs } from "./audience-tabs.tsx";
import { CsvImport } from "./import-page.tsx";

const PAGE_SIZE = 100;
const TONES = {
  "by-hand": "bad",
  invalid: "bad",
  complaint: "bad",
  unsubscribed: "accent",
  whitelist: "good",
  erased: "bad",
} as const satisfies Readonly<Record<string, Tone>>;
type Kind = keyof typeof TONES;
const KINDS = Object.keys(TONES) as Kind[];

interface Entry {
  readonly kind: Kind;
  readonly target: string | null;
  readonly since: string | null;
  readonly note: string;
  readonly creator: string;
  readonly cause: {
    readonly event: string;
    readonly eeid: string | null;
    readonly detail: Readonly<Record<string, unknown>>;
  } | null;
  readonly campaign: { readonly name: string } | null;
}

/** Whom an instance does not mail. */
export function InstanceSuppressionsPage({ instance }: { readonly instance: string }) {
  return (
    <SuppressionsPage
      path={instancePath(instance, "suppressions")}
      importPage={mailPage(instance, "contacts", "suppressions", "import")}
      instance={instance}
    />
  );
}

/** Whom no instance mails: the operator's list. */
export function GlobalSuppressionsPage() {
  return <SuppressionsPage path={pathOf("suppressions")} importPage="/operator/suppressions/import" />;
}

export function InstanceSuppressionImportPage({ instance }: { readonly instance: string }) {
  const back = mailPage(instance, "contacts", "suppressions");
  return <ImportPage back={back} path={instancePath(instance, "suppressions", "import")} />;
}

export function GlobalSuppressionImportPage() {
  return <ImportPage back="/operator/suppressions" path={pathOf("suppressions", "import")} />;
}

function ImportPage({ back, path }: { readonly back: string; readonly path: string }) {
  const words = texts().mail.suppressions;
  return <CsvImport words={{ ...words, intro: words.importIntro }} back={back} path={path} />;
}

interface SuppressionsPageProps {
  /** Of the console's HTTP. */
  readonly path: string;
  readonly importPage: string;
  /** Absent: the operator's. */
  readonly instance?: string;
}

function SuppressionsPage({ path, importPage, instance }: SuppressionsPageProps) {
  const words = texts().mail.suppressions;
  const [{ search = "", kind = "" }, setQuery] = useQuery();
  const [removing, setRemoving] = useState<Entry>();
  const pages = usePages<Entry, { suppressions: readonly Entry[]; next: string | null }>(
    JSON.stringify([path, search, kind]),
    {
      path: (after) => path + queryOf({ search, kind, after, limit: PAGE_SIZE }),
      rows: ({ suppressions }) => suppressions,
      next: ({ next }) => next ?? undefined,
    },
  );
  return (
    <ListPage<Entry>
      words={instance === undefined ? { ...words, intro: words.introGlobal } : words}
      icon="shield"
      tabs={instance !== undefined && <AudienceTabs instance={instance} current="suppressions" />}
      list={pages}
      rowName={nameOf}
      search={{ label: words.search, value: search, onSearch: (text) => setQuery({ search: text || undefined }) }}
      toolbar={<KindChoice kind={kind} choose={(chosen) => setQuery({ kind: chosen || undefined })} />}
      narrowed={search !== "" || kind !== ""}
      add={{
        label: words.add,
        dialog: (close) => (
          <AddDialog path={path} isGlobal={instance === undefined} close={close} added={pages.reload} />
        ),
      }}
      actions={
        <>
          <LinkButton icon="download" href={`${API}${path}/export`} download="suppressions.csv">
            {words.export}
          </LinkButton>
          <LinkButton icon="upload" href={importPage}>
            {words.import}
          </LinkButton>
        </>
      }
      rowActions={(entry) =>
        entry.target !== null && (
          <Button small label={`${words.remove}: ${nameOf(entry)}`} onClick={() => setRemoving(entry)}>
            {words.remove}
          </Button>
        )
      }
      columns={columnsOf(instance)}
    >
      {removing && (
        <RemoveDialog path={path} entry={removing} removed={pages.reload} close={() => setRemoving(undefined)} />
      )}
    </ListPage>
  );
}

interface RemoveDialogProps {
  readonly path: string;
  readonly entry: Entry;
  readonly removed: () => void;
  readonly close: () => void;
}

function RemoveDialog({ path, entry: { target, kind }, removed, close }: RemoveDialogProps) {
  const words = texts().mail.suppressions;
  const name = target ?? words.erased;
  return (
    <ConfirmDialog
      title={words.removeTitle(name)}
      confirmLabel={words.remove}
      confirm={() => request("DELETE", `${path}${pathOf(name)}${queryOf({ kind })}`)}
      done={() => {
        showToast(words.removed(name));
        removed();
      }}
      onClose={close}
    >
      <p>{words.removeHint}</p>
    </ConfirmDialog>
  );
}

function KindChoice({ kind, choose }: { readonly kind: string; readonly choose: (kind: string) => void }) {
  const words = texts().mail.suppressions;
  return (
    <select aria-label={words.kind} value={kind} onChange={({ currentTarget }) => choose(currentTarget.value)}>
      <option value="">{words.anyKind}</option>
      {KINDS.map((one) => (
        <option key={one} value={one}>
          {words.kinds[one]}
        </option>
      ))}
    </select>
  );
}

/** An address may stand in the list more than once: for each reason. */
function nameOf({ target, kind, campaign, since }: Entry): string {
  const words = texts().mail.suppressions;
  const place = campaign === null ? words.kinds[kind] : `${words.kinds[kind]}, ${words.ofCampaign(campaign.name)}`;
  return target === null ? `${words.erased} ${since ?? ""}` : `${target} (${place})`;
}

function columnsOf(instance: string | undefined): readonly Column<Entry>[] {
  const words = texts().mail.suppressions;
  return [
    {
      id: "target",
      label: words.target,
      grows: true,
      cell: ({ target }) => (target === null ? <em>{words.erased}</em> : target),
    },
    { id: "kind", label: words.kind, cell: ({ kind }) => <Badge tone={TONES[kind]}>{words.kinds[kind]}</Badge> },
    { id: "since", label: words.since, cell: ({ since }) => since && formatTime(since) },
    { id: "because", label: words.because, optional: true, cell: (entry) => <Because {...{ entry, instance }} /> },
  ];
}

function Because({ entry, instance }: { readonly entry: Entry; readonly instance: string | undefined }) {
  const words = texts().mail.suppressions;
  const { cause, campaign, creator, note } = entry;
  const { reason } = cause?.detail ?? {};
  const why = cause && (typeof reason === "string" ? describeCause(reason) : describeEvent(cause.event));
  const parts = [
    ...(campaign === null ? [] : [words.ofCampaign(campaign.name)]),
    ...(creator === "" ? [] : [words.by(creator)]),
    ...(note === "" ? [] : [note]),
  ];
  return (
    <>
      {cause?.eeid && instance !== undefined ? <a href={mailPage(instance, "sends", cause.eeid)}>{why}</a> : why}
      {cause && parts.length > 0 && ", "}
      {parts.join(", ")}
    </>
  );
}

interface AddDialogProps {
  readonly path: string;
  readonly isGlobal: boolean;
  readonly close: () => void;
  readonly added: () => void;
}

function AddDialog({ path, isGlobal, close, added }: AddDialogProps) {
  const words = texts().mail.suppressions;
  const form = useForm(
    { target: "", kind: "by-hand", note: "" },
    (body) => request<{ target: string }>("POST", path, { body }),
    ({ target }) => {
      showToast(words.added(target));
      close();
      added();
    },
  );
  const kinds = KINDS.filter((kind) => kind !== "erased" && !(isGlobal && kind === "whitelist"));
  return (
    <FormDialog title={words.add} form={form} submitLabel={texts().shell.save} onClose={close}>
      <TextField {...form.field("target")} label={words.target} hint={words.targetHint} required autofocus />
      <SelectField
        {...form.field("kind")}
        label={words.kind}
        options={kinds.map((value) => ({ value, label: words.kinds[value] }))}
      />
      <TextField {...form.field("note")} label={words.note} hint={words.noteHint} />
    </FormDialog>
  );
}
