import {
  type Booking,
  bookSend,
  chargesOf,
  countedAs,
  findWindow,
  isExceeded,
  type LimitReached,
  type LimitRule,
  PresentWindows,
  type QueuedBooking,
  rampRule,
  roomIn,
  rulesFor,
  type SendingLimit,
  WindowCounts,
  windowAfter,
} from "../../core/mail/guard/sending-limits.ts";
import type { Sentence } from "../../core/sentences.ts";
import { type SendingPolicy, sendingPolicy } from "../../platform/config/sending-limits.ts";
import type { Db } from "../../platform/postgres/db.ts";
import {
  type Charge,
  type ChargedWindow,
  type JudgedSource,
  readSendingState,
  type SendingState,
} from "../../store/mail/guard/sending-counts.ts";
import { Overtaken } from "../../store/transactions.ts";

/** Whether every instance is looked at, with a row of its own or without. */
export const guardsEverybody = sendingPolicy.default.length > 0 || sendingPolicy.ramp.newInstances;

/** Whose batches came by submission. */
export const SUBMITTED = "smtp";

/** Why a send is not accepted, although nothing is wrong with it. */
export type GateRefusal =
  | ({ readonly kind: "limit-reached" } & LimitReached)
  | { readonly kind: "held"; readonly reason: Sentence };

/** What a send may do, as it was judged. */
export interface Admission {
  readonly instanceId: number;
  readonly rules: readonly LimitRule[];
  /** For as many recipients as it names. */
  readonly bookings: readonly Booking[];
}

/** Queues what was admitted, and counts it as the last thing in that. @returns the windows as they count now */
export type QueueCharged = (charges: readonly Charge[]) => Promise<readonly ChargedWindow[]>;

/**
 * Judges sends by the limits of their instances, in the order given, within the transaction that accepts them. What is
 * read for it is locked by nobody: what is counted by `charge`, at the end, tells whether somebody else was quicker.
 */
export class SendingGate {
  readonly #now: Date;
  readonly #policy: SendingPolicy;
  readonly #states: ReadonlyMap<number, GuardedState>;

