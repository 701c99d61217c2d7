/** The API's timestamps: wall-clock time of an instance's zone, to the second, without a mark of the zone. */

/** `2026-11-20T12:00:00`. @param timeZone IANA name */
export function formatTimestamp(moment: Date, timeZone: string): string {
  if (timeZone === "UTC") return moment.toISOString().slice(0, 19);
  return wallClock(timeZone).format(moment).replace(" ", "T");
}

const TIMESTAMP = /^(\d{4})-(\d\d)-(\d\d)[_T](\d\d):(\d\d):(\d\d)$/;

/**
 * Reads `2026-11-20_12:00:00` or `2026-11-20T12:00:00`.
 * A time that a change of the clocks skips or repeats is read with the offset before the change.
 * @returns undefined when it is neither, or no time of the calendar
 */
export function parseTimestamp(text: string, timeZone: string): Date | undefined {
  const numbers = TIMESTAMP.exec(text)?.slice(1).map(Number);
  if (numbers === undefined) return undefined;
  const [year, month, day, hour, minute, second] = numbers as [number, number, number, number, number, number];
  const wallMs = Date.UTC(year, month - 1, day, hour, minute, second);
  const isOfCalendar = new Date(wallMs).toISOString().slice(0, 19) === text.replace("_", "T");
  if (!isOfCalendar) return undefined;
  // The offset is that of a day before or of a day after, unless the clocks change twice within two days.
  const before = wallMs - offsetMs(wallMs - MS_PER_DAY, timeZone);
  const after = wallMs - offsetMs(wallMs + MS_PER_DAY, timeZone);
  const moment = [before, after].find((candidate) => candidate + offsetMs(candidate, timeZone) === wallMs) ?? before;
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
