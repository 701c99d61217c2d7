import { type DomainName, isWildcard } from "../name.ts";
import type { RpzTrigger } from "./rules.ts";

/** Names that no rule of a response policy zone may cover, nor a name below them; arranged for many look-ups. */
export class SafeNames {
  readonly #names: ReadonlyMap<string, DomainName>;
  /** A safe name below each ancestor of one. */
  readonly #below = new Map<string, DomainName>();

  constructor(names: readonly DomainName[]) {
    this.#names = new Map(names.map((name) => [name.key, name]));
    for (const name of names) for (const key of suffixKeys(name).slice(1)) this.#below.set(key, name);
  }

  /** The safe name that the rule would reach; undefined when it reaches none. */
  coveredBy(trigger: RpzTrigger): DomainName | undefined {
    if (this.#names.size === 0 || !("name" in trigger)) return undefined;
    const keys = suffixKeys(trigger.name);
    for (const key of keys) {
      const safe = this.#names.get(key);
      if (safe) return safe;
    }
    return isWildcard(trigger.name) ? this.#below.get(keys[1]!) : undefined;
  }
}

/** The keys of the name, of its parent, … and of the root. */
function suffixKeys({ key, wire }: DomainName): string[] {
  const keys: string[] = [];
  let position = 0;
  for (; wire[position]! > 0; position += wire[position]! + 1) keys.push(key.slice(position));
  keys.push(key.slice(position));
  return keys;
}
