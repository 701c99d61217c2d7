import { useState } from "preact/hooks";
import type { Sentence } from "../../../../../core/sentences.ts";
import { useAction } from "../../action.ts";
import { Badge, type Tone } from "../../components/badge.tsx";
import { Button } from "../../components/button.tsx";
import { SecretOnce } from "../../components/copy.tsx";
import { Dialog, FormDialog } from "../../components/dialog.tsx";
import { CheckField, SelectField, TextField } from "../../components/field.tsx";
import { ListPage } from "../../components/list-page.tsx";
import { Section } from "../../components/page.tsx";
import { Table } from "../../components/table.tsx";
import { showToast } from "../../components/toasts.tsx";
import { useFetched, usePages, useRows } from "../../fetched.ts";
import { useForm } from "../../form.ts";
import { formatNumber, formatTime } from "../../format.ts";
import { queryOf, request } from "../../http.ts";
import { describeReason } from "../../problem-words.ts";
import { texts } from "../../texts.ts";
import { instancePath } from "../addresses.ts";
import type { Campaign } from "../campaigns/campaign.ts";
import type { Filter } from "../filters/condition.ts";
import { SettingsTabs } from "./settings-tabs.tsx";

interface Webhook {
  readonly id: string;
  readonly url: string;
  /** Absent as the three that follow: it is told everything, in the short form. */
  readonly kinds?: readonly string[];
  readonly campaigns?: readonly number[];
  readonly condiciones?: object;
  readonly grupo_ausente?: string;
  readonly full?: true;
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
/** What a webhook may be told; the first eleven are told where it does not choose. */
const KINDS = [
  "envio",
  "vista",
  "click",
  "rebote_hard",
  "rebote-soft",
  "desuscripcion",
  "conversion",
  "invalidacion",
  "revalidacion",
  "unknown",
  "queja",
  "entregado",
  "diferido",
  "cancelado",
  "origen_pasa",
  "origen_falla",
] as const;
const USUAL_KINDS: readonly string[] = KINDS.slice(0, 11);
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
      rowName={({ id }) => id}
      add={{
        label: words.set,
        icon: "webhook",
        dialog: (close) => (
          <SetDialog
            instance={instance}
            isFirst={list.rows.length === 0}
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
        { id: "name", label: words.name, cell: ({ id }) => id },
        { id: "url", label: words.url, grows: true, cell: ({ url }) => <span class="mono">{url}</span> },
        { id: "told", label: words.told, optional: true, cell: describeChoice },
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
        <Deliveries key={id} instance={instance} webhook={id} isOnly={list.rows.length === 1} />
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

const isUsual = (kinds: ReadonlySet<string>) =>
  kinds.size === USUAL_KINDS.length && USUAL_KINDS.every((kind) => kinds.has(kind));

/** What a webhook is told, in few words. */
function describeChoice({ kinds, campaigns, condiciones, grupo_ausente, full }: Webhook): string {
  const { webhooks: words, events } = texts().mail;
  const names: Readonly<Record<string, string>> = { ...events, ...words.moreEvents };
  return [
    kinds === undefined ? words.usual : kinds.map((kind) => names[kind] ?? kind).join(", "),
    ...(campaigns === undefined ? [] : [words.ofCampaigns(campaigns.join(", "))]),
    ...(condiciones === undefined ? [] : [words.filtered]),
    ...(grupo_ausente === undefined ? [] : [texts().mail.filters.groupGone(grupo_ausente)]),
    ...(full ? [words.withWhy] : []),
  ].join("; ");
}

interface SetDialogProps {
  readonly instance: string;
  /** The only one has a name already. */
  readonly isFirst: boolean;
  readonly close: () => void;
  readonly done: (secret: string) => void;
}

function SetDialog({ instance, isFirst, close, done }: SetDialogProps) {
  const words = texts().mail.webhooks;
  const campaigns =
    useFetched<{ campaigns: readonly Campaign[] }>(instancePath(instance, "campaigns") + queryOf({ limit: 200 })).value
      ?.campaigns ?? [];
  const filters = useFetched<{ filtros: readonly Filter[] }>(instancePath(instance, "filters")).value?.filtros ?? [];
  const [kinds, setKinds] = useState<ReadonlySet<string>>(new Set(USUAL_KINDS));
  const form = useForm(
    { name: isFirst ? "events" : "", url: "", campaign: "", filter: "", full: true },
    ({ name, url, campaign, filter, full }) =>
      request<{ secret: string }>("POST", instancePath(instance, "webhooks"), {
        body: {
          ...{ name, url, full },
          ...(isUsual(kinds) ? {} : { kinds: KINDS.filter((kind) => kinds.has(kind)) }),
          ...(campaign === "" ? {} : { campaigns: [Number(campaign)] }),
          ...(filter === "" ? {} : { filter: Number(filter) }),
        },
      }),
    ({ secret }) => {
      close();
      done(secret);
    },
  );
  return (
    <FormDialog title={words.set} form={form} submitLabel={texts().shell.save} onClose={close}>
      <TextField {...form.field("name")} label={words.name} hint={words.nameHint} required autofocus />
      <TextField {...form.field("url")} label={words.url} type="url" mono required />
      <KindsField kinds={kinds} setKinds={setKinds} />
      <SelectField
        {...form.field("campaign")}
        label={words.campaign}
        options={[
          { value: "", label: words.anyCampaign },
          ...campaigns.map(({ numid, nombre }) => ({ value: String(numid), label: nombre })),
        ]}
      />
      <SelectField
        {...form.field("filter")}
        label={words.filter}
        hint={words.filterHint}
        options={[
          { value: "", label: words.noFilter },
          ...filters.map(({ id, nombre }) => ({ value: String(id), label: nombre })),
        ]}
      />
      <CheckField {...form.check("full")} label={words.full} hint={words.fullHint} />
    </FormDialog>
  );
}

interface KindsFieldProps {
  readonly kinds: ReadonlySet<string>;
  readonly setKinds: (kinds: ReadonlySet<string>) => void;
}

function KindsField({ kinds, setKinds }: KindsFieldProps) {
  const { webhooks: words, events } = texts().mail;
  const names: Readonly<Record<string, string>> = { ...events, ...words.moreEvents };
  const choose = (kind: string, isChosen: boolean) =>
    setKinds(new Set(isChosen ? [...kinds, kind] : [...kinds].filter((one) => one !== kind)));
  return (
    <fieldset class="field">
      <legend class="field-name">{words.kinds}</legend>
      {KINDS.map((kind) => (
        <CheckField
          key={kind}
          name={kind}
          label={names[kind]}
          checked={kinds.has(kind)}
          onChecked={(isChosen) => choose(kind, isChosen)}
        />
      ))}
    </fieldset>
  );
}

interface DeliveriesProps {
  readonly instance: string;
  readonly webhook: string;
  readonly isOnly: boolean;
}

/** The log: what was told, or will be, newest first; each telling can be repeated. */
function Deliveries({ instance, webhook, isOnly }: DeliveriesProps) {
  const words = texts().mail.webhooks;
  const title = isOnly ? words.log : words.logOf(webhook);
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
      title={title}
      actions={
        <Button small icon="refresh" onClick={pages.reload}>
          {words.refresh}
        </Button>
      }
    >
      <Table<Delivery>
        label={title}
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
