import { useRef, useState } from "preact/hooks";
import type { Answer, Problem } from "./http.ts";
import { describeFieldProblem } from "./problem-words.ts";

export type FormValues = Readonly<Record<string, string | boolean>>;

/** The values of a form whose first values are these: any text where a text was, either of the two where one was. */
export type ValuesLike<V extends FormValues> = { readonly [K in keyof V]: V[K] extends boolean ? boolean : string };

/** What a text field or select is handed. */
export interface BoundField {
  readonly name: string;
  readonly value: string;
  readonly error: string | undefined;
  readonly onValue: (value: string) => void;
}

/** What a checkbox is handed. */
export interface BoundCheck {
  readonly name: string;
  readonly checked: boolean;
  readonly onChecked: (checked: boolean) => void;
}

export interface Form<V extends FormValues> {
  readonly values: V;
  readonly busy: boolean;
  /** The refusal, where none of the form's fields shows it. */
  readonly problem: Problem | undefined;
  readonly set: (changes: Partial<V>) => void;
  /** Binds a text field; a refusal that names it is shown beside it. */
  readonly field: (name: keyof V & string) => BoundField;
  readonly check: (name: keyof V & string) => BoundCheck;
  readonly submit: (event?: Event) => Promise<void>;
}

/**
 * The state of a form: its values, and what the server said of them.
 * @param initial the first values
 * @param send what a submission does
 * @param done what follows when it succeeded
 */
export function useForm<V extends FormValues, T>(
  initial: V,
  send: (values: ValuesLike<V>) => Promise<Answer<T>>,
  done: (value: T, values: ValuesLike<V>) => void,
): Form<ValuesLike<V>> {
  const [values, setValues] = useState(initial as ValuesLike<V>);
  const [problem, setProblem] = useState<Problem>();
  const [busy, setBusy] = useState(false);
  const shown = useRef(new Set<string>());
  const set = (changes: Partial<ValuesLike<V>>) => setValues((before) => ({ ...before, ...changes }));
  const isFieldProblem = problem?.field !== undefined && shown.current.has(problem.field);

  const refused = (why: Problem, event?: Event) => {
    setProblem(why);
    // Once the refusal is drawn.
    setTimeout(focusRefused, 0, event?.target);
  };

  const submit = async (event?: Event) => {
    event?.preventDefault();
    if (busy) return;
    const unfinished = unfinishedField(event?.target);
    if (unfinished !== undefined) return refused(missing(unfinished), event);
    setBusy(true);
    const answer = await send(values).finally(() => setBusy(false));
    if (!answer.ok) return refused(answer.error, event);
    setProblem(undefined);
    done(answer.value, values);
  };

  return {
    values,
    busy,
    problem: isFieldProblem ? undefined : problem,
    set,
    submit,
    field: (name) => {
      shown.current.add(name);
      return {
        name,
        value: String(values[name]),
        error: problem?.field === name ? describeFieldProblem(problem) : undefined,
        onValue: (value) => {
          if (problem?.field === name) setProblem(undefined);
          set({ [name]: value } as Partial<ValuesLike<V>>);
        },
      };
    },
    check: (name) => ({
      name,
      checked: values[name] === true,
      onChecked: (checked) => set({ [name]: checked } as Partial<ValuesLike<V>>),
    }),
  };
}

/** The name of a field that holds what is no value, such as a date without its time: it would be read as empty. */
function unfinishedField(form: EventTarget | null | undefined): string | undefined {
  if (!(form instanceof HTMLFormElement)) return undefined;
  return [...form.querySelectorAll("input")].find(({ validity }) => validity.badInput)?.name;
}

function missing(field: string): Problem {
  return { status: 400, code: "missing-field", field, values: { field }, message: "", body: undefined };
}

/** Brings the reader to the field that was refused. */
function focusRefused(form: EventTarget | null | undefined): void {
  if (form instanceof HTMLFormElement) form.querySelector<HTMLElement>("[aria-invalid=true]")?.focus();
}
