import { useState } from "preact/hooks";
import { OWN_REASONS, SMTP_COMMANDS } from "../../../../core/mail/bounce/reason.ts";
import { Button, LinkButton } from "../components/button.tsx";
import { FormDialog } from "../components/dialog.tsx";
import { SelectField, TextField } from "../components/field.tsx";
import { ListPage } from "../components/list-page.tsx";
import { showToast } from "../components/toasts.tsx";
import { useRows } from "../fetched.ts";
import { useForm } from "../form.ts";
import { formatNumber, formatTime } from "../format.ts";
import { pathOf, queryOf, request } from "../http.ts";
import { texts } from "../texts.ts";

interface Unknown {
  readonly shape: string;
  readonly count: number;
  readonly sample: string;
  readonly latest: string;
}

interface Wording {
  readonly id: number;
  readonly words: string;
  readonly reason: string;
  readonly command: string | null;
  readonly created: string;
  readonly created_by: string;
}

interface Trial {
  readonly messages: number;
  readonly matches: number;
  readonly changes: readonly {
    readonly from: string;
    readonly to: string;
    readonly count: number;
    readonly newly_hard: number;
  }[];
}

/** Words of mail systems that nobody understood. */
export function UnknownWordingsPage() {
  const { wordings: words } = texts().operator;
  const [explained, setExplained] = useState<Unknown>();
  const list = useRows<Unknown>("/bounces/unknown", "unknown");
  return (
    <ListPage<Unknown>
      words={words.unknown}
      icon="check"
      list={list}
      rowName={({ shape }) => shape}
      actions={<LinkButton href="/operator/bounces/wordings">{words.title}</LinkButton>}
      rowActions={(row) => (
        <Button small label={`${words.explain}: ${row.shape}`} onClick={() => setExplained(row)}>
          {words.explain}
        </Button>
      )}
      columns={[
        { id: "count", label: words.count, align: "end", cell: ({ count }) => formatNumber(count) },
        { id: "words", label: words.words, cell: ({ shape }) => <span class="mono">{shape}</span>, grows: true },
        { id: "latest", label: words.latest, cell: ({ latest }) => formatTime(latest), optional: true },
      ]}
    >
      {explained && (
        <WordingDialog
          shape={explained.shape}
          sample={explained.sample}
          onClose={() => setExplained(undefined)}
          onMade={list.reload}
        />
      )}
    </ListPage>
  );
}

/** What operators say that words mean. */
export function WordingsPage() {
  const { wordings: words } = texts().operator;
  const list = useRows<Wording>("/bounces/wordings", "wordings");
  return (
    <ListPage<Wording>
      words={words}
      icon="check"
      crumbs={[{ label: words.unknown.title, href: "/operator/bounces" }]}
      list={list}
      rowName={(wording) => wording.words}
      add={{ label: words.add, dialog: (close) => <WordingDialog shape="" onClose={close} onMade={list.reload} /> }}
      removal={{ words, request: ({ id }) => request("DELETE", pathOf("bounces", "wordings", String(id))) }}
      columns={[
        { id: "words", label: words.words, cell: (wording) => <span class="mono">{wording.words}</span>, grows: true },
        { id: "reason", label: words.reason, cell: ({ reason }) => reason },
        { id: "command", label: words.command, cell: ({ command }) => command ?? words.any, optional: true },
        { id: "by", label: words.by, cell: ({ created_by }) => created_by, optional: true },
        { id: "created", label: words.created, cell: ({ created }) => formatTime(created), optional: true },
      ]}
    />
  );
}

/** Of a trial, or of a wording that was put in force. */
type Answer = Trial | { readonly id: number };

interface WordingDialogProps {
  readonly shape: string;
  /** The words as they were last said. */
  readonly sample?: string;
  readonly onClose: () => void;
  readonly onMade: () => void;
}

/** Gives words a meaning: tried on what came back, and in force with a second press. */
function WordingDialog({ shape, sample, onClose, onMade }: WordingDialogProps) {
  const { wordings: words } = texts().operator;
  const [tried, setTried] = useState<{ readonly of: string; readonly trial: Trial }>();
  const form = useForm(
    { words: shape, reason: "userunknown", command: "" },
    ({ command, ...rest }) => {
      const body = command === "" ? rest : { ...rest, command };
      return tried?.of === JSON.stringify(body)
        ? request<Answer>("POST", "/bounces/wordings", { body })
        : request<Answer>("GET", `/bounces/wordings/trial${queryOf(body)}`);
    },
    (answer, { command, ...rest }) => {
      if ("changes" in answer) {
        return setTried({ of: JSON.stringify(command === "" ? rest : { ...rest, command }), trial: answer });
      }
      showToast(words.made);
      onMade();
      onClose();
    },
  );
  const { command, ...rest } = form.values;
  const isTried = tried?.of === JSON.stringify(command === "" ? rest : form.values);
  return (
    <FormDialog
      title={words.explain}
      form={form}
      submitLabel={isTried ? words.putInForce : words.try}
      disabled={form.values.words.trim() === ""}
      wide
      onClose={onClose}
    >
      {sample !== undefined && <p class="mono">{sample}</p>}
      <TextField {...form.field("words")} label={words.words} hint={words.wordsHint} mono />
      <SelectField
        {...form.field("reason")}
        label={words.reason}
        options={OWN_REASONS.map((value) => ({ value, label: value }))}
      />
      <SelectField
        {...form.field("command")}
        label={words.command}
        options={[
          { value: "", label: words.any },
          ...SMTP_COMMANDS.map((value) => ({ value, label: value.toUpperCase() })),
        ]}
      />
      {isTried && <TrialResult trial={tried.trial} />}
    </FormDialog>
  );
}

function TrialResult({ trial }: { readonly trial: Trial }) {
  const { wordings: words } = texts().operator;
  return (
    <div role="status">
      <p>{words.said(formatNumber(trial.matches), formatNumber(trial.messages))}</p>
      <ul>
        {trial.changes.map(({ from, to, count, newly_hard }) => (
          <li key={`${from} ${to}`}>
            {words.becomes(formatNumber(count), from, to)}
            {newly_hard > 0 && `, ${words.newlyDead(formatNumber(newly_hard))}`}
          </li>
        ))}
      </ul>
    </div>
  );
}
