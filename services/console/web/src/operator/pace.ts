/** How much one source sends to one provider. */
export interface Pace {
  readonly source: string;
  readonly provider: string;
  /** Messages an hour; null: as configured. */
  readonly rate: number | null;
  readonly connections: number | null;
  readonly messages_per_connection: number | null;
  readonly pinned: Readonly<Record<"rate" | "connections" | "messages_per_connection", number | null>>;
  readonly pinned_by: string | null;
  readonly refused_rate: number | null;
  readonly wait_seconds: number;
  readonly tried_rate: number;
}

/** With what became of its messages. */
export interface CountedPace extends Pace {
  readonly counts: readonly {
    readonly at: string;
    /** Messages an hour; null: as fast as it goes. */
    readonly allowed: number | null;
    readonly tried: number;
    readonly deferred: number;
  }[];
}
