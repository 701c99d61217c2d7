import { useEffect, useMemo, useState } from "preact/hooks";
import { Button } from "../../components/button.tsx";
import { SelectField, TextArea, TextField } from "../../components/field.tsx";
import { ProblemNote } from "../../components/problem.tsx";
import { showToast } from "../../components/toasts.tsx";
import { useForm } from "../../form.ts";
import { request } from "../../http.ts";
import { keptDraft, useKeptDraft } from "../../kept-drafts.ts";
import { texts } from "../../texts.ts";
import { instancePath } from "../addresses.ts";
import type { Campaign, CampaignWithHtml } from "./campaign.ts";
import { Recipients } from "./recipients.tsx";

interface MessageFormProps {
  readonly instance: string;
  readonly campaign: CampaignWithHtml;
  /** Told whether something written is not saved. */
  readonly tellUnsaved: (unsaved: boolean) => void;
  readonly saved: () => void;
}

/** What is written of a campaign. */
interface Written {
  readonly message: ReturnType<typeof messageOf>;
  readonly groups: readonly string[];
  readonly filters: readonly number[];
}

/** What is written, and what it is a change of. */
interface Draft extends Written {
  /** When that was changed last, as far as its writer was told; null: nothing was written. */
  readonly modified: string | null;
}

/** What a campaign sends, and to whom, until it is started. */
export function MessageForm(props: MessageFormProps) {
  const { message, groups, filters, setGroups, setFilters, form, unsaved, restored, discard } = useWriting(props);
  useEffect(() => {
    props.tellUnsaved(unsaved);
    return () => props.tellUnsaved(false);
  }, [unsaved]);
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
      <div class="row">
        <Button submit kind="primary" busy={form.busy}>
          {texts().shell.save}
        </Button>
        {unsaved && !restored && <Button onClick={discard}>{texts().shell.discard}</Button>}
      </div>
    </form>
  );
}

/** What is being written: as it is stored, or as it was left unsaved. */
function useWriting({ instance, campaign, saved }: MessageFormProps) {
  const draftKey = `campaign ${instance} ${campaign.numid}`;
  const left = keptDraft<Draft>(draftKey);
  const [stored, setStored] = useState(writtenIn(campaign));
  const [restored, setRestored] = useState(left !== undefined);
  const [modified, setModified] = useState(left === undefined ? campaign.modificado : left.modified);
  const [groups, setGroups] = useState(left?.groups ?? stored.groups);
  const [filters, setFilters] = useState(left?.filters ?? stored.filters);
  const form = useForm(
    left?.message ?? stored.message,
    async ({ source, html, url, ...head }) => {
      const written = { ...head, ...(source === "html" ? { html } : { url }), grupos: groups, filtros: filters };
      const path = instancePath(instance, "campaigns", campaign.numid);
      const answer = await request<Campaign>("PUT", `${path}/message`, { body: { ...written, modificado: modified } });
      if (!answer.ok && answer.error.code === "message-changed") {
        // Who is told of a change, and saves again, means that change: it is known before they are told.
        const theirs = await request<Campaign>("GET", path);
        if (theirs.ok) setModified(theirs.value.modificado);
        saved();
      }
      return answer;
    },
    ({ modificado }, message) => {
      setStored({ message, groups, filters });
      setModified(modificado);
      setRestored(false);
      showToast(texts().shell.saved);
      saved();
    },
  );
  const message = form.values;
  const written = useMemo<Written>(() => ({ message, groups, filters }), [message, groups, filters]);
  const unsaved = JSON.stringify(written) !== JSON.stringify(stored);
  const draft = useMemo<Draft>(() => ({ ...written, modified }), [written, modified]);
  useKeptDraft(draftKey, unsaved ? draft : undefined);
  const show = (shown: Written) => {
    setModified(campaign.modificado);
    form.set(shown.message);
    setGroups(shown.groups);
    setFilters(shown.filters);
  };
  // What somebody else has saved is shown too, unless that would take away what is being written.
  useEffect(() => {
    const now = writtenIn(campaign);
    setStored(now);
    if (!unsaved) show(now);
  }, [campaign.modificado]);
  const discard = () => {
    show(stored);
    setRestored(false);
  };
  return { ...written, setGroups, setFilters, form, unsaved, restored, discard };
}

function writtenIn(campaign: CampaignWithHtml): Written {
  return { message: messageOf(campaign), groups: campaign.grupos, filters: campaign.filtros };
}

function messageOf({ remitente, remitente_nombre, asunto, html, url }: CampaignWithHtml) {
  return { remitente, remitente_nombre, asunto, source: url === "" ? "html" : "url", html: html ?? "", url };
}
