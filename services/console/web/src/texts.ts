import { computed, effect, signal } from "@preact/signals";
import { variantOf } from "./locale.ts";
import type { Texts } from "./texts/en/index.ts";

export const LANGUAGES = ["en", "es"] as const;
export type Language = (typeof LANGUAGES)[number];

/** The language of the interface. */
export const language = signal<Language>("en");

/** What the reader reads, most wanted first, as language tags such as `es-MX`. */
export const wantedTags = signal<readonly string[]>([]);

/** By which numbers and times are written: the browser's variant of the interface's language. */
export const locale = computed(() => variantOf(language.value, wantedTags.value));

const dictionary = signal<Texts | undefined>(undefined);

const LOAD: { readonly [L in Language]: () => Promise<Texts> } = {
  en: async () => (await import("./texts/en/index.ts")).en,
  es: async () => (await import("./texts/es/index.ts")).es,
};

/** Loads the chosen language, now and whenever the choice changes. @returns once the first is there */
export function loadTexts(): Promise<void> {
  return new Promise((resolve, reject) => {
    effect(() => {
      const wanted = language.value;
      LOAD[wanted]().then((texts) => {
        if (language.peek() === wanted) dictionary.value = texts;
        resolve();
      }, reject);
    });
  });
}

/** The texts in the interface's language; a component that reads them is drawn anew when the language changes. */
export function texts(): Texts {
  if (!dictionary.value) throw new Error("texts are used before loadTexts() has loaded any");
  return dictionary.value;
}
