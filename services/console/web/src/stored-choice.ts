import { effect, type Signal, signal } from "@preact/signals";

type Read<T> = (stored: string | null) => T;

/** A choice that the browser remembers, see {@link keepChoice}. */
export function storedChoice<T extends string>(name: string, read: Read<T>): Signal<T> {
  const choice = signal(read(null));
  keepChoice(choice, name, read);
  return choice;
}

/**
 * Has the browser remember a choice; where it may not, the choice holds until the window is closed.
 * @param name its key in the browser's storage
 * @param read turns what is stored (null: nothing) into the choice
 */
export function keepChoice<T extends string>(choice: Signal<T>, name: string, read: Read<T>): void {
  const key = `palomar.${name}`;
  choice.value = read(withStorage((storage) => storage.getItem(key)) ?? null);
  effect(() => {
    const chosen = choice.value;
    withStorage((storage) => storage.setItem(key, chosen));
  });
}

/** A browser that is told to keep nothing throws when its storage is touched. */
function withStorage<T>(use: (storage: Storage) => T): T | undefined {
  try {
    return use(localStorage);
  } catch {
    return undefined;
  }
}
