import { locale } from "./texts.ts";

/** A moment, to the second, in the reader's time zone. @param moment ISO 8601 or milliseconds */
export function formatTime(moment: string | number | null | undefined): string {
  return moment === null || moment === undefined ? "–" : timeFormat(locale.value).format(new Date(moment));
}

/** A time of an instance's own time zone, as the mail API has it: `2026-01-31T09:00:00`, without an offset. */
export function formatWallClock(timestamp: string): string {
  return timeFormat(locale.value, "UTC").format(new Date(`${timestamp}Z`));
}

/** How long ago, in the largest unit that fits. */
export function formatAge(moment: string | number | null | undefined, nowMs = Date.now()): string {
  if (moment === null || moment === undefined) return "–";
  const seconds = Math.round((new Date(moment).getTime() - nowMs) / 1_000);
  const [unit, length] = AGE_UNITS.find(([, inSeconds]) => Math.abs(seconds) >= inSeconds) ?? ["second", 1];
  return new Intl.RelativeTimeFormat(locale.value, { numeric: "auto", style: "short" }).format(
    Math.trunc(seconds / length),
    unit,
  );
}

/** How long to wait: in minutes or hours where it is two of them or more. */
export function formatWait(seconds: number): string {
  const [unit, length] = WAIT_UNITS.find(([, inSeconds]) => seconds >= 2 * inSeconds) ?? ["second", 1];
  const format = new Intl.NumberFormat(locale.value, { style: "unit", unit, unitDisplay: "long" });
  return format.format(Math.ceil(seconds / length));
}

export function formatNumber(value: number, fractionDigits = 0): string {
  return value.toLocaleString(locale.value, { maximumFractionDigits: fractionDigits });
}

/** What may be chosen, as `a, b or c`. */
export function formatChoices(choices: readonly string[]): string {
  return new Intl.ListFormat(locale.value, { type: "disjunction" }).format(choices);
}

/** Octets in binary units. */
export function formatOctets(octets: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = octets < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(octets) / 10));
  return `${formatNumber(octets / 1024 ** power, power === 0 ? 0 : 1)} ${units[power]}`;
}

const WAIT_UNITS = [
  ["hour", 3_600],
  ["minute", 60],
] as const;

const AGE_UNITS = [["year", 31_536_000], ["month", 2_592_000], ["day", 86_400], ...WAIT_UNITS] as const;

const TIME_FORMATS = new Map<string, Intl.DateTimeFormat>();

/** @param timeZone the reader's when absent */
function timeFormat(tag: string, timeZone?: string): Intl.DateTimeFormat {
  const key = `${tag} ${timeZone}`;
  const known = TIME_FORMATS.get(key);
  if (known) return known;
  const format = new Intl.DateTimeFormat(tag, {
    ...{ dateStyle: "medium", timeStyle: "medium" },
    ...(timeZone === undefined ? {} : { timeZone }),
  });
  TIME_FORMATS.set(key, format);
  return format;
}

/** What the browser's field says in local time, as RFC 3339; what is no time is for the API to refuse. */
export function momentOf(local: string): string {
  const moment = new Date(local);
  return Number.isNaN(moment.getTime()) ? local : moment.toISOString();
}
