/** What each thread counts, as word indices of its row. RCODE takes 24 words: one for each code, the last for others. */
export const STATISTIC = {
  UDP: 0,
  TCP: 1,
  TLS: 2,
  /** Packets that got no answer: no query, or the rate limit. */
  DROPPED: 3,
  TRUNCATED: 4,
  RATE_DROPPED: 5,
  RATE_SLIPPED: 6,
  RCODE: 8,
} as const;
export const RCODE_COUNTERS = 24;
/** Words of a row: whole cache lines, so that threads do not slow each other down. */
const ROW_WORDS = 32;

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

  /** The counters of one thread. */
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
