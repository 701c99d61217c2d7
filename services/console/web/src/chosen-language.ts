import { effect } from "@preact/signals";
import { keepChoice } from "./stored-choice.ts";
import { LANGUAGES, language, wantedTags } from "./texts.ts";

wantedTags.value = navigator.languages;

// As chosen, else the browser's.
keepChoice(language, "language", (stored) => {
  const wanted = [stored, ...navigator.languages.map((tag) => tag.slice(0, 2))];
  return wanted.flatMap((tag) => LANGUAGES.filter((known) => known === tag))[0] ?? "en";
});

effect(() => {
  document.documentElement.lang = language.value;
});
