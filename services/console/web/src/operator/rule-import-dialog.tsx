import { FormDialog } from "../components/dialog.tsx";
import { SelectField, TextArea } from "../components/field.tsx";
import { FileChoice } from "../components/file-choice.tsx";
import { useForm } from "../form.ts";
import { pathOf, queryOf, request } from "../http.ts";
import { texts } from "../texts.ts";

interface RuleImportDialogProps {
  readonly zone: string;
  /** Told the job's id. */
  readonly onStarted: (job: string) => void;
  readonly onClose: () => void;
}

const FORMATS = ["domains", "hosts", "rpz"] as const;

/** Starts the import of a list into a feed. */
export function RuleImportDialog({ zone, onStarted, onClose }: RuleImportDialogProps) {
  const { feeds: words } = texts().operator;
  const form = useForm(
    { format: FORMATS[0], list: "" },
    ({ format, list }) =>
      request<{ job: string }>("POST", pathOf("rpz", zone, "import") + queryOf({ format }), { text: list }),
    ({ job }) => onStarted(job),
  );
  return (
    <FormDialog
      title={words.import}
      form={form}
      submitLabel={words.start}
      disabled={form.values.list.trim() === ""}
      wide
      onClose={onClose}
    >
      <SelectField
        {...form.field("format")}
        label={words.format}
        options={FORMATS.map((value) => ({ value, label: words.formats[value] }))}
      />
      <TextArea {...form.field("list")} label={words.list} rows={10} mono />
      <div>
        <FileChoice
          label={words.choose}
          accept=".txt,.zone,.rpz,.hosts,text/plain"
          onFile={async (file) => form.set({ list: await file.text() })}
        />
      </div>
    </FormDialog>
  );
}
