import { useState } from "preact/hooks";
import { Button } from "../../components/button.tsx";
import { FormDialog } from "../../components/dialog.tsx";
import { EmptyState } from "../../components/empty-state.tsx";
import { TextField } from "../../components/field.tsx";
import { Section } from "../../components/page.tsx";
import { type Column, Table } from "../../components/table.tsx";
import { showToast } from "../../components/toasts.tsx";
import { type Rows, useRows } from "../../fetched.ts";
import { useForm } from "../../form.ts";
import { formatNumber, formatTime } from "../../format.ts";
import { request } from "../../http.ts";
import { texts } from "../../texts.ts";
import { instancePath, mailPage } from "../addresses.ts";

/** A batch that a content filter would have refused. */
export interface HeldContent {
  readonly eeid: string;
  readonly instance: string;
  readonly sender: string;
  readonly subject: string;
  readonly recipients: number;
  readonly at: string;
  /** Null: the filter was away. */
  readonly score: number | null;
  readonly symbols: Readonly<Record<string, number>>;
}

const REFRESH_MS = 10_000;
/** Symbols of a row; the others are counted. */
const MOST_SYMBOLS = 4;

/** What of an instance is held for its content; nothing while nothing is. */
export function HeldContentSection({
  instance,
  mayDecide,
}: {
  readonly instance: string;
  readonly mayDecide: boolean;
}) {
  const words = texts().mail.heldContent;
  const held = useRows<HeldContent>(instancePath(instance, "held"), "held", REFRESH_MS);
  if (held.rows.length === 0 && held.problem === undefined) return null;
  return (
    <Section title={words.title} hint={words.intro}>
      <HeldContentTable held={held} mayDecide={mayDecide} />
    </Section>
  );
}

interface TableProps {
  readonly held: Rows<HeldContent>;
  readonly mayDecide: boolean;
  /** Whether they are of several instances. */
  readonly ofAll?: boolean;
}

/** Batches that are held, with what was found in them, and what is to become of them. */
export function HeldContentTable({ held, mayDecide, ofAll = false }: TableProps) {
  const words = texts().mail.heldContent;
  const [deciding, setDeciding] = useState<{ readonly of: HeldContent; readonly verb: Verb }>();
  return (
    <>
      <Table<HeldContent>
        label={words.title}
        rows={held.rows}
        rowKey={({ eeid }) => eeid}
        loading={held.loading}
        problem={held.problem}
        reload={held.reload}
        empty={
          <EmptyState icon="shield" title={words.empty}>
            {words.emptyHint}
          </EmptyState>
        }
        columns={columnsOf({ mayDecide, ofAll }, (of, verb) => setDeciding({ of, verb }))}
      />
      {deciding && <DecideDialog {...deciding} changed={held.reload} close={() => setDeciding(undefined)} />}
    </>
  );
}

type Verb = "release" | "discard";

function columnsOf(
  { mayDecide, ofAll }: { readonly mayDecide: boolean; readonly ofAll: boolean },
  decide: (of: HeldContent, verb: Verb) => void,
): Column<HeldContent>[] {
  const words = texts().mail.heldContent;
  const button = (one: HeldContent, verb: Verb) => (
    <Button small label={`${words[verb]}: ${one.subject || one.eeid}`} onClick={() => decide(one, verb)}>
      {words[verb]}
    </Button>
  );
  return [
    { id: "at", label: words.at, cell: ({ at }) => formatTime(at), optional: true },
    ...(ofAll ? [{ id: "instance", label: words.instance, cell: ({ instance }: HeldContent) => instance }] : []),
    {
      id: "message",
      label: words.message,
      grows: true,
      cell: ({ instance, eeid, subject, sender }) => (
        <>
          <a href={mailPage(instance, "sends", eeid)}>{subject || words.noSubject}</a>
          <br />
          <span class="mono">{sender}</span>
        </>
      ),
    },
    {
      id: "recipients",
      label: words.recipients,
      align: "end",
      cell: ({ recipients }) => formatNumber(recipients),
      optional: true,
    },
    {
      id: "score",
      label: words.score,
      align: "end",
      cell: ({ score }) => (score === null ? <span title={words.awayHint}>{words.away}</span> : formatNumber(score, 1)),
    },
    { id: "symbols", label: words.symbols, cell: ({ symbols }) => <Symbols of={symbols} />, optional: true },
    ...(mayDecide
      ? [
          {
            id: "decide",
            label: "",
            cell: (one: HeldContent) => (
              <>
                {button(one, "release")} {button(one, "discard")}
              </>
            ),
          },
        ]
      : []),
  ];
}

/** What adds most to the score comes first. */
function Symbols({ of: symbols }: { readonly of: HeldContent["symbols"] }) {
  const found = Object.entries(symbols).sort(([, one], [, other]) => other - one);
  return (
    <>
      {found.slice(0, MOST_SYMBOLS).map(([name, score]) => (
        <div key={name}>
          <span class="mono">{name}</span> {formatNumber(score, 1)}
        </div>
      ))}
      {found.length > MOST_SYMBOLS && <div>{texts().mail.heldContent.more(found.length - MOST_SYMBOLS)}</div>}
    </>
  );
}

interface DecideDialogProps {
  readonly of: HeldContent;
  readonly verb: Verb;
  readonly changed: () => void;
  readonly close: () => void;
}

function DecideDialog({ of: { instance, eeid, subject }, verb, changed, close }: DecideDialogProps) {
  const words = texts().mail.heldContent;
  const form = useForm(
    { reason: "" },
    (body) => request("POST", instancePath(instance, "held", eeid, verb), { body }),
    () => {
      showToast(verb === "release" ? words.released : words.discarded);
      changed();
      close();
    },
  );
  return (
    <FormDialog
      title={`${words[verb]}: ${subject || words.noSubject}`}
      form={form}
      submitLabel={words[verb]}
      danger={verb === "discard"}
      disabled={form.values.reason.trim() === ""}
      onClose={close}
    >
      <TextField {...form.field("reason")} label={words.reason} hint={words.reasonHint} required autofocus />
    </FormDialog>
  );
}
