import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";
import type { BoundCheck, BoundField } from "../form.ts";

interface FieldProps extends BoundField {
  readonly label: string;
  readonly hint?: ComponentChildren;
  readonly required?: boolean;
  readonly disabled?: boolean;
}

interface TextFieldProps extends FieldProps {
  readonly type?: "text" | "password" | "number" | "email" | "url" | "datetime-local" | "date" | "search";
  readonly placeholder?: string;
  /** Set in the typeface of names, addresses and values. */
  readonly mono?: boolean;
  readonly autocomplete?: string;
  readonly autofocus?: boolean;
  readonly inputmode?: "numeric" | "text";
  /** Offered while typing. */
  readonly suggestions?: readonly string[];
}

/** One line of text. */
export function TextField({ suggestions, mono, onValue, label, hint, error, ...attributes }: TextFieldProps) {
  const id = useId();
  const input = useRef<HTMLInputElement>(null);
  // The attribute alone does nothing for a field that comes when another has the focus.
  useLayoutEffect(() => {
    if (attributes.autofocus) input.current?.focus();
  }, []);
  return (
    <Labelled {...{ id, label, hint, error }} required={attributes.required}>
      <input
        ref={input}
        id={id}
        class={mono ? "mono" : undefined}
        list={suggestions ? `${id}-list` : undefined}
        aria-describedby={describedBy(id, hint, error)}
        aria-invalid={error !== undefined}
        autocomplete="off"
        spellcheck={mono ? false : undefined}
        onInput={({ currentTarget }) => onValue(currentTarget.value)}
        {...attributes}
      />
      {suggestions && (
        <datalist id={`${id}-list`}>
          {suggestions.map((value) => (
            <option key={value} value={value} />
          ))}
        </datalist>
      )}
    </Labelled>
  );
}

interface TextAreaProps extends FieldProps {
  readonly rows?: number;
  readonly mono?: boolean;
  readonly placeholder?: string;
}

/** Many lines of text. */
export function TextArea({ mono, onValue, label, hint, error, ...attributes }: TextAreaProps) {
  const id = useId();
  return (
    <Labelled {...{ id, label, hint, error }} required={attributes.required}>
      <textarea
        id={id}
        class={mono ? "mono" : undefined}
        aria-describedby={describedBy(id, hint, error)}
        aria-invalid={error !== undefined}
        spellcheck={mono ? false : undefined}
        onInput={({ currentTarget }) => onValue(currentTarget.value)}
        {...attributes}
      />
    </Labelled>
  );
}

interface SelectFieldProps extends FieldProps {
  readonly options: readonly { readonly value: string; readonly label: string }[];
}

/** One of a few. */
export function SelectField({ options, onValue, label, hint, error, ...attributes }: SelectFieldProps) {
  const id = useId();
  return (
    <Labelled {...{ id, label, hint, error }} required={attributes.required}>
      <select
        id={id}
        aria-describedby={describedBy(id, hint, error)}
        aria-invalid={error !== undefined}
        onChange={({ currentTarget }) => onValue(currentTarget.value)}
        {...attributes}
      >
        {options.map((option) => (
          <option key={option.value} value={option.value}>
            {option.label}
          </option>
        ))}
      </select>
    </Labelled>
  );
}

interface CheckFieldProps extends BoundCheck {
  readonly label: ComponentChildren;
  readonly hint?: ComponentChildren;
  /** What it was last set to is under way: it waits, and keeps the focus. */
  readonly busy?: boolean;
}

/** Yes or no. */
export function CheckField({ name, checked, onChecked, label, hint, busy }: CheckFieldProps) {
  const id = useId();
  return (
    <div class="check-field">
      <input
        id={id}
        type="checkbox"
        name={name}
        checked={checked}
        aria-disabled={busy}
        aria-describedby={describedBy(id, hint, undefined)}
        onClick={(event) => busy && event.preventDefault()}
        onChange={({ currentTarget }) => onChecked(currentTarget.checked)}
      />
      <label for={id}>{label}</label>
      {hint && (
        <p class="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
    </div>
  );
}

interface LabelledProps {
  readonly id: string;
  readonly label: string;
  readonly hint: ComponentChildren;
  readonly error: string | undefined;
  readonly required: boolean | undefined;
  readonly children: ComponentChildren;
}

function Labelled({ id, label, hint, error, required, children }: LabelledProps) {
  return (
    <div class={error === undefined ? "field" : "field wrong"}>
      <label for={id}>
        {label}
        {required && <span class="required" aria-hidden="true" />}
      </label>
      {children}
      {hint && (
        <p class="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
      {error !== undefined && (
        <p class="error" id={`${id}-error`} role="alert">
          {error}
        </p>
      )}
    </div>
  );
}

function describedBy(id: string, hint: ComponentChildren, error: string | undefined): string | undefined {
  return [hint && `${id}-hint`, error !== undefined && `${id}-error`].filter(Boolean).join(" ") || undefined;
}
