const MOMENT = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(:\d\d)?(\.\d+)?(Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)?)?$/i;

/**
 * Reads `2030-01-31T09:00:00Z`: RFC 3339 §5.6, whose seconds may be missing.
 * @returns undefined when it is none, or of a day or an hour that does not exist
 */
export function parseMoment(text: string): Date | undefined {
  return /T.*(?:Z|[+-]\d\d:\d\d)$/i.test(text) ? parseDateOrMoment(text) : undefined;
}

/** As {@link parseMoment}; a date alone is its first moment, and what names no offset is in UTC. */
export function parseDateOrMoment(text: string): Date | undefined {
  const [, date, minutes = "00:00", seconds = ":00", fraction = "", offset = "Z"] = MOMENT.exec(text) ?? [];
  if (date === undefined || wallClockMs(date, minutes + seconds) === undefined) return undefined;
  const moment = new Date(`${date}T${minutes}${seconds}${fraction}${offset.toUpperCase()}`);
  // By its offset it may be of a year that has no four digits.
  return /^\d{4}-/.test(moment.toISOString()) ? moment : undefined;
}

/**
 * The moment at which clocks of UTC show a date and a time, in milliseconds.
 * @returns undefined where they never do: a 30th of February would be a day of March
 */
export function wallClockMs(date: string, time: string): number | undefined {
  const ms = Date.parse(`${date}T${time}Z`);
  if (Number.isNaN(ms)) return undefined;
  return new Date(ms).toISOString().startsWith(`${date}T${time}`) ? ms : undefined;
}
