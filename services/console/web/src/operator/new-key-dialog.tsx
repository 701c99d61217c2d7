import { useState } from "preact/hooks";
import { SecretOnce } from "../components/copy.tsx";
import { Dialog, FormDialog } from "../components/dialog.tsx";
import { TextField } from "../components/field.tsx";
import { useForm } from "../form.ts";
import { formatTime } from "../format.ts";
import { request } from "../http.ts";
import { texts } from "../texts.ts";
import { anyNumber } from "../typed-number.ts";

interface NewKeyDialogProps {
  /** Whose key it is. */
  readonly name: string;
  readonly label: string;
  /** Where a new key is asked for. */
  readonly path: string;
  readonly onClose: () => void;
}

interface NewKey {
  readonly key: string;
  readonly old_key_until: string | null;
}

/** Replaces an API key, with time to give programs the new one. */
export function NewKeyDialog({ name, label, path, onClose }: NewKeyDialogProps) {
  const { keys: words } = texts().operator;
  const [issued, setIssued] = useState<NewKey>();
  const form = useForm(
    { grace_hours: "24" },
    ({ grace_hours }) => request<NewKey>("POST", path, { body: { grace_hours: anyNumber(grace_hours) } }),
    setIssued,
  );
  if (issued) {
    return (
      <Dialog title={words.title(name)} onClose={onClose}>
        <div class="dialog-body">
          <SecretOnce label={label} secret={issued.key} />
          <p>{issued.old_key_until === null ? words.oldEnded : words.oldUntil(formatTime(issued.old_key_until))}</p>
        </div>
      </Dialog>
    );
  }
  return (
    <FormDialog title={words.title(name)} form={form} submitLabel={words.issue} onClose={onClose}>
      <p>{words.hint}</p>
      <TextField
        {...form.field("grace_hours")}
        label={words.grace}
        hint={words.graceHint}
        inputmode="numeric"
        autofocus
      />
    </FormDialog>
  );
}
