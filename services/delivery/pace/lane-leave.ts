import type { DestinationQueue } from "../../core/mail/queue/destination-queue.ts";
import type { PutOff } from "../attempt.ts";
import { FREE, type Leave, type TrafficShaping, type Wait } from "../shaping.ts";

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
  /** Those of them that are not in back-off, in the order in which they are wanted. */
  readonly usable: readonly string[];
  /** When its recipient last opened or clicked, if that is known. */
  readonly touchedDaysAgo: number | undefined;
}

/** Makes room for other lanes while this one waits. */
type Aside = <T>(wait: Promise<T>) => Promise<T>;

/** The leave of a lane, for one message after another. */
export class LaneLeave {
  readonly #shaping: TrafficShaping;
  readonly #queue: DestinationQueue;
  readonly #aside: Aside;
  /** Of the message under way, until it is on the wire. */
  #leave: Leave = FREE;
  /** A source that is new, with leave for the message under way that is used: it may be sent anew over another session. */
  #used: string | undefined;
  #waitedMs = 0;
  /** Sources that are new, and from which no session was to be had. */
  readonly #avoided = new Set<string>();

  constructor(shaping: TrafficShaping, queue: DestinationQueue, aside: Aside) {
    this.#shaping = shaping;
    this.#queue = queue;
    this.#aside = aside;
  }

  /**
   * Takes leave for the next message, and waits a while for it. From sources that are new goes what their plan has room
   * for, those recipients first who open and click; the rest goes from the others of the pool, where there are any.
   * @returns undefined when it has it; where that takes long the partition goes back until then
   */
  async take({ sources, usable, touchedDaysAgo }: LeaveWish): Promise<PutOff | undefined> {
    const warming = this.#shaping.warming(this.#queue, sources);
    if (warming.length === 0 || warming.length === sources.length) return this.#takeFrom(usable, sources);
    const wanted = usable.filter(
      (source) =>
        warming.includes(source) &&
        !this.#avoided.has(source) &&
        this.#shaping.wants(this.#queue, source, touchedDaysAgo),
    );
    if (wanted.length > 0 && (this.#takeNow(wanted) || (await this.#waitSoon(wanted)))) return undefined;
    const usual = usable.filter((source) => !warming.includes(source));
    return this.#takeFrom(usual, sources);
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

  async #takeFrom(usable: readonly string[], sources: readonly string[]): Promise<PutOff | undefined> {
    if (this.#takeNow(usable)) return undefined;
    const startedAtMs = performance.now();
    const found = await this.#wait(usable, MOST_WAIT_MS - this.#waitedMs);
    this.#waitedMs += performance.now() - startedAtMs;
    if (found === undefined) return undefined;
    const pacedBy = { provider: this.#shaping.providerOf(this.#queue), sources, isPlanned: found.isPlanned };
    return { kind: "put off", seconds: Math.max(0, found.waitMs - EARLY_MS) / 1000, pacedBy };
  }

  #takeNow(sources: readonly string[]): boolean {
    // Where all rest there is nobody to speak to, which is found next.
    const leave = sources.length === 0 ? FREE : this.#shaping.takeLeave(this.#queue, sources);
    this.#leave = leave ?? FREE;
    return leave !== undefined;
  }

  async #waitSoon(sources: readonly string[]): Promise<boolean> {
    return (await this.#wait(sources, SOON_MS)) === undefined;
  }

  /** @returns undefined when it has leave, else how long that may take */
  async #wait(sources: readonly string[], mostMs: number): Promise<Wait | undefined> {
    const found = await this.#aside(this.#shaping.waitForLeave(this.#queue, sources, mostMs));
    if ("waitMs" in found) return found;
    this.#leave = found;
    return undefined;
  }
}
