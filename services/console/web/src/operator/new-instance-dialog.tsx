import { useState } from "preact/hooks";
import { SecretOnce } from "../components/copy.tsx";
import { Dialog, FormDialog } from "../components/dialog.tsx";
import { CheckField, TextArea, TextField } from "../components/field.tsx";
import { showToast } from "../components/toasts.tsx";
import { useForm } from "../form.ts";
import { request } from "../http.ts";
import { linesOf } from "../lines.ts";
import { loadScopes } from "../scopes.ts";
import { texts } from "../texts.ts";

interface NewInstanceDialogProps {
  readonly onAdded: () => void;
  readonly onClose: () => void;
}

/** Adds an instance, and shows its key once. */
export function NewInstanceDialog({ onAdded, onClose }: NewInstanceDialogProps) {
  const { instances: words } = texts().operator;
  const [issued, setIssued] = useState<{ name: string; key: string }>();
  const form = useForm(
    { name: "", host: "", domains: "", archive: false },
    ({ domains, ...values }) =>
      request<{ name: string; key: string }>("POST", "/instances", { body: { ...values, domains: linesOf(domains) } }),
    (added) => {
      showToast(words.added(added.name));
      setIssued(added);
      onAdded();
      void loadScopes();
    },
  );
  if (issued) {
    return (
      <Dialog title={words.added(issued.name)} onClose={onClose}>
        <div class="dialog-body">
          <SecretOnce label={words.keyOf(issued.name)} secret={issued.key} />
        </div>
      </Dialog>
    );
  }
  return (
    <FormDialog title={words.add} form={form} submitLabel={words.add} onClose={onClose}>
      <TextField {...form.field("name")} label={words.name} mono required autofocus />
      <TextField {...form.field("host")} label={words.host} hint={words.hostHint} mono required />
      <TextArea {...form.field("domains")} label={words.domains} hint={words.domainsHint} rows={3} mono />
      <CheckField {...form.check("archive")} label={words.archive} />
    </FormDialog>
  );
}
