import { FormDialog } from "../../components/dialog.tsx";
import { TextField } from "../../components/field.tsx";
import { ListPage } from "../../components/list-page.tsx";
import { showToast } from "../../components/toasts.tsx";
import { useRows } from "../../fetched.ts";
import { useForm } from "../../form.ts";
import { formatNumber } from "../../format.ts";
import { queryOf, request } from "../../http.ts";
import { texts } from "../../texts.ts";
import { instancePath, mailPage } from "../addresses.ts";
import { AudienceTabs } from "./audience-tabs.tsx";
import type { Group } from "./contact.ts";

/** The groups that contacts belong to. */
export function GroupsPage({ instance }: { readonly instance: string }) {
  const words = texts().mail.groups;
  const list = useRows<Group>(instancePath(instance, "groups"), "grupos");
  return (
    <ListPage<Group>
      words={words}
      icon="contact"
      tabs={<AudienceTabs instance={instance} current="groups" />}
      list={list}
      rowName={({ nombre }) => nombre}
      add={{
        label: words.add,
        dialog: (close) => <AddDialog instance={instance} close={close} added={list.reload} />,
      }}
      removal={{ words, request: ({ nombre }) => request("DELETE", instancePath(instance, "groups", nombre)) }}
      columns={[
        {
          id: "name",
          label: words.name,
          grows: true,
          cell: ({ nombre }) => <a href={mailPage(instance, "contacts") + queryOf({ group: nombre })}>{nombre}</a>,
        },
        { id: "contacts", label: words.contacts, align: "end", cell: ({ contactos }) => formatNumber(contactos) },
      ]}
    />
  );
}

interface AddDialogProps {
  readonly instance: string;
  readonly close: () => void;
  readonly added: () => void;
}

function AddDialog({ instance, close, added }: AddDialogProps) {
  const words = texts().mail.groups;
  const form = useForm(
    { nombre: "" },
    (body) => request("POST", instancePath(instance, "groups"), { body }),
    () => {
      showToast(texts().shell.saved);
      close();
      added();
    },
  );
  return (
    <FormDialog title={words.add} form={form} submitLabel={texts().shell.create} onClose={close}>
      <TextField {...form.field("nombre")} label={words.name} required autofocus />
    </FormDialog>
  );
}
