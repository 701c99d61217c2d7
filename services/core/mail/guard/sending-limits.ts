import { type EmailAddress, validateAddress } from "../address.ts";

/** What a limit is of: an instance in all, each of its campaigns, each of its sender addresses. */
export const LIMIT_SCOPES = ["instance", "campaign", "sender"] as const;
export type LimitScope = (typeof LIMIT_SCOPES)[number];

/** What becomes of what is above a limit: it is refused, or accepted and sent in a window that has room. */
export const OVER_LIMIT = ["refuse", "wait"] as const;
export type OverLimit = (typeof OVER_LIMIT)[number];

/** Windows are those of the calendar in UTC: whoever may change a time zone gets no second day by that. */
type Grain = "hour" | "day";

/** How much may be sent within an hour and a day; null: no bound. */
export interface SendingLimit {
  readonly scope: LimitScope;
  /** The campaign's numid, or the address's key; '': the instance, or each that has no limit of its own. */
  readonly subject: string;
  readonly perHour: number | null;
  readonly perDay: number | null;
  readonly over: OverLimit;
}

/** A limit as it counts for a send: what is counted under `key` stays within it. */
export interface LimitRule extends Pick<SendingLimit, "perHour" | "perDay" | "over"> {
  /** `instance`, `campaign <numid>`, or `sender <address key>`. */
  readonly key: string;
  /** It allows more with time. */
  readonly isRamp?: boolean;
}

/** Who sends. */
export interface SendSource {
  readonly campaignNumid: number;
  /** Key of the From field's address. */
  readonly sender: string;
  /** Those of further authors, and of the Sender field: what is sent counts for each of them. */
  readonly otherSenders?: readonly string[] | undefined;
}

/** How much a new instance may send a day, by its age. */
interface Ramp {
  readonly over: OverLimit;
  /** In order: up to an age in days, so much a day; without a bound after the last. */
  readonly days: readonly { readonly until: number; readonly perDay: number }[];
}

const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;

/** When the window begins that a moment lies in. */
export function windowStart(grain: Grain, moment: Date): Date {
  const unit = grain === "hour" ? HOUR_MS : DAY_MS;
  return new Date(Math.floor(moment.getTime() / unit) * unit);
}

/** When the next one begins. */
export function windowAfter(grain: Grain, moment: Date): Date {
  return new Date(windowStart(grain, moment).getTime() + (grain === "hour" ? HOUR_MS : DAY_MS));
}

/** What sender addresses are counted by: neither another case nor a `+` and more (RFC 5233) makes another sender of one. */
export function senderKey({ local, asciiDomain }: Pick<EmailAddress, "local" | "asciiDomain">): string {
  const plain = local.replace(/(?<!^)\+.*$/u, "");
  return `${plain.toLowerCase()}@${asciiDomain}`;
}

/** Every sender that a send counts for, once. */
export function sendersOf({ sender, otherSenders = [] }: SendSource): string[] {
  return [...new Set([sender, ...otherSenders])];
}

/** The subject as limits keep it; undefined where it is none. */
export function readLimitSubject(scope: LimitScope, subject: string): string | undefined {
  if (subject === "") return "";
  if (scope === "campaign") return /^[1-9]\d{0,14}$/.test(subject) ? subject : undefined;
  const address = validateAddress(subject, { allowSmtputf8: true });
  return scope === "sender" && address.ok ? senderKey(address.value) : undefined;
}

export function keyOf(scope: LimitScope, subject: string): string {
  return scope === "instance" ? "instance" : `${scope} ${subject}`;
}

/** The limits that count for a send, and that of the ramp: for each subject its own, else the one for each of its scope. */
export function rulesFor(
  source: SendSource,
  limits: readonly SendingLimit[],
  ramp: LimitRule | undefined,
): LimitRule[] {
  const rules: LimitRule[] = [];
  const add = (scope: LimitScope, subject: string) => {
    const found = limitOf(limits, scope, subject);
    if (found !== undefined) rules.push({ ...found, key: keyOf(scope, subject) });
  };
  add("instance", "");
  add("campaign", `${source.campaignNumid}`);
  for (const sender of sendersOf(source)) add("sender", sender);
  if (ramp !== undefined) rules.push(ramp);
  return rules;
}

