/** The times of a chart, and who reads them. */
export interface ChartTimes {
  readonly locale: string;
  /** The first and the last time, in seconds since 1970. */
  readonly from: number;
  readonly to: number;
  /** Each stands for a day of UTC. */
  readonly areUtcDays: boolean;
  /** The reader's when absent. */
  readonly timeZone?: string | undefined;
}

const DAY_SECONDS = 86_400;

/** Names a time below a chart: the time of day, over more than two days the date. @returns takes seconds since 1970 */
export function axisLabel(times: ChartTimes): (seconds: number) => string {
  const { locale, from, to, areUtcDays, timeZone } = times;
  if (areUtcDays || to - from > 2 * DAY_SECONDS) {
    return formatBy(locale, { day: "numeric", month: "short" }, areUtcDays ? "UTC" : timeZone);
  }
  const withZone = changesClocks(times) ? ({ timeZoneName: "short" } as const) : {};
  return formatBy(locale, { hour: "2-digit", minute: "2-digit", ...withZone }, timeZone);
}

/** Names a time in the table of a chart. @returns takes seconds since 1970 */
export function tableLabel(times: ChartTimes): (seconds: number) => string {
  const { locale, areUtcDays, timeZone } = times;
  if (areUtcDays) return formatBy(locale, { dateStyle: "medium" }, "UTC");
  return formatBy(locale, { dateStyle: "medium", timeStyle: changesClocks(times) ? "long" : "medium" }, timeZone);
}

/** Whether clocks are changed meanwhile, once in some days, so that an hour may be there twice: the zone tells which it is. */
export function changesClocks({ from, to, areUtcDays, timeZone }: Omit<ChartTimes, "locale">): boolean {
  const format = new Intl.DateTimeFormat("en", {
    timeZoneName: "short",
    ...(timeZone === undefined ? {} : { timeZone }),
  });
  const zoneAt = (seconds: number) =>
    format.formatToParts(seconds * 1_000).find(({ type }) => type === "timeZoneName")?.value;
  return !areUtcDays && zoneAt(from) !== zoneAt(to);
}

function formatBy(locale: string, options: Intl.DateTimeFormatOptions, timeZone: string | undefined) {
  const format = new Intl.DateTimeFormat(locale, { ...options, ...(timeZone === undefined ? {} : { timeZone }) });
  return (seconds: number) => format.format(seconds * 1_000);
}
