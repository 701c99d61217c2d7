import { type Sentence, sentence } from "../sentences.ts";

/** So many faults of one file are told: it may be wrong in every line. */
const MOST_FAULTS = 20;
/** So many more are counted: the rest of such a file is not worth the time that it takes. */
const MOST_COUNTED = 1_000;

/** The first fault of something, with the others that are told. */
export type FirstFault<Fault extends Sentence> = Fault & {
  readonly others: readonly Fault[];
  /** How many more there are, or that there are very many (`1000+`). */
  readonly leftOut: number | `${number}+`;
};

/** What is wrong with a file, in the order in which it is found. */
export class FaultList<Fault extends Sentence> {
  readonly #told: Fault[] = [];
  #leftOut = 0;

  add(fault: Fault): void {
    if (this.#told.length < MOST_FAULTS) this.#told.push(fault);
    else this.#leftOut += 1;
  }

  /** Whether more need not be looked for. */
  get isFull(): boolean {
    return this.#leftOut >= MOST_COUNTED;
  }

  /** The first fault with all others; undefined where there is none. */
  first(): FirstFault<Fault> | undefined {
    const [first, ...others] = this.#told;
    return first && { ...first, others, leftOut: this.isFull ? `${MOST_COUNTED}+` : this.#leftOut };
  }
}

/** Says faults line by line, the first as it is said alone. @param leftOut how many more there are */
export function sayAll(
  [first, ...others]: readonly [Sentence, ...Sentence[]],
  leftOut: FirstFault<Sentence>["leftOut"],
): Sentence {
  const [next, ...rest] = others;
  if (next === undefined) {
    return leftOut === 0 ? first : sentence("file-lines", { first, rest: sentence("file-more", { count: leftOut }) });
  }
  return sentence("file-lines", { first, rest: sayAll([next, ...rest], leftOut) });
}
