import { FormDialog } from "../components/dialog.tsx";
import { CheckField, SelectField, TextField } from "../components/field.tsx";
import { showToast } from "../components/toasts.tsx";
import { useForm } from "../form.ts";
import { pathOf, request } from "../http.ts";
import { texts } from "../texts.ts";
import { anyNumber } from "../typed-number.ts";
import type { Instance } from "./instance.ts";

interface InstanceSettingsDialogProps {
  readonly instance: Instance;
  readonly onChanged: () => void;
  readonly onClose: () => void;
}

/** Licences and settings of an instance. */
export function InstanceSettingsDialog({ instance, onChanged, onClose }: InstanceSettingsDialogProps) {
  const { operator, shell } = texts();
  const words = operator.instances;
  const { name } = instance;
  const form = useForm(
    valuesOf(instance),
    (values) => {
      const body = {
        ...values,
        event_days: daysOf(values.event_days),
        archive_days: daysOf(values.archive_days),
        message_days: daysOf(values.message_days),
      };
      return request("PATCH", pathOf("instances", name), { body });
    },
    () => {
      showToast(words.changed);
      onChanged();
      onClose();
    },
  );
  return (
    <FormDialog title={`${words.settings}: ${name}`} form={form} submitLabel={shell.save} onClose={onClose}>
      <CheckField {...form.check("archive")} label={words.archive} />
      <CheckField {...form.check("conversions")} label={words.conversions} />
      <CheckField {...form.check("records")} label={words.createsRecords} />
      <CheckField {...form.check("failure_reports")} label={words.failureReports} hint={words.failureReportsHint} />
      <SelectField
        {...form.field("language")}
        label={words.reportLanguage}
        options={[
          { value: "en", label: "English" },
          { value: "es", label: "Español" },
        ]}
      />
      <TextField {...form.field("time_zone")} label={words.timeZone} hint={words.timeZoneHint} mono />
      <div class="fields roomy">
        <TextField {...form.field("event_days")} label={words.eventDays} hint={words.daysHint} inputmode="numeric" />
        <TextField
          {...form.field("archive_days")}
          label={words.archiveDays}
          hint={words.daysHint}
          inputmode="numeric"
        />
        <TextField
          {...form.field("message_days")}
          label={words.messageDays}
          hint={words.messageDaysHint}
          inputmode="numeric"
        />
      </div>
    </FormDialog>
  );
}

function valuesOf({ archive, conversions, time_zone, records, failure_reports, language, ...days }: Instance) {
  const { event_days, archive_days, message_days } = days;
  return {
    ...{ archive, conversions, time_zone, records, failure_reports, language: language as string },
    event_days: event_days === null ? "" : String(event_days),
    archive_days: archive_days === null ? "" : String(archive_days),
    message_days: message_days === null ? "" : String(message_days),
  };
}

function daysOf(text: string): number | string | null {
  return text.trim() === "" ? null : anyNumber(text);
}
