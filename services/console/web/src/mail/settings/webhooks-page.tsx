import { useState } from "preact/hooks";
import type { Sentence } from "../../../../../core/sentences.ts";
import { useAction } from "../../action.ts";
import { Badge, type Tone } from "../../components/badge.tsx";
import { Button } from "../../components/button.tsx";
import { SecretOnce } from "../../components/copy.tsx";
import { Dialog, FormDialog } from "../../components/dialog.tsx";
import { TextField } from "../../components/field.tsx";
import { ListPage } from "../../components/list-page.tsx";
import { Section } from "../../components/page.tsx";
import { Table } from "../../components/table.tsx";
import { showToast } from "../../components/toasts.tsx";
import { usePages, useRows } from "../../fetched.ts";
import { useForm } from "../../form.ts";
import { formatNumber, formatTime } from "../../format.ts";
import { queryOf, request } from "../../http.ts";
import { describeReason } from "../../problem-words.ts";
import { texts } from "../../texts.ts";
import { instancePath } from "../addresses.ts";
import { SettingsTabs } from "./settings-tabs.tsx";

interface Webhook {
  readonly id: string;
  readonly url: string;
  readonly failures: number;
  readonly next_attempt: string;
}

interface Delivery {
  readonly id: number;
  readonly events: number;
  readonly state: "waiting" | "delivered" | "failed";
  readonly attempts: number;
  readonly outcome: Sentence | null;
  readonly created: string;
}

const PAGE_SIZE = 100;
const TONES: { readonly [S in Delivery["state"]]: Tone } = { waiting: "accent", delivered: "good", failed: "bad" };

/** Where an instance has its events told, and what became of each telling. */
export function WebhooksPage({ instance }: { readonly instance: string }) {
  const words = texts().mail.webhooks;
  const path = instancePath(instance, "webhooks");
  const list = useRows<Webhook>(path, "webhooks");
  const [secret, setSecret] = useState<string>();
  return (
    <ListPage<Webhook>
      words={words}
      icon="webhook"
      tabs={<SettingsTabs instance={instance} current="webhooks" />}
      list={list}
      rowName={({ url }) => url}
      add={{
        label: words.set,
        icon: "webhook",
        dialog: (close) => (
          <SetDialog
            path={path}
            close={close}
            done={(made) => {
              setSecret(made);
              list.reload();
            }}
          />
        ),
      }}
      removal={{ words, request: ({ id }) => request("DELETE", instancePath(instance, "webhooks", id)) }}
      columns={[
        { id: "url", label: words.url, grows: true, cell: ({ url }) => <span class="mono">{url}</span> },
        {
          id: "state",
          label: words.state,
          cell: ({ failures }) => (
            <Badge tone={failures === 0 ? "good" : "bad"}>
              {failures === 0 ? words.healthy : words.failing(formatNumber(failures))}
            </Badge>
          ),
        },
      ]}
    >
      {list.rows.map(({ id }) => (
        <Deliveries key={id} instance={instance} webhook={id} />
      ))}
      {secret !== undefined && (
        <Dialog title={words.secret} onClose={() => setSecret(undefined)}>
          <div class="dialog-body">
            <SecretOnce secret={secret} label={words.secretHint} />
          </div>
        </Dialog>
      )}
    </ListPage>
  );
}

interface SetDialogProps {
  readonly path: string;
  readonly close: () => void;
  readonly done: (secret: string) => void;
}

function SetDialog({ path, close, done }: SetDialogProps) {
  const words = texts().mail.webhooks;
  const form = useForm(
    { url: "" },
    (body) => request<{ secret: string }>("POST", path, { body }),
    ({ secret }) => {
      close();
      done(secret);
    },
  );
  return (
    <FormDialog title={words.set} form={form} submitLabel={texts().shell.save} onClose={close}>
      <TextField {...form.field("url")} label={words.url} hint={words.urlHint} type="url" mono required autofocus />
    </FormDialog>
  );
}

/** The log: what was told, or will be, newest first; each telling can be repeated. */
function Deliveries({ instance, webhook }: { readonly instance: string; readonly webhook: string }) {
  const words = texts().mail.webhooks;
  const pages = usePages<Delivery, { deliveries: readonly Delivery[] }>(`${instance} ${webhook}`, {
    path: (before) => instancePath(instance, "webhooks", webhook, "deliveries") + queryOf({ limit: PAGE_SIZE, before }),
    rows: ({ deliveries }) => deliveries,
    next: ({ deliveries }) => (deliveries.length < PAGE_SIZE ? undefined : String(deliveries.at(-1)?.id)),
  });
  const replay = useAction(
    (delivery: number) =>
      request<{ msg: string }>("POST", instancePath(instance, "webhooks", webhook, "replay"), { body: { delivery } }),
    () => {
      showToast(words.replayed);
      pages.reload();
    },
  );
  return (
    <Section
      title={words.log}
      actions={
        <Button small icon="refresh" onClick={pages.reload}>
          {words.refresh}
        </Button>
      }
    >
      <Table<Delivery>
        label={words.log}
        {...pages}
        rowKey={({ id }) => id}
        columns={[
          { id: "created", label: words.created, cell: ({ created }) => formatTime(created) },
          { id: "events", label: words.events, align: "end", cell: ({ events }) => formatNumber(events) },
          {
            id: "state",
            label: words.state,
            cell: ({ state }) => <Badge tone={TONES[state]}>{words.states[state]}</Badge>,
          },
          { id: "attempts", label: words.attempts, align: "end", optional: true, cell: ({ attempts }) => attempts },
          {
            id: "outcome",
            label: words.outcome,
            grows: true,
            cell: ({ outcome }) => outcome && describeReason(outcome),
          },
          {
            id: "replay",
            label: "",
            align: "end",
            cell: ({ id }) => (
              <Button small busy={replay.busy} onClick={() => void replay.run(id)}>
                {words.replay}
              </Button>
            ),
          },
        ]}
        empty={<p>{words.noLog}</p>}
      />
    </Section>
  );
}
