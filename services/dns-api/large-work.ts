import { AsyncLocalStorage } from "node:async_hooks";
import { Counts } from "../core/counts.ts";
import type { ZoneFileSize } from "../core/dns/zone-file/size.ts";
import type { ZoneBounds } from "../core/dns/zone-file/zone-file.ts";
import type { Refusal } from "../core/refusal.ts";
import { ok, type Result, refuse } from "../core/result.ts";
import type { Place } from "../platform/http/endpoint.ts";
import { TakesLong } from "../platform/http/large-requests.ts";
import type { ZoneSize } from "../store/dns/zone-usage.ts";

/** What a zone file may come to here, where others wait beside it; the operator's command knows no bounds. */
export const ZONE_FILE_BOUNDS: ZoneBounds = { records: 500_000, octets: 128 * 2 ** 20 };

/** Memory, in octets, that a record takes while it is worked on, beside its own octets. */
const OCTETS_A_RECORD = 1_000;

/** How often a record's octets are held: as read, to be written, for the journal. */
const COPIES = 2;

/** What a JSON body becomes takes so many times its octets. */
const JSON_FACTOR = 20;

/** A batch of more JSON is not previewed: it would take more memory than there is beside everything else. */
export const MOST_BATCH_SHOWN_OCTETS = 8 * 2 ** 20;

/** What takes less waits for nobody and is not counted. */
const SMALL_OCTETS = 2 * 2 ** 20;

/** What takes more counts as a zone file in work. */
const LARGE_OCTETS = 16 * 2 ** 20;

/** What all that is worked on at the same time may take; what takes more by itself goes alone. */
const BUDGET_OCTETS = 96 * 2 ** 20;

/**
 * For {@link LargeWork}: whatever is not small goes alone. In a thread of its own nothing is gained side by side, and who
 * holds the row of a reseller's quotas would not commit before the other's turn is over.
 */
export const ONE_AT_A_TIME = 1;

/** Octets of memory that a zone file takes while it is worked on, judged by what it expands to. */
export function weightOfFile(text: string, { records, octets }: ZoneFileSize): number {
  return text.length + records * OCTETS_A_RECORD + octets.most * COPIES;
}

/** Octets of memory that a batch takes. */
export function weightOfJson(bodyOctets: number): number {
  return bodyOctets * JSON_FACTOR;
}

/** Octets of memory that so much of a zone's history takes. */
export function weightOfHistory(octets: number): number {
  return octets * COPIES + (octets / LEAST_RECORD_OCTETS) * OCTETS_A_RECORD;
}

/** Octets of memory that a page of a zone's history takes while it is read: the database sends it as hexadecimal text. */
export function weightOfPage(octets: number): number {
  return octets * 3;
}

/** A record on the wire with hardly any name or data. */
const LEAST_RECORD_OCTETS = 24;

/** Octets of memory that a whole zone takes as it is. */
export function weightOfZone({ records, octets }: ZoneSize): number {
  return records * OCTETS_A_RECORD + octets * COPIES;
}

/** That of small work. */
const NO_PLACE: Place = { run: (work) => work(), leave: () => {} };

/** Thrown before anything is changed by work that turns out to be large: it begins anew, in a place of its own. */
class NeedsPlace extends Error {
  /** In octets of memory. */
  readonly weight: number;

  constructor(weight: number) {
    super();
    this.weight = weight;
  }
}

/** Whose work it is, and how much of it may be under way or wait at a time. */
export interface WorkHolder {
  readonly key: string;
  readonly mostLarge: number;
  /** Made when it is too much. */
  readonly tooMuch: () => Refusal;
}

/** Who works: a caller, and the reseller that it is of, or is. Each counts. */
export interface Worker {
  readonly own: WorkHolder;
  readonly reseller: WorkHolder;
}

interface Waiting {
  readonly weight: number;
  readonly proceed: () => void;
}

/**
 * Lets work in whose memory matters: small work at once, of the rest as much at a time as there is memory for. Resellers
 * take turns, and so do the callers of each, so that one's queue holds up nobody else's work for longer than what is under way
 * takes, however many companies it is made of.
 */
export class LargeWork {
  readonly #budget: number;
  /** Set for all that is done in a place: whoever waited there for another would wait for itself. */
  readonly #inPlace = new AsyncLocalStorage<true>();
  #used = 0;
  /** By reseller and caller, in the order of their next turn. */
  readonly #queues = new Map<string, Map<string, Waiting[]>>();
  /** Large works of each holder, those that wait included. */
  readonly #large = new Counts<string>();

