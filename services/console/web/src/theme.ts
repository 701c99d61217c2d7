import { effect } from "@preact/signals";
import { storedChoice } from "./stored-choice.ts";

export const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

/** Light, dark, or what the system says. */
export const theme = storedChoice<Theme>("theme", (stored) => THEMES.find((known) => known === stored) ?? "system");

effect(() => {
  if (theme.value === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
});
