import { FormDialog } from "../../components/dialog.tsx";
import { SelectField, TextArea, TextField } from "../../components/field.tsx";
import { type BoundField, type Form, type FormValues, useForm } from "../../form.ts";
import { type Answer, request } from "../../http.ts";
import { texts } from "../../texts.ts";
import { wholeNumber } from "../../typed-number.ts";
import { resellerApi } from "../paths.ts";
import { type EditorRow, type PendingChanges, toBatch } from "../pending-changes.ts";
import type { RecordDraft, ZonePreview } from "../record.ts";
import { formOf, joinValue, RECORD_FORMS, splitValue, type ValuePart } from "../record-forms.ts";

interface RecordDialogProps {
  readonly reseller: string;
  readonly domain: string;
  /** What is changed; null for a new record. */
  readonly row: EditorRow | null;
  /** The pending changes with this draft among them. */
  readonly after: (draft: RecordDraft) => PendingChanges;
  readonly onStaged: (changes: PendingChanges) => void;
  readonly onClose: () => void;
}

/** No type has more parts than NAPTR. */
const PART_NAMES = ["part0", "part1", "part2", "part3", "part4", "part5"] as const;

/**
 * A form by the record's type. What it makes is checked by the server together with all that is pending, by the very
 * code that the API applies, before it is kept.
 */
export function RecordDialog({ reseller, domain, row, after, onStaged, onClose }: RecordDialogProps) {
  const { dns } = texts();
  const form = useForm(
    firstValues(row?.record),
    async (values): Promise<Answer<PendingChanges>> => {
      const changes = after(draftOf(values));
      const body = toBatch(changes);
      const checked = await request<ZonePreview>("POST", resellerApi(reseller, "zones", domain, "preview"), { body });
      return checked.ok ? { ok: true, value: changes } : checked;
    },
    (changes) => {
      onStaged(changes);
      onClose();
    },
  );
  const { type, parts, priority } = formOf(form.values.type);
  const knownTypes = RECORD_FORMS.map((known) => known.type);
  return (
    <FormDialog
      title={row ? dns.record.edit : dns.record.add}
      form={form}
      submitLabel={dns.record.stage}
      onClose={onClose}
    >
      <div class="fields">
        <SelectField
          {...form.field("type")}
          label={dns.record.type}
          options={[...new Set([type, ...knownTypes])]
            .sort((a, b) => knownTypes.indexOf(a) - knownTypes.indexOf(b))
            .map((known) => ({ value: known, label: known }))}
          onValue={(wanted) => {
            form.field("value").onValue("");
            form.set({ type: wanted, ...NO_PARTS });
          }}
        />
        <TextField {...form.field("name")} label={dns.record.name} mono autofocus />
        <TextField {...form.field("ttl")} label={dns.record.ttl} inputmode="numeric" />
      </div>
      <p class="hint">{`${dns.record.nameHint} ${dns.record.ttlHint}`}</p>
      <div class="fields">
        {priority && (
          <TextField {...form.field("rr_prio")} label={dns.record.priority} inputmode="numeric" placeholder="10" />
        )}
        {parts.map((part, index) => (
          <PartField
            key={`${type} ${part.id}`}
            part={part}
            form={form}
            index={index}
            last={index === parts.length - 1}
          />
        ))}
      </div>
    </FormDialog>
  );
}

type RecordValues = ReturnType<typeof firstValues>;

interface PartFieldProps<V extends FormValues> {
  readonly part: ValuePart;
  readonly form: Form<V>;
  readonly index: number;
  /** What the server says of the value stands below its last part. */
  readonly last: boolean;
}

function PartField<V extends FormValues>({ part, form, index, last }: PartFieldProps<V>) {
  const { parts } = texts().dns;
  const own = form.field(PART_NAMES[index] as keyof V & string);
  const whole = form.field("value" as keyof V & string);
  const bound: BoundField = {
    ...own,
    error: last ? whole.error : undefined,
    // What was said of the value was said of the one before.
    onValue: (text) => {
      whole.onValue("");
      own.onValue(text);
    },
  };
  const attributes = { ...bound, label: parts[part.id], placeholder: part.example ?? "", mono: true };
  if (part.kind === "long") return <TextArea {...attributes} rows={3} />;
  return (
    <TextField
      {...attributes}
      {...(part.kind === "number" ? { inputmode: "numeric" as const } : {})}
      {...(part.suggestions ? { suggestions: part.suggestions } : {})}
    />
  );
}

const NO_PARTS = { part0: "", part1: "", part2: "", part3: "", part4: "", part5: "" };

/** `value` holds nothing: it is the name by which the server speaks of the parts together. */
function firstValues(record: RecordDraft | undefined) {
  const base = { name: "@", type: "A", ttl: "", rr_prio: "", value: "", ...NO_PARTS };
  if (!record) return base;
  const values = splitValue(formOf(record.type), record.value);
  return {
    ...base,
    ...(Object.fromEntries(values.map((value, index) => [PART_NAMES[index], value])) as Partial<typeof NO_PARTS>),
    name: record.name,
    type: record.type,
    ttl: record.ttl === undefined ? "" : String(record.ttl),
    rr_prio: record.rr_prio ?? "",
  };
}

function draftOf(values: RecordValues): RecordDraft {
  const { name, type, ttl, rr_prio } = values;
  const form = formOf(type);
  const value = joinValue(
    form,
    form.parts.map((_part, index) => values[PART_NAMES[index] as (typeof PART_NAMES)[number]]),
  );
  return {
    name: name.trim(),
    type,
    value,
    ...(ttl.trim() === "" ? {} : { ttl: wholeNumber(ttl) as number }),
    ...(form.priority && rr_prio.trim() !== "" ? { rr_prio: rr_prio.trim() } : {}),
  };
}
