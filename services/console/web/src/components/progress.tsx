import { formatNumber } from "../format.ts";

interface ProgressProps {
  readonly label: string;
  readonly done: number;
  /** null: not known yet. */
  readonly total: number | null;
}

/** How far something is. */
export function Progress({ label, done, total }: ProgressProps) {
  const known = total !== null && total > 0;
  return (
    <div class="progress">
      <div class="progress-text">
        <span>{label}</span>
        <span class="number">{known ? `${formatNumber(done)} / ${formatNumber(total)}` : formatNumber(done)}</span>
      </div>
      <progress aria-label={label} {...(known ? { value: done, max: total } : {})} />
    </div>
  );
}