  constructor(budgetOctets: number = BUDGET_OCTETS) {
    this.#budget = budgetOctets;
  }

  /** Waits for a place, unless it is asked for in one. @returns refused when the caller has too much large work here already */
  async enter({ own, reseller }: Worker, weight: number): Promise<Result<Place, Refusal>> {
    if (weight < SMALL_OCTETS || this.#inPlace.getStore()) return ok(NO_PLACE);
    const holders = weight < LARGE_OCTETS ? [] : own.key === reseller.key ? [own] : [own, reseller];
    const full = holders.find(({ key, mostLarge }) => this.#large.of(key) >= mostLarge);
    if (full) return refuse(full.tooMuch());
    for (const { key } of holders) this.#large.add(key, 1);
    const share = Math.min(weight, this.#budget);
    if (this.#queues.size > 0 || !this.#hasRoom(share)) await this.#wait(reseller.key, own.key, share);
    else this.#used += share;
    return ok({
      run: (work) => this.#inPlace.run(true, work),
      leave: () => {
        this.#used -= share;
        for (const { key } of holders) this.#large.add(key, -1);
        this.#letIn();
      },
    });
  }

  /** Does work in a place of its own. */
  async run<T>(worker: Worker, weight: number, work: () => Promise<Result<T, Refusal>>): Promise<Result<T, Refusal>> {
    const place = await this.enter(worker, weight);
    if (!place.ok) return place;
    try {
      return await place.value.run(work);
    } finally {
      place.value.leave();
    }
  }

  /**
   * Does work that may turn out to be large: then it begins anew, in a place of its own. Nothing that it holds, as a lock or a
   * turn, is held while it waits for that.
   * @param work asks `admitMuch` what it is about to read comes to, before it changes anything
   */
  async begin<T>(
    findWorker: () => Promise<Worker>,
    work: (admitMuch: (size: ZoneSize) => void) => Promise<Result<T, Refusal>>,
  ): Promise<Result<T, Refusal>> {
    const admitMuch = (size: ZoneSize) => {
      const weight = weightOfZone(size);
      if (weight >= SMALL_OCTETS && !this.#inPlace.getStore()) throw new NeedsPlace(weight);
    };
    try {
      return await work(admitMuch);
    } catch (error) {
      if (!(error instanceof NeedsPlace)) throw error;
      return this.run(await findWorker(), error.weight, () => work(admitMuch));
    }
  }

  /** Lets pass, in a place that was entered, what has turned out to weigh this. */
  admit(_weight: number): void {}

  #hasRoom(share: number): boolean {
    return this.#used + share <= this.#budget;
  }

  #wait(reseller: string, key: string, weight: number): Promise<void> {
    return new Promise((proceed) => {
      const ofReseller = this.#queues.get(reseller) ?? new Map<string, Waiting[]>();
      this.#queues.set(reseller, ofReseller);
      ofReseller.set(key, [...(ofReseller.get(key) ?? []), { weight, proceed }]);
    });
  }

  /** Whose turn it is goes to the end of the line; nobody passes who needs more room than there is. */
  #letIn(): void {
    for (const [reseller, ofReseller] of this.#queues) {
      const [key, queue] = ofReseller.entries().next().value!;
      const { weight, proceed } = queue[0]!;
      if (!this.#hasRoom(weight)) return;
      this.#used += weight;
      this.#queues.delete(reseller);
      ofReseller.delete(key);
      if (queue.length > 1) ofReseller.set(key, queue.slice(1));
      if (ofReseller.size > 0) this.#queues.set(reseller, ofReseller);
      proceed();
    }
  }
}

/** Where large work has a thread of its own, and this is not it. */
export class SmallWork extends LargeWork {
  /** @throws TakesLong of what is not small */
  override enter(_worker: Worker, weight: number): Promise<Result<Place, Refusal>> {
    return weight < SMALL_OCTETS ? Promise.resolve(ok(NO_PLACE)) : Promise.reject(new TakesLong());
  }

  /** @throws TakesLong of what is not small */
  override admit(weight: number): void {
    if (weight >= SMALL_OCTETS) throw new TakesLong();
  }
}
