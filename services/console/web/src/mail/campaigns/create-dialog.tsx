import { FormDialog } from "../../components/dialog.tsx";
import { CheckField, SelectField, TextField } from "../../components/field.tsx";
import { useForm } from "../../form.ts";
import { request } from "../../http.ts";
import { texts } from "../../texts.ts";
import { mailApiPath } from "../addresses.ts";

/** What the mail API takes as the mark of a subject that is fetched for each send. */
const DYNAMIC_SUBJECT = "XYZTAG-CURLXYZ";

interface CreateDialogProps {
  readonly instance: string;
  readonly close: () => void;
  readonly created: (numid: number) => void;
}

/** Makes a campaign: of type `normal` by its name alone, of type `api` with the defaults of its sends. */
export function CreateDialog({ instance, close, created }: CreateDialogProps) {
  const words = texts().mail.campaigns;
  const form = useForm(
    {
      tipo: "normal",
      nombre: "",
      remitente: "",
      remitente_nombre: "",
      asunto: "",
      asunto_uri: "",
      replyto: "",
      url: "",
      desusc: true,
    },
    ({ tipo, nombre, desusc, ...defaults }) =>
      request<{ numid: number }>("POST", `${mailApiPath(instance, "campania")}/`, {
        body:
          tipo === "normal"
            ? { tipo, nombre }
            : { tipo, nombre, ...withoutEmpty(defaults), charset: "utf8", desusc: desusc ? "si" : "no" },
      }),
    ({ numid }) => {
      close();
      created(numid);
    },
  );
  const { tipo, asunto } = form.values;
  return (
    <FormDialog title={words.create} form={form} submitLabel={texts().shell.create} onClose={close} wide>
      <SelectField
        {...form.field("tipo")}
        label={words.type}
        hint={words.typeHints[tipo as keyof typeof words.typeHints]}
        options={[
          { value: "normal", label: words.types.normal },
          { value: "api", label: words.types.api },
        ]}
      />
      <TextField {...form.field("nombre")} label={words.name} required autofocus />
      {tipo === "api" && (
        <>
          <div class="fields">
            <TextField {...form.field("remitente")} label={words.sender} type="email" required />
            <TextField {...form.field("remitente_nombre")} label={words.senderName} required />
          </div>
          <TextField {...form.field("asunto")} label={words.subject} hint={words.subjectHint} required />
          {asunto === DYNAMIC_SUBJECT && (
            <TextField {...form.field("asunto_uri")} label={words.subjectUri} type="url" required />
          )}
          <TextField {...form.field("url")} label={words.url} hint={words.urlHint} type="url" required />
          <TextField {...form.field("replyto")} label={words.replyTo} type="email" />
          <CheckField {...form.check("desusc")} label={words.unsubscribe} hint={words.unsubscribeHint} />
        </>
      )}
    </FormDialog>
  );
}

/** What was left empty was not given: the API says then that it is missing, not that it is wrong. */
function withoutEmpty(fields: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== ""));
}
