import type { DestinationQueue } from "../../core/mail/queue/destination-queue.ts";
import { FREE, type Leave, type TrafficShaping } from "../shaping.ts";

/** Messages wait for so long in all while their partition is in hand: then others have their turn. */
const MOST_WAIT_MS = 10_000;
/** So long each for a source that is new, where another one would take them at once. */
const SOON_MS = 1_000;
/** Who is sent away until there is leave comes so much earlier. */
const EARLY_MS = 2_000;

/** From where a message may go. */
interface LeaveWish {
  /** All that its pool has. */
  readonly sources: readonly string[];
  /** Whether one is in back-off. */
  isResting(source: string): boolean;
  /** That the session in hand leaves from. */
  readonly usual: string | undefined;
  /** When its recipient last opened or clicked, if that is known. */
  readonly touchedDaysAgo: number | undefined;
}

/** Tells others that a lane waits. */
type Aside = <T>(wait: Promise<T>) => Promise<T>;

/** The leave of a lane, for one message after another. */
export class LaneLeave {
  readonly #shaping: TrafficShaping;
  readonly #queue: DestinationQueue;
  /** Of the message under way, until it is on the wire. */
  #leave: Leave = FREE;
  /** A source that is new, with leave for the message under way that is used: it may be sent anew over another session. */
  #used: string | undefined;
  #waitedMs = 0;
  /** Sources that are new, and from which no session was to be had. */
  readonly #avoided = new Set<string>();
  /** What it was sent away for is a plan of ours. */
  #isPlanned = false;

  constructor(shaping: TrafficShaping, queue: DestinationQueue) {
    this.#shaping = shaping;
    this.#queue = queue;
  }

  /**
   * Takes leave for the next message, and waits a while for it. From sources that are new goes what their plan has room
   * for, those recipients first who open and click; the rest goes from the others of the pool, where there are any.
   * @returns undefined when it has it, else for how many seconds the partition is to go back
   */
  async get({ sources, isResting, usual, touchedDaysAgo }: LeaveWish, aside: Aside): Promise<number | undefined> {
    const usable = sources.filter((source) => !isResting(source));
    if (usual !== undefined) usable.sort((one, other) => Number(other === usual) - Number(one === usual));
    const warming = this.#shaping.warming(this.#queue, sources);
    if (warming.length === 0 || warming.length === sources.length) return this.#getFrom(usable, aside);
    const wanted = usable.filter(
      (source) =>
        warming.includes(source) &&
        !this.#avoided.has(source) &&
        this.#shaping.wants(this.#queue, source, touchedDaysAgo),
    );
    if (wanted.length > 0 && (this.#take(wanted) || (await this.#waitSoon(wanted, aside)))) return undefined;
    return this.#getFrom(
      usable.filter((source) => !warming.includes(source)),
      aside,
    );
  }

  /** What it was sent away for last is a plan of ours, and no trouble of the far side's. */
  get isPlanned(): boolean {
    return this.#isPlanned;
  }

  /** There is no session from the source that the leave is for. @returns false where that one alone was to be had */
  avoid(sources: readonly string[]): boolean {
    const { source, isPlanned } = this.#leave;
    if (source === undefined || !isPlanned) return false;
    this.end();
    this.#avoided.add(source);
    return this.#shaping.warming(this.#queue, sources).length < sources.length;
  }

  mayUse(source: string): boolean {
    return source === this.#used || this.#shaping.mayUse(this.#queue, source, this.#leave);
  }

  /** The message is sent from a source now. @returns false when there is no leave for that one */
  use(source: string): boolean {
    const leave = this.#leave;
    this.#leave = FREE;
    if (leave.isPlanned) this.#used = source;
    return this.#shaping.useLeave(this.#queue, source, leave);
  }

  /** The message was not sent, or is. */
  end(): void {
    this.#shaping.giveBack(this.#leave);
    this.#leave = FREE;
    this.#used = undefined;
  }

  async #getFrom(sources: readonly string[], aside: Aside): Promise<number | undefined> {
    return this.#take(sources) ? undefined : aside(this.#wait(sources));
  }

  #take(sources: readonly string[]): boolean {
    // Where all rest there is nobody to speak to, which is found next.
    const leave = sources.length === 0 ? FREE : this.#shaping.takeLeave(this.#queue, sources);
    this.#leave = leave ?? FREE;
    return leave !== undefined;
  }

  async #wait(sources: readonly string[]): Promise<number | undefined> {
    const startedAtMs = performance.now();
    const found = await this.#shaping.waitForLeave(this.#queue, sources, MOST_WAIT_MS - this.#waitedMs);
    this.#waitedMs += performance.now() - startedAtMs;
    if (!("waitMs" in found)) {
      this.#leave = found;
      return undefined;
    }
    this.#isPlanned = found.isPlanned;
    return Math.max(0, found.waitMs - EARLY_MS) / 1000;
  }

  async #waitSoon(sources: readonly string[], aside: Aside): Promise<boolean> {
    const found = await aside(this.#shaping.waitForLeave(this.#queue, sources, SOON_MS));
    if ("waitMs" in found) return false;
    this.#leave = found;
    return true;
  }
}
