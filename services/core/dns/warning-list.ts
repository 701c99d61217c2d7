import { type Sentence, sentence } from "../sentences.ts";

/** So many warnings are told of one change: who has more has one fault many times over. */
const MOST_WARNINGS = 1_000;

/**
 * Warnings, each once. Beyond {@link MOST_WARNINGS} they are left out, and the last one says so: a zone file of
 * some megabytes could earn gigabytes of them.
 */
export class WarningList {
  readonly #sentences = new Map<string, Sentence>();
  #isCut = false;

  /** Whether one was left out: further ones will be as well. */
  get isFull(): boolean {
    return this.#isCut;
  }

  add(warning: Sentence): void {
    if (this.#sentences.size < MOST_WARNINGS) this.#sentences.set(warning.message, warning);
    else if (!this.#sentences.has(warning.message)) this.#isCut = true;
  }

  /** The warnings in the order of their addition. */
  sentences(): Sentence[] {
    return this.#isCut ? [...this.#sentences.values(), sentence("warnings-left-out")] : [...this.#sentences.values()];
  }
}
