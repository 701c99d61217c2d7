/** A source address that sends by a plan, as it is new. */
export interface WarmUp {
  readonly source: string;
  readonly state: "running" | "paused" | "over" | "stopped";
  readonly started_at: string;
  readonly started_by: string;
  readonly ends_at: string;
  readonly changed_by: string | null;
  /** Since it began, from 1. */
  readonly day: number;
  /** That the plan has. */
  readonly days: number;
  readonly providers: readonly Progress[];
}

/** What a plan has come to at a provider today. */
export interface Progress {
  readonly provider: string;
  readonly day: number;
  readonly planned: number;
  readonly sent: number;
  readonly deferred: number;
  readonly complaints: number;
  readonly paused_for: "deferrals" | "complaints" | null;
  readonly paused_until: string | null;
}

/** With each day of each provider. */
export interface ShownWarmUp extends WarmUp {
  readonly courses: readonly {
    readonly provider: string;
    readonly days: readonly {
      readonly at: string;
      readonly planned: number;
      /** Null: the day is to come. */
      readonly sent: number | null;
      readonly deferred: number | null;
    }[];
  }[];
}
