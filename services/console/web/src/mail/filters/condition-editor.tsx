import type { ComponentChildren } from "preact";
import { Button } from "../../components/button.tsx";
import { texts } from "../../texts.ts";
import {
  type AllOf,
  type AnyOf,
  type Condition,
  customField,
  customName,
  EVENTS,
  type EventCondition,
  FIELDS,
  type FieldCondition,
  type FieldName,
  isNumeric,
  NUMBER_COMPARISONS,
  newCondition,
  type Subject,
  splitNegation,
  subjectOf,
  TEXT_COMPARISONS,
  withNegation,
} from "./condition.ts";

/** What the rows offer to choose from. */
export interface Offer {
  readonly groups: readonly string[];
  readonly campaigns: readonly { readonly numid: number; readonly nombre: string }[];
}

interface EditorProps<C extends Condition> {
  readonly condition: C;
  readonly offer: Offer;
  readonly onChange: (condition: Condition) => void;
}

/** Rows that must all hold, or of which any must; rows may be such lists themselves. */
export function ConditionList({ condition, offer, onChange }: EditorProps<AllOf | AnyOf>) {
  const words = texts().mail.filters;
  const isAll = "todas" in condition;
  const parts = isAll ? condition.todas : condition.alguna;
  const change = (next: readonly Condition[], all = isAll) => onChange(all ? { todas: next } : { alguna: next });
  return (
    <fieldset class="conditions">
      <legend class="visually-hidden">{words.conditions}</legend>
      <Choice
        label={words.match}
        value={isAll ? "all" : "any"}
        options={[
          ["all", words.matchAll],
          ["any", words.matchAny],
        ]}
        choose={(value) => change(parts, value === "all")}
      />
      {parts.map((part, index) => (
        <ConditionRow
          // A row is known by its place: rows have nothing else that stays when they change.
          key={index}
          condition={part}
          offer={offer}
          onChange={(changed) => change(parts.map((other, place) => (place === index ? changed : other)))}
          remove={parts.length > 1 ? () => change(parts.filter((_, place) => place !== index)) : undefined}
        />
      ))}
      <div class="row">
        <Button small icon="add" onClick={() => change([...parts, newCondition("field")])}>
          {words.addCondition}
        </Button>
        <Button small icon="add" onClick={() => change([...parts, newCondition(isAll ? "any" : "all")])}>
          {words.addList}
        </Button>
      </div>
    </fieldset>
  );
}

interface RowProps extends EditorProps<Condition> {
  readonly remove: (() => void) | undefined;
}

function ConditionRow({ condition, offer, onChange, remove }: RowProps) {
  const words = texts().mail.filters;
  const { negated, inner } = splitNegation(condition);
  const subject = subjectOf(inner);
  const changeInner = (next: Condition) => onChange(withNegation(next, negated));
  const isList = subject === "all" || subject === "any";
  const subjects: readonly Subject[] = ["field", "custom", "group", "validity", "event"];
  return (
    <div class={isList ? "condition nested" : "condition"}>
      <Choice
        label={words.polarity}
        value={negated ? "not" : "is"}
        options={[
          ["is", words.holds],
          ["not", words.holdsNot],
        ]}
        choose={(value) => onChange(withNegation(inner, value === "not"))}
      />
      {!isList && (
        <Choice
          label={words.subject}
          value={subject}
          options={subjects.map((id) => [id, words.subjects[id as keyof typeof words.subjects]])}
          choose={(id) => changeInner(newCondition(id as Subject, offer.groups[0]))}
        />
      )}
      {"todas" in inner || "alguna" in inner ? (
        <ConditionList condition={inner} offer={offer} onChange={changeInner} />
      ) : (
        <Leaf condition={inner} offer={offer} onChange={changeInner} />
      )}
      {remove && (
        <Button small icon="trash" label={words.removeCondition} onClick={remove}>
          {""}
        </Button>
      )}
    </div>
  );
}

