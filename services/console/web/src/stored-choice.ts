import { effect, type Signal, signal } from "@preact/signals";

/**
 * A choice that the browser remembers; where it may not, the choice holds until the window is closed.
 * @param name its key in the browser's storage
 * @param read turns what is stored (null: nothing) into the choice
 */
export function storedChoice<T extends string>(name: string, read: (stored: string | null) => T): Signal<T> {
  const key = `palomar.${name}`;
  const choice = signal(read(withStorage((storage) => storage.getItem(key)) ?? null));
  effect(() => {
    const chosen = choice.value;
    withStorage((storage) => storage.setItem(key, chosen));
  });
  return choice;
}

/** A browser that is told to keep nothing throws when its storage is touched. */
function withStorage<T>(use: (storage: Storage) => T): T | undefined {
  try {
    return use(localStorage);
  } catch {
    return undefined;
  }
}
