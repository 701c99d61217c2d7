import { ok, type Result, refuse } from "../result.ts";
import { type Sentence, sentence } from "../sentences.ts";

/** How the serials of a zone run: plain numbers, or `YYYYMMDDSS` in UTC. */
export type SerialType = "numeric" | "calendar";

/** Why a serial cannot be given, or is doubtful. */
export type SerialError = Sentence;

/** Serials live in 32-bit sequence space (RFC 1982 §2). */
const SERIAL_SPACE = 2 ** 32;
/** The largest increment that still means "ahead" (RFC 1982 §3.1). */
const MAX_INCREMENT = 2 ** 31 - 1;
/** Two increments that are not above this one are ahead together as well. */
const SAFE_INCREMENT = 2 ** 30 - 1;
/** Changes that a calendar serial can number in one day. */
const CHANGES_A_DAY = 100;

/**
 * Compares in sequence space: negative, zero or positive as `a` is behind, at or ahead of `b`;
 * undefined when they are exactly 2^31 apart, where the order is not defined.
 * @see RFC 1982 §3.2
 */
export function compareSerial(a: number, b: number): number | undefined {
  const distance = (a - b + SERIAL_SPACE) % SERIAL_SPACE;
  if (distance === 0) return 0;
  if (distance === SERIAL_SPACE / 2) return undefined;
  return distance < SERIAL_SPACE / 2 ? 1 : -1;
}

/** Whether a secondary at `current` would take `candidate` as newer. */
export function serialIsAhead(candidate: number, current: number): boolean {
  return compareSerial(candidate, current) === 1;
}

/**
 * Of a serial that is lawfully ahead, but so far that a secondary which does not fetch it may find what comes after it behind
 * its own, and then keeps its data for good (RFC 1982 §3.2, §7).
 */
export function serialWarnings(has: number, next: number): Sentence[] {
  const increment = (next - has + SERIAL_SPACE) % SERIAL_SPACE;
  return increment > SAFE_INCREMENT ? [sentence("serial-leaps", { has, next, increment })] : [];
}

/**
 * The serial `increment` steps on, around 2^32.
 * @param increment 0 to 2^31 − 1
 * @see RFC 1982 §3.1
 */
export function addSerial(serial: number, increment: number): number {
  if (increment < 0 || increment > MAX_INCREMENT) throw new RangeError(`serial increment ${increment}`);
  return (serial + increment) % SERIAL_SPACE;
}

/**
 * The serial after `changes` more changes made at `now`. Numeric serials count; a calendar serial of today counts up
 * to …99, any other moves to today's …00 when that is ahead and by one otherwise.
 * @returns refused when the day's hundred is used up
 */
export function nextSerial(
  current: number,
  serialType: SerialType,
  now: Date,
  changes = 1,
): Result<number, SerialError> {
  if (changes === 0) return ok(current);
  if (serialType === "numeric") return ok(addSerial(current, changes));
  const firstOfToday = calendarSerial(now);
  const usedToday = current - firstOfToday;
  if (usedToday >= 0 && usedToday < CHANGES_A_DAY) {
    return usedToday + changes < CHANGES_A_DAY ? ok(current + changes) : refuse(DAY_IS_FULL);
  }
  if (!serialIsAhead(firstOfToday, current)) return ok(addSerial(current, changes));
  return changes <= CHANGES_A_DAY ? ok(firstOfToday + changes - 1) : refuse(DAY_IS_FULL);
}

/** As {@link nextSerial}, for what cannot wait for tomorrow: where the day's hundred is used up it goes on by `changes`. */
export function nextSerialAnyway(current: number, serialType: SerialType, now: Date, changes = 1): number {
  const next = nextSerial(current, serialType, now, changes);
  return next.ok ? next.value : addSerial(current, changes);
}

/**
 * The serial of a new zone: `given` when there is one, else 1, or today's …00.
 * @returns refused when a given calendar serial is no date with two digits, or lies in the future
 */
export function initialSerial(serialType: SerialType, now: Date, given?: number): Result<number, SerialError> {
  if (serialType === "numeric") return ok(given ?? 1);
  const firstOfToday = calendarSerial(now);
  if (given === undefined) return ok(firstOfToday);
  if (!isCalendarSerial(given)) return refuse(sentence("serial-form"));
  if (given >= firstOfToday + CHANGES_A_DAY) return refuse(sentence("serial-in-future"));
  return ok(given);
}

const DAY_IS_FULL: SerialError = sentence("serial-day-full");

/** Today's first serial, `YYYYMMDD00`. */
function calendarSerial(now: Date): number {
  return Number(`${now.toISOString().slice(0, 10).replaceAll("-", "")}00`);
}

/** Whether the number reads as `YYYYMMDDSS` with a day that the calendar has. */
function isCalendarSerial(serial: number): boolean {
  const digits = String(serial);
  if (!/^\d{10}$/.test(digits) || serial >= SERIAL_SPACE) return false;
  const date = `${digits.slice(0, 4)}-${digits.slice(4, 6)}-${digits.slice(6, 8)}`;
  const parsed = new Date(`${date}T00:00:00Z`);
  return !Number.isNaN(parsed.getTime()) && parsed.toISOString().startsWith(date);
}
