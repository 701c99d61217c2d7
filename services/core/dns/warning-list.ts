/** So many warnings are told of one change: who has more has one fault many times over. */
const MOST_WARNINGS = 1_000;

/**
 * Warnings in words, each once. Beyond {@link MOST_WARNINGS} they are left out, and the last one says so: a zone file of
 * some megabytes could earn gigabytes of them.
 */
export class WarningList {
  readonly #texts = new Set<string>();
  #isCut = false;

  /** Whether one was left out: further ones will be as well. */
  get isFull(): boolean {
    return this.#isCut;
  }

  add(text: string): void {
    if (this.#texts.size < MOST_WARNINGS) this.#texts.add(text);
    else if (!this.#texts.has(text)) this.#isCut = true;
  }

  /** The warnings in the order of their addition. */
  texts(): string[] {
    return this.#isCut ? [...this.#texts, "further warnings are left out"] : [...this.#texts];
  }
}
