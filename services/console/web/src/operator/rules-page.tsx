import { useCallback, useState } from "preact/hooks";
import type { Sentence } from "../../../../core/sentences.ts";
import { Button } from "../components/button.tsx";
import { ConfirmDialog, Dialog, FormDialog } from "../components/dialog.tsx";
import { TextField } from "../components/field.tsx";
import { ListPage } from "../components/list-page.tsx";
import { Loaded } from "../components/loaded.tsx";
import type { Column } from "../components/table.tsx";
import { showToast } from "../components/toasts.tsx";
import { useFetched, usePages } from "../fetched.ts";
import { useForm } from "../form.ts";
import { formatTime, momentOf } from "../format.ts";
import { pathOf, queryOf, request } from "../http.ts";
import { JobProgress } from "../jobs/job-progress.tsx";
import { describeReason } from "../problem-words.ts";
import { useQuery } from "../query.ts";
import { texts } from "../texts.ts";
import { RuleImportDialog } from "./rule-import-dialog.tsx";

interface Rule {
  readonly id: number;
  readonly trigger: string;
  readonly action: string;
  readonly expires: string | null;
  /** Why it is no rule that could be added now. */
  readonly fault: Sentence | null;
}

const PAGE_SIZE = 100;
const MOST_OF_TRIGGER = 1_000;

/** The rules of a policy feed. */
export function RulesPage({ zone }: { readonly zone: string }) {
  const { operator, shell } = texts();
  const words = operator.feeds;
  const [{ search = "", job }, changeQuery] = useQuery();
  const [importing, setImporting] = useState(false);
  const [removing, setRemoving] = useState<string>();
  const pages = usePages<Rule, { rules: Rule[]; next: number | null }>(`${zone} ${search}`, {
    path: (after) => pathOf("rpz", zone, "rules") + queryOf({ search, after, limit: PAGE_SIZE }),
    rows: ({ rules }) => rules,
    next: ({ next }) => (next === null ? undefined : String(next)),
  });
  const onSearch = useCallback((wanted: string) => changeQuery({ search: wanted }), [changeQuery]);
  return (
    <ListPage<Rule>
      words={{ title: zone, empty: words.noRules, emptyHint: words.noRulesHint }}
      crumbs={[{ label: words.title, href: "/operator/feeds" }]}
      icon="shield"
      list={pages}
      rowName={({ trigger, action }) => `${trigger} ${action}`}
      search={{ label: words.search, value: search, onSearch }}
      actions={
        <Button icon="upload" onClick={() => setImporting(true)}>
          {words.import}
        </Button>
      }
      add={{
        label: words.addRule,
        dialog: (close) => <NewRuleDialog zone={zone} onAdded={pages.reload} onClose={close} />,
      }}
      rowActions={({ trigger }) => (
        <Button small label={`${shell.remove}: ${trigger}`} onClick={() => setRemoving(trigger)}>
          {shell.remove}
        </Button>
      )}
      columns={columnsOfRules()}
    >
      {removing !== undefined && (
        <RemoveRuleDialog
          zone={zone}
          trigger={removing}
          onRemoved={pages.reload}
          onClose={() => setRemoving(undefined)}
        />
      )}
      {importing && (
        <RuleImportDialog
          zone={zone}
          onStarted={(started) => {
            setImporting(false);
            changeQuery({ job: started });
          }}
          onClose={() => setImporting(false)}
        />
      )}
      {job !== undefined && (
        <ImportProgress job={job} onEnd={pages.reload} onClose={() => changeQuery({ job: undefined })} />
      )}
    </ListPage>
  );
}

function columnsOfRules(): Column<Rule>[] {
  const { operator, shell } = texts();
  const words = operator.feeds;
  return [
    {
      id: "trigger",
      label: words.trigger,
      cell: ({ trigger }) => <span class="mono clamped">{trigger}</span>,
      grows: true,
    },
    {
      id: "action",
      label: words.action,
      cell: ({ action, fault }) => (
        <>
          <span class="mono">{action}</span>
          {fault && <p class="hint">{words.noRule(describeReason(fault))}</p>}
        </>
      ),
    },
    {
      id: "expires",
      label: words.expires,
      cell: ({ expires }) => (expires === null ? shell.never : formatTime(expires)),
      optional: true,
    },
  ];
}

interface RemoveRuleDialogProps {
  readonly zone: string;
  readonly trigger: string;
  readonly onRemoved: () => void;
  readonly onClose: () => void;
}

/** A trigger goes with all that it does, which may be several rows: they are named. */
function RemoveRuleDialog({ zone, trigger, onRemoved, onClose }: RemoveRuleDialogProps) {
  const { feeds: words } = texts().operator;
  const path = pathOf("rpz", zone, "rules");
  const rules = useFetched<{ readonly rules: readonly Rule[] }>(path + queryOf({ trigger, limit: MOST_OF_TRIGGER }));
  return (
    <ConfirmDialog
      title={words.removeRuleTitle(trigger)}
      confirmLabel={texts().shell.remove}
      disabled={rules.value === undefined}
      confirm={() => request("DELETE", path + queryOf({ trigger }))}
      done={() => {
        showToast(words.ruleRemoved(trigger));
        onRemoved();
      }}
      onClose={onClose}
    >
      <p>{words.removeRuleHint}</p>
      <Loaded of={rules}>
        {(found) => (
          <ul>
            {found.rules.map(({ id, action }) => (
              <li key={id} class="mono">
                {trigger} {action}
              </li>
            ))}
          </ul>
        )}
      </Loaded>
    </ConfirmDialog>
  );
}

interface ImportProgressProps {
  readonly job: string;
  readonly onEnd: () => void;
  readonly onClose: () => void;
}

function ImportProgress({ job, onEnd, onClose }: ImportProgressProps) {
  const { feeds: words } = texts().operator;
  return (
    <Dialog title={words.import} onClose={onClose}>
      <div class="dialog-body">
        <p class="hint">{words.importHint}</p>
        <JobProgress id={job} onEnd={onEnd} />
      </div>
    </Dialog>
  );
}

interface NewRuleDialogProps {
  readonly zone: string;
  readonly onAdded: () => void;
  readonly onClose: () => void;
}

const ACTIONS = ["nxdomain", "nodata", "passthru", "drop", "tcp-only"];

function NewRuleDialog({ zone, onAdded, onClose }: NewRuleDialogProps) {
  const { feeds: words } = texts().operator;
  const form = useForm(
    { trigger: "qname:", action: "nxdomain", expires: "" },
    ({ trigger, action, expires }) => {
      const end = expires === "" ? {} : { expires: momentOf(expires) };
      return request<Rule>("POST", pathOf("rpz", zone, "rules"), { body: { trigger, action, ...end } });
    },
    ({ trigger }) => {
      showToast(words.ruleAdded(trigger));
      onAdded();
      onClose();
    },
  );
  return (
    <FormDialog title={words.addRule} form={form} submitLabel={words.addRule} onClose={onClose}>
      <TextField {...form.field("trigger")} label={words.trigger} hint={words.triggerHint} mono required autofocus />
      <TextField
        {...form.field("action")}
        label={words.action}
        hint={words.actionHint}
        suggestions={ACTIONS}
        mono
        required
      />
      <TextField {...form.field("expires")} type="datetime-local" label={words.expires} hint={words.expiresHint} />
    </FormDialog>
  );
}
