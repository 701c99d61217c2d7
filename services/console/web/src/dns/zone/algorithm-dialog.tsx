import { FormDialog } from "../../components/dialog.tsx";
import { SelectField } from "../../components/field.tsx";
import { showToast } from "../../components/toasts.tsx";
import { useForm } from "../../form.ts";
import { request } from "../../http.ts";
import { texts } from "../../texts.ts";
import { ALGORITHMS, KEY_LAYOUTS, type Signing } from "./signing.ts";

interface AlgorithmDialogProps {
  /** Of the zone's signing. */
  readonly path: string;
  readonly signing: Signing;
  readonly done: () => void;
  readonly onClose: () => void;
}

/** Replaces all keys by those of another algorithm; the kind of denial stays. */
export function AlgorithmDialog({ path, signing, done, onClose }: AlgorithmDialogProps) {
  const { dnssec: words } = texts().dns;
  const used = signing.keys.map(({ algorithm }) => algorithm);
  const others = [...ALGORITHMS].filter(([number]) => !used.includes(number));
  const layout = signing.keys.some(({ role }) => role === "csk") ? "csk" : "ksk-zsk";
  const form = useForm(
    { algorithm: String(others[0]?.[0] ?? ""), keys: layout },
    ({ algorithm, keys }) => request("POST", `${path}/rollover`, { body: { algorithm: Number(algorithm), keys } }),
    () => {
      showToast(words.rolledOver);
      onClose();
      done();
    },
  );
  return (
    <FormDialog title={words.changeAlgorithm} form={form} submitLabel={words.rollOver} onClose={onClose}>
      <p>{words.changeAlgorithmHint}</p>
      <SelectField
        {...form.field("algorithm")}
        label={words.algorithm}
        options={others.map(([number, label]) => ({ value: String(number), label }))}
      />
      <SelectField
        {...form.field("keys")}
        label={words.layout}
        options={KEY_LAYOUTS.map((value) => ({ value, label: words.layouts[value] }))}
      />
    </FormDialog>
  );
}