function Leaf({
  condition,
  offer,
  onChange,
}: EditorProps<Exclude<ReturnType<typeof splitNegation>["inner"], AllOf | AnyOf>>) {
  const words = texts().mail.filters;
  if ("grupo" in condition) {
    return (
      <Choice
        label={words.subjects.group}
        value={condition.grupo}
        options={[["", words.chooseGroup], ...offer.groups.map((name) => [name, name] as const)]}
        choose={(grupo) => onChange({ grupo })}
      />
    );
  }
  if ("invalido" in condition) {
    return (
      <Choice
        label={words.subjects.validity}
        value={String(condition.invalido)}
        options={[
          ["false", texts().mail.contacts.valid],
          ["true", texts().mail.contacts.invalid],
        ]}
        choose={(value) => onChange({ invalido: value === "true" })}
      />
    );
  }
  if ("evento" in condition) return <EventFields condition={condition} offer={offer} onChange={onChange} />;
  return <FieldFields condition={condition} offer={offer} onChange={onChange} />;
}

function EventFields({ condition, offer, onChange }: EditorProps<EventCondition>) {
  const { filters: words, events } = texts().mail;
  const names: Readonly<Record<string, string>> = events;
  const change = (changes: { evento?: string; campana_id?: number | undefined; dias?: number | undefined }) => {
    const { evento, campana_id, dias } = { ...condition, ...changes };
    onChange({ evento, ...(campana_id === undefined ? {} : { campana_id }), ...(dias === undefined ? {} : { dias }) });
  };
  return (
    <>
      <Choice
        label={words.subjects.event}
        value={condition.evento}
        options={EVENTS.map((name) => [name, names[name] ?? name])}
        choose={(evento) => change({ evento })}
      />
      <Choice
        label={words.ofCampaign}
        value={String(condition.campana_id ?? "")}
        options={[
          ["", words.anyCampaign],
          ...offer.campaigns.map(({ numid, nombre }) => [String(numid), nombre] as const),
        ]}
        choose={(value) => change({ campana_id: value === "" ? undefined : Number(value) })}
      />
      <label class="inline-field">
        {words.withinDays}
        <input
          type="number"
          min={1}
          max={36_500}
          value={condition.dias ?? ""}
          placeholder={words.ever}
          onInput={({ currentTarget: { value } }) => change({ dias: value === "" ? undefined : Number(value) })}
        />
      </label>
    </>
  );
}

function FieldFields({ condition, onChange }: EditorProps<FieldCondition>) {
  const { filters: words, fields } = texts().mail;
  const custom = customName(condition.campo);
  const numeric = isNumeric(condition);
  const comparisons: readonly string[] = numeric ? NUMBER_COMPARISONS : TEXT_COMPARISONS;
  const comparisonNames: Readonly<Record<string, string>> = words.comparisons;
  const chooseField = (campo: string) => {
    const sameKind = (FIELDS[campo as FieldName] === "number") === numeric;
    onChange(sameKind ? { ...condition, campo } : { campo, es: "=", valor: numeric ? "" : 0 });
  };
  return (
    <>
      {custom === undefined ? (
        <Choice
          label={words.subjects.field}
          value={condition.campo}
          options={Object.keys(FIELDS).map((name) => [name, fields[name as FieldName]])}
          choose={chooseField}
        />
      ) : (
        <label class="inline-field">
          {words.subjects.custom}
          <input
            class="mono"
            value={custom}
            onInput={({ currentTarget }) => onChange({ ...condition, campo: customField(currentTarget.value) })}
          />
        </label>
      )}
      <Choice
        label={words.comparison}
        value={condition.es}
        options={comparisons.map((es) => [es, comparisonNames[es] ?? es])}
        choose={(es) => onChange({ ...condition, es })}
      />
      <input
        aria-label={words.value}
        type={numeric ? "number" : "text"}
        value={condition.valor}
        onInput={({ currentTarget: { value } }) => onChange({ ...condition, valor: numeric ? Number(value) : value })}
      />
    </>
  );
}

interface ChoiceProps {
  readonly label: string;
  readonly value: string;
  readonly options: readonly (readonly [value: string, label: ComponentChildren])[];
  readonly choose: (value: string) => void;
}

function Choice({ label, value, options, choose }: ChoiceProps) {
  return (
    <select aria-label={label} value={value} onChange={({ currentTarget }) => choose(currentTarget.value)}>
      {options.map(([id, name]) => (
        <option key={id} value={id}>
          {name}
        </option>
      ))}
    </select>
  );
}
