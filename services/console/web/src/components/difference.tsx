import { formatNumber } from "../format.ts";
import { texts } from "../texts.ts";

interface DifferenceProps {
  /** Lines that go. */
  readonly deleted: readonly string[];
  /** Lines that come. */
  readonly added: readonly string[];
  /** Whether their numbers stand above them; true unless said. */
  readonly counted?: boolean;
}

/** Above this many lines the rest is counted. */
const LINES_SHOWN = 500;

/** What a change takes away and what it brings, line by line; lines of the same name stand together. */
export function Difference({ deleted, added, counted = true }: DifferenceProps) {
  const words = texts().dns.difference;
  if (deleted.length + added.length === 0) return <p class="hint">{words.same}</p>;
  const lines = [
    ...deleted.map((text) => ({ text, sign: "−", kind: "deleted" as const })),
    ...added.map((text) => ({ text, sign: "+", kind: "added" as const })),
  ].sort((a, b) => compare(a.text, b.text));
  return (
    <div class="difference">
      {counted && <p class="hint">{words.figures(formatNumber(added.length), formatNumber(deleted.length))}</p>}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <ul aria-label={words.label} tabIndex={0}>
        {lines.slice(0, LINES_SHOWN).map(({ text, sign, kind }) => (
          <li key={`${kind} ${text}`} class={kind}>
            <span class="sign" aria-hidden="true">
              {sign}
            </span>
            <span class="visually-hidden">{words[kind]}</span>
            <span>{text}</span>
          </li>
        ))}
        {lines.length > LINES_SHOWN && <li>{words.more(formatNumber(lines.length - LINES_SHOWN))}</li>}
      </ul>
    </div>
  );
}

/** By the first word, then as given: deleted before added. */
function compare(a: string, b: string): number {
  const [nameA = "", nameB = ""] = [a.split(" ", 1)[0], b.split(" ", 1)[0]];
  return nameA < nameB ? -1 : nameA > nameB ? 1 : 0;
}
