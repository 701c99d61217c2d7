/**
 * Something worth knowing happened. `kind` is stable and in kebab-case; the rest is its detail.
 * Never a credential, never a message body.
 */
export interface Observation {
  readonly kind: string;
  /** How loud it is in the log; `debug` unless said. */
  readonly level?: "debug" | "info" | "warn" | "error";
  readonly [detail: string]: unknown;
}

export type Observe = (observation: Observation) => void;
