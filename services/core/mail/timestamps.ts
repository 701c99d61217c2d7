/** The API's timestamps: wall-clock time of an instance's zone, to the second, without a mark of the zone. */

/** `2026-11-20T12:00:00`. @param timeZone IANA name */
export function formatTimestamp(moment: Date, timeZone: string): string {
  if (timeZone === "UTC") return moment.toISOString().slice(0, TIMESTAMP_LENGTH);
  // Years before 1000 come without their leading zeros.
  return wallClock(timeZone).format(moment).replace(" ", "T").padStart(TIMESTAMP_LENGTH, "0");
}

const TIMESTAMP_LENGTH = "2026-11-20T12:00:00".length;
/** The calendar has no year 0. */
const TIMESTAMP = /^(?!0000)(\d{4}-\d\d-\d\d)[_T](\d\d:\d\d:\d\d)$/;

/**
 * Reads `2026-11-20_12:00:00` or `2026-11-20T12:00:00`.
 * A time that a change of the clocks skips is read with the offset before the change.
 * @param repeated which moment is meant by a time that a change of the clocks repeats
 * @returns undefined when it is neither, or no time of the calendar
 */
export function parseTimestamp(text: string, timeZone: string, repeated: "first" | "last" = "first"): Date | undefined {
  const [, date, time] = TIMESTAMP.exec(text) ?? [];
  const wallMs = date === undefined ? Number.NaN : Date.parse(`${date}T${time}Z`);
  if (Number.isNaN(wallMs)) return undefined;
  // A 30th of February has become a day of March.
  if (!new Date(wallMs).toISOString().startsWith(`${date}T${time}`)) return undefined;
  // The offset is that of a day before or of a day after, unless the clocks change twice within two days.
  const before = wallMs - offsetMs(wallMs - MS_PER_DAY, timeZone);
  const after = wallMs - offsetMs(wallMs + MS_PER_DAY, timeZone);
  // There is no day after the last one of year 9999.
  const candidates = (repeated === "first" ? [before, after] : [after, before]).filter(Number.isFinite);
  const moment = candidates.find((candidate) => candidate + offsetMs(candidate, timeZone) === wallMs) ?? before;
  return new Date(moment);
}

const MS_PER_DAY = 86_400_000;
const wallClocks = new Map<string, Intl.DateTimeFormat>();

/** What the zone's clocks are ahead of UTC at a moment. */
function offsetMs(momentMs: number, timeZone: string): number {
  const seconds = Math.floor(momentMs / 1000) * 1000;
  return Date.parse(`${formatTimestamp(new Date(seconds), timeZone)}Z`) - seconds;
}

/** Formatters are dear to make and few. Swedish writes dates as ISO 8601 does. */
function wallClock(timeZone: string): Intl.DateTimeFormat {
  const known = wallClocks.get(timeZone);
  if (known !== undefined) return known;
  const made = new Intl.DateTimeFormat("sv-SE", {
    timeZone,
    hourCycle: "h23",
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
  });
  wallClocks.set(timeZone, made);
  return made;
}
