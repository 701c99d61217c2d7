import { useState } from "preact/hooks";
import { Button } from "../../components/button.tsx";
import { SelectField } from "../../components/field.tsx";
import { Section } from "../../components/page.tsx";
import { ProblemNote } from "../../components/problem.tsx";
import { showToast } from "../../components/toasts.tsx";
import { useForm } from "../../form.ts";
import { request } from "../../http.ts";
import { showWarnings, type Warned } from "../../show-warnings.ts";
import { texts } from "../../texts.ts";
import { ImportKeysDialog } from "./import-keys-dialog.tsx";
import { ALGORITHMS, DENIALS, KEY_LAYOUTS, type Signing } from "./signing.ts";

interface SignFormProps {
  /** Of the zone's signing. */
  readonly path: string;
  readonly onSigned: () => void;
}

/** Signs a zone; the usual choices are made already. */
export function SignForm({ path, onSigned }: SignFormProps) {
  const { dnssec: words } = texts().dns;
  const [importing, setImporting] = useState(false);
  const form = useForm(
    { denial: DENIALS[0], keys: KEY_LAYOUTS[0], algorithm: "13" },
    ({ algorithm, ...values }) =>
      request<Signing & Warned>("PUT", path, { body: { enabled: true, ...values, algorithm: Number(algorithm) } }),
    (signed) => {
      showToast(words.on);
      showWarnings(signed);
      onSigned();
    },
  );
  return (
    <Section
      title={words.disabled}
      hint={words.disabledHint}
      actions={<Button onClick={() => setImporting(true)}>{words.importKeys}</Button>}
    >
      <form class="form" onSubmit={form.submit}>
        <SelectField
          {...form.field("denial")}
          label={words.denial}
          options={DENIALS.map((value) => ({ value, label: words.denials[value] }))}
        />
        <SelectField
          {...form.field("keys")}
          label={words.layout}
          options={KEY_LAYOUTS.map((value) => ({ value, label: words.layouts[value] }))}
        />
        <SelectField
          {...form.field("algorithm")}
          label={words.algorithm}
          options={[...ALGORITHMS].map(([number, label]) => ({ value: String(number), label }))}
        />
        <ProblemNote problem={form.problem} />
        <Button submit kind="primary" icon="lock" busy={form.busy}>
          {words.enable}
        </Button>
      </form>
      {importing && <ImportKeysDialog path={path} done={onSigned} onClose={() => setImporting(false)} />}
    </Section>
  );
}
