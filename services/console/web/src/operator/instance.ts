/** An instance of the mail platform. */
export interface Instance extends InstanceSettings {
  readonly name: string;
  /** The name by which programs reach its API. */
  readonly host: string;
  readonly domains: readonly string[];
}

export interface InstanceSettings {
  /** Licence to archive messages. */
  readonly archive: boolean;
  readonly conversions: boolean;
  readonly time_zone: string;
  /** null: for ever. */
  readonly event_days: number | null;
  readonly archive_days: number | null;
  /** At least 30. */
  readonly message_days: number | null;
  /** Its users may create missing records in zones that are hosted here. */
  readonly records: boolean;
  /** Programs that submit mail and do not ask for reports hear of failures. */
  readonly failure_reports: boolean;
  /** What reports to senders are written in. */
  readonly language: "en" | "es";
}
