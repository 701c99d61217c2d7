import { createHash } from "node:crypto";

/** Numbers that follow from a seed alone, so that whatever was tried can be tried again. */
export class Random {
  readonly #seed: string;
  #block = Buffer.alloc(0);
  #drawn = 0;

  /** @param seeds of what the numbers are, each a level below the one before */
  constructor(...seeds: readonly (string | number)[]) {
    this.#seed = seeds.join("/");
  }

  /** A whole number from 0 to `below` − 1. */
  below(below: number): number {
    if (this.#block.length < 4) {
      this.#block = createHash("sha256").update(`${this.#seed}#${this.#drawn}`).digest();
      this.#drawn += 1;
    }
    const number = this.#block.readUInt32BE(0);
    this.#block = this.#block.subarray(4);
    return number % below;
  }

  /** A whole number from one to another, both included. */
  from(least: number, most: number): number {
    return least + this.below(most - least + 1);
  }

  /** Whether something comes true that does in so many of a hundred cases. */
  percent(chance: number): boolean {
    return this.below(100) < chance;
  }

  pick<T>(choices: readonly T[]): T {
    return choices[this.below(choices.length)]!;
  }

  /** One of several, by their weights. */
  weighted<T>(choices: readonly (readonly [weight: number, choice: T])[]): T {
    let left = this.below(choices.reduce((sum, [weight]) => sum + weight, 0));
    for (const [weight, choice] of choices) {
      if (left < weight) return choice;
      left -= weight;
    }
    throw new Error("nothing to choose from");
  }

  /** Some of several, each with the same chance in a hundred. */
  some<T>(choices: readonly T[], chance: number): T[] {
    return choices.filter(() => this.percent(chance));
  }
}
