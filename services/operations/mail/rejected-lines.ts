import type { Sentence } from "../../core/sentences.ts";

/** A line that was left out, and why. */
export interface ImportError {
  /** Counted from 1, the header's line. */
  readonly line: number;
  readonly reason: Sentence;
}

/** The lines that an import leaves out, however many: all are counted, the first ones are told. */
export class RejectedLines {
  count = 0;
  readonly #most: number;
  #told: ImportError[] = [];

  /** @param most that are told */
  constructor(most = Number.POSITIVE_INFINITY) {
    this.#most = most;
  }

  push(...errors: readonly ImportError[]): void {
    this.count += errors.length;
    this.#told.push(...errors);
    // They do not come quite in order: what is written later fails later.
    if (this.#told.length >= 2 * this.#most) this.#told = this.first();
  }

  /** Those that are told, in order. */
  first(): ImportError[] {
    return this.#told.toSorted((a, b) => a.line - b.line).slice(0, this.#most);
  }
}