  /** @param states of the instances that it judges @param now by the database's clock */
  constructor(states: readonly SendingState[], now: Date, policy = sendingPolicy) {
    this.#now = now;
    this.#policy = policy;
    this.#states = new Map(
      states.map((state) => {
        const inForce = { limits: limitsInForce(state, policy), ramp: rampInForce(state, policy, now) };
        const windows = new WindowCounts(state.counts);
        return [state.instanceId, { ...state, inForce, windows, sources: new Map() }];
      }),
    );
  }

  /** Of one source, by what its instance may send now. */
  static async read(db: Db, source: JudgedSource, now: Date): Promise<SendingGate> {
    const state = await readSendingState(db, source.instanceId, [source]);
    return new SendingGate(state === undefined ? [] : [state], now);
  }

  rulesOf(source: JudgedSource): readonly LimitRule[] {
    return this.#bounds(source, this.#states.get(source.instanceId)!).rules;
  }

  /** What goes for a source is put together once, as many sends at a time are of the same. */
  #bounds(source: JudgedSource, { inForce, windows, sources }: GuardedState): SourceBounds {
    const name = [source.campaignNumid, source.sender, ...(source.otherSenders ?? [])].join("\n");
    let bounds = sources.get(name);
    if (bounds === undefined) {
      const rules = rulesFor(source, inForce.limits, inForce.ramp);
      bounds = { rules, present: new PresentWindows(windows, rules, this.#now) };
      sources.set(name, bounds);
    }
    return bounds;
  }

  /**
   * @param recipients that the send names: what is counted in the end may be less
   * @returns undefined for an instance that the gate does not judge
   */
  admit(source: JudgedSource & { readonly creator: string }, recipients: number): Admission | GateRefusal | undefined {
    const state = this.#states.get(source.instanceId);
    if (state === undefined) return undefined;
    const { windows, heldReason, heldSends } = state;
    // A program that submits keeps its mail and comes again; whoever calls the API may not.
    if (heldReason && (heldSends === "refuse" || source.creator === SUBMITTED))
      return { kind: "held", reason: heldReason };
    const { rules, present } = this.#bounds(source, state);
    if (present.fit(recipients)) {
      present.add(recipients);
      return {
        instanceId: source.instanceId,
        rules,
        bookings: recipients === 0 ? [] : [{ at: null, count: recipients }],
      };
    }
    const { mostDaysAhead } = this.#policy;
    const bookings = bookSend(windows, { rules, recipients, now: this.#now, mostDaysAhead });
    if ("rule" in bookings) return { kind: "limit-reached", ...bookings };
    for (const charge of chargesOf(rules, bookings, this.#now)) windows.add(charge);
    return { instanceId: source.instanceId, rules, bookings };
  }

  /** How many recipients a source may send to in the present hour, and when there is room for some again. */
  roomFor(source: JudgedSource): { readonly room: number; readonly goesOnAt: Date } {
    const { windows } = this.#states.get(source.instanceId)!;
    const rules = this.rulesOf(source);
    const { mostDaysAhead } = this.#policy;
    const next = findWindow(windows, { rules, recipients: 1, now: this.#now, mostDaysAhead });
    return { room: roomIn(windows, rules, this.#now), goesOnAt: next ?? windowAfter("day", this.#now) };
  }

  /**
   * Queues what was admitted and counts it, as the last thing in the accepting transaction: what is counted is locked from
   * then on.
   * @throws Overtaken when others counted so much meanwhile that a limit would be exceeded: the transaction is to run anew
   */
  async charge(admissions: readonly Admission[], queue: QueueCharged): Promise<void> {
    const counts = new Map<number, { readonly windows: WindowCounts; readonly sources: Map<unknown, SourceBounds> }>();
    for (const { instanceId, rules, bookings } of admissions) {
      const { windows, sources } = counts.get(instanceId) ?? { windows: new WindowCounts(), sources: new Map() };
      counts.set(instanceId, { windows, sources });
      const { present } = sources.get(rules) ?? { present: new PresentWindows(windows, rules, this.#now) };
      sources.set(rules, { rules, present });
      for (const booking of bookings) {
        if (booking.at === null) present.add(booking.count);
        else for (const charge of chargesOf(rules, [booking], this.#now)) windows.add(charge);
      }
    }
    const charges = [...counts].flatMap(([instanceId, { windows }]) =>
      windows.added.map((window) => ({ ...window, instanceId })),
    );
    for (const window of await queue(charges)) {
      for (const { rules } of counts.get(window.instanceId)!.sources.values()) {
        if (isExceeded(rules, window)) throw new Overtaken();
      }
    }
  }
}

/** What goes for the sends of a source. */
interface SourceBounds {
  readonly rules: readonly LimitRule[];
  readonly present: PresentWindows;
}

interface GuardedState extends SendingState {
  readonly inForce: { readonly limits: readonly SendingLimit[]; readonly ramp: LimitRule | undefined };
  /** With what the sends add that are admitted. */
  readonly windows: WindowCounts;
  /** By campaign and senders. */
  readonly sources: Map<string, SourceBounds>;
}

/** An instance's own limits, and those for everybody of scopes that it has none of. */
export function limitsInForce(
  { limits }: Pick<SendingState, "limits">,
  { default: defaults }: SendingPolicy,
): SendingLimit[] {
  const own = new Set(limits.map(({ scope }) => scope));
  return [...limits, ...defaults.filter(({ scope }) => !own.has(scope))];
}

type RampState = Pick<SendingState, "rampFrom" | "createdAt">;

/** From when on an instance's ramp counts; null: it has none. */
export function rampStart({ rampFrom, createdAt }: RampState, { ramp }: SendingPolicy): Date | null {
  return rampFrom ?? (ramp.newInstances ? createdAt : null);
}

export function rampInForce(state: RampState, policy: SendingPolicy, now: Date): LimitRule | undefined {
  const from = rampStart(state, policy);
  return from === null ? undefined : rampRule(policy.ramp, from, now);
}

/** The bookings of a send for the recipients that it has in the end. */
export function trimBookings({ bookings, rules }: Admission, recipients: number): QueuedBooking[] {
  let left = recipients;
  return bookings.flatMap(({ at, count }) => {
    const taken = Math.min(left, count);
    left -= taken;
    if (taken === 0) return [];
    return [at === null ? { at, count: taken } : { at, count: taken, countedAs: countedAs(rules, at) }];
  });
}
