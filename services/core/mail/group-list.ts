/** Names of groups as one cell of the contacts' CSV: parted by `|`, which a `\` keeps within a name, as it does a `\`. */
export function joinGroupNames(names: readonly string[]): string {
  return names.map((name) => name.replaceAll(/[\\|]/g, "\\$&")).join("|");
}

/**
 * @param most names, behind which it does not read on: a cell may be millions long
 * @returns the names in a cell, or one more than so many; a `\` before anything else is part of its name
 */
export function splitGroupNames(cell: string, most: number): string[] {
  const names: string[] = [];
  for (let start = 0; start < cell.length && names.length <= most; ) {
    const end = endOfName(cell, start);
    if (end > start) names.push(cell.slice(start, end).replaceAll(/\\([\\|])/g, "$1"));
    start = end + 1;
  }
  return names;
}

/** Where the next `|` is that no `\` keeps, or the end of the cell. */
function endOfName(cell: string, start: number): number {
  for (let at = start; at < cell.length; at += 1) {
    if (cell[at] === "|") return at;
    if (cell[at] === "\\") at += 1;
  }
  return cell.length;
}
