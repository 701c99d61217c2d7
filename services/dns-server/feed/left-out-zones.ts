import type { ZoneSummary } from "../../store/dns/zone-states.ts";

/** Waits between attempts to take a zone in, as long as nothing speaks for it. */
const FIRST_WAIT_MS = 2_000;
const MAX_WAIT_MS = 5 * 60_000;
/** Attempts take at most one part in so many of the time. */
const REST_SHARE = 10;
/** It takes so much more room, and so many octets, to try again. */
const MORE_ROOM = { factor: 1.02, octets: 4_096 } as const;

/** A zone, or a version of one, that there is no room for. */
export interface LeftOutZone {
  /** What it ought to be. */
  readonly zone: ZoneSummary;
  /** The version that is answered meanwhile; undefined where all of the zone is SERVFAIL. */
  readonly servedVersion: number | undefined;
  /** Since when it is not answered as it ought to be. */
  readonly since: Date;
  /** Octets that the last attempt had taken when there was no more room: it needs more than that. */
  readonly takenOctets: number;
}

/** What an attempt to take a zone in came to. */
export interface FailedAttempt {
  readonly servedVersion: number | undefined;
  readonly takenOctets: number;
  /** How long it took. */
  readonly ms: number;
}

interface Entry extends LeftOutZone {
  nextTryMs: number;
  waitMs: number;
  /** Not before: the last attempt took some time. */
  readonly restUntilMs: number;
  /** Whether the zone has changed, or there is more room, since the last attempt. */
  isPromising: boolean;
  /** Octets that there were for it when the last attempt had been cleared away, which were too few; undefined before. */
  roomThen: number | undefined;
}

/**
 * The zones that do not fit into memory, and when each is tried again: when there is more room than it had, when it has
 * changed, and now and then while there is more room than it had taken, as memory in pieces may be of use later.
 */
export class LeftOutZones {
  readonly #entries = new Map<number, Entry>();
  readonly #nowMs: () => number;

  /** @param nowMs the wall clock */
  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  get size(): number {
    return this.#entries.size;
  }

  has(id: number): boolean {
    return this.#entries.has(id);
  }

  get(id: number): LeftOutZone | undefined {
    return this.#entries.get(id);
  }

  /** All of them, those that need least first. */
  list(): LeftOutZone[] {
    return [...this.#entries.values()].sort((a, b) => a.takenOctets - b.takenOctets);
  }

  /** Notes that a zone did not fit. @returns whether that is new: it fitted before, or was answered until now */
  add(zone: ZoneSummary, { servedVersion, takenOctets, ms }: FailedAttempt): boolean {
    const known = this.#entries.get(zone.id);
    const waitMs = known ? Math.min(known.waitMs * 2, MAX_WAIT_MS) : FIRST_WAIT_MS;
    const nowMs = this.#nowMs();
    this.#entries.set(zone.id, {
      zone,
      servedVersion,
      since: known?.since ?? new Date(nowMs),
      takenOctets,
      nextTryMs: nowMs + Math.max(waitMs, ms * REST_SHARE),
      waitMs,
      restUntilMs: nowMs + Math.max(FIRST_WAIT_MS, ms * REST_SHARE),
      isPromising: false,
      roomThen: undefined,
    });
    return known === undefined || (known.servedVersion !== undefined && servedVersion === undefined);
  }

  /** Notes what a zone has become meanwhile. */
  note(zone: ZoneSummary): void {
    const entry = this.#entries.get(zone.id);
    if (!entry || entry.zone.version === zone.version) return;
    this.#entries.set(zone.id, { ...entry, zone, isPromising: true, nextTryMs: this.#turnOf(entry) });
  }

  /** @returns whether it was there */
  remove(id: number): boolean {
    return this.#entries.delete(id);
  }

  /**
   * The zones to try now, those that need least first.
   * @param roomFor octets that could be taken for a zone
   * @param isSettled whether all that was given up is free by now
   */
  takeDue(roomFor: (zone: LeftOutZone) => number, isSettled: boolean): ZoneSummary[] {
    const nowMs = this.#nowMs();
    const due: Entry[] = [];
    for (const entry of this.#entries.values()) {
      const room = roomFor(entry);
      if (entry.roomThen === undefined && isSettled) entry.roomThen = room;
      if (entry.roomThen !== undefined && isMore(room, entry.roomThen)) {
        entry.isPromising = true;
        entry.waitMs = FIRST_WAIT_MS;
        entry.nextTryMs = this.#turnOf(entry);
      }
      if (nowMs < entry.nextTryMs || (!entry.isPromising && !isMore(room, entry.takenOctets))) continue;
      // Until the attempt says what it came to.
      Object.assign(entry, { nextTryMs: nowMs + MAX_WAIT_MS, isPromising: false, roomThen: undefined });
      due.push(entry);
    }
    return due.sort((a, b) => a.takenOctets - b.takenOctets).map(({ zone }) => zone);
  }

  /** When a zone that something speaks for is tried: longer after each attempt that came to nothing. */
  #turnOf({ nextTryMs, restUntilMs }: Entry): number {
    return Math.min(nextTryMs, restUntilMs);
  }
}

function isMore(room: number, before: number): boolean {
  return room > before * MORE_ROOM.factor + MORE_ROOM.octets;
}

/** The ids of as many zones as fit, the smallest first. @param octets what each needs @param room what there is for all */
export function smallestThatFit(octets: ReadonlyMap<number, number>, room: number): Set<number> {
  const fitting = new Set<number>();
  let left = room;
  for (const [id, needed] of [...octets].sort(([, a], [, b]) => a - b)) {
    left -= needed;
    if (left < 0) break;
    fitting.add(id);
  }
  return fitting;
}
