import { FormDialog } from "../../components/dialog.tsx";
import { TextArea } from "../../components/field.tsx";
import { showToast } from "../../components/toasts.tsx";
import { useForm } from "../../form.ts";
import { request } from "../../http.ts";
import { showWarnings, type Warned } from "../../show-warnings.ts";
import { texts } from "../../texts.ts";

interface ImportKeysDialogProps {
  /** Of the zone's signing. */
  readonly path: string;
  readonly done: () => void;
  readonly onClose: () => void;
}

/** Takes one or two key pairs in the format of BIND's tools. */
export function ImportKeysDialog({ path, done, onClose }: ImportKeysDialogProps) {
  const { dnssec: words } = texts().dns;
  const form = useForm(
    { key: "", private: "", secondKey: "", secondPrivate: "" },
    ({ secondKey, secondPrivate, ...first }) => {
      const second = secondKey.trim() === "" ? [] : [{ key: secondKey, private: secondPrivate }];
      return request<Warned>("POST", `${path}/keys`, { body: { keys: [first, ...second] } });
    },
    (signed) => {
      showToast(words.imported);
      showWarnings(signed);
      onClose();
      done();
    },
  );
  return (
    <FormDialog title={words.importKeys} form={form} submitLabel={words.importKeys} onClose={onClose} wide>
      <p>{words.importHint}</p>
      <TextArea {...form.field("key")} label={words.keyFile} rows={3} mono />
      <TextArea {...form.field("private")} label={words.privateFile} rows={5} mono />
      <TextArea {...form.field("secondKey")} label={words.secondKeyFile} rows={3} mono />
      <TextArea {...form.field("secondPrivate")} label={words.secondPrivateFile} rows={5} mono />
    </FormDialog>
  );
}
