import type { ComponentChildren } from "preact";

export type Tone = "good" | "warn" | "bad" | "quiet" | "accent";

interface NameAndStateProps {
  readonly name: ComponentChildren;
  /** A badge, where there is something to say. */
  readonly state: ComponentChildren;
}

/** What a row is called and what state it is in: a long name is cut, the state behind it never. */
export function NameAndState({ name, state }: NameAndStateProps) {
  return (
    <span class="name-and-state">
      <span>{name}</span>
      {state}
    </span>
  );
}

/** A state in a word. */
export function Badge({ tone, children }: { readonly tone: Tone; readonly children: ComponentChildren }) {
  return <span class={`badge ${tone}`}>{children}</span>;
}
