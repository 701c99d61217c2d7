import { useState } from "preact/hooks";
import { useAction } from "../action.ts";
import { Badge, NameAndState } from "../components/badge.tsx";
import { Button } from "../components/button.tsx";
import { SecretOnce } from "../components/copy.tsx";
import { Dialog, FormDialog } from "../components/dialog.tsx";
import { CheckField, TextField } from "../components/field.tsx";
import { ListPage } from "../components/list-page.tsx";
import { showToast } from "../components/toasts.tsx";
import { dnsPages } from "../dns/paths.ts";
import { useRows } from "../fetched.ts";
import { useForm } from "../form.ts";
import { pathOf, request } from "../http.ts";
import { loadScopes } from "../scopes.ts";
import { texts } from "../texts.ts";
import { NewKeyDialog } from "./new-key-dialog.tsx";

interface Reseller {
  readonly reseller_id: string;
  readonly name: string;
  readonly rpz_licence: boolean;
}

/** Resellers, their licences and their keys. */
export function ResellersPage() {
  const { resellers: words, keys } = texts().operator;
  const list = useRows<Reseller>("/resellers", "resellers");
  const [renaming, setRenaming] = useState<Reseller>();
  const [rotating, setRotating] = useState<Reseller>();
  const license = useAction(
    ({ reseller_id, rpz_licence }: Reseller) =>
      request("PATCH", pathOf("resellers", reseller_id), { body: { rpz_licence: !rpz_licence } }),
    list.reload,
  );
  const rowAction = (label: string, reseller: Reseller, act: (reseller: Reseller) => void) => (
    <Button small label={`${label}: ${reseller.reseller_id}`} onClick={() => act(reseller)}>
      {label}
    </Button>
  );
  return (
    <ListPage<Reseller>
      words={words}
      icon="building"
      list={list}
      rowName={({ reseller_id }) => reseller_id}
      add={{ label: words.add, dialog: (close) => <NewResellerDialog onAdded={list.reload} onClose={close} /> }}
      rowActions={(reseller) => [
        rowAction(words.rename, reseller, setRenaming),
        rowAction(keys.rotate, reseller, setRotating),
        rowAction(reseller.rpz_licence ? words.withdraw : words.grant, reseller, (row) => void license.run(row)),
      ]}
      columns={[
        {
          id: "id",
          label: words.id,
          cell: ({ reseller_id, rpz_licence }) => (
            <NameAndState
              name={<a href={dnsPages.zones(reseller_id)}>{reseller_id}</a>}
              state={rpz_licence && <Badge tone="accent">{words.licensed}</Badge>}
            />
          ),
        },
        { id: "name", label: words.name, cell: ({ name }) => name, grows: true },
      ]}
    >
      {renaming && <RenameDialog reseller={renaming} onRenamed={list.reload} onClose={() => setRenaming(undefined)} />}
      {rotating && (
        <NewKeyDialog
          name={rotating.reseller_id}
          label={words.keyOf(rotating.reseller_id)}
          path={pathOf("resellers", rotating.reseller_id, "key")}
          onClose={() => setRotating(undefined)}
        />
      )}
    </ListPage>
  );
}

interface DialogProps {
  readonly onAdded: () => void;
  readonly onClose: () => void;
}

function NewResellerDialog({ onAdded, onClose }: DialogProps) {
  const { resellers: words } = texts().operator;
  const [issued, setIssued] = useState<{ reseller_id: string; key: string }>();
  const form = useForm(
    { reseller_id: "", name: "", rpz_licence: false },
    (body) => request<{ reseller_id: string; key: string }>("POST", "/resellers", { body }),
    (added) => {
      showToast(words.added(added.reseller_id));
      setIssued(added);
      onAdded();
      void loadScopes();
    },
  );
  if (issued) {
    return (
      <Dialog title={words.added(issued.reseller_id)} onClose={onClose}>
        <div class="dialog-body">
          <SecretOnce label={words.keyOf(issued.reseller_id)} secret={issued.key} />
        </div>
      </Dialog>
    );
  }
  return (
    <FormDialog title={words.add} form={form} submitLabel={words.add} onClose={onClose}>
      <TextField {...form.field("reseller_id")} label={words.id} hint={words.idHint} mono required autofocus />
      <TextField {...form.field("name")} label={words.name} required />
      <CheckField {...form.check("rpz_licence")} label={words.licence} />
    </FormDialog>
  );
}

interface RenameDialogProps {
  readonly reseller: Reseller;
  readonly onRenamed: () => void;
  readonly onClose: () => void;
}

function RenameDialog({ reseller, onRenamed, onClose }: RenameDialogProps) {
  const { operator, shell } = texts();
  const form = useForm(
    { name: reseller.name },
    (body) => request("PATCH", pathOf("resellers", reseller.reseller_id), { body }),
    () => {
      showToast(shell.saved);
      onRenamed();
      onClose();
    },
  );
  return (
    <FormDialog title={operator.resellers.rename} form={form} submitLabel={shell.save} onClose={onClose}>
      <TextField {...form.field("name")} label={operator.resellers.name} required autofocus />
    </FormDialog>
  );
}
