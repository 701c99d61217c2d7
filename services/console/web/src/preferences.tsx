import { LANGUAGES, language, texts } from "./texts.ts";
import { THEMES, theme } from "./theme.ts";

/** Language and appearance: kept by the browser, so that they hold before the sign-in too. */
export function Preferences() {
  const { shell } = texts();
  return (
    <div class="preferences">
      <select
        aria-label={shell.language.label}
        value={language.value}
        onChange={({ currentTarget }) => {
          language.value = LANGUAGES.find((known) => known === currentTarget.value) ?? "en";
        }}
      >
        {LANGUAGES.map((known) => (
          <option key={known} value={known}>
            {shell.language[known]}
          </option>
        ))}
      </select>
      <select
        aria-label={shell.theme.label}
        value={theme.value}
        onChange={({ currentTarget }) => {
          theme.value = THEMES.find((known) => known === currentTarget.value) ?? "system";
        }}
      >
        {THEMES.map((known) => (
          <option key={known} value={known}>
            {shell.theme[known]}
          </option>
        ))}
      </select>
    </div>
  );
}
