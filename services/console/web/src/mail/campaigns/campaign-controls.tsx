import { useState } from "preact/hooks";
import { useAction } from "../../action.ts";
import { Button } from "../../components/button.tsx";
import { ConfirmDialog, FormDialog } from "../../components/dialog.tsx";
import { Facts } from "../../components/facts.tsx";
import { SelectField, TextField } from "../../components/field.tsx";
import { showToast } from "../../components/toasts.tsx";
import { useForm } from "../../form.ts";
import { momentOf } from "../../format.ts";
import { request } from "../../http.ts";
import { texts } from "../../texts.ts";
import { instancePath } from "../addresses.ts";
import { type Campaign, senderOf } from "./campaign.ts";
import { ChosenRecipients } from "./recipients.tsx";

interface CampaignControlsProps {
  readonly instance: string;
  readonly campaign: Campaign;
  /** Whether the page shows what is not saved: a start would send something else. */
  readonly unsaved: boolean;
  readonly done: () => void;
}

/** The buttons that a campaign of type `normal` has in its state. */
export function CampaignControls({ instance, campaign, unsaved, done }: CampaignControlsProps) {
  const words = texts().mail.campaigns;
  const [starting, setStarting] = useState(false);
  const [cancelling, setCancelling] = useState(false);
  const { estado, numid } = campaign;
  const tell = useAction(
    (verb: "pause" | "resume") => request("POST", instancePath(instance, "campaigns", numid, verb)),
    done,
  );
  const canPause = estado === "programado" || estado === "preparando" || estado === "enviando";
  return (
    <>
      {estado === "borrador" && (
        <>
          {unsaved && <span class="hint">{words.saveFirst}</span>}
          <Button kind="primary" icon="play" disabled={unsaved} onClick={() => setStarting(true)}>
            {words.start}
          </Button>
        </>
      )}
      {canPause && (
        <Button icon="pause" busy={tell.busy} onClick={() => void tell.run("pause")}>
          {words.pause}
        </Button>
      )}
      {estado === "pausado" && (
        <Button kind="primary" icon="play" busy={tell.busy} onClick={() => void tell.run("resume")}>
          {words.resume}
        </Button>
      )}
      {(canPause || estado === "pausado") && (
        <Button kind="danger" onClick={() => setCancelling(true)}>
          {words.cancel}
        </Button>
      )}
      {starting && <StartDialog instance={instance} campaign={campaign} close={() => setStarting(false)} done={done} />}
      {cancelling && (
        <ConfirmDialog
          title={words.cancel}
          confirmLabel={words.cancel}
          leaveLabel={texts().shell.close}
          confirm={() => request("POST", instancePath(instance, "campaigns", numid, "cancel"))}
          done={done}
          onClose={() => setCancelling(false)}
        >
          <p>{words.cancelHint}</p>
        </ConfirmDialog>
      )}
    </>
  );
}

interface StartDialogProps extends Omit<CampaignControlsProps, "unsaved"> {
  readonly close: () => void;
}

function StartDialog({ instance, campaign, close, done }: StartDialogProps) {
  const words = texts().mail.campaigns;
  const form = useForm(
    { when: "now", at: "" },
    async ({ when, at }) => {
      const started = await request("POST", instancePath(instance, "campaigns", campaign.numid, "start"), {
        body: {
          // The field has the reader's wall-clock time; the API wants a moment.
          ...(when === "now" || at === "" ? {} : { at: momentOf(at) }),
          ...(campaign.modificado === null ? {} : { modificado: campaign.modificado }),
        },
      });
      if (!started.ok && started.error.code === "campaign-changed") done();
      return started;
    },
    (_, { when }) => {
      showToast(when === "later" ? words.scheduled : words.started);
      close();
      done();
    },
  );
  const later = form.values.when === "later";
  return (
    <FormDialog
      title={words.startTitle(campaign.nombre)}
      form={form}
      submitLabel={later ? words.schedule : words.start}
      disabled={later && form.values.at === ""}
      onClose={close}
    >
      <Facts
        facts={[
          { label: words.sender, value: senderOf(campaign) },
          { label: words.subject, value: campaign.asunto },
        ]}
      />
      <ChosenRecipients instance={instance} campaign={campaign} />
      <p>{words.startHint}</p>
      <SelectField
        {...form.field("when")}
        label={words.when}
        options={[
          { value: "now", label: words.now },
          { value: "later", label: words.later },
        ]}
      />
      {later && <TextField {...form.field("at")} label={words.startsAt} type="datetime-local" required />}
    </FormDialog>
  );
}
