import { useState } from "preact/hooks";
import { Button } from "../../components/button.tsx";
import { FormDialog } from "../../components/dialog.tsx";
import { TextArea, TextField } from "../../components/field.tsx";
import { ListPage } from "../../components/list-page.tsx";
import { showToast } from "../../components/toasts.tsx";
import { useRows } from "../../fetched.ts";
import { useForm } from "../../form.ts";
import { request } from "../../http.ts";
import { texts } from "../../texts.ts";
import { mailApiPath } from "../addresses.ts";
import { SettingsTabs } from "./settings-tabs.tsx";

interface GlobalVariable {
  readonly nombre: string;
  readonly valor: string;
}

const NEW_VARIABLE: GlobalVariable = { nombre: "", valor: "" };

/** The variables that every message of an instance may use. */
export function GlobalsPage({ instance }: { readonly instance: string }) {
  const { mail, shell } = texts();
  const words = mail.globals;
  const path = mailApiPath(instance, "global");
  const list = useRows<GlobalVariable>(path, "globales");
  const [edited, setEdited] = useState<GlobalVariable>();
  const dialogFor = (variable: GlobalVariable, close: () => void) => (
    <VariableDialog path={path} variable={variable} close={close} saved={list.reload} />
  );
  return (
    <ListPage<GlobalVariable>
      words={words}
      icon="settings"
      tabs={<SettingsTabs instance={instance} current="globals" />}
      list={list}
      rowName={({ nombre }) => nombre}
      add={{ label: words.add, dialog: (close) => dialogFor(NEW_VARIABLE, close) }}
      rowActions={(variable) => (
        <Button small label={`${shell.edit}: ${variable.nombre}`} onClick={() => setEdited(variable)}>
          {shell.edit}
        </Button>
      )}
      removal={{ words, request: ({ nombre }) => request("DELETE", path, { body: { nombre } }) }}
      columns={[
        { id: "name", label: words.name, cell: ({ nombre }) => <span class="mono">{nombre}</span> },
        { id: "value", label: words.value, grows: true, cell: ({ valor }) => <span class="clamped">{valor}</span> },
      ]}
    >
      {edited && dialogFor(edited, () => setEdited(undefined))}
    </ListPage>
  );
}

interface VariableDialogProps {
  readonly path: string;
  readonly variable: GlobalVariable;
  readonly close: () => void;
  readonly saved: () => void;
}

function VariableDialog({ path, variable, close, saved }: VariableDialogProps) {
  const words = texts().mail.globals;
  const isNew = variable.nombre === "";
  const form = useForm(
    { ...variable },
    (body) => request("POST", path, { body }),
    () => {
      showToast(texts().shell.saved);
      close();
      saved();
    },
  );
  return (
    <FormDialog
      title={isNew ? words.add : variable.nombre}
      form={form}
      submitLabel={texts().shell.save}
      onClose={close}
    >
      <TextField
        {...form.field("nombre")}
        label={words.name}
        hint={words.nameHint}
        mono
        required
        disabled={!isNew}
        autofocus={isNew}
      />
      <TextArea {...form.field("valor")} label={words.value} rows={4} />
    </FormDialog>
  );
}
