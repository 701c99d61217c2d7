/** Names of groups as one cell of the contacts' CSV: parted by `|`, which a `\` keeps within a name, as it does a `\`. */
export function joinGroupNames(names: readonly string[]): string {
  return names.map((name) => name.replaceAll(/[\\|]/g, "\\$&")).join("|");
}

/** @returns the names in a cell; a `\` before anything else is part of its name */
export function splitGroupNames(cell: string): string[] {
  const names = cell.match(/(?:\\[\\|]|[^|])+/g) ?? [];
  return names.map((name) => name.replaceAll(/\\([\\|])/g, "$1"));
}