/** A subject's own limit, else the one for each of its scope. */
function limitOf(limits: readonly SendingLimit[], scope: LimitScope, subject: string): SendingLimit | undefined {
  let forEach: SendingLimit | undefined;
  for (const limit of limits) {
    if (limit.scope !== scope) continue;
    if (limit.subject === subject) return limit;
    if (limit.subject === "") forEach = limit;
  }
  return forEach;
}

/** What a ramp allows at an age. @param from when the instance began @returns undefined when it is over */
export function rampRule({ over, days }: Ramp, from: Date, now: Date): LimitRule | undefined {
  const age = (now.getTime() - from.getTime()) / DAY_MS;
  const step = days.find(({ until }) => age < until);
  return step && { key: keyOf("instance", ""), perHour: null, perDay: step.perDay, over, isRamp: true };
}

/** What is counted under a key in a window. */
export interface WindowCount {
  readonly key: string;
  readonly grain: Grain;
  readonly startsAt: Date;
  readonly count: number;
}

interface CountedWindow extends WindowCount {
  count: number;
  /** Of the count, what was added. */
  added: number;
}

/** What is counted already, by key and window, and what is added while sends are judged one after the other. */
export class WindowCounts {
  readonly #windows = new Map<string, CountedWindow>();

  constructor(used: readonly WindowCount[] = []) {
    for (const window of used) this.at(window).count = window.count;
  }

  /** The window itself: whoever adds to it often need not look for it each time. */
  at(window: Omit<WindowCount, "count">): CountedWindow {
    const name = nameOf(window);
    let found = this.#windows.get(name);
    if (found === undefined) {
      const { key, grain, startsAt } = window;
      found = { key, grain, startsAt, count: 0, added: 0 };
      this.#windows.set(name, found);
    }
    return found;
  }

  of(window: Omit<WindowCount, "count">): number {
    return this.#windows.get(nameOf(window))?.count ?? 0;
  }

  add(window: WindowCount): void {
    addTo(this.at(window), window.count);
  }

  /** What was added, a count for each window. */
  get added(): WindowCount[] {
    return [...this.#windows.values()].flatMap(({ key, grain, startsAt, added }) =>
      added === 0 ? [] : [{ key, grain, startsAt, count: added }],
    );
  }

  /** The same counts, to which something may be added for trial. */
  copy(): WindowCounts {
    const copy = new WindowCounts();
    for (const [name, window] of this.#windows) copy.#windows.set(name, { ...window });
    return copy;
  }
}

function addTo(window: CountedWindow, count: number): void {
  window.count += count;
  window.added += count;
}

/** The present windows of rules, each once: most sends are within all of them, and of one source there are many. */
export class PresentWindows {
  /** With what the strictest of the rules allows. */
  readonly #windows = new Map<CountedWindow, number>();

  constructor(counts: WindowCounts, rules: readonly LimitRule[], now: Date) {
    for (const rule of rules) {
      for (const { allowed, ...window } of windowsOf(rule, now)) {
        const counted = counts.at(window);
        this.#windows.set(counted, Math.min(allowed, this.#windows.get(counted) ?? Number.POSITIVE_INFINITY));
      }
    }
  }

