import { formatNumber } from "../format.ts";

export interface Bar {
  readonly label: string;
  readonly value: number;
  readonly href?: string;
}

/** Figures beside each other, the largest first, each as long as it is large. */
export function BarList({ bars }: { readonly bars: readonly Bar[] }) {
  const largest = Math.max(1, ...bars.map(({ value }) => value));
  return (
    <ul class="bar-list">
      {[...bars]
        .sort((a, b) => b.value - a.value)
        .map(({ label, value, href }) => (
          <li key={label}>
            {href === undefined ? <span>{label}</span> : <a href={href}>{label}</a>}
            <span class="number">{formatNumber(value)}</span>
            <span class="bar" aria-hidden="true">
              <span style={{ width: `${(100 * value) / largest}%` }} />
            </span>
          </li>
        ))}
    </ul>
  );
}
