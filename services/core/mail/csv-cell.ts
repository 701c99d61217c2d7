/**
 * Cells of a CSV that spreadsheets open (CWE-1236). They take a cell for a formula that begins with one of `= + - @`, in
 * ASCII or full width, be it behind blanks or characters of no width, or with a tab or a line break. Where the semicolon parts
 * cells, they take the quotes of other cells than the first for text: there a cell begins behind each semicolon and line break.
 */
const FORMULA = /^(?:[\t\r\n]|[\s\p{Cf}]*[=+\-@\uff1d\uff0b\uff0d\uff20])/u;

const BEGINNING = /(?<=[;\r\n])(?='*[\t\v\f\p{Z}\p{Cf}"]*[=+\-@\uff1d\uff0b\uff0d\uff20])/gu;
const MARKED_BEGINNING = /(?<=[;\r\n])'(?='*[\t\v\f\p{Z}\p{Cf}"]*[=+\-@\uff1d\uff0b\uff0d\uff20])/gu;

/** An apostrophe makes a cell a text; values that have such apostrophes of their own get one more. */
const MARKED = /^'+/;

/** @returns the cell as an export writes it: as it is, or as a text that no spreadsheet evaluates */
export function neutraliseCell(value: string): string {
  const inner = value.replace(BEGINNING, "'");
  return looksLikeFormula(inner) ? `'${inner}` : inner;
}

/** @returns the value that `neutraliseCell` made the cell of; what it did not touch is returned as it is */
export function restoreCell(cell: string): string {
  const inner = cell.startsWith("'") && looksLikeFormula(cell) ? cell.slice(1) : cell;
  return inner.replace(MARKED_BEGINNING, "");
}

/** RFC 4180 §2: quoted where a cell needs it, so that it is read back as it was. No cell is a formula. */
export function toCsvLine(cells: readonly string[]): string {
  const quoted = cells
    .map(neutraliseCell)
    .map((cell) => (/[",\r\n]|^\s|\s$/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell));
  return `${quoted.join(",")}\r\n`;
}

function looksLikeFormula(cell: string): boolean {
  return FORMULA.test(cell.replace(MARKED, ""));
}
