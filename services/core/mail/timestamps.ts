import { wallClockMs } from "../moment.ts";

/** The API's timestamps: wall-clock time of an instance's zone, to the second, without a mark of the zone. */

/** `2026-11-20T12:00:00`. @param timeZone IANA name */
export function formatTimestamp(moment: Date, timeZone: string): string {
  if (timeZone === "UTC") return moment.toISOString().slice(0, TIMESTAMP_LENGTH);
  // Years before 1000 come without their leading zeros.
  return wallClock(timeZone).format(moment).replace(" ", "T").padStart(TIMESTAMP_LENGTH, "0");
}

const TIMESTAMP_LENGTH = "2026-11-20T12:00:00".length;
/** The form of what {@link parseTimestamp} reads; the OpenAPI document has it, so nothing that only JavaScript knows. */
export const TIMESTAMP_FORM = /^(\d{4}-\d\d-\d\d)[_T](\d\d:\d\d:\d\d)$/;

/**
 * Reads `2026-11-20_12:00:00` or `2026-11-20T12:00:00` as an end of a period that both its ends belong to.
 * A change of the clocks repeats some times: then the first one begins a period and the last one ends it. It skips others:
 * a period begins at the change then, or ends with the second before it.
 * @returns undefined when it is neither, or no time of the calendar
 */
export function parseTimestamp(text: string, timeZone: string, end: "first" | "last" = "first"): Date | undefined {
  const [, date = "", time = ""] = TIMESTAMP_FORM.exec(text) ?? [];
  // The calendar has no year 0.
  const wallMs = date.startsWith("0000") ? undefined : wallClockMs(date, time);
  if (wallMs === undefined) return undefined;
  // The offset is that of a day before or of a day after, unless the clocks change twice within two days.
  const before = wallMs - offsetMs(wallMs - MS_PER_DAY, timeZone);
  const after = wallMs - offsetMs(wallMs + MS_PER_DAY, timeZone);
  // There is no day after the last one of year 9999.
  const candidates = (end === "first" ? [before, after] : [after, before]).filter(Number.isFinite);
  const moment = candidates.find((candidate) => candidate + offsetMs(candidate, timeZone) === wallMs);
  if (moment !== undefined || !(after < before)) return new Date(moment ?? before);
  const change = findChange(after, before, timeZone);
  return new Date(end === "first" ? change : change - 1_000);
}

/** The first second with another offset than that of `fromMs`. @param toMs has another one */
function findChange(fromMs: number, toMs: number, timeZone: string): number {
  const offset = offsetMs(fromMs, timeZone);
  let [earlier, later] = [fromMs / 1_000, toMs / 1_000];
  while (later - earlier > 1) {
    const middle = Math.floor((earlier + later) / 2);
    if (offsetMs(middle * 1_000, timeZone) === offset) earlier = middle;
    else later = middle;
  }
  return later * 1_000;
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
