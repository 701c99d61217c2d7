import { FormDialog } from "../../components/dialog.tsx";
import { TextField } from "../../components/field.tsx";
import { showToast } from "../../components/toasts.tsx";
import { useForm } from "../../form.ts";
import { request } from "../../http.ts";
import { texts } from "../../texts.ts";
import { wholeNumber } from "../../typed-number.ts";
import { mailApiPath } from "../addresses.ts";
import type { Contact } from "./contact.ts";

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
    {
      email: contact?.email ?? "",
      nombre: contact?.nombre ?? "",
      apellido: contact?.apellido ?? "",
      edad: contact?.edad?.toString() ?? "",
      sexo: contact?.sexo ?? "",
      profesion: contact?.profesion ?? "",
      localidad: contact?.localidad ?? "",
      grupos: "",
      campos: "",
    },
    ({ edad, grupos, campos, sexo, ...texts }) =>
      request("POST", `${mailApiPath(instance, "contacto")}/`, {
        body: {
          ...texts,
          ...(edad === "" ? {} : { edad: wholeNumber(edad) }),
          ...(sexo === "" ? {} : { sexo }),
          ...(grupos === "" ? {} : { grupos: splitList(grupos) }),
          ...(campos === "" ? {} : { campos: readFields(campos) }),
        },
      }),
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
      <TextField {...form.field("grupos")} label={words.joinGroups} hint={words.joinGroupsHint} />
      <TextField {...form.field("campos")} label={words.customFields} hint={words.customFieldsHint} mono />
    </FormDialog>
  );
}

const splitList = (list: string) =>
  list
    .split(",")
    .map((item) => item.trim())
    .filter(Boolean);

/** `COLOR=red, CITY=Rosario`; a name without a value removes the field. */
function readFields(text: string): readonly { readonly nombre: string; readonly valor: string | null }[] {
  return splitList(text).map((pair) => {
    const [nombre = "", ...value] = pair.split("=");
    return { nombre: nombre.trim(), valor: value.length === 0 ? null : value.join("=").trim() };
  });
}
