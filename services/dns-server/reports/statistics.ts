/** What each thread counts, as word indices of its row. RCODE takes 24 words: one for each code, the last for others. */
export const STATISTIC = {
  UDP: 0,
  TCP: 1,
  TLS: 2,
  HTTPS: 3,
  /** Packets that got no answer: no query, or the rate limit. */
  DROPPED: 4,
  TRUNCATED: 5,
  RATE_DROPPED: 6,
  RATE_SLIPPED: 7,
  RCODE: 8,
  /** Answers that were given again (answer-cache.ts). */
  REPEATED: 34,
} as const;
export const RCODE_COUNTERS = 24;
/** Words of the counters: whole cache lines, so that threads do not slow each other down. */
const COUNTER_WORDS = 48;

/** What was asked last, behind the counters of a row: each sample is the packet from its question on, cut off. */
export const SAMPLE = {
  /** Of the counters: samples taken so far. */
  COUNT: 32,
  /** Of the counters: a query is sampled when its number has none of these bits. */
  MASK: 33,
  SLOTS: 64,
  OCTETS: 256,
  /** Where the first slot begins in a row, octets. */
  START: COUNTER_WORDS * 4,
} as const;

const ROW_WORDS = COUNTER_WORDS + (SAMPLE.SLOTS * SAMPLE.OCTETS) / 4;

/** Counters that threads share: each writes its own row, without locks; they wrap at 2^32. */
export class Statistics {
  readonly buffer: SharedArrayBuffer;
  readonly #words: Int32Array;
  /** What each word was when its increase was taken last. */
  readonly #seen = new Map<number, number>();

  /** @param rows threads that count, or the buffer of another thread's */
  constructor(rows: number | SharedArrayBuffer) {
    this.buffer = typeof rows === "number" ? new SharedArrayBuffer(rows * ROW_WORDS * 4) : rows;
    this.#words = new Int32Array(this.buffer);
  }

  get rows(): number {
    return this.#words.length / ROW_WORDS;
  }

  /** The counters of one thread, and its samples. */
  row(index: number): Int32Array {
    return this.#words.subarray(index * ROW_WORDS, (index + 1) * ROW_WORDS);
  }

  /** Sum over all threads of what was counted since the last call for the same counter. */
  takeIncrease(statistic: number): number {
    let increase = 0;
    for (let word = statistic; word < this.#words.length; word += ROW_WORDS) {
      const value = Atomics.load(this.#words, word);
      increase += (value - (this.#seen.get(word) ?? 0)) >>> 0;
      this.#seen.set(word, value);
    }
    return increase;
  }
}
