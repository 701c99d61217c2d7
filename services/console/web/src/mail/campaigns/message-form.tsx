import { useMemo, useState } from "preact/hooks";
import { Button } from "../../components/button.tsx";
import { SelectField, TextArea, TextField } from "../../components/field.tsx";
import { ProblemNote } from "../../components/problem.tsx";
import { showToast } from "../../components/toasts.tsx";
import { useFetched } from "../../fetched.ts";
import { useForm } from "../../form.ts";
import { formatNumber } from "../../format.ts";
import { request } from "../../http.ts";
import { keptDraft, useKeptDraft } from "../../kept-drafts.ts";
import { texts } from "../../texts.ts";
import { instancePath, mailPage } from "../addresses.ts";
import type { Group } from "../contacts/contact.ts";
import type { Filter } from "../filters/condition.ts";
import type { CampaignWithHtml } from "./campaign.ts";

interface MessageFormProps {
  readonly instance: string;
  readonly campaign: CampaignWithHtml;
  readonly saved: () => void;
}

/** What is written of a campaign. */
interface Written {
  readonly message: ReturnType<typeof messageOf>;
  readonly groups: readonly string[];
  readonly filters: readonly number[];
}

/** What a campaign sends, and to whom, until it is started. */
export function MessageForm(props: MessageFormProps) {
  const { message, groups, filters, setGroups, setFilters, form, restored, discard } = useWriting(props);
  const words = texts().mail.campaigns;
  return (
    <form class="form" onSubmit={form.submit} noValidate>
      {restored && (
        <p class="note warn">
          <span>{texts().shell.restored}</span>
          <Button small onClick={discard}>
            {texts().shell.discard}
          </Button>
        </p>
      )}
      <Recipients
        instance={props.instance}
        groups={groups}
        filters={filters}
        chooseGroups={setGroups}
        chooseFilters={setFilters}
      />
      <div class="fields field">
        <TextField {...form.field("remitente")} label={words.sender} type="email" required />
        <TextField {...form.field("remitente_nombre")} label={words.senderName} />
      </div>
      <TextField {...form.field("asunto")} label={words.subject} hint={words.personalHint} required />
      <SelectField
        {...form.field("source")}
        label={words.source}
        options={[
          { value: "html", label: words.sourceHtml },
          { value: "url", label: words.sourceUrl },
        ]}
      />
      {message.source === "html" ? (
        <TextArea {...form.field("html")} label={words.html} hint={words.htmlHint} rows={14} mono />
      ) : (
        <TextField {...form.field("url")} label={words.url} hint={words.urlHint} type="url" mono required />
      )}
      <ProblemNote problem={form.problem} />
      <Button submit kind="primary" busy={form.busy}>
        {texts().shell.save}
      </Button>
    </form>
  );
}

/** What is being written: as it is stored, or as it was left unsaved. */
function useWriting({ instance, campaign, saved }: MessageFormProps) {
  const draftKey = `campaign ${instance} ${campaign.numid}`;
  const left = keptDraft<Written>(draftKey);
  const [stored, setStored] = useState<Written>({
    message: messageOf(campaign),
    groups: campaign.grupos,
    filters: campaign.filtros,
  });
  const [restored, setRestored] = useState(left !== undefined);
  const [groups, setGroups] = useState(left?.groups ?? stored.groups);
  const [filters, setFilters] = useState(left?.filters ?? stored.filters);
  const form = useForm(
    left?.message ?? stored.message,
    ({ source, html, url, ...head }) =>
      request("PUT", instancePath(instance, "campaigns", campaign.numid, "message"), {
        body: { ...head, ...(source === "html" ? { html } : { url }), grupos: groups, filtros: filters },
      }),
    (_answer, message) => {
      setStored({ message, groups, filters });
      setRestored(false);
      showToast(texts().shell.saved);
      saved();
    },
  );
  const message = form.values;
  const written = useMemo<Written>(() => ({ message, groups, filters }), [message, groups, filters]);
  useKeptDraft(draftKey, JSON.stringify(written) === JSON.stringify(stored) ? undefined : written);
  const discard = () => {
    form.set(stored.message);
    setGroups(stored.groups);
    setFilters(stored.filters);
    setRestored(false);
  };
  return { ...written, setGroups, setFilters, form, restored, discard };
}

function messageOf({ remitente, remitente_nombre, asunto, html, url }: CampaignWithHtml) {
  return { remitente, remitente_nombre, asunto, source: url === "" ? "html" : "url", html: html ?? "", url };
}

interface RecipientsProps {
  readonly instance: string;
  readonly groups: readonly string[];
  readonly filters: readonly number[];
  readonly chooseGroups: (groups: readonly string[]) => void;
  readonly chooseFilters: (filters: readonly number[]) => void;
}

/** Groups and filters to send to; a contact that several of them hold gets one message. */
function Recipients({ instance, groups, filters, chooseGroups, chooseFilters }: RecipientsProps) {
  const words = texts().mail;
  const offeredGroups = useFetched<{ grupos: readonly Group[] }>(instancePath(instance, "groups")).value?.grupos;
  const offeredFilters = useFetched<{ filtros: readonly Filter[] }>(instancePath(instance, "filters")).value?.filtros;
  // What was chosen and is gone meanwhile has to be there still, for its choice to be taken back.
  const goneGroups = offeredGroups && groups.filter((name) => !offeredGroups.some(({ nombre }) => nombre === name));
  const isNothingThere = offeredGroups?.length === 0 && offeredFilters?.length === 0;
  return (
    <>
      <div class="recipients">
        <fieldset>
          <legend>{words.groups.title}</legend>
          {offeredGroups?.map(({ nombre, contactos }) => (
            <Choice
              key={nombre}
              label={nombre}
              contacts={contactos}
              chosen={groups.includes(nombre)}
              toggle={() => chooseGroups(toggled(groups, nombre))}
            />
          ))}
          {offeredGroups?.length === 0 && <p class="hint">{words.groups.empty}</p>}
          {goneGroups?.map((name) => (
            <Choice
              key={name}
              label={name}
              contacts={0}
              chosen={true}
              toggle={() => chooseGroups(toggled(groups, name))}
            />
          ))}
        </fieldset>
        <fieldset>
          <legend>{words.filters.title}</legend>
          {offeredFilters?.map(({ id, nombre, contactos }) => (
            <Choice
              key={id}
              label={nombre}
              contacts={contactos}
              chosen={filters.includes(id)}
              toggle={() => chooseFilters(toggled(filters, id))}
            />
          ))}
          {offeredFilters?.length === 0 && <p class="hint">{words.filters.empty}</p>}
        </fieldset>
      </div>
      {isNothingThere && (
        <p class="note warn">
          <span>
            {words.campaigns.noRecipients}{" "}
            <a href={mailPage(instance, "contacts", "groups")}>{words.campaigns.toGroups}</a>
          </span>
        </p>
      )}
    </>
  );
}

interface ChoiceProps {
  readonly label: string;
  readonly contacts: number;
  readonly chosen: boolean;
  readonly toggle: () => void;
}

function Choice({ label, contacts, chosen, toggle }: ChoiceProps) {
  return (
    <label class="row">
      <input type="checkbox" checked={chosen} onChange={toggle} />
      {label} <span class="hint">{texts().mail.filters.count(formatNumber(contacts))}</span>
    </label>
  );
}

function toggled<T>(chosen: readonly T[], item: T): readonly T[] {
  return chosen.includes(item) ? chosen.filter((other) => other !== item) : [...chosen, item];
}