  /** Whether there is room for so many. */
  fit(recipients: number): boolean {
    for (const [{ count }, allowed] of this.#windows) if (count + recipients > allowed) return false;
    return true;
  }

  add(recipients: number): void {
    for (const window of this.#windows.keys()) addTo(window, recipients);
  }
}

function nameOf({ key, grain, startsAt }: Omit<WindowCount, "count">): string {
  return `${grain} ${startsAt.getTime()} ${key}`;
}

/** How many recipients of a send go in the hour that begins at a moment; null: at once. */
export interface Booking {
  readonly at: Date | null;
  readonly count: number;
}

/** Why a send is refused. */
export interface LimitReached {
  readonly rule: LimitRule;
  readonly grain: Grain;
  readonly allowed: number;
  /** When it would be accepted; null: never, as it has more recipients than a window allows, or those of `mostDaysAhead`. */
  readonly goesOnAt: Date | null;
  /** Of a send that is let wait and never fits: for how many days. */
  readonly mostDaysAhead?: number;
}

export interface BookingRequest {
  readonly rules: readonly LimitRule[];
  readonly recipients: number;
  readonly now: Date;
  /** How far ahead mail may wait. */
  readonly mostDaysAhead: number;
}

/**
 * Finds windows for a send: the present one, and where its rules let mail wait those that follow. It changes nothing.
 * @returns how many recipients go when, in order, or why it is refused
 */
export function bookSend(counts: WindowCounts, request: BookingRequest): readonly Booking[] | LimitReached {
  const { rules, recipients, now, mostDaysAhead } = request;
  const full = findReached(counts, rules, now, recipients);
  if (full === undefined) return recipients === 0 ? [] : [{ at: null, count: recipients }];
  const refusing = rules.filter(({ over }) => over === "refuse");
  const reached = findReached(counts, refusing, now, recipients);
  if (reached !== undefined) return { ...reached, goesOnAt: findWindow(counts, { ...request, rules: refusing }) };
  const bookings: Booking[] = [];
  const planned = counts.copy();
  let left = recipients;
  for (const hour of hoursAhead(request)) {
    if (left === 0) break;
    const count = Math.min(left, roomIn(planned, rules, hour));
    if (count === 0) continue;
    const booking = { at: hour <= now ? null : hour, count };
    bookings.push(booking);
    for (const charge of chargesOf(rules, [booking], now)) planned.add(charge);
    left -= count;
  }
  if (left === 0) return bookings;
  const bound = tightestBound(rules);
  const tomorrow = windowAfter("day", now);
  // More waits than is let wait: whoever sends it is told, and when that is over.
  if (bound === undefined) return { ...full, goesOnAt: tomorrow };
  const { rule, grain, allowed, mostAhead } = bound;
  const hour = HOURS.find((one) => recipients <= mostAhead(mostDaysAhead, one));
  if (hour === undefined) return { rule, grain, allowed, goesOnAt: null, mostDaysAhead };
  return { ...full, goesOnAt: new Date(tomorrow.getTime() + hour * HOUR_MS) };
}

const HOURS = Array.from({ length: 24 }, (_, hour) => hour);

/** Which rule bounds a day the most, and how many recipients go within some days from an hour on where nothing is counted yet. */
interface Bound extends Omit<LimitReached, "goesOnAt" | "mostDaysAhead"> {
  readonly mostAhead: (days: number, from: number) => number;
}

/** @returns undefined where nothing stays as it is: a ramp allows more with time */
function tightestBound(rules: readonly LimitRule[]): Bound | undefined {
  const lasting = rules.filter(({ isRamp }) => !isRamp);
  const least = (grain: Grain) => {
    const bounds = lasting.flatMap((rule) => {
      const allowed = grain === "hour" ? rule.perHour : rule.perDay;
      return allowed === null ? [] : [{ rule, grain, allowed }];
    });
    return bounds.toSorted((one, other) => one.allowed - other.allowed)[0];
  };
  const [hour, day] = [least("hour"), least("day")];
  const inHours = (hours: number) => Math.min(hours * (hour?.allowed ?? Infinity), day?.allowed ?? Infinity);
  const bound = day !== undefined && day.allowed <= inHours(24) ? day : hour;
  return (
    bound && {
      ...bound,
      // Of the first day and of the one after the last there is a part each.
      mostAhead: (days, from) => (days - 1) * inHours(24) + inHours(24 - from) + (from === 0 ? 0 : inHours(from)),
    }
  );
}

/** How many recipients may go in the hour that a moment lies in. */
export function roomIn(counts: WindowCounts, rules: readonly LimitRule[], moment: Date): number {
  let room = Number.POSITIVE_INFINITY;
  for (const rule of rules) {
    for (const window of windowsOf(rule, moment)) {
      room = Math.min(room, Math.max(0, window.allowed - counts.of(window)));
    }
  }
  return room;
}

/** The first hour from now on with room for so many; null when there is none that far ahead. */
export function findWindow(counts: WindowCounts, request: BookingRequest): Date | null {
  const { rules, recipients } = request;
  for (const hour of hoursAhead(request)) if (roomIn(counts, rules, hour) >= recipients) return hour;
  return null;
}

/** What a booking adds to the counts, under each of its rules. */
export function chargesOf(rules: readonly LimitRule[], bookings: readonly Booking[], now: Date): WindowCount[] {
  const counts = new WindowCounts();
  for (const { at, count } of bookings) {
    // Two rules of one key, such as a limit and the ramp's, count once.
    const counted = new Set<string>();
    for (const rule of rules) {
      for (const { key, grain, startsAt } of windowsOf(rule, at ?? now)) {
        const window = { key, grain, startsAt, count };
        const name = nameOf(window);
        if (counted.has(name)) continue;
        counted.add(name);
        counts.add(window);
      }
    }
  }
  return counts.added;
}

/** A booking as it is queued. */
export interface QueuedBooking extends Booking {
  /** Of one for an hour to come: what it is counted under there, to be taken off again by {@link bookedCounts}. */
  readonly countedAs?: readonly string[];
}

/** What a booking at a moment is counted under: `<grain> <key>` of each window. */
export function countedAs(rules: readonly LimitRule[], at: Date): string[] {
  return chargesOf(rules, [{ at, count: 1 }], at).map(({ grain, key }) => `${grain} ${key}`);
}

/** The counts of a booking, as `countedAs` names them, in the windows of a moment. */
export function bookedCounts(names: readonly string[], { at, count }: { readonly at: Date; readonly count: number }) {
  return names.map((name): WindowCount => {
    const grain = name.startsWith("hour ") ? "hour" : "day";
    return { grain, key: name.slice(grain.length + 1), startsAt: windowStart(grain, at), count };
  });
}

/** The rules that a window's count has gone beyond, by what it is now. */
export function isExceeded(rules: readonly LimitRule[], { key, grain, count }: Omit<WindowCount, "startsAt">): boolean {
  return rules.some(
    (rule) => rule.key === key && count > ((grain === "hour" ? rule.perHour : rule.perDay) ?? Infinity),
  );
}

function findReached(
  counts: WindowCounts,
  rules: readonly LimitRule[],
  now: Date,
  recipients: number,
): Omit<LimitReached, "goesOnAt"> | undefined {
  for (const rule of rules) {
    for (const window of windowsOf(rule, now)) {
      const { grain, allowed } = window;
      if (counts.of(window) + recipients > allowed) return { rule, grain, allowed };
    }
  }
  return undefined;
}

type RuleWindow = Omit<WindowCount, "count"> & { readonly allowed: number };

function windowsOf({ key, perHour, perDay }: LimitRule, moment: Date): RuleWindow[] {
  const windows: RuleWindow[] = [];
  if (perHour !== null) {
    windows.push({ key, grain: "hour", startsAt: windowStart("hour", moment), allowed: perHour });
  }
  if (perDay !== null) windows.push({ key, grain: "day", startsAt: windowStart("day", moment), allowed: perDay });
  return windows;
}

function* hoursAhead({ now, mostDaysAhead }: Pick<BookingRequest, "now" | "mostDaysAhead">): Generator<Date> {
  const first = windowStart("hour", now).getTime();
  for (let hour = 0; hour < mostDaysAhead * 24; hour++) yield new Date(first + hour * HOUR_MS);
}
