import { FormDialog } from "../../components/dialog.tsx";
import { TextArea, TextField } from "../../components/field.tsx";
import { showToast } from "../../components/toasts.tsx";
import { useForm } from "../../form.ts";
import { request } from "../../http.ts";
import { texts } from "../../texts.ts";
import { mailApiPath } from "../addresses.ts";
import type { Contact } from "./contact.ts";
import { fieldsOf, valuesOf } from "./contact-form.ts";

interface ContactDialogProps {
  readonly instance: string;
  /** The contact to change; a new one when absent. */
  readonly contact?: Contact;
  readonly close: () => void;
  readonly saved: () => void;
}

/** Makes a contact, or changes its profile. */
export function ContactDialog({ instance, contact, close, saved }: ContactDialogProps) {
  const words = texts().mail.contacts;
  const form = useForm(
    valuesOf(contact),
    async (values) => {
      const body = fieldsOf(values, contact);
      return body.ok ? request("POST", `${mailApiPath(instance, "contacto")}/`, { body: body.value }) : body;
    },
    () => {
      showToast(texts().shell.saved);
      close();
      saved();
    },
  );
  return (
    <FormDialog
      title={contact ? words.change : words.add}
      form={form}
      submitLabel={texts().shell.save}
      onClose={close}
      wide
    >
      <TextField
        {...form.field("email")}
        label={words.email}
        type="email"
        required
        disabled={contact !== undefined}
        autofocus={contact === undefined}
      />
      <div class="fields">
        <TextField {...form.field("nombre")} label={words.firstName} />
        <TextField {...form.field("apellido")} label={words.lastName} />
        <TextField {...form.field("edad")} label={words.age} inputmode="numeric" />
        <TextField {...form.field("sexo")} label={words.sex} hint={words.sexHint} />
        <TextField {...form.field("profesion")} label={words.profession} />
        <TextField {...form.field("localidad")} label={words.locality} />
      </div>
      <TextArea {...form.field("grupos")} label={words.joinGroups} hint={words.joinGroupsHint} rows={2} />
      <TextArea {...form.field("campos")} label={words.customFields} hint={words.customFieldsHint} rows={3} mono />
    </FormDialog>
  );
}
