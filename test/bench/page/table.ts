/** What was measured of several programs in one run. */
export interface Comparison {
  /** Programs, the columns; Palomar is the first. */
  readonly programs: readonly string[];
  readonly rows: readonly ComparedRow[];
}

/** One figure of each program. */
export interface ComparedRow {
  readonly what: string;
  /** Such as `µs`; empty for a plain number. */
  readonly unit: string;
  readonly better: "less" | "more";
  /** In the order of the programs; undefined where a program was not measured. */
  readonly figures: readonly (number | undefined)[];
  /** Those of the programs that the ratio is to: the best of them counts. All but Palomar unless said. */
  readonly peers?: readonly string[];
}

/** Palomar's figure divided by that of the best peer; undefined without a peer. */
export function ratioOf({ programs }: Pick<Comparison, "programs">, row: ComparedRow): number | undefined {
  const peers = row.figures.filter(
    (figure, index): figure is number =>
      index > 0 && figure !== undefined && (row.peers?.includes(programs[index]!) ?? true),
  );
  const [own] = row.figures;
  if (own === undefined || peers.length === 0) return undefined;
  return own / (row.better === "less" ? Math.min(...peers) : Math.max(...peers));
}

/** A Markdown table: a row a figure, a column a program, the ratio last. */
export function formatComparison(comparison: Comparison): string {
  const { programs, rows } = comparison;
  const lines = rows.map((row) => {
    const ratio = ratioOf(comparison, row);
    const what = `${row.what}${row.unit === "" ? "" : `, ${row.unit}`} ${row.better === "less" ? "↓" : "↑"}`;
    return [what, ...row.figures.map(formatFigure), ratio === undefined ? "–" : `**${ratio.toFixed(2)}**`];
  });
  return formatTable(["", ...programs, "ratio"], lines);
}

/** A Markdown table, its numbers to the right. */
export function formatTable(head: readonly string[], lines: readonly (readonly string[])[]): string {
  const rule = head.map((_, index) => (index === 0 ? "---" : "---:"));
  return [head, rule, ...lines].map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

/** Three digits that count; all of them before the point. */
export function formatFigure(figure: number | undefined): string {
  if (figure === undefined) return "–";
  if (Math.abs(figure) >= 1_000) return Math.round(figure).toLocaleString("en-US");
  return String(Number(figure.toPrecision(3)));
}
