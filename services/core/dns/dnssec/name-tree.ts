import type { Steps } from "../../steps.ts";
import { ancestorOf, type DomainName } from "../name.ts";

/** After so many names it gives way. */
const NAMES_AT_A_TIME = 500;

/** Names of a zone, each with all names between it and the apex, which is one of them. */
export class NameTree {
  readonly #apex: DomainName;
  readonly #names = new Map<string, DomainName>();

  constructor(apex: DomainName) {
    this.#apex = apex;
  }

  get size(): number {
    return this.#names.size;
  }

  /** The names, each after its ancestors. */
  topDown(): DomainName[] {
    return [...this.#names.values()].sort((a, b) => a.labelCount - b.labelCount);
  }

  /**
   * Adds names and all above them. Of each name it goes up only as far as it has not been, so that names that share most
   * of theirs, however deep, cost one step each.
   * @param most with more names than these it stops
   * @returns the names that were not there before
   */
  *add(names: readonly DomainName[], most: number): Steps<DomainName[]> {
    const added: DomainName[] = [];
    for (const name of names) {
      for (let labels = name.labelCount; labels >= this.#apex.labelCount; labels -= 1) {
        const ancestor = ancestorOf(name, labels);
        if (this.#names.has(ancestor.key)) break;
        this.#names.set(ancestor.key, ancestor);
        added.push(ancestor);
        if (added.length % NAMES_AT_A_TIME === 0) yield;
      }
      if (this.size > most) break;
    }
    return added;
  }
}

/** The key of the name above one that is not the root. */
export function parentKey({ key, wire }: Pick<DomainName, "key" | "wire">): string {
  return key.slice(1 + wire[0]!);
}
